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

export function maskedDetail(said: string, known: KnownValues): string {
  let text = readable(said.slice(0, WINDOW_CHARS));
  for (const secret of longestFirst(known.secrets)) {
    text = maskWhole(text, secret, "[secret]");
    text = maskPieces(text, secret, SECRET_PIECE_CHARS, "[secret]");
  }
  for (const message of longestFirst(known.texts)) {
    text = maskWhole(text, message, "[text]");
    text = maskPieces(text, message, TEXT_PIECE_CHARS, "[text]");
  }
  for (const phone of known.phones) text = maskPhone(text, phone);
  for (const name of longestFirst(known.names)) text = maskWhole(text, name, "[name]");
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
function maskWhole(text: string, value: string, mask: string): string {
  const plain = readable(value).trim();
  if (plain.length < 2) return text;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])${escapeForPattern(plain)}(?![\\p{L}\\p{N}])`, "giu");
  return text.replace(pattern, mask);
}

/** Masks every run of at least `least` characters that also stands in the value. */
function maskPieces(text: string, value: string, least: number, mask: string): string {
  const whole = readable(value);
  if (whole.length < least) return text;
  let result = "";
  let start = 0;
  while (start < text.length) {
    let end = start + least;
    if (end > text.length || !whole.includes(text.slice(start, end))) {
      result += text[start];
      start += 1;
      continue;
    }
    while (end < text.length && whole.includes(text.slice(start, end + 1))) end += 1;
    result += mask;
    start = end;
  }
  return result;
}

function maskPhone(text: string, phone: string): string {
  const digits = phone.replace(/\D/g, "");
  if (digits.length < PHONE_DIGITS) return maskWhole(text, phone, "[phone]");
  const tail = digits.slice(-PHONE_DIGITS).split("").join("[\\s().-]{0,2}");
  return text.replace(new RegExp(`\\+?(?:\\d[\\s().-]{0,2}){0,8}${tail}`, "g"), "[phone]");
}

function longestFirst(values: readonly string[]): string[] {
  return [...values].sort((a, b) => b.length - a.length);
}

function escapeForPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
