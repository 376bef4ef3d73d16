/**
 * Reads a CRM's answer: JSON whose numbers keep all their digits, values by JSON Pointer (RFC 6901), and what counts
 * as the id of a record. P2 rests on an id never being a guess: what is no id is null, and the outcome is then unknown.
 */

/** A string, or a number token of JSON; strings come first so that digits inside them are left alone. */
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;

export type Json = { readable: true; value: unknown } | { readable: false };

/** Integers beyond 2^53 become strings: as numbers they would name another record. */
export function parseJson(text: string): Json {
  try {
    return { readable: true, value: JSON.parse(withExactIntegers(text.replace(/^\uFEFF/, ""))) };
  } catch {
    return { readable: false };
  }
}

function withExactIntegers(text: string): string {
  if (!/\d{16}/.test(text)) return text;
  // Throws on what is no JSON: in a megabyte of stray quotes the pattern would search for minutes.
  JSON.parse(text);
  return text.replace(JSON_TOKEN, (token) => (LONG_INTEGER.test(token) ? `"${token}"` : token));
}

/** @param pointer `""` is the whole value, `/a/0/b` a member; undefined where there is no such member */
export function atPointer(value: unknown, pointer: string): unknown {
  if (pointer === "") return value;
  let current = value;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, key)) return undefined;
    // An object or list with this own member: indexing it by the string is what the pointer asks for.
    current = (current as Record<string, unknown>)[key];
  }
  return current;
}

export function isPointer(text: string): boolean {
  return text === "" || /^\/(?:[^~]|~[01])*$/s.test(text);
}

/** Text as it would stand in an id or a reference; null for objects, lists, null, booleans and empty strings. */
export function asId(value: unknown): string | null {
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  return null;
}
