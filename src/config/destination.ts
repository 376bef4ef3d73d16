/** One `[crm.NAME]`, from its keys to what the core and the connector are given. */
import type { FindSettings, HttpDestinationSettings, HttpStepSettings } from "../domain/http-settings.ts";
import { asDestinationKey } from "../domain/ids.ts";
import type { DestinationSettings, SafetyClass, StepSettings } from "../domain/settings.ts";
import {
  DEFAULTS,
  type DestinationTable,
  type FindTable,
  type HttpTable,
  type StepTable,
} from "./destination-schema.ts";
import type { Secret } from "./secret.ts";

/** A destination without what depends on secrets. */
export interface DestinationConfig {
  settings: Omit<DestinationSettings, "fingerprint">;
  /** Null for a ledger, which sends nothing. */
  http: HttpConfig | null;
}

export interface HttpConfig {
  settings: Omit<HttpDestinationSettings, "proxy">;
  secrets: Readonly<Record<string, Secret>>;
  proxy: Secret | null;
}

/** The steps that this version knows. */
export type BuiltStep = "lead" | "note";

/** How long a CRM keeps idempotency keys where nothing is said. */
const KEY_VALID_FOR_MS = 24 * 3_600_000;

export function destinationConfig(name: string, table: DestinationTable): DestinationConfig {
  const key = asDestinationKey(table.key ?? name);
  if (table.kind === "ledger") {
    return { settings: { ...DEFAULTS, key, name, kind: "ledger", steps: {} }, http: null };
  }
  return {
    settings: {
      key,
      name,
      kind: "http",
      concurrency: table.concurrency,
      rate: table.rate,
      timeoutMs: table.timeout,
      leaseMs: table.lease,
      retry: retrySettings(table),
      steps: forEachStep(table, (step, own) => stepSettings(step, own, table)),
    },
    http: {
      settings: {
        name,
        baseUrl: table.base_url,
        headers: table.headers,
        secretNames: Object.keys(table.secrets),
        timeoutMs: table.timeout,
        probe: table.probe,
        steps: forEachStep(table, (step, own) => httpStep(step, own, table)),
      },
      secrets: table.secrets,
      proxy: table.proxy,
    },
  };
}

export function stepsOf(table: HttpTable): [BuiltStep, StepTable][] {
  const steps: [BuiltStep, StepTable | null][] = [
    ["lead", table.lead],
    ["note", table.note],
  ];
  return steps.flatMap(([step, own]) => (own === null ? [] : [[step, own]]));
}

function forEachStep<Settings>(
  table: HttpTable,
  make: (step: BuiltStep, own: StepTable) => Settings,
): Partial<Record<BuiltStep, Settings>> {
  const steps: Partial<Record<BuiltStep, Settings>> = {};
  for (const [step, own] of stepsOf(table)) steps[step] = make(step, own);
  return steps;
}

/**
 * A step's own class, else that of the destination, else what its look-up allows. A note that has no class of its own
 * takes the destination's only where that holds for it too: a CRM has no unique field for notes, and a wrong claim
 * that it deduplicates makes a second one.
 */
export function safetyOf(step: BuiltStep, own: StepTable, table: HttpTable): SafetyClass {
  const byLookUp = own.find === null ? "none" : "search";
  if (own.safety !== null) return own.safety;
  if (step !== "note" || table.safety === null) return table.safety ?? byLookUp;
  switch (table.safety) {
    case "idempotency-key":
      return sendsReference(table.safety, own, table) ? table.safety : byLookUp;
    case "external-id":
      return isUpsert(own) || own.exists !== null ? table.safety : byLookUp;
    case "search":
      return byLookUp;
    case "none":
      return "none";
  }
}

export function isUpsert({ method }: StepTable): boolean {
  return method === "PUT" || method === "PATCH";
}

/** Whether the request holds what its class rests on. */
export function sendsReference(safety: SafetyClass, own: StepTable, table: HttpTable): boolean {
  const { url, headers, body, form } = own;
  const parts = [table.headers, url, headers, body, form];
  return safety === "idempotency-key" ? names(parts, "operation.key") : namesReference(parts);
}

/** Whether a template among the parts names something by which one record can be told from all others. */
export function namesReference(parts: readonly unknown[]): boolean {
  return ["operation", "message.ref"].some((variable) => names(parts, variable));
}

function names(parts: readonly unknown[], variable: string): boolean {
  const pattern = new RegExp(`\\{[{%][^}]*\\b${variable.replace(".", "\\.")}\\b`);
  return pattern.test(JSON.stringify(parts));
}

function stepSettings(step: BuiltStep, own: StepTable, table: HttpTable): StepSettings {
  const safety = safetyOf(step, own, table);
  return {
    safety,
    keyValidForMs: safety === "idempotency-key" ? (table.key_valid_for ?? KEY_VALID_FOR_MS) : null,
    unknownWaitMs: table.unknown_wait,
    retry: retrySettings(table),
    checksMs: table.reconcile.checks,
    assumeAbsentAfterMs: table.reconcile.assume_absent_after,
    onUnknown: own.on_unknown,
    canFind: own.find !== null,
  };
}

function retrySettings({ retry }: HttpTable) {
  return { firstMs: retry.first, maxMs: retry.max, giveUpAfterMs: retry.give_up_after };
}

function httpStep(step: BuiltStep, own: StepTable, table: HttpTable): HttpStepSettings {
  const { method, url, headers, body, form, id, link, exists, outcomes, find } = own;
  return {
    method,
    url,
    headers,
    body,
    form,
    sendEmpty: own.send_empty,
    safety: safetyOf(step, own, table),
    id,
    link,
    exists,
    outcomes,
    find: find === null ? null : findSettings(find),
    match: null,
  };
}

function findSettings({ method, none, ...find }: FindTable): FindSettings {
  const hasBody = find.body !== null || find.form !== null;
  return { ...find, method: method ?? (hasBody ? "POST" : "GET"), none: none ?? [404], sendEmpty: false };
}
