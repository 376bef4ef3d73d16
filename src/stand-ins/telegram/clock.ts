/**
 * The clock of the Telegram stand-in. Everything that waits or expires asks it, so that a test can let a button tap of
 * 150 s or a message of 24 h run out without waiting.
 */

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Runs `run` once, `delayMs` from now. Returns what cancels it. */
  after(delayMs: number, run: () => void): () => void;
}

interface Timer {
  dueAt: number;
  run: () => void;
}

/** Node's timers overflow above this and fire at once. */
const LONGEST_TIMEOUT_MS = 2_147_483_647;

/**
 * Runs like a wall clock, or stands still (`frozenAt`), and can be moved forward in both cases. Timers whose time comes
 * while it is moved run in the order of their due times, each at its own moment.
 */
export class StandInClock implements Clock {
  readonly #frozen: boolean;
  readonly #timers = new Set<Timer>();
  #aheadMs: number;
  #alarm: NodeJS.Timeout | undefined;

  constructor(options: { frozenAt?: number } = {}) {
    this.#frozen = options.frozenAt !== undefined;
    this.#aheadMs = options.frozenAt ?? 0;
  }

  now(): number {
    // Monotonic: a step of the machine's clock must not end or prolong a poll.
    const base = this.#frozen ? 0 : performance.timeOrigin + performance.now();
    return Math.floor(base + this.#aheadMs);
  }

  after(delayMs: number, run: () => void): () => void {
    const timer = { dueAt: this.now() + delayMs, run };
    this.#timers.add(timer);
    this.#arm();
    return () => {
      this.#timers.delete(timer);
      this.#arm();
    };
  }

  advance(ms: number): void {
    const target = this.now() + ms;
    for (let next = this.#next(); next !== undefined && next.dueAt <= target; next = this.#next()) {
      this.#moveTo(next.dueAt);
      this.#timers.delete(next);
      next.run();
    }
    this.#moveTo(target);
    this.#arm();
  }

  #moveTo(time: number): void {
    this.#aheadMs += Math.max(0, time - this.now());
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (next === undefined || timer.dueAt < next.dueAt) next = timer;
    }
    return next;
  }

  #arm(): void {
    if (this.#frozen) return;
    clearTimeout(this.#alarm);
    const next = this.#next();
    if (next === undefined) return;
    const delayMs = Math.min(Math.max(0, next.dueAt - this.now()), LONGEST_TIMEOUT_MS);
    this.#alarm = setTimeout(() => this.advance(0), delayMs);
  }
}

/** The timers of one owner on a shared clock, so that closing it leaves none behind. */
export class Timers {
  readonly #clock: Clock;
  readonly #cancels = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  after(delayMs: number, run: () => void): () => void {
    const cancelTimer = this.#clock.after(delayMs, () => {
      this.#cancels.delete(cancel);
      run();
    });
    const cancel = (): void => {
      this.#cancels.delete(cancel);
      cancelTimer();
    };
    this.#cancels.add(cancel);
    return cancel;
  }

  clear(): void {
    for (const cancel of this.#cancels) cancel();
  }
}
