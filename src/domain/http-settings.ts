/**
 * A destination of kind `http` as the configuration describes it (design §8), read and with defaults filled in, as
 * plain values: `config/` makes them, `crm/` turns them into requests. Texts marked "template" are Liquid.
 */
import type { Step } from "./jobs.ts";
import type { OutcomeKind } from "./outcome.ts";
import type { SafetyClass } from "./settings.ts";

/** What TOML can hold. Strings are templates. */
export type BodyValue =
  | string
  | number
  | boolean
  | Date
  | readonly BodyValue[]
  | { readonly [name: string]: BodyValue };

export interface HttpRequestSettings {
  method: string;
  /** Template; relative to the destination's `base_url`, or absolute. */
  url: string;
  /** Values are templates. */
  headers: Readonly<Record<string, string>>;
  /** A table or list is sent as JSON, a text (template) as it stands; null: no body. */
  body: BodyValue | null;
  /** Sent URL-encoded, in place of `body`. */
  form: Readonly<Record<string, BodyValue>> | null;
  /** Keeps members that render to nothing. */
  sendEmpty: boolean;
}

/** Finds a record again by our reference. */
export interface FindSettings extends HttpRequestSettings {
  /** JSON Pointer to the list of hits; null: the answer is the record itself. */
  items: string | null;
  /** Where a hit holds its id: JSON Pointer, or `reference` for our own id. */
  id: string;
  /** JSON Pointer to what must equal `operation.id` (in notes: contain `operation.code`); null: every hit is ours. */
  match: string | null;
  /** Statuses that say "no such record" where the answer is the record itself. */
  none: readonly number[];
}

/** An answer by its status and, where `body` is given, a text that it contains. */
export interface AnswerRule {
  status: number;
  body: string | null;
}

/** How the CRM says that a record with our reference exists. */
export interface ExistsRule extends AnswerRule {
  /** JSON Pointer to the existing record's id; null: only the look-up knows it. */
  id: string | null;
  /** JSON Pointer to what proves that the record is ours; null: the look-up proves it. */
  match: string | null;
}

export interface OutcomeRule extends AnswerRule {
  outcome: OutcomeKind;
}

export interface HttpStepSettings extends HttpRequestSettings {
  safety: SafetyClass;
  /** JSON Pointer into the answer (`""`: all of it), `header:<name>` (its last path segment) or `reference`. */
  id: string;
  /** Template of the address where people see the record; null: none. */
  link: string | null;
  exists: ExistsRule | null;
  /** First match wins, before the general rules. */
  outcomes: readonly OutcomeRule[];
  find: FindSettings | null;
  /** Only for `contact`: looks for an existing customer first; exactly one hit is linked instead of created. */
  match: FindSettings | null;
}

export interface HttpDestinationSettings {
  /** Its name in the configuration file: `sales` in `[crm.sales]`. */
  name: string;
  /** Template; null: every URL is absolute. */
  baseUrl: string | null;
  /** On every request; values are templates. */
  headers: Readonly<Record<string, string>>;
  /** The names that templates may use under `secrets`; the values are handed over apart. */
  secretNames: readonly string[];
  timeoutMs: number;
  /** `http://…`, `https://…` or `socks5://…`; may hold a password, so it is never shown. */
  proxy: string | null;
  /** URL (template) that tells whether the destination works; null: a look-up or the origin is asked. */
  probe: string | null;
  steps: Partial<Record<Step, HttpStepSettings>>;
}
