/** Which troubles of the poller people know of: each is told once while it lasts, and once when it is over (P4). */
import type { Log } from "../domain/ports.ts";

/** Ends by itself. */
export type LastingAlert = "conflict" | "webhook" | "unauthorised" | "storage" | "unreachable";
/** Has happened; it is over when a person has read it. */
type PassingAlert = "gap" | "absence" | "backlog" | "group_privacy";
export type PollerAlert = LastingAlert | PassingAlert;

export interface AlarmOptions {
  log: Log;
  /** The message says what happened, what is safe and what to do; it is safe to print. */
  onAlert(kind: PollerAlert, message: string): void;
  onRecovered(kind: PollerAlert): void;
}

/** What ends as soon as a poll completes. */
const ENDED_BY_A_POLL = ["webhook", "unauthorised", "unreachable"] as const;

/** A conflict this long after another belongs to the same quarrel: the loser of a round often wins the next. */
const CONFLICT_MEMORY_MS = 120_000;
/** A deploy in which old and new overlap is over by then. */
const CONFLICT_ALARM_MS = 60_000;

const CONFLICT_MESSAGE =
  "another program fetches this bot's updates with the same token, so each update reaches only one of the two. Stop the " +
  "other one; if you can't find it, let @BotFather revoke the token and use the new one here.";

export class Alarms {
  readonly #options: AlarmOptions;
  readonly #open = new Set<LastingAlert>();
  #quarrel: { sinceMs: number; lastMs: number } | null = null;

  constructor(options: AlarmOptions) {
    this.#options = options;
  }

  raise(kind: LastingAlert, message: string): void {
    if (this.#open.has(kind)) return;
    this.#open.add(kind);
    this.#options.log.error(`poller.${kind}`, { message });
    this.#options.onAlert(kind, message);
  }

  tell(kind: PassingAlert, message: string | null): void {
    if (message === null) return;
    this.#options.log.warn(`poller.${kind}`, { message });
    this.#options.onAlert(kind, message);
  }

  /** Raised once it has lasted so long that it is no restart's overlap. Times by the monotonic clock. */
  conflict(monotonicMs: number): void {
    const quarrel = this.#quarrel;
    const goesOn = quarrel !== null && monotonicMs - quarrel.lastMs <= CONFLICT_MEMORY_MS;
    const sinceMs = goesOn ? quarrel.sinceMs : monotonicMs;
    this.#quarrel = { sinceMs, lastMs: monotonicMs };
    if (monotonicMs - sinceMs >= CONFLICT_ALARM_MS) this.raise("conflict", CONFLICT_MESSAGE);
  }

  /** @param stored whether the store can be written; an empty page alone does not tell */
  pollCompleted(monotonicMs: number, stored: boolean): void {
    for (const kind of ENDED_BY_A_POLL) this.#end(kind);
    if (stored) this.#end("storage");
    if (this.#quarrel !== null && monotonicMs - this.#quarrel.lastMs > CONFLICT_MEMORY_MS) {
      this.#quarrel = null;
      this.#end("conflict");
    }
  }

  #end(kind: LastingAlert): void {
    if (this.#open.delete(kind)) this.#options.onRecovered(kind);
  }
}
