/**
 * The kinds of value that the configuration knows, each with an error that says what to write instead. No message
 * repeats the value: whoever shows a problem decides what of it may be seen (P5).
 */
import { z } from "zod";
import { closest } from "../domain/did-you-mean.ts";
import { Secret } from "./secret.ts";
import { formatDuration, parseDuration, parseRate } from "./units.ts";

/** A table that knows exactly these keys; the error about others lists them, for `knownKeys`. */
export function table<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: ({ code }) => {
      if (code === "unrecognized_keys") return Object.keys(shape).join(", ");
      return code === "invalid_type" ? "it must be a table" : undefined;
    },
  });
}

export function knownKeys(unrecognized: { message: string }): readonly string[] {
  return unrecognized.message.split(", ");
}

/** Left out, a value is null. */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullable().default(null);
}

export function text() {
  return z.string({ error: "it must be a text in quotes" });
}

export function flag() {
  return z.boolean({ error: "it must be true or false, without quotes" });
}

export function count(min: number, max: number) {
  const error = `it must be a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

export function secret() {
  return z.instanceof(Secret, { error: "it must be a text in quotes" });
}

/**
 * Refuses a value with a message and a hint, from within a transform.
 * @param path where inside the value the fault is
 */
export function refuse(
  context: z.RefinementCtx,
  message: string,
  hint: string | null = null,
  path: string[] = [],
): never {
  context.addIssue({ code: "custom", message, params: { hint }, path });
  return z.NEVER;
}

export function duration({ min, max }: { min: string; max: string }) {
  const [minMs, maxMs] = [parseDuration(min) ?? 0, parseDuration(max) ?? Number.POSITIVE_INFINITY];
  const example = 'a whole number and its unit, for instance "500ms", "20s", "15m", "24h" or "7d"';
  return z.string({ error: `it must be a length of time: ${example}` }).transform((written, context) => {
    const ms = parseDuration(written);
    if (ms === null) return refuse(context, "it is no length of time", `write ${example}`);
    if (ms < minMs || ms > maxMs) {
      const bounds = `${formatDuration(minMs)} to ${formatDuration(maxMs)}`;
      return refuse(context, "it is out of bounds", `it may be ${bounds}`);
    }
    return ms;
  });
}

export function rate() {
  const hint = 'write for instance "10/1s", ten requests in a second, or "off"';
  return z.string({ error: `it must be a rate: ${hint}` }).transform((written, context) => {
    return written === "off" ? null : (parseRate(written) ?? refuse(context, "it is no rate", hint));
  });
}

/** @param later words that a later version will know */
export function choice<const Word extends string>(words: readonly Word[], later: readonly string[] = []) {
  return z
    .string({ error: `it must be a text: ${listed(words)}` })
    .transform((written, context) => chosen(written, words, later, context));
}

/** One of the words, from within a transform. */
export function chosen<Word extends string>(
  written: string,
  words: readonly Word[],
  later: readonly string[],
  context: z.RefinementCtx,
): Word {
  const known = words.find((word) => word === written);
  if (known !== undefined) return known;
  if (later.includes(written)) {
    return refuse(context, notBuilt(`"${written}"`), `${listed(words)}, or leave it out`);
  }
  return refuse(context, "it is not known here", wordHint(written, words) ?? listed(words));
}

function listed(words: readonly string[]): string {
  const list = words.map((word) => `"${word}"`).join(", ");
  return words.length === 1 ? `write ${list}` : `write one of ${list}`;
}

export function wordHint(word: string, words: readonly string[]): string | null {
  const meant = closest(word, words);
  return meant === null ? null : `did you mean "${meant}"?`;
}

/** As `choice`, in any case of letters. */
export function method() {
  return text().transform((written) => written.toUpperCase());
}

export function httpUrl() {
  return text().transform((written, context) => {
    const url = URL.canParse(written) ? new URL(written) : null;
    if (url === null || !/^https?:$/.test(url.protocol)) {
      return refuse(context, "it is no address that begins with https:// or http://");
    }
    return written.replace(/\/+$/, "");
  });
}

const NAME = /^[A-Za-z][\w-]{0,39}$/;
export const NAME_ERROR = "a name begins with a letter and has at most 40 letters, digits, - and _";

/** Of a destination or an action: it is typed in commands and stands in keys. */
export function name() {
  return text().regex(NAME, { error: NAME_ERROR });
}

/**
 * Known, but of a later version: accepted where it is left out or off.
 * @param off the values that ask for nothing
 */
export function later(what: string, off: readonly unknown[] = []) {
  return z
    .unknown()
    .optional()
    .transform((written, context): null => {
      if (written === undefined || off.includes(written)) return null;
      return refuse(context, notBuilt(what), "leave it out");
    });
}

export function notBuilt(what: string): string {
  return `not built yet: ${what}`;
}
