/** What a page of getUpdates says about the next call (pure). */
import { updateIdOf } from "../domain/update.ts";

/**
 * P1: confirms this page and nothing else. The last valid id of *this* page + 1, never the highest and never one of
 * before: Telegram may start its numbering anew, lower, and an offset too high would delete updates unseen.
 * @returns null when no element has a valid id: then it is no page of updates
 */
export function offsetAfter(elements: readonly unknown[]): number | null {
  const last = elements.map(updateIdOf).findLast((id) => id !== null);
  return last === undefined || last === null ? null : last + 1;
}
