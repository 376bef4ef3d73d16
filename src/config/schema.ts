/**
 * The whole of design §8 as a zod schema: every key with its default, in TOML's own spelling. What is not built yet is
 * known too: it may be left out, and is named plainly where it is asked for.
 */
import { z } from "zod";
import { OUTCOMES } from "../domain/outcome.ts";
import { CHAT_CONDITIONS, SAFETY_CLASSES, UPDATE_KINDS } from "../domain/settings.ts";
import { duration, notBuilt, rate } from "./units.ts";

const LEAVE_OUT = "Leave it out; it comes with a later version.";

/** A text that may be `env:NAME` or `file:PATH`; it is resolved only by commands that need it. */
const text = z.string();
const name = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,62}$/, "may hold letters, digits, _ and - and begins with a letter");
const pointer = z
  .string()
  .regex(/^(\/.*)?$/, 'is not a JSON Pointer: write "/data/id", or "" for the whole answer');
const idRule = z
  .string()
  .regex(
    /^(\/.*|header:\s*[A-Za-z0-9-]+|reference)?$/,
    'is none of: a JSON Pointer ("/id"), "header:Location", "reference"',
  );
const method = z
  .string()
  .regex(/^[A-Za-z]{3,10}$/, "is not an HTTP method")
  .transform((word) => word.toUpperCase());
const headers = z.record(z.string(), text).default({});
const status = z.int().min(100).max(599);

const requestShape = {
  url: text.min(1, "is empty"),
  headers,
  body: z.union([text, z.record(z.string(), z.unknown()), z.array(z.unknown())]).optional(),
  form: z.record(z.string(), z.unknown()).optional(),
  send_empty: z.boolean().default(false),
};

const find = z.strictObject({
  ...requestShape,
  method: method.default("GET"),
  items: pointer.optional(),
  id: idRule,
  match: pointer.optional(),
  none: z.array(status).default([404]),
});
export type FindConfig = z.infer<typeof find>;

const exists = z.strictObject({
  status,
  body: z.string().optional(),
  id: pointer.optional(),
  match: pointer.optional(),
});

const outcome = z.strictObject({ status, body: z.string().optional(), outcome: z.enum(OUTCOMES) });

const leadStep = z.strictObject({
  ...requestShape,
  method: method.default("POST"),
  id: idRule,
  link: text.optional(),
  safety: z.enum(SAFETY_CLASSES).optional(),
  exists: exists.optional(),
  outcomes: z.array(outcome).default([]),
  find: find.optional(),
});
const noteStep = leadStep.extend({ on_unknown: z.enum(["reconcile", "repeat"]).default("reconcile") });
export type StepConfig = z.infer<typeof leadStep> & { on_unknown?: "reconcile" | "repeat" };

const retry = z
  .strictObject({
    first: duration({ min: "100ms", max: "1h" }).prefault("1s"),
    max: duration({ min: "1s", max: "1d" }).prefault("15m"),
    give_up_after: duration({ min: "1m" }).prefault("7d"),
  })
  .prefault({});

const reconcile = z
  .strictObject({
    checks: z
      .array(duration({ max: "30d" }))
      .min(1, "needs at least one delay")
      .prefault(["15s", "2m", "10m", "1h"]),
    assume_absent_after: duration({ min: "1m" }).optional(),
  })
  .prefault({});

const laterSteps = {
  contact: notBuilt("contacts apart from leads", LEAVE_OUT).optional(),
  update: notBuilt("updating a lead's contact", LEAVE_OUT).optional(),
  message: notBuilt("messages to Telegram", LEAVE_OUT).optional(),
};

