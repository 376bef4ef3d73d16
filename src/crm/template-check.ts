/**
 * What can be wrong with one template before it ever meets an operation: syntax, unknown filters and tags, names that
 * do not exist, secrets where they must not be. Found at start, because at run time it would cost a customer's lead.
 */

import { type Template as LiquidPart, Output } from "liquidjs";
import { closest } from "../domain/did-you-mean.ts";
import type { ConfigProblem } from "../domain/errors.ts";
import { compile, FILTERS, loneOutput, namedVariables, type Template, TemplateError } from "./template.ts";
import type { KnownNames } from "./variables.ts";

export interface Place {
  kind: "url" | "header" | "body" | "link";
  names: KnownNames;
  /** The names under `secrets`. */
  secrets: readonly string[];
}

export function checkTemplate(path: string, source: string, place: Place): ConfigProblem[] {
  let template: Template;
  try {
    template = compile(path, source);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [problem(path, error.message, filterHint(source))];
  }
  return [
    ...namedVariables(template.parts).flatMap((segments) => checkName(path, segments, place)),
    ...template.parts.flatMap((part) => checkPart(path, part, place)),
  ];
}

function checkName(path: string, segments: readonly unknown[], place: Place): ConfigProblem[] {
  const known = knownIn(place);
  const [root, member, ...rest] = segments;
  const written = segments.map((segment) => (Array.isArray(segment) ? "[…]" : String(segment))).join(".");
  if (segments.some(Array.isArray)) {
    return [problem(path, `${written}: the name of a variable can't itself be a variable`, null, written)];
  }
  if (typeof root !== "string" || !Object.hasOwn(known, root)) {
    return [
      problem(path, `there is no variable ${written} here`, unknownNameHint(written, root, place), written),
    ];
  }
  const members = known[root] ?? null;
  if (members === null) return member === undefined || member === "size" ? [] : [unknownMember()];
  if (member === undefined) {
    return [problem(path, `${root} is a group of variables`, `name one of ${list(root, members)}`, written)];
  }
  const isKnown = typeof member === "string" && members.includes(member);
  return isKnown && (rest.length === 0 || (rest.length === 1 && rest[0] === "size")) ? [] : [unknownMember()];

  function unknownMember(): ConfigProblem {
    return problem(path, `there is no variable ${written}`, nearestHint(written, known), written);
  }
}

function checkPart(path: string, part: LiquidPart, place: Place): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const text = part.token.getText();
  if (part instanceof Output && hasSeveralValues(part)) {
    problems.push(
      problem(path, `${text} holds more than one value`, "join values outside of the braces", text),
    );
  }
  const isBareSecret =
    loneOutput([part]) !== null && part instanceof Output && part.value.filters.length === 0;
  if (place.kind === "body" && !isBareSecret && namesSecret(part)) {
    problems.push(
      problem(
        path,
        `${text} works on a secret, and in a body a secret is filled in only after rendering`,
        "write {{ secrets.… }} alone; filters on secrets work in headers and URLs",
        text,
      ),
    );
  }
  return problems;
}

/** `{{ contact.name message.text }}`: the library would silently render nothing. */
function hasSeveralValues(output: Output): boolean {
  const tokens = output.value.initial.postfix;
  return tokens.length > 1 && !tokens.some((token) => "operator" in token);
}

function namesSecret(part: LiquidPart): boolean {
  return namedVariables([part]).some(([root]) => root === "secrets");
}

function knownIn(place: Place): KnownNames {
  if (place.kind === "link") return { ...place.names, id: null };
  return { ...place.names, secrets: place.secrets };
}

function unknownNameHint(written: string, root: unknown, place: Place): string | null {
  if (root === "secrets") return "a link is stored and shown, so it can't hold a secret";
  if (root === "lead") return "a lead's id is known only after it was made: use it in the note";
  if (root === "id") return "the record's id is known only in link; our own reference is operation.id";
  return nearestHint(written, knownIn(place));
}

function nearestHint(written: string, known: KnownNames): string {
  const names = Object.entries(known).flatMap(([root, members]) =>
    members === null ? [root] : members.map((member) => `${root}.${member}`),
  );
  const close = closest(written, names);
  return close === null ? `known variables: ${names.join(", ")}` : `did you mean ${close}?`;
}

function filterHint(source: string): string | null {
  const used = [...source.matchAll(/\|\s*([a-z_]\w*)/gi)].flatMap(([, name]) => name ?? []);
  const unknown = used.find((name) => !FILTERS.includes(name));
  const close = unknown === undefined ? null : closest(unknown, FILTERS);
  return close === null ? null : `did you mean the filter ${close}?`;
}

function list(root: string, members: readonly string[]): string {
  return members.map((member) => `${root}.${member}`).join(", ");
}

function problem(
  path: string,
  message: string,
  hint: string | null,
  value: string | null = null,
): ConfigProblem {
  return { path, value, message, hint };
}
