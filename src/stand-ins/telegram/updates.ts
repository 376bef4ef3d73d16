/**
 * What people do in Telegram, as updates without an id: they write, tap a button, edit. Shaped like the Bot API's own; any
 * field can be added or replaced, so that contacts, photos, albums and group chats need no function of their own.
 */

export interface Person {
  id: number;
  first_name: string;
  last_name?: string;
  username?: string;
  language_code?: string;
}

export interface Chat {
  id: number;
  type: "private" | "group" | "supergroup" | "channel";
  [field: string]: unknown;
}

export interface Message {
  message_id: number;
  /** Seconds since the epoch. */
  date: number;
  chat: Chat;
  [field: string]: unknown;
}

/** One update, with or without its id: the kind is the name of the other member. */
export type UpdateContent = Readonly<Record<string, unknown>>;
export type Update = UpdateContent & { readonly update_id: number };
export type MessageUpdate = Update & { readonly message: Message };

export interface Words {
  from: Person;
  text?: string;
  /** Where, if not in the private chat with the bot. */
  chat?: Chat;
  /** Seconds since the epoch; now by default. */
  date?: number;
  /** Any other field of a message: `contact`, `photo`, `caption`, `media_group_id`, `reply_to_message`… */
  [field: string]: unknown;
}

export interface Tap {
  from: Person;
  data: string;
  /** The message under which the button is, as sendMessage returned it, or its id in the private chat. */
  message: Message | number;
  [field: string]: unknown;
}

export function messageFrom(words: Words, messageId: number, nowS: number): Message {
  const { from, chat, date, text, ...fields } = words;
  return {
    message_id: messageId,
    from: user(from),
    chat: chat ?? privateChat(from),
    date: date ?? nowS,
    ...(text !== undefined && { text, ...commandEntity(text) }),
    ...fields,
  };
}

export function editedMessage(message: Message, change: Record<string, unknown>, nowS: number): Message {
  return { ...message, edit_date: nowS, ...change };
}

/** `message.date` 0 marks a message that the server no longer has, known by its id alone. */
export function callbackQueryFrom(tap: Tap, serial: number): Record<string, unknown> & { id: string } {
  const { from, data, message, ...fields } = tap;
  return {
    // A 64-bit number in a string, too large for a JavaScript number: who converts it, breaks it.
    id: String(4_611_686_018_427_387_904n + BigInt(serial)),
    from: user(from),
    message:
      typeof message === "number" ? { message_id: message, chat: privateChat(from), date: 0 } : message,
    chat_instance: String(-7_205_759_403_792_793_600n - BigInt(from.id)),
    data,
    ...fields,
  };
}

export function privateChat(person: Person): Chat {
  const { id, first_name, last_name, username } = person;
  return {
    id,
    first_name,
    ...(last_name !== undefined && { last_name }),
    ...(username !== undefined && { username }),
    type: "private",
  };
}

function commandEntity(text: string): { entities?: unknown[] } {
  const command = /^\/[A-Za-z0-9_@]+/.exec(text)?.[0];
  return command === undefined
    ? {}
    : { entities: [{ offset: 0, length: command.length, type: "bot_command" }] };
}

function user({ id, ...names }: Person): Record<string, unknown> {
  return { id, is_bot: false, ...names };
}
