/**
 * What a test, the demo or the drill does with one bot from the outside: let people write, spoil the queue, look at what
 * was asked and said, and wait for it.
 */
import { failed } from "./answers.ts";
import { type BotServer, kindOf, type Refusal } from "./bot.ts";
import type { Changes, WaitOptions } from "./changes.ts";
import type { AnsweredTap } from "./chats.ts";
import type { Fault, Faults, FaultTarget, PlantedFault } from "./faults.ts";
import type { QueuedUpdate } from "./queue.ts";
import { type RequestRecord, type SentMessage, sentMessage } from "./request-log.ts";
import {
  callbackQueryFrom,
  editedMessage,
  type Message,
  type MessageUpdate,
  messageFrom,
  type Person,
  type Tap,
  type Update,
  type UpdateContent,
  type Words,
} from "./updates.ts";

export interface PollParameters {
  offset?: number;
  limit?: number;
  timeout?: number;
  allowed_updates?: readonly string[];
}

export interface BotControlParts {
  server: BotServer;
  faults: Faults;
  changes: Changes;
  requests: readonly RequestRecord[];
}

export class BotControl {
  readonly #server: BotServer;
  readonly #faults: Faults;
  readonly #changes: Changes;
  readonly #requests: readonly RequestRecord[];

  readonly id: number;
  readonly username: string;
  /** Updates that never entered the queue, and why. */
  readonly refused: { kind: string; reason: Refusal }[] = [];

  constructor({ server, faults, changes, requests }: BotControlParts) {
    this.#server = server;
    this.#faults = faults;
    this.#changes = changes;
    this.#requests = requests;
    this.id = server.user.id;
    this.username = server.user.username;
  }