export const httpDestination = z.strictObject({
  kind: z.literal("http"),
  key: name.optional(),
  base_url: text.optional(),
  headers,
  safety: z.enum(SAFETY_CLASSES).optional(),
  key_valid_for: duration({ min: "1m" }).optional(),
  timeout: duration({ min: "1s", max: "10m" }).prefault("20s"),
  lease: duration({ min: "11s", max: "1h" }).prefault("60s"),
  concurrency: z.int().min(1).max(200).default(4),
  rate: rate.optional(),
  unknown_wait: duration({ max: "1h" }).prefault("30s"),
  retry,
  reconcile,
  probe: text.optional(),
  proxy: text.optional(),
  secrets: z.record(name, text).default({}),
  lead: leadStep,
  note: noteStep.optional(),
  ...laterSteps,
});
export type HttpDestinationConfig = z.infer<typeof httpDestination>;

export const ledgerDestination = z.strictObject({ kind: z.literal("ledger"), key: name.optional() });

export const KNOWN_LATER = [
  "hubspot",
  "pipedrive",
  "bitrix24",
  "amocrm",
  "kommo",
  "salesforce",
  "zoho",
  "odoo",
  "espocrm",
];

const telegram = z
  .strictObject({
    token: text.default("env:TELEGRAM_BOT_TOKEN"),
    api_root: z
      .url({ protocol: /^https?$/, message: "is not a URL that begins with https:// or http://" })
      .default("https://api.telegram.org"),
    poll_timeout: duration({ min: "1s", max: "50s" }).prefault("50s"),
    take_over_webhook: z.boolean().default(false),
    proxy: text.optional(),
  })
  .prefault({});

const storage = z
  .strictObject({
    path: z.string().min(1).default("data/leadonce.db"),
    keep_content: duration({ min: "1h" }).prefault("30d"),
    keep_keys: duration({ min: "48h" }).prefault("400d"),
    keep_leads: duration({ min: "1d" }).optional(),
  })
  .prefault({});

const web = z.strictObject({
  listen: z
    .literal("off", { error: 'not built yet: the dashboard. Leave it out, or write "off"' })
    .optional(),
});

const when = z
  .strictObject({
    update: z
      .array(
        z.literal("message", {
          error: ({ input }) =>
            `not built yet: ${[...UPDATE_KINDS].some((kind) => kind === input) ? "actions on" : "update kind"} ${JSON.stringify(input)}. This version takes "message"`,
        }),
      )
      .min(1)
      .default(["message"]),
    chat: z.enum(CHAT_CONDITIONS).default("private"),
  })
  .prefault({});

const REPEAT_LATER = 'comes with the next version; write repeat = "each" or leave it out';

export const action = z.strictObject({
  name: name.default("enquiry"),
  key: name.optional(),
  kind: z
    .literal("lead", {
      error: ({ input }) =>
        `not built yet: actions of kind ${JSON.stringify(input)}. This version makes leads`,
    })
    .default("lead"),
  when,
  repeat: z
    .union([z.literal("each"), z.strictObject({ rule: z.literal("each") })], {
      error: ({ input }) => `not built yet: repeat = ${JSON.stringify(input)} ${REPEAT_LATER}`,
    })
    .default("each"),
  to: z.array(name).min(1, "names no destination").optional(),
  gather: notBuilt("gather", 'Leave it out; it does not apply to repeat = "each".').optional(),
  reply: notBuilt("replies", LEAVE_OUT).optional(),
  reply_late_within: notBuilt("replies", LEAVE_OUT).optional(),
  ask_phone: notBuilt("asking for the phone", LEAVE_OUT).optional(),
});
export type ActionConfig = z.infer<typeof action>;

/** `crm` is checked one destination at a time, so that a wrong one does not hide the others' mistakes. */
export const fileSchema = z.strictObject({
  telegram,
  storage,
  web: web.prefault({}),
  operators: notBuilt("the staff chat", LEAVE_OUT).optional(),
  hours: notBuilt("opening hours", LEAVE_OUT).optional(),
  crm: z.record(name, z.unknown()).default({}),
  actions: z.array(action).default([]),
});
export type FileConfig = z.infer<typeof fileSchema>;
