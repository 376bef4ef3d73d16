/**
 * getUpdates: one waiting call per bot, the rules against spinning, and who gets which 409. Times are the server's own and
 * not adjustable; tests move the clock.
 *
 * Source: tdlib/telegram-bot-api, Client.cpp: process_get_updates_query, do_get_updates, abort_long_poll,
 * fail_query_conflict.
 */
import { type Answer, failed, type Reply, succeededWith } from "./answers.ts";
import type { Timers } from "./clock.ts";
import { type Parameters, readClamped, readInt32 } from "./parameters.ts";
import type { QueuedUpdate, UpdateQueue } from "./queue.ts";
import type { AllowedUpdates } from "./update-kinds.ts";

export const CONFLICT_WEBHOOK_ACTIVE =
  "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
const CONFLICT_OTHER_POLL =
  "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
export const CONFLICT_SET_WEBHOOK = "Conflict: terminated by setWebhook request";
export const CONFLICT_OTHER_SET_WEBHOOK = "Conflict: terminated by other setWebhook";

const MAX_TIMEOUT_S = 50;
const SPIN_WINDOW_MS = 3000;
const SPIN_TIMEOUT_S = 3;
const BURST_WINDOW_MS = 500;
const CONFLICT_PAUSE_MS = 3000;
/** What is queued during it goes out with the update that woke the call. */
const WAKE_DELAY_MS = 1;

interface WaitingCall {
  offset: number;
  limit: number;
  reply: Reply;
  /** When it is answered, with or without updates. */
  answerAt: number;
  cancel: () => void;
}

export class Polling {
  readonly #queue: UpdateQueue;
  readonly #allowed: AllowedUpdates;
  readonly #timers: Timers;
  #waiting: WaitingCall | undefined;
  #previous = { offset: -1, at: Number.NEGATIVE_INFINITY };
  #nextConflictAt = Number.NEGATIVE_INFINITY;

  constructor(queue: UpdateQueue, allowed: AllowedUpdates, timers: Timers) {
    this.#queue = queue;
    this.#allowed = allowed;
    this.#timers = timers;
  }

  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  getUpdates(parameters: Parameters, reply: Reply): void {
    const offset = readInt32(parameters.offset, 0);
    let limit = readClamped(parameters.limit, 100, 1, 100);
    let timeoutS = readClamped(parameters.timeout, 0, 0, MAX_TIMEOUT_S);
    this.#allowed.apply(parameters.allowed_updates);

    const now = this.#timers.now();
    const sincePreviousMs =
      offset === this.#previous.offset ? now - this.#previous.at : Number.POSITIVE_INFINITY;
    if (sincePreviousMs < SPIN_WINDOW_MS) timeoutS = Math.max(timeoutS, SPIN_TIMEOUT_S);
    if (sincePreviousMs < BURST_WINDOW_MS) limit = 1;
    this.#previous = { offset, at: now };

    const from = this.#queue.resolve(offset);
    const page = this.#queue.take(from, limit);
    if (page.length > 0 || timeoutS === 0) reply(pageAnswer(page));
    else this.#wait(from, limit, timeoutS, reply);
  }

  /** Something was queued: the waiting call gets it in a moment. */
  wake(): void {
    const call = this.#waiting;
    if (call === undefined) return;
    const soon = this.#timers.now() + WAKE_DELAY_MS;
    if (soon < call.answerAt) this.#answerAt(call, soon);
  }

  /** Ends the waiting call with a 409. */
  evict(description: string): void {
    const call = this.#leave();
    if (call !== undefined) this.conflict(description, call.reply);
  }

  /** Ends the waiting call with whatever there is, normally `[]`, as a bot does that is being closed or moved. */
  endWaiting(): void {
    const call = this.#leave();
    if (call !== undefined) this.#answer(call);
  }

  /** The server process is gone: the waiting call gets nothing, and what it knew of earlier calls is lost. */
  forget(): void {
    this.#leave();
    this.#previous = { offset: -1, at: Number.NEGATIVE_INFINITY };
    this.#nextConflictAt = Number.NEGATIVE_INFINITY;
  }

  /** At most one 409 at once in 3 s; each further one comes 3 s late. */
  conflict(description: string, reply: Reply): void {
    const now = this.#timers.now();
    if (now < this.#nextConflictAt) {
      this.#timers.after(CONFLICT_PAUSE_MS, () => reply(failed(409, description)));
      return;
    }
    this.#nextConflictAt = now + CONFLICT_PAUSE_MS;
    reply(failed(409, description));
  }

  /** Only a call that has to wait evicts the one before it. */
  #wait(offset: number, limit: number, timeoutS: number, reply: Reply): void {
    this.evict(CONFLICT_OTHER_POLL);
    const deadline = this.#timers.now() + timeoutS * 1000;
    const call: WaitingCall = { offset, limit, reply, answerAt: deadline, cancel: () => {} };
    this.#waiting = call;
    this.#answerAt(call, deadline);
  }

  #answerAt(call: WaitingCall, time: number): void {
    call.cancel();
    call.answerAt = time;
    call.cancel = this.#timers.after(time - this.#timers.now(), () => {
      this.#leave();
      this.#answer(call);
    });
  }

  /** Reads again with the offset that it came with: one above the tail deletes here what has just arrived. */
  #answer(call: WaitingCall): void {
    call.reply(pageAnswer(this.#queue.take(call.offset, call.limit)));
  }

  #leave(): WaitingCall | undefined {
    const call = this.#waiting;
    call?.cancel();
    this.#waiting = undefined;
    return call;
  }
}

function pageAnswer(page: readonly QueuedUpdate[]): Answer {
  const elements = page.flatMap((update, index) => (index === 0 ? [update.bytes] : [COMMA, update.bytes]));
  return succeededWith(Buffer.concat([Buffer.from("["), ...elements, Buffer.from("]")]));
}

const COMMA = Buffer.from(",");
