/**
 * What an answer means (design §6), as pure functions. P3 is decided here: whatever leaves open whether the request
 * took effect is `unknown`; a repeat that should not have been is worse than a question to a person.
 */
import { unreachable } from "../domain/errors.ts";
import type { AnswerRule, FindSettings, HttpStepSettings } from "../domain/http-settings.ts";
import type { OperationCode, OperationId } from "../domain/ids.ts";
import type { Step } from "../domain/jobs.ts";
import type { Outcome, Probe } from "../domain/outcome.ts";
import type { Exchange, Headers } from "./http-client.ts";
import { asId, atPointer, parseJson } from "./pointer.ts";

/** How our own record is recognised: notes carry the code in their text, everything else the id in a field. */
export interface Reference {
  step: Step;
  id: OperationId;
  code: OperationCode;
}

export type Verdict =
  | { kind: "settled"; outcome: Outcome }
  /** The record was made, or was there: only its link is missing. */
  | { kind: "recorded"; as: "confirmed" | "already"; status: number; externalId: string | null }
  /** The CRM speaks of an existing record; only the look-up can tell whether it is ours. */
  | { kind: "ask_look_up"; status: number; said: string }
  /** A 403 is about this job or about the credentials; only the probe can tell. */
  | { kind: "ask_probe"; status: number; said: string };

export type ClassifyRules = Pick<HttpStepSettings, "id" | "exists" | "outcomes"> & { canFind: boolean };

/** @param nowMs for a `Retry-After` that names a date */
export function classify(
  exchange: Exchange,
  rules: ClassifyRules,
  reference: Reference,
  nowMs: number,
): Verdict {
  if (exchange.kind === "failed") return settled(failedOutcome(exchange));
  const { status, headers, body } = exchange;
  const told = rules.outcomes.find((rule) => matches(rule, status, body));
  if (told !== undefined) return byWord(told.outcome, exchange, rules, reference, nowMs);
  if (rules.exists !== null && matches(rules.exists, status, body)) {
    return conflict(status, body, rules, rules.exists, reference);
  }
  if (status >= 200 && status < 300) return success(status, headers, body, rules, reference);
  if (status === 403) return { kind: "ask_probe", status, said: body };
  return byWord(generalWord(status), exchange, rules, reference, nowMs);
}

function generalWord(status: number): Outcome["kind"] {
  if (status === 401) return "unauthorised";
  if (status === 429) return "not_applied";
  if (status === 408 || status < 400 || status >= 500) return "unknown";
  return "refused";
}

function byWord(
  word: Outcome["kind"],
  { status, headers, body }: Extract<Exchange, { kind: "answered" }>,
  rules: ClassifyRules,
  reference: Reference,
  nowMs: number,
): Verdict {
  const detail = answerDetail(status, body);
  switch (word) {
    case "confirmed":
      return success(status, headers, body, rules, reference);
    case "already":
      return conflict(status, body, rules, rules.exists, reference);
    case "not_applied":
      return settled({ kind: word, status, detail, retryAfterMs: retryAfterMs(headers, nowMs) });
    case "refused":
    case "unauthorised":
    case "unknown":
      return settled({ kind: word, status, detail });
    default:
      return unreachable(word);
  }
}

function failedOutcome({ left, status, reason }: Extract<Exchange, { kind: "failed" }>): Outcome {
  return left
    ? { kind: "unknown", status, detail: `the request may have been carried out: ${reason}` }
    : { kind: "not_applied", status, detail: `nothing was sent: ${reason}`, retryAfterMs: null };
}

function success(
  status: number,
  headers: Headers,
  body: string,
  rules: ClassifyRules,
  reference: Reference,
): Verdict {
  const externalId = idFrom(rules.id, headers, body, reference);
  if (externalId !== null) return { kind: "recorded", as: "confirmed", status, externalId };
  const detail = `the answer has no id where "${rules.id}" says: ${answerDetail(status, body)}`;
  return settled({ kind: "unknown", status, detail });
}

