/**
 * What must hold between the keys of a destination (design §6, §8): where a class of safety claims what the requests
 * can't keep, P2 and P3 would be empty words.
 */
import {
  type BuiltStep,
  isUpsert,
  namesReference,
  safetyOf,
  sendsReference,
  stepsOf,
} from "./destination.ts";
import type { FindTable, HttpTable, StepTable } from "./destination-schema.ts";
import { formatDuration } from "./units.ts";

export interface Finding {
  path: string;
  /** As it may be shown. */
  value: string | null;
  message: string;
  hint: string;
  /** Other places on which it rests: where one of them is faulty by itself, the finding may only repeat that. */
  reads: readonly string[];
}

/** Between the latest end of a request and that of its lease there must be time to write down how it ended. */
const LEASE_MARGIN_MS = 10_000;

export function* destinationRules(path: string, table: HttpTable): Generator<Finding> {
  const { timeout, lease, retry, reconcile } = table;
  if (lease < timeout + LEASE_MARGIN_MS) {
    yield {
      path: `${path}.lease`,
      value: quoted(lease),
      message: `it must exceed timeout (${formatDuration(timeout)}) by 10s`,
      hint: `write lease = ${quoted(timeout + LEASE_MARGIN_MS)} or more`,
      reads: [`${path}.timeout`],
    };
  }
  if (retry.first > retry.max) {
    yield {
      path: `${path}.retry.first`,
      value: quoted(retry.first),
      message: `it is longer than max (${formatDuration(retry.max)})`,
      hint: "waits begin with first and grow up to max",
      reads: [`${path}.retry.max`],
    };
  }
  if (reconcile.checks.some((delay, index) => delay <= (reconcile.checks[index - 1] ?? 0))) {
    yield {
      path: `${path}.reconcile.checks`,
      value: null,
      message: "each delay must be longer than the one before",
      hint: "all of them count from the unknown attempt",
      reads: [],
    };
  }
  const absent = reconcile.assume_absent_after;
  if (absent !== null && absent <= timeout) {
    yield {
      path: `${path}.reconcile.assume_absent_after`,
      value: quoted(absent),
      message: `it must exceed timeout (${formatDuration(timeout)})`,
      hint: "a request that timed out may still be running in the CRM and land later",
      reads: [`${path}.timeout`],
    };
  }
  const classes = stepsOf(table).map(([step, own]) => safetyOf(step, own, table));
  if (table.key_valid_for !== null && !classes.includes("idempotency-key")) {
    yield {
      path: `${path}.key_valid_for`,
      value: quoted(table.key_valid_for),
      message: 'it goes with safety = "idempotency-key" alone',
      hint: "leave it out, or write that class if the CRM honours a key",
      reads: [`${path}.safety`, `${path}.lead.safety`, `${path}.note.safety`],
    };
  }
  if (table.lead === null) {
    yield {
      path: `${path}.lead`,
      value: null,
      message: "it is missing",
      hint: `say how a lead is made: [${path}.lead] with url and id`,
      reads: [`${path}.lead`],
    };
  }
  for (const [step, own] of stepsOf(table)) yield* stepRules(path, step, own, table);
}

function* stepRules(parent: string, step: BuiltStep, own: StepTable, table: HttpTable): Generator<Finding> {
  const path = `${parent}.${step}`;
  yield* safetyRules(parent, step, own, table);
  const safety = safetyOf(step, own, table);
  if (safety !== "none" && !sendsReference(safety, own, table)) {
    yield {
      path,
      value: null,
      ...(safety === "idempotency-key"
        ? {
            message: `safety "${safety}" rests on a key, which this request does not send`,
            hint: "send {{ operation.key }} in the header that the CRM documents",
          }
        : {
            message: `safety "${safety}" rests on our reference, which this request does not send`,
            hint: `put {{ operation.${step === "note" ? "code" : "id"} }} into its body`,
          }),
      reads: [`${parent}.safety`],
    };
  }
  if (table.base_url === null && isRelative(own.url)) {
    yield {
      path: `${path}.url`,
      value: null,
      message: "it is relative, and there is no base_url",
      hint: `write the whole address, or ${parent}.base_url`,
      reads: [`${parent}.base_url`],
    };
  }
  if (own.exists !== null && own.exists.match === null && own.find === null) {
    yield {
      path: `${path}.exists`,
      value: null,
      message: "it does not prove that the existing record is ours",
      hint: `add match, the place of our reference in the answer, or [${path}.find]`,
      reads: [`${path}.find`],
    };
  }
  if (own.body !== null && own.form !== null) yield formBesideBody(path);
  if (own.find !== null) yield* findRules(`${path}.find`, own.find);
}

function* safetyRules(parent: string, step: BuiltStep, own: StepTable, table: HttpTable): Generator<Finding> {
  const path = `${parent}.${step}`;
  const safety = safetyOf(step, own, table);
  const at = { path: `${own.safety === null ? parent : path}.safety`, value: `"${safety}"` };
  if (safety === "search" && own.find === null) {
    yield {
      ...at,
      message: `it needs a look-up by our reference: [${path}.find]`,
      hint: 'add one, or write safety = "none"',
      reads: [`${path}.find`],
    };
  }
  if (safety === "external-id" && !isUpsert(own) && own.exists === null && own.find === null) {
    yield {
      ...at,
      message: `with method ${own.method} a conflict has to lead to the existing record`,
      hint: `add ${path}.exists or [${path}.find], or use PUT or PATCH if the CRM upserts`,
      reads: [`${path}.method`, `${path}.exists`, `${path}.find`],
    };
  }
}

function* findRules(path: string, find: FindTable): Generator<Finding> {
  if (find.body !== null && find.form !== null) yield formBesideBody(path);
  if (find.none !== null && find.items !== null) {
    yield {
      path: `${path}.none`,
      value: null,
      message: "it has no effect beside items",
      hint: "leave it out: an empty list under items says that there is no such record",
      reads: [`${path}.items`],
    };
  }
  if (find.match === null && !namesReference([find.url, find.headers, find.body, find.form])) {
    yield {
      path: `${path}.url`,
      value: null,
      message: "it does not ask for our reference, so any record would count as found",
      hint: "put {{ operation.id | url_encode }} into it, or add match",
      reads: ["headers", "body", "form", "match"].map((key) => `${path}.${key}`),
    };
  }
}

/** Where it begins with a template, only its value tells. */
function isRelative(url: string): boolean {
  return !/^\s*(https?:\/\/|\{[{%])/i.test(url);
}

function formBesideBody(path: string): Finding {
  return {
    path: `${path}.form`,
    value: null,
    message: "a request has either form or body",
    hint: "leave one of them out",
    reads: [`${path}.body`],
  };
}

function quoted(ms: number): string {
  return `"${formatDuration(ms)}"`;
}
