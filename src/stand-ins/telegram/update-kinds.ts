/**
 * The kinds of update: which of them a bot gets, and how long the server keeps one that nobody fetches.
 *
 * Source: tdlib/telegram-bot-api, Client.cpp: get_allowed_update_types and the callers of add_update.
 */

/** What a server of Bot API 10.0 knows. Later kinds reach a bot only while its list is the default one. */
const KNOWN_KINDS: ReadonlySet<string> = new Set([
  "message",
  "edited_message",
  "channel_post",
  "edited_channel_post",
  "business_connection",
  "business_message",
  "edited_business_message",
  "deleted_business_messages",
  "guest_message",
  "message_reaction",
  "message_reaction_count",
  "inline_query",
  "chosen_inline_result",
  "callback_query",
  "shipping_query",
  "pre_checkout_query",
  "purchased_paid_media",
  "poll",
  "poll_answer",
  "my_chat_member",
  "chat_member",
  "chat_join_request",
  "chat_boost",
  "removed_chat_boost",
  "managed_bot",
]);

const NOT_BY_DEFAULT: ReadonlySet<string> = new Set([
  "chat_member",
  "message_reaction",
  "message_reaction_count",
]);

/** The bot's filter. One value for polling and webhook, kept until somebody sends another. */
export class AllowedUpdates {
  #explicit: ReadonlySet<string> | undefined;

  /** Takes the parameter as it was sent. What is absent, empty or no list of strings changes nothing. */
  apply(parameter: string | undefined): void {
    const names = parseNames(parameter);
    if (names === undefined) return;
    const known = new Set(names.map((name) => name.toLowerCase()).filter((name) => KNOWN_KINDS.has(name)));
    this.#explicit = known.size === 0 || isDefault(known) ? undefined : known;
  }

  includes(kind: string): boolean {
    return this.#explicit === undefined ? !NOT_BY_DEFAULT.has(kind) : this.#explicit.has(kind);
  }

  /** The explicit list, or undefined while it is the default. */
  get list(): readonly string[] | undefined {
    return this.#explicit && [...this.#explicit];
  }
}

function parseNames(parameter: string | undefined): string[] | undefined {
  if (parameter === undefined || parameter === "") return undefined;
  try {
    const names: unknown = JSON.parse(parameter);
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    // The server ignores what it cannot parse.
    return undefined;
  }
}

function isDefault(kinds: ReadonlySet<string>): boolean {
  return [...KNOWN_KINDS].every((kind) => kinds.has(kind) !== NOT_BY_DEFAULT.has(kind));
}

const DAY_S = 86_400;

/** From arrival, in seconds. */
const LIFETIME_S: Readonly<Record<string, number>> = {
  callback_query: 150,
  shipping_query: 150,
  pre_checkout_query: 150,
  inline_query: 30,
  chosen_inline_result: 600,
};

const DAY_FROM_ARRIVAL: ReadonlySet<string> = new Set([
  "poll",
  "poll_answer",
  "business_connection",
  "deleted_business_messages",
  "purchased_paid_media",
  "managed_bot",
]);

/**
 * When the server drops an update nobody fetched, in whole seconds since the epoch. Messages and member changes live for
 * a day from the date they carry, not from arrival.
 */
export function expiresAtS(kind: string, content: unknown, nowS: number): number {
  const lifetime = LIFETIME_S[kind];
  if (lifetime !== undefined) return nowS + lifetime;
  if (DAY_FROM_ARRIVAL.has(kind)) return nowS + DAY_S;
  return (dateOf(content) ?? nowS) + DAY_S;
}

function dateOf(content: unknown): number | undefined {
  if (typeof content !== "object" || content === null) return undefined;
  const editDate = "edit_date" in content ? content.edit_date : undefined;
  const date = "date" in content ? content.date : undefined;
  if (typeof editDate === "number") return editDate;
  return typeof date === "number" ? date : undefined;
}
