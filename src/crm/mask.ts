/**
 * Takes known values out of what a CRM or the network said before it is kept as `detail` (P5): secrets, and the
 * customer's phone, name and words. A CRM quotes what it refuses, whole or cut, so pieces are found too.
 */

export interface KnownValues {
  secrets: readonly string[];
  phones: readonly string[];
  names: readonly string[];
  texts: readonly string[];
}

export const NOTHING_KNOWN: KnownValues = { secrets: [], phones: [], names: [], texts: [] };

/** Enough of an answer to find values that the cut at `DETAIL_CHARS` would split. */
const WINDOW_CHARS = 8000;
export const DETAIL_CHARS = 500;
/** A common run shorter than this says little about the text and is often an ordinary word. */
const TEXT_PIECE_CHARS = 12;
const SECRET_PIECE_CHARS = 6;
/** The last digits of a number are the same however the CRM writes its country code. */
const PHONE_DIGITS = 7;
/** A customer may have typed a number that the CRM writes its own way: whatever looks like an international one. */
const ANY_PHONE = /\+(?:[\s().-]{0,2}\d){7,15}/g;

export function maskedDetail(said: string, known: KnownValues): string {
  let text = readable(said.slice(0, WINDOW_CHARS));
  text = maskPieces(text, known.secrets, SECRET_PIECE_CHARS, "[secret]");
  text = maskPieces(text, known.texts, TEXT_PIECE_CHARS, "[text]");
  for (const phone of known.phones) text = maskPhone(text, phone);
  text = text.replace(ANY_PHONE, "[phone]");
  text = maskWhole(text, known.names, "[name]");
  return Array.from(text).slice(0, DETAIL_CHARS).join("");
}

/** Escapes of JSON would hide a value: `\u0410` is a letter, `\n` a line break. */
function readable(text: string): string {
  return text
    .replace(/\\u([0-9a-fA-F]{4})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\[nrt]/g, " ")
    .replace(/\\(["\\/])/g, "$1")
    .replace(/\p{Cc}/gu, " ");
}

/** Two characters can be a whole name (王伟); one would blacken every word that holds the letter. */
function maskWhole(text: string, values: readonly string[], mask: string): string {
  const patterns = values
    .map((value) => readable(value).trim())
    .filter((value) => value.length >= 2 && value.length <= text.length)
    .sort((a, b) => b.length - a.length)
    .map(escapeForPattern);
  if (patterns.length === 0) return text;
  const whole = new RegExp(`(?<![\\p{L}\\p{N}])(?:${patterns.join("|")})(?![\\p{L}\\p{N}])`, "giu");
  return text.replace(whole, mask);
}

/**
 * Masks every run of at least `least` characters that also stands in one of the values; shorter values only as a
 * whole. Each run is looked for once, so a long text costs one pass over it.
 */
function maskPieces(text: string, values: readonly string[], least: number, mask: string): string {
  const runs = new Map<string, number[]>();
  for (let start = 0; start + least <= text.length; start += 1) {
    const run = text.slice(start, start + least);
    const starts = runs.get(run);
    if (starts === undefined) runs.set(run, [start]);
    else starts.push(start);
  }
  const known = new Uint8Array(text.length);
  for (const value of values.map(readable)) {
    for (let start = 0; start + least <= value.length; start += 1) {
      const run = value.slice(start, start + least);
      for (const at of runs.get(run) ?? []) known.fill(1, at, at + least);
      runs.delete(run);
    }
  }
  let masked = "";
  for (let at = 0; at < text.length; at += 1) {
    if (known[at] === 0) masked += text[at];
    else if (known[at - 1] !== 1) masked += mask;
  }
  const short = values.filter((value) => value.length < least);
  return maskWhole(masked, short, mask);
}

function maskPhone(text: string, phone: string): string {
  const digits = phone.replace(/\D/g, "");
  if (digits.length < PHONE_DIGITS) return maskWhole(text, [phone], "[phone]");
  const tail = digits.slice(-PHONE_DIGITS).split("").join("[\\s().-]{0,2}");
  return text.replace(new RegExp(`\\+?(?:\\d[\\s().-]{0,2}){0,8}${tail}`, "g"), "[phone]");
}

function escapeForPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
