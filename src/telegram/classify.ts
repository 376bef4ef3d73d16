/**
 * What an error of the client library means (pure). The library's classes are told apart by their fields, so that only
 * `client.ts` knows the library; texts are made here from codes, since the originals may hold the token (P5).
 */
import { z } from "zod";
import { TelegramError } from "./errors.ts";

/** Telegram answered `ok: false`. Anything else that is called ETELEGRAM had no such answer behind it. */
const apiError = z.object({
  code: z.literal("ETELEGRAM"),
  errorCode: z.int(),
  description: z.string(),
  parameters: z.object({ retry_after: z.unknown() }).partial().optional().catch(undefined),
});
type ApiError = z.infer<typeof apiError>;

const MAX_DESCRIPTION = 200;

/**
 * @param error what a method of the library threw
 * @param server for people: the host that was asked, and whether through a proxy
 */
export function classify(error: unknown, server: string): TelegramError {
  const answered = apiError.safeParse(error);
  if (answered.success) return refusal(answered.data, server);
  switch (fieldOf(error, "code")) {
    case "ETIMEOUT":
    case "EFETCH":
      return failure(error, server);
    default:
      // EPARSE, an envelope without its members, and the TypeError that the library makes of `null`.
      return invalidAnswer(server, "what came is not an answer of the Bot API; a proxy or a login page?");
  }
}

export function invalidAnswer(server: string, what: string): TelegramError {
  return new TelegramError("invalid_answer", `${server}: ${what}`);
}

/** Telegram gives the reason of a 409 in words only (reference §3). */
function refusal({ errorCode, description, parameters }: ApiError, server: string): TelegramError {
  const said = `${errorCode} ${description.slice(0, MAX_DESCRIPTION)}`;
  if (errorCode === 429) {
    return new TelegramError(
      "throttled",
      `${server} asks to wait: ${said}`,
      retryAfterMs(parameters?.retry_after),
    );
  }
  if (errorCode === 401 || errorCode === 404) {
    return new TelegramError("unauthorised", `${server} refuses the bot's token: ${said}`);
  }
  if (errorCode === 409) {
    const webhook = /webhook is active|by setWebhook/.test(description);
    return new TelegramError(webhook ? "webhook" : "conflict", `${server}: ${said}`);
  }
  if (errorCode >= 500) return new TelegramError("server", `${server} has trouble of its own: ${said}`);
  return new TelegramError("refused", `${server} refuses the call: ${said}`);
}

/** Seconds as Telegram documents them; texts, negative numbers and the like count as not given. */
function retryAfterMs(seconds: unknown): number | null {
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : null;
}

/** There was no whole answer, or one with a status of 500 and more. */
function failure(error: unknown, server: string): TelegramError {
  const status = /^Server error (\d{3}) /.exec(String(fieldOf(error, "message")))?.[1];
  if (status !== undefined) {
    return new TelegramError("server", `${server} or something on the way answered HTTP ${status}`);
  }
  const codes = codesOf(error);
  const known = codes.find((code) => code in WORDS);
  if (known !== undefined) return new TelegramError("network", `${server}: ${WORDS[known]} (${known})`);
  if (fieldOf(error, "code") === "ETIMEOUT" && codes.length === 0) {
    return new TelegramError("timeout", `${server} did not answer in time`);
  }
  const last = codes.at(-1);
  return new TelegramError("network", `${server} can't be reached${last === undefined ? "" : ` (${last})`}`);
}

const BROKEN = "the connection broke";
const NO_CONNECTION = "no connection could be made in time";
const UNREACHABLE = "there is no way to it in the network";
const CLOCK = "its TLS certificate is not valid at the time of this machine: check this machine's clock";
const UNTRUSTED = "its TLS certificate is not one that this machine trusts; a proxy or a login page?";

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "DNS does not know this name",
  EAI_AGAIN: "DNS does not answer",
  ECONNREFUSED: "the connection was refused",
  ETIMEDOUT: NO_CONNECTION,
  UND_ERR_CONNECT_TIMEOUT: NO_CONNECTION,
  ENETUNREACH: UNREACHABLE,
  EHOSTUNREACH: UNREACHABLE,
  ECONNRESET: BROKEN,
  EPIPE: BROKEN,
  UND_ERR_SOCKET: BROKEN,
  CERT_HAS_EXPIRED: CLOCK,
  CERT_NOT_YET_VALID: CLOCK,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: UNTRUSTED,
  UND_ERR_ABORTED: "the proxy refuses to connect",
  REDIRECTED: "it answered with a redirect, which is never followed; a proxy or a login page?",
  ANSWER_TOO_BIG: "its answer is far bigger than any page of updates",
};

/** The codes along `cause`, outermost first; happy eyeballs puts an AggregateError in between. */
function codesOf(error: unknown, depth = 0): string[] {
  // Deeper than any real chain, and an end to one that bites its own tail.
  if (depth > 8 || typeof error !== "object" || error === null) return [];
  const code = fieldOf(error, "code");
  const own = typeof code === "string" && code !== "EFETCH" && code !== "ETIMEOUT" ? [code] : [];
  const errors = fieldOf(error, "errors");
  const inner = [fieldOf(error, "cause"), ...(Array.isArray(errors) ? errors : [])];
  return [...own, ...inner.flatMap((cause) => codesOf(cause, depth + 1))];
}

function fieldOf(value: unknown, name: string): unknown {
  // Any object may be read by name; what comes back is unknown again.
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