  /** A person writes. Throws when the update is not queued; `push` does not. */
  say(words: Words): MessageUpdate {
    this.#server.chats.meet(words.from);
    const message = messageFrom(words, this.#server.chats.nextMessageId(), this.#server.nowS);
    return { update_id: this.#pushed({ message }), message };
  }

  /** A person edits what an earlier update carried. */
  edit(update: MessageUpdate, change: Record<string, unknown>): Update & { edited_message: Message } {
    const edited_message = editedMessage(update.message, change, this.#server.nowS);
    return { update_id: this.#pushed({ edited_message }), edited_message };
  }

  /** A person taps a button under one of the bot's messages. */
  tap(tap: Tap): Update & { callback_query: { id: string } } {
    this.#server.chats.meet(tap.from);
    const callback_query = callbackQueryFrom(tap, this.#server.queue.tail);
    this.#server.chats.tapped(callback_query.id);
    return { update_id: this.#pushed({ callback_query }), callback_query };
  }

  /** Queues any update. Without an `update_id` it gets the next one. Returns undefined when the server loses it. */
  push(content: UpdateContent): Update | undefined {
    const queued = this.#note(kindOf(content), this.#server.queueUpdate(content));
    return queued && { ...content, update_id: queued.updateId };
  }

  /** The same content once more, under another id. */
  repeat(update: Update): Update {
    const { update_id: _, ...content } = update;
    return { ...content, update_id: this.#pushed(content) };
  }

  /**
   * Queues an element that is no proper update: any JSON text, or any bytes. It takes an id of the queue, which it need
   * not mention. Returns that id.
   */
  pushRaw(element: string | Buffer | ((updateId: number) => string)): number | undefined {
    const bytesFor = (updateId: number): Buffer => {
      const made = typeof element === "function" ? element(updateId) : element;
      return typeof made === "string" ? Buffer.from(made) : made;
    };
    return this.#note("raw", this.#server.queueBytes(bytesFor))?.updateId;
  }

  /** Queues `count` short messages of one person. Returns how many the queue took. */
  fill(count: number, from: Person = { id: 1001, first_name: "Test Person" }): number {
    const before = this.updates.length;
    for (let n = 1; n <= count; n += 1) {
      const message = messageFrom(
        { from, text: `${n}` },
        this.#server.chats.nextMessageId(),
        this.#server.nowS,
      );
      this.#note("message", this.#server.queueUpdate({ message }));
    }
    this.#changes.notify();
    return this.updates.length - before;
  }

  /** The id that the next update gets. */
  get tail(): number {
    return this.#server.queue.tail;
  }

  /** How many updates the server holds, fetched but unconfirmed ones included. */
  get pending(): number {
    return this.#server.queue.pending;
  }

  /** Every update the server ever held, and what became of it. */
  get updates(): readonly QueuedUpdate[] {
    return this.#server.queue.history;
  }

  /** Telegram numbers from here on anew. A waiting poll ends early with what there is, updates still held move along. */
  renumber(tail: number): void {
    this.#server.polling.endWaiting();
    this.#server.queue.renumber(tail);
    this.#changes.notify();
  }

  /** Makes updates run out now; without ids, all that are held. */
  expire(...updateIds: number[]): void {
    this.#server.queue.expire(updateIds);
    this.#changes.notify();
  }

  /** Somebody else's tool sets a webhook. */
  setWebhook(url: string): void {
    this.#call("setWebhook", { url });
  }

  deleteWebhook(): void {
    this.#call("deleteWebhook", {});
  }

  /** Empty while no webhook is set. */
  get webhookUrl(): string {
    return this.#server.webhook.url;
  }

  /** Milliseconds that setWebhook takes to be answered. */
  set webhookVerificationMs(ms: number) {
    this.#server.webhook.verificationMs = ms;
  }

  /** Messages to this person are answered with 403 until `unblock`. */
  blockedBy(personId: number): void {
    this.#server.chats.refuse(personId, failed(403, "Forbidden: bot was blocked by the user"));
  }

  unblockedBy(personId: number): void {
    this.#server.chats.refuse(personId, undefined);
  }

  /** A group became a supergroup: messages to the old chat are answered with the new chat's id. */
  migrated(fromChatId: number, toChatId: number): void {
    const description = "Bad Request: group chat was upgraded to a supergroup chat";
    this.#server.chats.refuse(fromChatId, failed(400, description, { migrate_to_chat_id: toChatId }));
  }

  /** A second client with the same token polls, past HTTP and the request log. */
  rivalPoll(poll: PollParameters = {}): Promise<{ status: number; body: unknown }> {
    const texts = Object.entries(poll).map(([name, value]) => [
      name,
      typeof value === "number" ? String(value) : JSON.stringify(value),
    ]);
    return new Promise((resolve) => {
      this.#server.call("getUpdates", Object.fromEntries(texts), ({ status, body }) => {
        resolve({ status, body: JSON.parse(body.toString("utf8")) });
      });
      this.#changes.notify();
    });
  }

  get requests(): RequestRecord[] {
    return this.#requests.filter((request) => request.botId === this.id);
  }

  get polls(): RequestRecord[] {
    return this.requests.filter((request) => request.method === "getUpdates");
  }

  /** Every sendMessage, also those that were refused or lost on the way. */
  get sent(): SentMessage[] {
    return this.requests.filter((request) => request.method === "sendMessage").map(sentMessage);
  }

  get answeredTaps(): readonly AnsweredTap[] {
    return this.#server.chats.answeredTaps;
  }

  /** A message of the bot as it stands in the chat now, after edits. */
  message(chatId: number, messageId: number): Message | undefined {
    return this.#server.chats.message(chatId, messageId);
  }

  /** Like `fault` of the stand-in, for calls of this bot only. */
  fault(fault: Fault & FaultTarget): PlantedFault {
    const { match } = fault;
    return this.#faults.plant({
      ...fault,
      match: (request) => request.botId === this.id && (match === undefined || match(request)),
    });
  }

  /** The next getUpdates that comes in. */
  whenPolled(options: WaitOptions = {}): Promise<RequestRecord> {
    const before = this.polls.length;
    return this.#changes.until(() => this.polls[before], { what: "a getUpdates", ...options });
  }

  /** A getUpdates found nothing and waits, now or later. */
  async whenWaiting(options: WaitOptions = {}): Promise<void> {
    await this.#changes.until(() => this.#server.polling.isWaiting, { what: "a waiting poll", ...options });
  }

  /** The update was fetched and confirmed. Rejects when it ended otherwise. */
  async whenConfirmed(update: number | Update, options: WaitOptions = {}): Promise<void> {
    const updateId = typeof update === "number" ? update : update.update_id;
    const what = `the confirmation of update ${updateId}`;
    await this.#changes.until(
      () => {
        const fate = this.#server.queue.find(updateId)?.fate;
        if (fate !== "held" && fate !== "confirmed") {
          throw new Error(`Update ${updateId} can't be confirmed any more: it is ${fate ?? "unknown"}.`);
        }
        return fate === "confirmed";
      },
      { what, ...options },
    );
  }

  /** The nth sendMessage that the bot was given an answer to, counted from the start. */
  whenSent(nth = 1, options: WaitOptions = {}): Promise<SentMessage> {
    const answered = (): SentMessage | undefined => this.sent.filter((message) => message.answered)[nth - 1];
    return this.#changes.until(answered, { what: `${nth} answered sendMessage`, ...options });
  }

  #call(method: string, parameters: Record<string, string>): void {
    this.#server.call(method, parameters, (answer) => {
      if (answer.status !== 200) throw new Error(`${method} failed: ${answer.body.toString("utf8")}`);
    });
    this.#changes.notify();
  }

  /** Queues and insists. */
  #pushed(content: UpdateContent): number {
    const update = this.push(content);
    if (update === undefined) {
      throw new Error(`The server does not queue this update: ${this.refused.at(-1)?.reason}.`);
    }
    return update.update_id;
  }

  #note(kind: string, queued: QueuedUpdate | Refusal): QueuedUpdate | undefined {
    const isQueued = typeof queued !== "string";
    if (!isQueued) this.refused.push({ kind, reason: queued });
    this.#changes.notify();
    return isQueued ? queued : undefined;
  }
}
