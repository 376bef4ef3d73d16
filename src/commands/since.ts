/** `--since`: how long ago ("2h", "7d") or from when on (an ISO date or date and time). */
import { UsageError } from "../domain/errors.ts";

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/**
 * @returns ms since the epoch. A date alone is the beginning of that day, and a time without a zone is, as on every
 * clock in the room, local time.
 * @throws UsageError
 */
export function parseSince(text: string, nowMs: number): number {
  const [, count, unit] = /^(\d{1,6})\s*([smhdw])$/.exec(text.trim()) ?? [];
  const unitMs = UNITS_MS[unit ?? ""];
  if (count !== undefined && unitMs !== undefined) return nowMs - Number(count) * unitMs;
  const atMs = parseDate(text.trim());
  if (atMs === null) {
    throw new UsageError(
      "--since takes a time span or a date that exists",
      "For example: --since 2h, --since 7d, --since 2026-11-30 or --since 2026-11-30T09:00",
    );
  }
  return atMs;
}

function parseDate(text: string): number | null {
  const match =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:\d{2})?)?$/.exec(text);
  if (match === null) return null;
  const [, date = "", time = "00:00", zone = ""] = match;
  // JavaScript makes 2 March of 30 February; as UTC the day must come back as it was written.
  const day = new Date(`${date}T00:00Z`);
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== date) return null;
  const atMs = new Date(`${date}T${time}${zone}`).getTime();
  return Number.isNaN(atMs) ? null : atMs;
}
