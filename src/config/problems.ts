/**
 * From what zod found to what a person reads: where, what stands there (masked), what is wrong, how to mend it. What is
 * shown is what was written in the file, never what a reference in it leads to (P5).
 */
import type { z } from "zod";
import { closest } from "../domain/did-you-mean.ts";
import type { ConfigProblem } from "../domain/errors.ts";
import { knownKeys, wordHint } from "./fields.ts";
import { placeOf } from "./references.ts";
import { type Path, pathText, type Tree, valueAt } from "./tree.ts";

export type Issue = z.core.$ZodIssue;

/** @param written the file as it was checked, before its references were followed */
export function problemsOf(issues: readonly Issue[], written: Tree): ConfigProblem[] {
  return issues.flatMap((issue) => {
    const path = issuePath(issue);
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => unknownKey([...path, key], knownKeys(issue)));
    }
    return { path: pathText(path), value: shown(written, path), ...explained(issue, valueAt(written, path)) };
  });
}

export function issuePath({ path }: Issue): Path {
  return path.map((part) => (typeof part === "number" ? part : String(part)));
}

function unknownKey(path: Path, known: readonly string[]): ConfigProblem {
  const meant = closest(String(path.at(-1)), known);
  const hint = meant === null ? `known here: ${known.join(", ")}` : `did you mean "${meant}"?`;
  return { path: pathText(path), value: null, message: "there is no such key", hint };
}

function explained(issue: Issue, value: unknown): Pick<ConfigProblem, "message" | "hint"> {
  if (issue.code === "custom") {
    const hint: unknown = issue.params?.hint;
    return { message: issue.message, hint: typeof hint === "string" ? hint : null };
  }
  const missing = value === undefined;
  if (issue.code === "invalid_union") {
    const kinds = builtKinds(issuePath(issue));
    const list = `write ${kinds.map((kind) => `"${kind}"`).join(" or ")}`;
    if (missing) return { message: "it is missing", hint: list };
    return { message: "there is no such kind", hint: wordHint(String(value), kinds) ?? list };
  }
  return missing ? { message: "it is missing", hint: issue.message } : { message: issue.message, hint: null };
}

export function builtKinds([section]: Path): readonly string[] {
  return section === "crm" ? ["http", "ledger"] : ["lead"];
}

const SHOWN_CHARS_MAX = 60;
/** A bot token pasted at the wrong place is still a token. */
const TOKEN = /\d{5,}:[A-Za-z0-9_-]{10,}/;

/** Numbers, words and short texts as they are; nothing that can be a secret; of tables and lists nothing. */
function shown(written: Tree, path: Path): string | null {
  const value = valueAt(written, path);
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return null;
  const text = String(value);
  if (placeOf(path) !== "plain" || TOKEN.test(text)) return masked(text);
  const short = text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
  return typeof value === "string" ? JSON.stringify(short) : short;
}

export function masked(value: string): string {
  return `(${value.length} characters, not shown)`;
}
