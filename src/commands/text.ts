/** What every list for people is made of: ages, tables with columns that line up, counts with their noun. */
import { stripVTControlCharacters } from "node:util";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "12 s", "3 min", "5 h", "12 d": one unit is enough to judge by. */
export function span(ms: number): string {
  if (ms < MINUTE) return `${Math.max(0, Math.floor(ms / 1000))} s`;
  if (ms < 2 * HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** @param at ISO 8601 */
export function ago(at: string, nowMs: number): string {
  return `${span(nowMs - Date.parse(at))} ago`;
}

/** @param at ISO 8601 */
export function until(at: string, nowMs: number): string {
  const ms = Date.parse(at) - nowMs;
  return ms <= 0 ? "now" : `in ${span(ms)}`;
}

/** "1 job", "3 jobs". */
export function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** Rows as lines, each column as wide as its widest cell; cells may be coloured. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, width(cell));
    });
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - width(cell)))
      .join("  ")
      .trimEnd(),
  );
}

function width(cell: string): number {
  return [...stripVTControlCharacters(cell)].length;
}

/** The same shape and spelling for every command's JSON; escapes what a terminal would obey. */
export function json(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(
    /[\u007f-\u009f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
