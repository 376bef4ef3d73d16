/** From zod's issues to problems for people: where, what stands there (masked), what is wrong, how to mend it. */
import type { z } from "zod";
import type { ConfigError, ConfigProblem } from "../domain/errors.ts";

/** Keys whose values may hold a secret; so may any text that looks long and random. */
const SECRET_KEY = /token|secret|password|passwd|authorization|api[-_]?key|proxy|cookie/i;

export function maskedValue(path: string, value: unknown): string | null {
  if (value === undefined || typeof value === "object") return null;
  const text = String(value);
  if (/^(env|file):/.test(text)) return text;
  if (SECRET_KEY.test(path) || /[A-Za-z0-9_-]{20,}/.test(text) || /\/\/[^/]*@/.test(text)) return "***";
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}…` : value);
}

export function problemsOf(
  error: z.ZodError,
  root: string,
  value: unknown,
  schema: z.ZodType,
): ConfigProblem[] {
  return error.issues.flatMap((issue) => fromIssue(issue, root, value, schema));
}

function fromIssue(
  issue: z.core.$ZodIssue,
  root: string,
  value: unknown,
  schema: z.ZodType,
): ConfigProblem[] {
  const path = pathOf(root, issue.path);
  const found = issue.path.reduce(member, value);
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(issue.path.reduce<unknown>(schemaMember, schema));
    return issue.keys.map((key) => ({
      path: pathOf(path, [key]),
      value: null,
      message: "is not a key that leadonce knows",
      hint: suggestion(key, known),
    }));
  }
  if (issue.code === "invalid_union") {
    // The variant that got furthest knows best what is wrong.
    const nested = issue.errors.toSorted((a, b) => depth(b) - depth(a))[0];
    if (nested !== undefined && depth(nested) > 0) {
      return nested.flatMap((inner) =>
        fromIssue({ ...inner, path: [...issue.path, ...inner.path] }, root, value, schema),
      );
    }
  }
  const hint = issue.code === "custom" && typeof issue.params?.hint === "string" ? issue.params.hint : null;
  if (issue.code === "invalid_type" && found === undefined) {
    return [{ path, value: null, message: "is missing", hint: hint ?? `It has to be ${issue.expected}.` }];
  }
  return [{ path, value: maskedValue(path, found), message: issue.message, hint }];
}

const depth = (issues: readonly z.core.$ZodIssue[]): number =>
  Math.max(0, ...issues.map(({ path }) => path.length));

function member(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function pathOf(root: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`,
    root,
  );
}

/** Follows a path through the schema, looking through defaults, optionals, arrays and records. */
function schemaMember(schema: unknown, key: PropertyKey): unknown {
  const inner = unwrapped(schema);
  if (typeof key === "number") return member(inner, "element");
  return member(member(inner, "shape"), key) ?? member(inner, "valueType");
}

function unwrapped(schema: unknown): unknown {
  const inner: unknown = member(member(schema, "def"), "innerType");
  return inner === undefined ? schema : unwrapped(inner);
}

function knownKeys(schema: unknown): string[] {
  const shape = member(unwrapped(schema), "shape");
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : [];
}

export function suggestion(word: string, known: readonly string[]): string | null {
  const [best] = known
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate) }))
    .sort((a, b) => a.distance - b.distance);
  if (best !== undefined && best.distance <= Math.max(2, Math.floor(word.length / 3)))
    return `Did you mean "${best.candidate}"?`;
  return known.length === 0 ? null : `Known here: ${known.join(", ")}.`;
}

/** Levenshtein's distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, charA] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, charB] of [...b].entries()) {
      next.push(
        Math.min((row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1, (row[j] ?? 0) + (charA === charB ? 0 : 1)),
      );
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** All problems at once, one paragraph each. */
export function formatConfigError(error: ConfigError): string {
  const lines = error.problems.map(({ path, value, message, hint }) =>
    [
      `  ${path}${value === null ? "" : ` = ${value}`}: ${message}`,
      ...(hint === null ? [] : [`      ${hint}`]),
    ].join("\n"),
  );
  return [error.message, ...lines, ...(error.hint === null ? [] : [error.hint])].join("\n");
}