/** Ours when the answer proves it or the look-up does; a conflict about another record is a refusal. */
function conflict(
  status: number,
  body: string,
  { canFind }: ClassifyRules,
  exists: HttpStepSettings["exists"],
  reference: Reference,
): Verdict {
  const json = parseJson(body);
  const named =
    exists !== null && exists.match !== null && json.readable
      ? atPointer(json.value, exists.match)
      : undefined;
  const foreign = asId(named) !== null && !isOurs(named, reference);
  if (foreign) return settled({ kind: "refused", status, detail: answerDetail(status, body) });
  const proved = isOurs(named, reference);
  const pointer = exists?.id ?? null;
  const externalId =
    proved && pointer !== null && json.readable ? asId(atPointer(json.value, pointer)) : null;
  if (proved && (externalId !== null || !canFind)) {
    return { kind: "recorded", as: "already", status, externalId };
  }
  if (canFind) return { kind: "ask_look_up", status, said: answerDetail(status, body) };
  return settled({ kind: "refused", status, detail: answerDetail(status, body) });
}

/** @param rule a JSON Pointer, `header:<name>` (its last path segment) or `reference` (our own id) */
export function idFrom(rule: string, headers: Headers, body: string, reference: Reference): string | null {
  if (rule === "reference") return reference.id;
  if (rule.startsWith("header:")) {
    return lastPathSegment(headers[rule.slice("header:".length).trim().toLowerCase()]);
  }
  const json = parseJson(body);
  return json.readable ? asId(atPointer(json.value, rule)) : null;
}

function lastPathSegment(location: string | undefined): string | null {
  const path = location?.split(/[?#]/)[0]?.replace(/^[a-z]+:\/\/[^/]*/i, "");
  const segment = path?.split("/").findLast((part) => part !== "");
  if (segment === undefined) return null;
  try {
    return asId(decodeURIComponent(segment));
  } catch {
    return asId(segment); // a stray % sign: the segment is meant as it stands
  }
}

export function isOurs(value: unknown, { step, id, code }: Reference): boolean {
  const text = asId(value);
  if (text === null) return false;
  return step === "note" ? text.includes(code) : text === id;
}

export type Found =
  | { kind: "answered"; ids: string[] }
  | { kind: "not_answered"; status: number | null; detail: string };

/** A look-up counts only if it was answered: everything else says nothing about the record. */
export function readFound(exchange: Exchange, find: FindSettings, reference: Reference): Found {
  if (exchange.kind === "failed") {
    return { kind: "not_answered", status: exchange.status, detail: exchange.reason };
  }
  const { status, body } = exchange;
  const notAnswered = (why: string): Found => ({
    kind: "not_answered",
    status,
    detail: `${why}: ${answerDetail(status, body)}`,
  });
  if (find.items === null && find.none.includes(status)) return { kind: "answered", ids: [] };
  if (status < 200 || status >= 300) return notAnswered("the look-up was not answered");
  const json = parseJson(body);
  if (!json.readable) return notAnswered("the answer can't be read");
  const items = find.items === null ? [json.value] : atPointer(json.value, find.items);
  if (!Array.isArray(items)) return notAnswered(`there is no list at "${find.items}"`);
  const ours =
    find.match === null
      ? items
      : items.filter((item) => isOurs(atPointer(item, find.match ?? ""), reference));
  const ids = ours.map((item) => (find.id === "reference" ? reference.id : asId(atPointer(item, find.id))));
  // A record without an id can be neither linked nor counted as absent.
  if (!ids.every((id) => id !== null)) return notAnswered(`a record has no id at "${find.id}"`);
  return { kind: "answered", ids: [...new Set(ids)] };
}

export function readProbe(exchange: Exchange): Probe {
  if (exchange.kind === "failed") return { kind: "bad", status: exchange.status, detail: exchange.reason };
  const { status, body } = exchange;
  const detail = answerDetail(status, body);
  if (status === 401 || status === 403) return { kind: "refused", status, detail };
  if (status === 429 || status >= 500) return { kind: "bad", status, detail };
  return { kind: "good", status, detail: null };
}

/** Seconds or an HTTP date; whatever else stands there is ignored. The caller caps it. */
export function retryAfterMs(headers: Headers, nowMs: number): number | null {
  const value = headers["retry-after"]?.trim() ?? "";
  if (/^\d{1,9}(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1000);
  const dateMs = / GMT$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) || dateMs <= nowMs ? null : dateMs - nowMs;
}

function matches(rule: AnswerRule, status: number, body: string): boolean {
  return rule.status === status && (rule.body === null || body.includes(rule.body));
}

function answerDetail(status: number, body: string): string {
  const text = body.trim();
  return text === "" ? `HTTP ${status}` : `HTTP ${status}: ${text}`;
}

function settled(outcome: Outcome): Verdict {
  return { kind: "settled", outcome };
}
