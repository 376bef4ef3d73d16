/**
 * What a message says, as one line of text for a CRM: `[photo] caption`, `[phone] +1202…`. Never a file link, because
 * Telegram's file links hold the bot's token (P5).
 */
import { parsePhoneNumberFromString } from "libphonenumber-js";
import type { TelegramMessage } from "./update.ts";

/** E.164 where the number can be read; Telegram gives international numbers, often without the plus. */
export function toE164(phone: string): string | null {
  const compact = phone.replace(/[^\d+]/g, "");
  if (compact === "") return null;
  const parsed = parsePhoneNumberFromString(compact.startsWith("+") ? compact : `+${compact}`);
  return parsed?.isPossible() ? parsed.number : null;
}

/** In the order in which they are looked for: an animation also carries a `document`, a venue a `location`. */
const MEDIA = [
  "animation",
  "photo",
  "video_note",
  "video",
  "voice",
  "audio",
  "document",
  "sticker",
  "venue",
  "location",
  "poll",
  "dice",
  "story",
  "game",
  "paid_media",
  "checklist",
  "invoice",
  "live_photo",
] as const;

/** Messages that Telegram itself writes: nobody said anything. */
const SERVICE = [
  "new_chat_members",
  "new_chat_member",
  "left_chat_member",
  "new_chat_title",
  "new_chat_photo",
  "delete_chat_photo",
  "group_chat_created",
  "supergroup_chat_created",
  "channel_chat_created",
  "message_auto_delete_timer_changed",
  "migrate_to_chat_id",
  "migrate_from_chat_id",
  "pinned_message",
  "successful_payment",
  "refunded_payment",
  "users_shared",
  "user_shared",
  "chat_shared",
  "connected_website",
  "write_access_allowed",
  "passport_data",
  "proximity_alert_triggered",
  "boost_added",
  "chat_background_set",
  "checklist_tasks_done",
  "checklist_tasks_added",
  "direct_message_price_changed",
  "paid_message_price_changed",
  "forum_topic_created",
  "forum_topic_edited",
  "forum_topic_closed",
  "forum_topic_reopened",
  "general_forum_topic_hidden",
  "general_forum_topic_unhidden",
  "giveaway_created",
  "giveaway",
  "giveaway_winners",
  "giveaway_completed",
  "gift",
  "unique_gift",
  "gift_upgrade_sent",
  "suggested_post_approved",
  "suggested_post_approval_failed",
  "suggested_post_declined",
  "suggested_post_paid",
  "suggested_post_refunded",
  "video_chat_scheduled",
  "video_chat_started",
  "video_chat_ended",
  "video_chat_participants_invited",
  "web_app_data",
] as const;

export interface Content {
  kind: string;
  /** Never empty. */
  text: string;
}

/** Null for a service message. What nobody knows yet is still a customer's message, so it is kept as such. */
export function contentOf(message: TelegramMessage): Content | null {
  if (message.text !== undefined)
    return { kind: "text", text: withOrigin(message, message.text || "[empty message]") };
  if (message.contact !== undefined) return sharedContact(message, message.contact);
  const media = MEDIA.find((kind) => message[kind] !== undefined);
  if (media !== undefined) {
    const said = [`[${media.replaceAll("_", " ")}]`, describe(media, message[media]), message.caption];
    const text = said.filter((part) => part !== undefined && part !== "").join(" ");
    return { kind: media, text: withOrigin(message, text) };
  }
  if (SERVICE.some((kind) => message[kind] !== undefined)) return null;
  return {
    kind: "other",
    text: withOrigin(message, ["[message]", message.caption].filter(Boolean).join(" ")),
  };
}

function sharedContact(message: TelegramMessage, contact: NonNullable<TelegramMessage["contact"]>): Content {
  const number = toE164(contact.phone_number) ?? contact.phone_number;
  if (isOwnContact(message)) return { kind: "phone", text: withOrigin(message, `[phone] ${number}`) };
  const name = [contact.first_name, contact.last_name].filter(Boolean).join(" ");
  return {
    kind: "contact",
    text: withOrigin(message, ["[contact]", name, number].filter(Boolean).join(" ")),
  };
}

/** Only the server sets `user_id`, so only a match proves that the number is the sender's own. */
export function isOwnContact(message: TelegramMessage): boolean {
  return message.contact?.user_id !== undefined && message.contact.user_id === message.from?.id;
}

function describe(kind: (typeof MEDIA)[number], value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const part = (name: string): string | undefined => {
    const found: unknown = Reflect.get(value, name);
    return typeof found === "string" || typeof found === "number" ? String(found) : undefined;
  };
  switch (kind) {
    case "document":
    case "audio":
    case "video":
    case "animation":
      return part("file_name") ?? part("title");
    case "sticker":
      return part("emoji");
    case "dice":
      return [part("emoji"), part("value")].filter(Boolean).join(" ");
    case "poll":
      return part("question");
    case "location":
      return [part("latitude"), part("longitude")].filter(Boolean).join(", ");
    case "venue":
    case "game":
    case "invoice":
    case "checklist":
      return [part("title"), part("address")].filter(Boolean).join(", ");
    default:
      return undefined;
  }
}

/** A forwarded message belongs to whoever forwarded it; where it came from is noted in front. */
function withOrigin(message: TelegramMessage, text: string): string {
  const origin = message.forward_origin;
  if (typeof origin !== "object" || origin === null) return text;
  const name = originName(origin);
  return `[forwarded${name === null ? "" : ` from ${name}`}] ${text}`;
}

function originName(origin: object): string | null {
  const direct: unknown = Reflect.get(origin, "sender_user_name");
  if (typeof direct === "string" && direct !== "") return direct;
  for (const member of ["sender_user", "sender_chat", "chat"]) {
    const source: unknown = Reflect.get(origin, member);
    if (typeof source !== "object" || source === null) continue;
    const words = ["title", "first_name", "last_name"]
      .map((field): unknown => Reflect.get(source, field))
      .filter((word): word is string => typeof word === "string" && word !== "");
    if (words.length > 0) return words.join(" ");
  }
  return null;
}

/** Public supergroups and channels have message links; a private chat has none. */
export function messageLink(message: TelegramMessage): string | null {
  const { id, type, username } = message.chat;
  if (username !== undefined && type !== "private") return `https://t.me/${username}/${message.message_id}`;
  const internal = /^-100(\d+)$/.exec(String(id))?.[1];
  return internal === undefined ? null : `https://t.me/c/${internal}/${message.message_id}`;
}
