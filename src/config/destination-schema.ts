/** `[crm.NAME]` as it is written (design §8): every key with its default. Rules between keys are in `rules.ts`. */
import { z } from "zod";
import type { BodyValue } from "../domain/http-settings.ts";
import { OUTCOMES } from "../domain/outcome.ts";
import { SAFETY_CLASSES } from "../domain/settings.ts";
import {
  choice,
  count,
  duration,
  flag,
  later,
  method,
  name,
  notBuilt,
  orNull,
  rate,
  refuse,
  secret,
  table,
  text,
} from "./fields.ts";
import { isTree } from "./tree.ts";

/** CRMs that later versions know by themselves; any of them can be described with kind = "http" today. */
const LATER_KINDS = [
  "amocrm",
  "bitrix24",
  "espocrm",
  "hubspot",
  "odoo",
  "pipedrive",
  "salesforce",
  "suitecrm",
  "twenty",
  "zoho",
] as const;

export const DEFAULTS = {
  timeoutMs: 20_000,
  leaseMs: 60_000,
  concurrency: 4,
  rate: { count: 10, perMs: 1000 },
  retry: { firstMs: 1000, maxMs: 15 * 60_000, giveUpAfterMs: 7 * 86_400_000 },
} as const;

const status = () => count(100, 599);

const texts = () =>
  z.record(z.string(), text(), { error: 'it must be a table of texts, such as { Accept = "text/html" }' });

const isBodyValue = (value: unknown): value is BodyValue => value !== undefined && typeof value !== "bigint";

/** TOML holds nothing that a body can't: texts, numbers, booleans, dates, lists and tables of them. */
const body = () => z.custom<BodyValue>(isBodyValue, { error: "it must be a table, a list or a text" });

const form = () =>
  z.custom<Record<string, BodyValue>>(isTree, { error: 'it must be a table, such as { name = "…" }' });

const request = {
  url: text(),
  headers: texts().default({}),
  body: orNull(body()),
  form: orNull(form()),
};

const find = table({
  ...request,
  method: orNull(method()),
  items: orNull(text()),
  id: text(),
  match: orNull(text()),
  none: orNull(z.array(status(), { error: "it must be a list of statuses, such as [404]" })),
});

const exists = table({
  status: status(),
  body: orNull(text()),
  id: orNull(text()),
  match: orNull(text()),
});

const outcome = table({ status: status(), body: orNull(text()), outcome: choice(OUTCOMES) });

const step = {
  ...request,
  method: method().default("POST"),
  id: text(),
  link: orNull(text()),
  exists: orNull(exists),
  outcomes: z
    .array(outcome, { error: "it must be a list of tables: [{ status = 503, outcome = … }]" })
    .default([]),
  send_empty: flag().default(false),
  safety: orNull(choice(SAFETY_CLASSES)),
  find: orNull(find),
};

const lead = table({
  ...step,
  on_unknown: z
    .unknown()
    .optional()
    .transform((written, context): "reconcile" => {
      if (written === undefined) return "reconcile";
      return refuse(
        context,
        "a lead is never repeated blindly",
        "leave it out; only a note may have on_unknown",
      );
    }),
});

const note = table({ ...step, on_unknown: choice(["reconcile", "repeat"]).default("reconcile") });

const retry = table({
  first: duration({ min: "10ms", max: "1h" }).default(DEFAULTS.retry.firstMs),
  max: duration({ min: "10ms", max: "1d" }).default(DEFAULTS.retry.maxMs),
  give_up_after: duration({ min: "1s", max: "90d" }).default(DEFAULTS.retry.giveUpAfterMs),
});

const reconcile = table({
  checks: z
    .array(duration({ min: "10ms", max: "30d" }), {
      error: 'it must be a list of lengths of time: ["15s", "2m"]',
    })
    .default([15_000, 2 * 60_000, 10 * 60_000, 60 * 60_000]),
  assume_absent_after: orNull(duration({ min: "1s", max: "90d" })),
});

const http = table({
  kind: z.literal("http"),
  key: orNull(name()),
  base_url: orNull(text()),
  headers: texts().default({}),
  safety: orNull(choice(SAFETY_CLASSES)),
  key_valid_for: orNull(duration({ min: "1s", max: "400d" })),
  timeout: duration({ min: "50ms", max: "10m" }).default(DEFAULTS.timeoutMs),
  lease: duration({ min: "10s", max: "1h" }).default(DEFAULTS.leaseMs),
  concurrency: count(1, 100).default(DEFAULTS.concurrency),
  rate: rate().default(DEFAULTS.rate),
  unknown_wait: duration({ min: "0s", max: "1h" }).default(30_000),
  retry: retry.prefault({}),
  reconcile: reconcile.prefault({}),
  probe: orNull(text()),
  proxy: orNull(secret()),
  secrets: z
    .record(z.string().regex(/^([A-Za-z_][\w-]*|(env|file):.+)$/), secret(), {
      error: (issue) =>
        issue.code === "invalid_key"
          ? "the name of a secret begins with a letter and has letters, digits, - and _"
          : "it must be a table of texts",
    })
    .default({}),
  lead: orNull(lead),
  note: orNull(note),
  contact: later('the step "contact"'),
  update: later('the step "update"'),
  message: later('the step "message"'),
});

const ledger = table({ kind: z.literal("ledger"), key: orNull(name()) });

const unbuilt = z.looseObject({ kind: z.literal(LATER_KINDS) }).transform(({ kind }, context): never => {
  const hint = 'describe its API with kind = "http", as service.example.conf does';
  return refuse(context, notBuilt(`kind = "${kind}"`), hint, ["kind"]);
});

export const destination = z.discriminatedUnion("kind", [http, ledger, unbuilt], {
  error: ({ input }) => (isTree(input) ? undefined : "it must be a table: [crm.NAME]"),
});

export type DestinationTable = z.output<typeof destination>;
export type HttpTable = z.output<typeof http>;
export type StepTable = z.output<typeof lead> | z.output<typeof note>;
export type FindTable = z.output<typeof find>;
