/**
 * What went missing at Telegram, in plain words (pure). Nothing can bring it back; that it is missing must not be hidden
 * (P4). Ids count up by one per update, so a jump tells how many never came.
 */
import type { AcceptedUpdate } from "../domain/store.ts";

/** Telegram keeps messages for 24 hours (reference §1). */
const KEPT_BY_TELEGRAM_MS = 24 * 3_600_000;
/** More than one queue of Telegram can hold: such a jump is a new numbering, not that many lost updates. */
const LONGEST_GAP = 100_000;

export type Jump = { kind: "none" } | { kind: "gap"; missing: number } | { kind: "renumbered" };

/**
 * @param expected the id after the last one that was stored; null before the first page ever
 * @param updates what a page brought that was not stored before, in the page's order
 */
export function jumpBefore(expected: number | null, updates: readonly AcceptedUpdate[]): Jump {
  const position = updates.findIndex(({ updateId }) => updateId !== null);
  const first = updates[position]?.updateId ?? null;
  if (expected === null || first === null) return { kind: "none" };
  // Elements without a valid id stand before it; each has taken an id that it does not show.
  const missing = first - position - expected;
  if (missing < 0 || missing > LONGEST_GAP) return { kind: "renumbered" };
  return missing === 0 ? { kind: "none" } : { kind: "gap", missing };
}

export function gapMessage(missing: number): string {
  return (
    `${missing === 1 ? "1 update" : `${missing} updates`} of this bot never came here: Telegram dropped what nobody ` +
    "fetched in time (messages after 24 hours, button taps after 150 seconds), or another program with the same token fetched it."
  );
}

/** Null unless Telegram may have dropped messages meanwhile. */
export function absenceMessage(lastCompletedAtMs: number | null, nowMs: number): string | null {
  if (lastCompletedAtMs === null || nowMs - lastCompletedAtMs <= KEPT_BY_TELEGRAM_MS) return null;
  const hours = Math.round((nowMs - lastCompletedAtMs) / 3_600_000);
  return (
    `nothing was fetched from Telegram for ${hours} hours, since ${new Date(lastCompletedAtMs).toISOString()}. ` +
    "Telegram keeps messages for 24 hours: older ones that nobody fetched are gone. Look into the chats of that time."
  );
}
