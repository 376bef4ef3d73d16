/**
 * The whole file as it is written (design §8), every key with its default. Keys of later versions are known from the
 * start: left out or off they are accepted, asked for they are named as not built yet.
 */
import { z } from "zod";
import { CHAT_CONDITIONS } from "../domain/settings.ts";
import { destination } from "./destination-schema.ts";
import {
  choice,
  chosen,
  duration,
  flag,
  httpUrl,
  later,
  NAME_ERROR,
  name,
  notBuilt,
  orNull,
  refuse,
  secret,
  table,
  text,
} from "./fields.ts";
import { isTree } from "./tree.ts";

const DAY_MS = 86_400_000;

const telegram = table({
  token: secret(),
  api_root: httpUrl().default("https://api.telegram.org"),
  poll_timeout: duration({ min: "1s", max: "50s" }).default(50_000),
  take_over_webhook: flag().default(false),
  proxy: orNull(secret()),
});

const keepKeys = duration({ min: "1ms", max: "4000d" }).transform((ms, context) => {
  if (ms >= 2 * DAY_MS) return ms;
  return refuse(
    context,
    "it is less than 48h: Telegram may deliver a message again for 24 h, and a key forgotten by then makes a second lead",
    'write "48h" or more',
  );
});

const storage = table({
  path: text().min(1, { error: "it must be the path of a file" }).default("data/leadonce.db"),
  keep_content: duration({ min: "1h", max: "4000d" }).default(30 * DAY_MS),
  keep_keys: keepKeys.default(400 * DAY_MS),
  keep_leads: later("keep_leads: what only a ledger holds stays for ever", ["forever"]),
});

const web = table({ listen: later("the web page", ["off"]) });

const operators = table({
  chat_id: later("alerts and buttons in a Telegram chat"),
  user_ids: later("alerts and buttons in a Telegram chat"),
});

const LATER_UPDATES = [
  "callback_query",
  "channel_post",
  "edited_channel_post",
  "business_message",
  "edited_business_message",
  "business_connection",
  "poll",
  "poll_answer",
  "pre_checkout_query",
  "shipping_query",
  "my_chat_member",
  "chat_member",
  "chat_join_request",
  "inline_query",
  "message_reaction",
];

const updateKind = text().transform((written, context) => {
  if (written === "edited_message") {
    const hint = 'leave it out and write update = ["message"]';
    return refuse(
      context,
      "an edit belongs to the message that it changes and starts nothing by itself",
      hint,
    );
  }
  return chosen(written, ["message"], LATER_UPDATES, context);
});

const when = table({
  update: z
    .array(updateKind, { error: 'it must be a list, such as ["message"]' })
    .min(1, { error: 'it names no kind of update: write ["message"]' })
    .default(["message"]),
  chat: choice(
    CHAT_CONDITIONS.filter((chat) => chat !== "channel"),
    ["channel"],
  ).default("private"),
});

/** `"each"`, or the same as a table. */
const repeat = z.unknown().transform((written, context): { rule: "each" } => {
  const rule = isTree(written) ? written.rule : written;
  if (rule === "each" && (!isTree(written) || Object.keys(written).length === 1)) return { rule };
  if (rule === "extend" || rule === "once") {
    const hint = 'it comes with the next version; write repeat = "each" or leave it out';
    return refuse(context, notBuilt(`repeat = "${rule}"`), hint);
  }
  return refuse(context, "it is no rule for repeats", 'write repeat = "each" or leave it out');
});

const leadAction = table({
  kind: z.literal("lead"),
  name: name(),
  key: orNull(name()),
  when: when.prefault({}),
  repeat: repeat.prefault("each"),
  gather: later("gather", ["off", "0s", false]),
  to: orNull(
    z
      .array(text(), { error: 'it must be a list of destinations, such as ["sales"]' })
      .min(1, { error: "it names no destination; left out, every destination takes the lead" }),
  ),
  reply: later("reply", ["", "off", false]),
  ask_phone: later("ask_phone", ["off", false]),
  reply_late_within: later("reply_late_within"),
});

const LATER_ACTIONS = [
  "note",
  "update",
  "contact",
  "registration",
  "vote",
  "order",
  "reward",
  "reminder",
  "reply",
  "ignore",
] as const;

const laterAction = z
  .looseObject({ kind: z.literal(LATER_ACTIONS) })
  .transform(({ kind }, context): never => {
    const hint = 'this version knows kind = "lead"; leave the action out';
    return refuse(context, notBuilt(`kind = "${kind}"`), hint, ["kind"]);
  });

const action = z.discriminatedUnion("kind", [leadAction, laterAction], {
  error: ({ input }) => (isTree(input) ? undefined : "it must be a table: [[actions]]"),
});

export const document = table({
  telegram,
  storage: storage.prefault({}),
  web: web.prefault({}),
  operators: operators.prefault({}),
  crm: z
    .record(name(), destination, {
      error: ({ code }) =>
        code === "invalid_key" ? NAME_ERROR : "it must be a table of destinations: [crm.NAME]",
    })
    .default({}),
  actions: z.array(action, { error: "it must be a list of tables: [[actions]]" }).default([]),
});

export type Document = z.output<typeof document>;
export type ActionTable = z.output<typeof leadAction>;
