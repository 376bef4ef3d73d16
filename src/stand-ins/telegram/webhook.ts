/**
 * The webhook of one bot, as far as a poller meets it: while one is set, getUpdates is refused, and updates pile up in the
 * queue. The stand-in delivers to no webhook.
 *
 * Source: tdlib/telegram-bot-api, Client.cpp: process_set_webhook_query; WebhookActor.cpp.
 */
import { failed, type Reply, succeeded, tooManyRequests } from "./answers.ts";
import type { Timers } from "./clock.ts";
import { type Parameters, readBoolean, readClamped } from "./parameters.ts";
import { CONFLICT_OTHER_SET_WEBHOOK, CONFLICT_SET_WEBHOOK, type Polling } from "./polling.ts";
import type { UpdateQueue } from "./queue.ts";
import type { AllowedUpdates } from "./update-kinds.ts";

const ALLOWED_PORTS = ["", "443", "80", "88", "8443"];

export class Webhook {
  readonly #queue: UpdateQueue;
  readonly #allowed: AllowedUpdates;
  readonly #polling: Polling;
  readonly #timers: Timers;
  /** How long the server takes to verify a new webhook; during that time another setWebhook ends this one. */
  verificationMs = 0;
  #url = "";
  #maxConnections = 40;
  #nextSetAt = Number.NEGATIVE_INFINITY;
  #verifying: { reply: Reply; cancel: () => void } | undefined;

  constructor(queue: UpdateQueue, allowed: AllowedUpdates, polling: Polling, timers: Timers) {
    this.#queue = queue;
    this.#allowed = allowed;
    this.#polling = polling;
    this.#timers = timers;
  }

  /** Empty while none is set. */
  get url(): string {
    return this.#url;
  }

  get blocksPolling(): boolean {
    return this.#url !== "" || this.#verifying !== undefined;
  }

  set(parameters: Parameters, reply: Reply): void {
    const url = parameters.url ?? "";
    if (url === "") {
      this.remove(parameters, reply);
      return;
    }
    const now = this.#timers.now();
    if (now < this.#nextSetAt) {
      reply(tooManyRequests(1));
      return;
    }
    this.#nextSetAt = now + 1000;
    const problem = problemWith(url, parameters.secret_token ?? "");
    if (problem !== undefined) {
      reply(failed(400, `Bad Request: ${problem}`));
      return;
    }
    const maxConnections = readClamped(parameters.max_connections, 40, 1, 100);
    const dropPending = readBoolean(parameters.drop_pending_updates);
    this.#allowed.apply(parameters.allowed_updates);
    if (url === this.#url && maxConnections === this.#maxConnections && !dropPending) {
      reply(succeeded(true, "Webhook is already set"));
      return;
    }

    this.#endVerification();
    this.#polling.evict(CONFLICT_SET_WEBHOOK);
    if (dropPending) this.#queue.dropAll();
    this.#verify(reply, () => {
      this.#url = url;
      this.#maxConnections = maxConnections;
    });
  }

  remove(parameters: Parameters, reply: Reply): void {
    const wasSet = this.#url !== "";
    this.#endVerification();
    this.#url = "";
    if (readBoolean(parameters.drop_pending_updates)) this.#queue.dropAll();
    reply(succeeded(true, wasSet ? "Webhook was deleted" : "Webhook is already deleted"));
  }

  info(): Record<string, unknown> {
    const allowed = this.#allowed.list;
    return {
      url: this.#url,
      has_custom_certificate: false,
      pending_update_count: this.#queue.pending,
      ...(this.#url !== "" && { max_connections: this.#maxConnections }),
      ...(allowed !== undefined && { allowed_updates: allowed }),
    };
  }

  /** The server process is gone, and with it a setWebhook in progress. */
  forget(): void {
    this.#verifying?.cancel();
    this.#verifying = undefined;
  }

  #verify(reply: Reply, done: () => void): void {
    const finish = (): void => {
      this.#verifying = undefined;
      done();
      reply(succeeded(true, "Webhook was set"));
    };
    if (this.verificationMs === 0) finish();
    else this.#verifying = { reply, cancel: this.#timers.after(this.verificationMs, finish) };
  }

  #endVerification(): void {
    const older = this.#verifying;
    if (older === undefined) return;
    this.forget();
    this.#polling.conflict(CONFLICT_OTHER_SET_WEBHOOK, older.reply);
  }
}

function problemWith(url: string, secretToken: string): string | undefined {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined) return "invalid webhook URL specified";
  if (parsed.protocol !== "https:") return "bad webhook: An HTTPS URL must be provided for webhook";
  if (!ALLOWED_PORTS.includes(parsed.port)) {
    return "bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443";
  }
  if (secretToken.length > 256) return "secret token is too long";
  if (!/^[A-Za-z0-9_-]*$/.test(secretToken)) return "secret token contains unallowed characters";
  return undefined;
}
