/** The real clock and the real randomness; everything else asks for them through `domain/ports`. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { asLeaseToken, asRunId } from "./domain/ids.ts";
import type { Clock, CrashHook, Random } from "./domain/ports.ts";

/** Longer waits overflow Node's timer and would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    try {
      await delay(
        Math.min(LONGEST_TIMER_MS, Math.max(0, ms)),
        undefined,
        signal === undefined ? {} : { signal },
      );
    } catch (error) {
      if (signal?.aborted !== true) throw error;
    }
  },
};

export const systemRandom: Random = {
  leaseToken: () => asLeaseToken(randomBytes(16).toString("hex")),
  runId: () => asRunId(randomBytes(8).toString("hex")),
  fraction: () => Math.random(),
};

/**
 * For the crash tests: LEADONCE_CRASH_AT=point or point:n ends the process at the n-th pass, as a power cut would.
 * Without the variable it does nothing.
 */
export function crashHook(setting: string | undefined): CrashHook {
  if (setting === undefined || setting === "") return () => {};
  const [point, nth = "1"] = setting.split(":");
  let left = Number(nth);
  return (passed) => {
    if (passed !== point) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  };
}
