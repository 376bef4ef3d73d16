/** Lengths of time and rates as people write them: `20s`, `15m`, `10/1s`. Inside the program there are only ms. */

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

/** @returns ms; null where the text is no duration */
export function parseDuration(text: string): number | null {
  const [, count, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  if (count === undefined || unit === undefined) return null;
  return Number(count) * UNIT_MS[unit as Unit]; // the pattern names exactly these units
}

/** In the largest unit that needs no fraction: what `parseDuration` reads back. */
export function formatDuration(ms: number): string {
  const units: readonly Unit[] = ["d", "h", "m", "s"];
  const unit = units.find((candidate) => ms > 0 && ms % UNIT_MS[candidate] === 0) ?? "ms";
  return `${ms / UNIT_MS[unit]}${unit}`;
}

export interface Rate {
  count: number;
  perMs: number;
}

/** @returns null where the text is no rate, or one of nothing */
export function parseRate(text: string): Rate | null {
  const [count = "", per = "", ...rest] = text.split("/");
  const perMs = parseDuration(per);
  if (!/^\d{1,6}$/.test(count) || rest.length > 0 || perMs === null) return null;
  return Number(count) === 0 || perMs === 0 ? null : { count: Number(count), perMs };
}
