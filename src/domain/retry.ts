/** How long a retry waits: doubling from `first` to `max`, with jitter so that rivals and restarts spread out. */
import type { RetrySettings } from "./settings.ts";

/** For a destination or step that the configuration no longer names. */
export const DEFAULT_RETRY: RetrySettings = { firstMs: 1_000, maxMs: 900_000, giveUpAfterMs: 604_800_000 };

/**
 * @param n 1 for the first retry
 * @param fraction random in [0, 1)
 * @param askedMs what the other side asked for (`Retry-After`): honoured, but capped, since it may be nonsense
 */
export function backoffMs(
  settings: Pick<RetrySettings, "firstMs" | "maxMs">,
  n: number,
  fraction: number,
  askedMs: number | null = null,
): number {
  const doubled = Math.min(settings.maxMs, settings.firstMs * 2 ** Math.min(n - 1, 30));
  const jittered = doubled / 2 + (doubled / 2) * fraction;
  const asked = askedMs !== null && Number.isFinite(askedMs) && askedMs > 0 ? askedMs : 0;
  return Math.round(Math.min(settings.maxMs, Math.max(jittered, asked)));
}
