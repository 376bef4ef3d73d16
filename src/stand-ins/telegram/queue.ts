/**
 * The update queue of one bot: ids that count up by one, expiry, confirmation by offset, and what one page holds. It does
 * not wait and does not answer; `polling.ts` does.
 *
 * It also remembers every update it ever held and what became of it, so that a test can compare that with an inbox.
 *
 * Source: tdlib/td, TQueue.cpp; tdlib/telegram-bot-api, Client.cpp: do_get_updates and JsonUpdates.
 */

const MAX_UPDATES = 100_000;
const MAX_QUEUE_BYTES = 128 * 1024 * 1024;
const MAX_UPDATE_BYTES = 512 * 1024;
const ID_LIMIT = 2_000_000_000;
/** A page holds less than this, each update counted with 50 bytes more than its content. */
const PAGE_BYTES = 1 << 22;
const UPDATE_OVERHEAD_BYTES = 50;
/** An offset up to this far above the tail still confirms; one beyond is ignored. */
const TAIL_TOLERANCE = 10;

/**
 * - `held`: stored, may be fetched, also again
 * - `confirmed`: fetched at least once, then passed by an offset
 * - `swallowed`: passed by an offset without ever having been fetched
 * - `expired`: ran out unconfirmed
 * - `dropped`: removed by `drop_pending_updates` or when the ids wrapped around
 * - `renumbered`: held on under another id
 */
export type Fate = "held" | "confirmed" | "swallowed" | "expired" | "dropped" | "renumbered";

export interface QueuedUpdate {
  readonly updateId: number;
  readonly kind: string;
  /** The element of the page, serialised once: a second delivery has the same bytes. */
  readonly bytes: Buffer;
  readonly size: number;
  expiresAtS: number;
  fate: Fate;
  /** In how many pages it was, whether or not those answers arrived. */
  timesFetched: number;
}

export interface NewUpdate {
  kind: string;
  /** Bytes that count against the limits. */
  size: number;
  bytesFor(updateId: number): Buffer;
  expiresAtS: number;
}

export class UpdateQueue {
  readonly #held = new Map<number, { entry: QueuedUpdate; source: NewUpdate }>();
  readonly #latest = new Map<number, QueuedUpdate>();
  readonly #nowS: () => number;
  #tail: number;
  #bytes = 0;

  /** Every update that was ever stored, in the order of arrival. */
  readonly history: QueuedUpdate[] = [];

  constructor(nowS: () => number, firstId = randomFirstId()) {
    this.#nowS = nowS;
    this.#tail = checkedId(firstId);
  }

  /** The id that the next update will get. */
  get tail(): number {
    return this.#tail;
  }

