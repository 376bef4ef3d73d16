/**
 * One bot as the server sees it: its queue, filter, webhook, waiting poll and chats, and which method does what. Knows
 * nothing of HTTP; a call is a name, parameters and somewhere to reply.
 */
import { failed, type Reply, succeeded, toAsciiJson } from "./answers.ts";
import { type BotUser, Chats } from "./chats.ts";
import { type Clock, Timers } from "./clock.ts";
import type { Parameters } from "./parameters.ts";
import { CONFLICT_WEBHOOK_ACTIVE, Polling } from "./polling.ts";
import { type QueuedUpdate, UpdateQueue } from "./queue.ts";
import { AllowedUpdates, expiresAtS } from "./update-kinds.ts";
import type { UpdateContent } from "./updates.ts";
import { Webhook } from "./webhook.ts";

export interface BotOptions {
  token: string;
  username: string;
  first_name?: string;
  /** The id of the first update; random, as on the real server, by default. */
  firstUpdateId?: number;
}

/** Why an update never entered the queue. The server tells nobody. */
export type Refusal = "type not allowed" | "too old" | "too big" | "queue full";

type Method = (parameters: Parameters, reply: Reply) => void;

export class BotServer {
  readonly user: BotUser;
  readonly queue: UpdateQueue;
  readonly allowed = new AllowedUpdates();
  readonly polling: Polling;
  readonly webhook: Webhook;
  readonly chats: Chats;
  readonly #timers: Timers;
  readonly #methods: ReadonlyMap<string, Method>;

  constructor(options: BotOptions, clock: Clock) {
    this.user = {
      id: botIdOf(options.token),
      is_bot: true,
      first_name: options.first_name ?? options.username,
      username: options.username,
    };
    this.#timers = new Timers(clock);
    this.queue = new UpdateQueue(() => this.nowS, options.firstUpdateId);
    this.polling = new Polling(this.queue, this.allowed, this.#timers);
    this.webhook = new Webhook(this.queue, this.allowed, this.polling, this.#timers);
    this.chats = new Chats(this.user, this.#timers);
    this.#methods = this.#methodTable();
  }

  get nowS(): number {
    return Math.floor(this.#timers.now() / 1000);
  }

  /** `method` in any case, as the server takes it. */
  call(method: string, parameters: Parameters, reply: Reply): void {
    const run = this.#methods.get(method.toLowerCase());
    if (run === undefined) reply(failed(404, "Not Found: method not found"));
    else run(parameters, reply);
  }

  /** Queues an update unless the filter excludes it. Content that names an `update_id` gets it, and leaves a gap. */
  queueUpdate(content: UpdateContent): QueuedUpdate | Refusal {
    const { update_id: wantedId, ...members } = content;
    const kind = kindOf(content);
    if (!this.allowed.includes(kind)) return "type not allowed";
    if (typeof wantedId === "number") this.queue.skipTo(wantedId);
    const inner = toAsciiJson(members).slice(1, -1);
    const queued = this.queue.push({
      kind,
      size: inner.length,
      bytesFor: (updateId) => Buffer.from(`{"update_id":${updateId}${inner === "" ? "" : `,\n${inner}`}}`),
      expiresAtS: expiresAtS(kind, members[kind], this.nowS),
    });
    if (typeof queued !== "string") this.polling.wake();
    return queued;
  }

  /** Queues bytes that may be anything at all; they go out as they are, in the place of an update. */
  queueBytes(bytesFor: (updateId: number) => Buffer): QueuedUpdate | Refusal {
    const size = bytesFor(this.queue.tail).length;
    const queued = this.queue.push({ kind: "", size, bytesFor, expiresAtS: this.nowS + 86_400 });
    if (typeof queued !== "string") this.polling.wake();
    return queued;
  }

  /** The server process ends: the queue, the filter, the webhook and the chats are on disk, the rest is lost. */
  stop(): void {
    this.polling.forget();
    this.webhook.forget();
    this.#timers.clear();
  }

  #methodTable(): ReadonlyMap<string, Method> {
    const { chats, polling, webhook } = this;
    const methods: Record<string, Method> = {
      getMe: (_, reply) => reply(succeeded(this.#me())),
      getUpdates: (parameters, reply) => {
        if (webhook.blocksPolling) polling.conflict(CONFLICT_WEBHOOK_ACTIVE, reply);
        else polling.getUpdates(parameters, reply);
      },
      setWebhook: (parameters, reply) => webhook.set(parameters, reply),
      deleteWebhook: (parameters, reply) => webhook.remove(parameters, reply),
      getWebhookInfo: (_, reply) => reply(succeeded(webhook.info())),
      sendMessage: (parameters, reply) => reply(chats.sendMessage(parameters)),
      editMessageText: (parameters, reply) => reply(chats.editMessage(parameters, false)),
      editMessageReplyMarkup: (parameters, reply) => reply(chats.editMessage(parameters, true)),
      answerCallbackQuery: (parameters, reply) => reply(chats.answerCallbackQuery(parameters)),
      getChat: (parameters, reply) => reply(chats.getChat(parameters)),
      sendChatAction: (_, reply) => reply(succeeded(true)),
      setMyCommands: (_, reply) => reply(succeeded(true)),
    };
    return new Map(Object.entries(methods).map(([name, run]) => [name.toLowerCase(), run]));
  }

  #me(): Record<string, unknown> {
    return {
      ...this.user,
      can_join_groups: true,
      can_read_all_group_messages: false,
      supports_inline_queries: false,
      can_connect_to_business: false,
      has_main_web_app: false,
    };
  }
}

/** The name of the member that is not the id. */
export function kindOf(content: UpdateContent): string {
  return Object.keys(content).find((name) => name !== "update_id") ?? "";
}

/** The number before the colon. */
export function botIdOf(token: string): number {
  const botId = Number(/^(\d+):/.exec(token)?.[1]);
  if (!Number.isSafeInteger(botId)) throw new Error("A bot token starts with the bot's id and a colon.");
  return botId;
}
