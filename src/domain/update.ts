/**
 * The parsed view of what Telegram sent: only the fields that leadonce uses are checked, everything else is stored as
 * it came. A value that Telegram may add tomorrow (an entity type, a whole update kind) is therefore never an error.
 */
import { z } from "zod";
import { asUserId, type BotId, type MessageRef, type UserId } from "./ids.ts";

const userSchema = z.looseObject({
  id: z.int(),
  is_bot: z.boolean().optional(),
  first_name: z.string().optional(),
  last_name: z.string().optional(),
  username: z.string().optional(),
  language_code: z.string().optional(),
});
export type TelegramUser = z.infer<typeof userSchema>;

const chatSchema = z.looseObject({
  id: z.int(),
  type: z.string(),
  title: z.string().optional(),
  username: z.string().optional(),
});

const sharedContactSchema = z.looseObject({
  phone_number: z.string(),
  first_name: z.string().optional(),
  last_name: z.string().optional(),
  user_id: z.int().optional(),
});

/** Seconds since the epoch, in the years that a date can be written in. */
const dateSchema = z.int().min(0).max(253_402_300_799);

const messageSchema = z.looseObject({
  message_id: z.int(),
  date: dateSchema,
  chat: chatSchema,
  from: userSchema.optional(),
  sender_chat: chatSchema.optional(),
  sender_business_bot: userSchema.optional(),
  business_connection_id: z.string().optional(),
  is_automatic_forward: z.boolean().optional(),
  media_group_id: z.string().optional(),
  text: z.string().optional(),
  caption: z.string().optional(),
  contact: sharedContactSchema.optional(),
});
export type TelegramMessage = z.infer<typeof messageSchema>;

/** Update kinds whose content is a message. */
const MESSAGE_KINDS = [
  "message",
  "edited_message",
  "channel_post",
  "edited_channel_post",
  "business_message",
  "edited_business_message",
] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];

const MEMBER_KIND = "my_chat_member";
const TAP_KIND = "callback_query";

const memberSchema = z.looseObject({ from: userSchema, chat: chatSchema });
const tapSchema = z.looseObject({ id: z.string(), from: userSchema });

export type UpdateContent =
  | { kind: MessageKind; message: TelegramMessage }
  | { kind: "my_chat_member"; from: TelegramUser; chatId: number }
  | { kind: "callback_query"; from: TelegramUser }
  /** Known to Telegram, not (yet) to us: stored and ignored. `name` is the update's key. */
  | { kind: "unknown"; name: string };

export interface ParsedUpdate {
  updateId: number | null;
  content: UpdateContent;
}

const idSchema = z
  .int()
  .min(0)
  .max(2 ** 31 - 2);

/** Telegram's number of an element, or null where there is no valid one (signed 32-bit, never negative). */
export function updateIdOf(element: unknown): number | null {
  if (typeof element !== "object" || element === null || !("update_id" in element)) return null;
  const id = idSchema.safeParse(element.update_id);
  return id.success ? id.data : null;
}

/** Names where an element is malformed; never a value of it, since that may be a customer's words. */
export class MalformedUpdateError extends Error {
  override readonly name = "MalformedUpdateError";
}

/** @throws MalformedUpdateError when a part that leadonce uses has another shape than Telegram documents */
export function parseUpdate(element: unknown): ParsedUpdate {
  if (typeof element !== "object" || element === null || Array.isArray(element)) {
    throw new MalformedUpdateError("not an object");
  }
  const updateId = updateIdOf(element);
  if (updateId === null) throw new MalformedUpdateError("update_id is missing or not a valid number");
  const fields: Record<string, unknown> = { ...element };
  for (const kind of MESSAGE_KINDS) {
    if (fields[kind] !== undefined) {
      return { updateId, content: { kind, message: parse(messageSchema, fields[kind], kind) } };
    }
  }
  if (fields[MEMBER_KIND] !== undefined) {
    const { from, chat } = parse(memberSchema, fields[MEMBER_KIND], MEMBER_KIND);
    return { updateId, content: { kind: MEMBER_KIND, from, chatId: chat.id } };
  }
  if (fields[TAP_KIND] !== undefined) {
    return { updateId, content: { kind: TAP_KIND, from: parse(tapSchema, fields[TAP_KIND], TAP_KIND).from } };
  }
  return { updateId, content: { kind: "unknown", name: kindOf(element) } };
}

/** The kind of an element, also of one that can't be parsed. */
export function kindOf(element: unknown): string {
  if (typeof element !== "object" || element === null || Array.isArray(element)) return "malformed";
  const kinds = Object.keys(element).filter((key) => key !== "update_id");
  const known = [...MESSAGE_KINDS, MEMBER_KIND, TAP_KIND].find((kind) => kinds.includes(kind));
  return known ?? kinds[0] ?? "empty";
}

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown, kind: string): z.infer<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const where = result.error.issues.map((issue) => [kind, ...issue.path.map(String)].join("."));
  throw new MalformedUpdateError(`unexpected shape at ${[...new Set(where)].join(", ")}`);
}

export function updateKind(update: ParsedUpdate): string {
  return update.content.kind === "unknown" ? update.content.name : update.content.kind;
}

export function messageRef(botId: BotId, message: TelegramMessage): MessageRef {
  return {
    botId,
    chatId: message.chat.id,
    messageId: message.message_id,
    businessConnectionId: message.business_connection_id ?? null,
  };
}

/**
 * The person who wrote a message; null where it is written in a chat's name (an anonymous admin's `from` is one shared
 * service account, and a channel has none).
 */
export function senderOf(message: TelegramMessage): { user: TelegramUser; userId: UserId } | null {
  if (message.from === undefined || message.sender_chat !== undefined) return null;
  return { user: message.from, userId: asUserId(message.from.id) };
}

export interface Command {
  name: string;
  /** The bot named behind `@`, in lower case. */
  addressee: string | null;
  rest: string;
}

/** `/name@bot rest`, as the whole beginning of a text. */
export function commandOf(message: TelegramMessage): Command | null {
  const match = /^\/([A-Za-z0-9_]{1,64})(?:@([A-Za-z0-9_]+))?(?:\s+([\s\S]*))?$/.exec(message.text ?? "");
  if (match === null) return null;
  return {
    name: (match[1] ?? "").toLowerCase(),
    addressee: match[2]?.toLowerCase() ?? null,
    rest: match[3]?.trim() ?? "",
  };
}
