/**
 * Looks at the clocks from outside the poll loop. Durations come from the monotonic clock alone; the wall clock only
 * tells that the machine slept, since monotonic clocks stand still meanwhile and every deadline with them. A step of the
 * wall clock looks the same, and costs one poll that is sent again.
 */
import type { Clock } from "../domain/ports.ts";

const TICK_MS = 5_000;
/** How much more the wall clock must have moved than the monotonic one. */
const SLEPT_MS = 10_000;

export interface WatchdogOptions {
  clock: Clock;
  stalledAfterMs: number;
  /** The last sign of life, by the monotonic clock; may lie ahead while a long wait is intended. */
  aliveMs(): number;
  onResume(sleptMs: number): void;
  onStall(silentMs: number): void;
}

/** Runs until `signal` aborts. */
export async function watch(options: WatchdogOptions, signal: AbortSignal): Promise<void> {
  const { clock } = options;
  const offset = (): number => clock.now() - clock.monotonic();
  for (let before = offset(); ; before = offset()) {
    await clock.sleep(TICK_MS, signal);
    if (signal.aborted) return;
    const sleptMs = offset() - before;
    const silentMs = clock.monotonic() - options.aliveMs();
    if (sleptMs > SLEPT_MS) options.onResume(sleptMs);
    else if (silentMs > options.stalledAfterMs) options.onStall(silentMs);
  }
}
