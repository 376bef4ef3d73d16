/**
 * How the poller is doing: its state, its last error and when a poll was last completed, kept for whoever asks and
 * written to the store for other processes, on every change and otherwise once a minute (design §9).
 */
import { StorageUnavailableError } from "../domain/errors.ts";
import type { BotId } from "../domain/ids.ts";
import type { Clock, Log } from "../domain/ports.ts";
import type { IntakeStore, PollerState } from "../domain/store.ts";

const RECORD_EVERY_MS = 60_000;

export interface ConditionOptions {
  store: Pick<IntakeStore, "recordPoller">;
  botId: BotId;
  clock: Clock;
  log: Log;
}

export class Condition {
  readonly #options: ConditionOptions;
  #state: PollerState = "starting";
  #lastError: string | null = null;
  #failures = 0;
  #completedAtMs: number | null = null;
  #completedMonotonicMs: number | null = null;
  #recorded: { state: PollerState; atMs: number } | null = null;

  constructor(options: ConditionOptions) {
    this.#options = options;
  }

  get state(): PollerState {
    return this.#state;
  }

  get lastError(): string | null {
    return this.#lastError;
  }

  get completedAtMs(): number | null {
    return this.#completedAtMs;
  }

  /** By this process. */
  get completedMonotonicMs(): number | null {
    return this.#completedMonotonicMs;
  }

  /** By an earlier process, as the database has it. */
  completedBefore(atMs: number | null): void {
    this.#completedAtMs = atMs;
  }

  /** False when the store can't be written. */
  async completed(): Promise<boolean> {
    const { clock, log } = this.#options;
    if (this.#state !== "polling") log.info("poller.polling", { from: this.#state });
    this.#state = "polling";
    this.#lastError = null;
    this.#failures = 0;
    this.#completedAtMs = clock.now();
    this.#completedMonotonicMs = clock.monotonic();
    return this.record();
  }

  /** Returns how many failures there were in a row that led to this state. */
  failed(state: PollerState, message: string): number {
    this.#failures = state === this.#state ? this.#failures + 1 : 1;
    this.#state = state;
    this.#lastError = message;
    return this.#failures;
  }

  /** More is known of the trouble that lasts. */
  explain(message: string): void {
    this.#lastError = message;
  }

  async stopped(): Promise<void> {
    this.#state = "stopped";
    await this.record();
  }

  /** False when the store can't be written. */
  async record(): Promise<boolean> {
    const { store, clock, log, botId } = this.#options;
    const state = this.#state;
    const atMs = clock.monotonic();
    if (this.#recorded?.state === state && atMs - this.#recorded.atMs < RECORD_EVERY_MS) return true;
    try {
      const report = { state, lastCompletedAtMs: this.#completedAtMs, lastError: this.#lastError };
      await store.recordPoller(botId, report, clock.now());
      this.#recorded = { state, atMs };
      return true;
    } catch (error) {
      // A full disk must not end polling: the state is written with the next change or poll.
      if (!(error instanceof StorageUnavailableError)) throw error;
      log.warn("poller.not_recorded", { message: error.message });
      return false;
    }
  }
}