  /** The lowest id that is held, or the tail. */
  get head(): number {
    for (const updateId of this.#held.keys()) return updateId;
    return this.#tail;
  }

  /** Fetched but unconfirmed updates count too. */
  get pending(): number {
    this.#dropExpired();
    return this.#held.size;
  }

  /** The last update that had this id, whatever became of it. */
  find(updateId: number): QueuedUpdate | undefined {
    return this.#latest.get(updateId);
  }

  /** Stores an update, or says why it is lost: when the queue is full it is the newest that goes. */
  push(update: NewUpdate): QueuedUpdate | "too old" | "too big" | "queue full" {
    if (update.expiresAtS <= this.#nowS()) return "too old";
    if (update.size > MAX_UPDATE_BYTES) return "too big";
    if (this.#isFull(update)) this.#dropExpired();
    if (this.#isFull(update)) return "queue full";
    if (this.#tail + 1 >= ID_LIMIT) {
      this.dropAll();
      this.#tail = randomFirstId();
    }
    return this.#store(update);
  }

  /** Leaves a gap in the ids, as an update does that ran out or went to another client. */
  skipTo(updateId: number): void {
    if (updateId < this.#tail) {
      throw new Error(`Update ids only rise: the next is ${this.#tail}. To go lower, use renumber().`);
    }
    this.#tail = checkedId(updateId);
  }

  /** Where reading starts for an offset that is absent, zero or counted from the end; others stay as they are. */
  resolve(offset: number): number {
    if (offset > 0) return offset;
    return Math.max(offset < 0 ? offset + this.#tail : 0, this.head);
  }

  /** One page. Deletes what lies below `offset`, unless `offset` is so far in the future that it is ignored. */
  take(offset: number, limit: number): QueuedUpdate[] {
    if (offset > 0 && offset < ID_LIMIT && offset <= this.#tail + TAIL_TOLERANCE) this.#confirmBelow(offset);
    const page: QueuedUpdate[] = [];
    let room = PAGE_BYTES;
    for (const { entry } of this.#held.values()) {
      if (page.length === limit) break;
      if (this.#isExpired(entry)) {
        this.#remove(entry, "expired");
        continue;
      }
      room -= UPDATE_OVERHEAD_BYTES + entry.size;
      if (room <= 0) break;
      page.push(entry);
    }
    for (const entry of page) entry.timesFetched += 1;
    return page;
  }

  dropAll(): void {
    for (const { entry } of this.#held.values()) this.#remove(entry, "dropped");
  }

  /** Makes updates run out now; without ids, all of them. */
  expire(updateIds: readonly number[]): void {
    for (const { entry } of this.#held.values()) {
      if (updateIds.length === 0 || updateIds.includes(entry.updateId)) entry.expiresAtS = 0;
    }
  }

  /**
   * Telegram starts the numbering elsewhere: after an idle week, or on another server. What is still held goes on under
   * new ids, with the same content.
   */
  renumber(tail: number): void {
    this.#dropExpired();
    const moving = [...this.#held.values()];
    for (const { entry } of moving) this.#remove(entry, "renumbered");
    this.#tail = checkedId(tail);
    for (const { source } of moving) this.#store(source);
  }

  #store(update: NewUpdate): QueuedUpdate {
    const entry: QueuedUpdate = {
      updateId: this.#tail,
      kind: update.kind,
      bytes: update.bytesFor(this.#tail),
      size: update.size,
      expiresAtS: update.expiresAtS,
      fate: "held",
      timesFetched: 0,
    };
    this.#tail += 1;
    this.#bytes += entry.size;
    this.#held.set(entry.updateId, { entry, source: update });
    this.#latest.set(entry.updateId, entry);
    this.history.push(entry);
    return entry;
  }

  #confirmBelow(offset: number): void {
    for (const { entry } of this.#held.values()) {
      if (entry.updateId >= offset) break;
      this.#remove(entry, this.#fateWhenPassed(entry));
    }
  }

  #fateWhenPassed(entry: QueuedUpdate): Fate {
    if (entry.timesFetched > 0) return "confirmed";
    return this.#isExpired(entry) ? "expired" : "swallowed";
  }

  #dropExpired(): void {
    for (const { entry } of this.#held.values()) {
      if (this.#isExpired(entry)) this.#remove(entry, "expired");
    }
  }

  #isExpired(entry: QueuedUpdate): boolean {
    return entry.expiresAtS < this.#nowS();
  }

  #isFull(update: NewUpdate): boolean {
    return this.#held.size >= MAX_UPDATES || this.#bytes + update.size > MAX_QUEUE_BYTES;
  }

  #remove(entry: QueuedUpdate, fate: Fate): void {
    this.#held.delete(entry.updateId);
    this.#bytes -= entry.size;
    entry.fate = fate;
  }
}

function randomFirstId(): number {
  return 2_000_001 + Math.floor(Math.random() * (1_000_000_000 - 2_000_001));
}

function checkedId(updateId: number): number {
  if (!Number.isInteger(updateId) || updateId < 1 || updateId >= ID_LIMIT) {
    throw new RangeError(`An update id is a whole number from 1 to ${ID_LIMIT - 1}, not ${updateId}.`);
  }
  return updateId;
}
