/**
 * The one error that leaves this folder. It carries what the poller decides by and a sentence for people, and nothing
 * of what caused it: the library's errors hold whole answers (customers' words), URLs hold the token (P5).
 */

export type TelegramErrorKind =
  /** The caller cut the call short. */
  | "aborted"
  /** No whole answer came: DNS, connection, TLS, a broken socket, a redirect, an answer of absurd size. */
  | "network"
  /** The deadline of this call passed. */
  | "timeout"
  /** HTTP 5xx. */
  | "server"
  /** Something answered that is not the Bot API, or not as documented. */
  | "invalid_answer"
  /** 429. */
  | "throttled"
  /** 409: another program polls with the same token. */
  | "conflict"
  /** 409: a webhook is set, or was set while we waited. */
  | "webhook"
  /** 401 or 404: the token is revoked or wrong. */
  | "unauthorised"
  /** Any other refusal. */
  | "refused";

export class TelegramError extends Error {
  override readonly name = "TelegramError";
  readonly kind: TelegramErrorKind;
  /** Only with `throttled`: what Telegram asked for, unchecked against any limit. */
  readonly retryAfterMs: number | null;

  /** @param message safe to print: no token, no URL, no part of an answer but Telegram's own description */
  constructor(kind: TelegramErrorKind, message: string, retryAfterMs: number | null = null) {
    super(message);
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
  }
}
