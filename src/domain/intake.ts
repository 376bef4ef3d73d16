/**
 * What an update becomes: a pure function of the update, the configuration and the stored facts (design §3.3). Serves
 * P2: the identities made here are the same at every redelivery. Each kind of action has a file under `actions/`.
 */
import { leadPlan, leadWants } from "./actions/lead.ts";
import { contentOf, isOwnContact, toE164 } from "./content.ts";
import { unreachable } from "./errors.ts";
import type { ContactPatch, Facts, IgnoreReason, Plan, Wanted } from "./operation.ts";
import type { ActionSettings, IntakeSettings } from "./settings.ts";
import type { Decide } from "./store.ts";
import {
  type Command,
  commandOf,
  type ParsedUpdate,
  senderOf,
  type TelegramMessage,
  updateKind,
} from "./update.ts";

const NOTHING: Wanted = { contact: null, messages: [], businessKeys: [] };

export function makeIntake(settings: IntakeSettings): Decide {
  return {
    wants: (update) => wants(update, settings),
    decide: (update, facts, nowMs) => decide(update, facts, nowMs, settings),
  };
}

/** Names the facts that `decide` will need for this update. */
export function wants(update: ParsedUpdate, settings: IntakeSettings): Wanted {
  if (!("message" in update.content)) return NOTHING;
  const { message } = update.content;
  const action = actionFor(update, message, settings);
  const contact = senderOf(message)?.userId ?? null;
  return action === null ? { ...NOTHING, contact } : { ...leadWants(message, settings), contact };
}

export function decide(update: ParsedUpdate, facts: Facts, nowMs: number, settings: IntakeSettings): Plan {
  const { content } = update;
  switch (content.kind) {
    case "message":
    case "channel_post":
    case "business_message":
      return decideMessage(update, content.message, facts, nowMs, settings);
    case "edited_message":
    case "edited_channel_post":
    case "edited_business_message":
      return ignored("edits_not_taken");
    case "callback_query":
      return ignored("tap_not_taken");
    case "my_chat_member":
      return ignored("bot_membership");
    case "unknown":
      return ignored("unknown_kind");
    default:
      return unreachable(content);
  }
}

function decideMessage(
  update: ParsedUpdate,
  message: TelegramMessage,
  facts: Facts,
  nowMs: number,
  settings: IntakeSettings,
): Plan {
  if (message.is_automatic_forward === true) return ignored("channel_copy");
  if (message.sender_business_bot !== undefined) return ignored("business_bot");
  // A business chat has the customer's id: whoever else writes there is the owner.
  if (message.business_connection_id !== undefined && message.from?.id !== message.chat.id)
    return ignored("business_owner");
  if (message.from?.is_bot === true && message.sender_chat === undefined) return ignored("from_bot");
  const content = contentOf(message);
  if (content === null) return ignored("service_message");
  const command = commandOf(message);
  if (command !== null) return decideCommand(command, message, settings);
  const action = actionFor(update, message, settings);
  if (action === null) return ignored("no_action");
  return leadPlan({ message, content, contact: contactPatch(message), facts, nowMs, action, settings });
}

/** No action names commands yet: they make nothing, but a `/start` payload is kept as the contact's source. */
function decideCommand(command: Command, message: TelegramMessage, settings: IntakeSettings): Plan {
  if (command.addressee !== null && command.addressee !== settings.bot.username.toLowerCase()) {
    return ignored("command_for_other_bot");
  }
  const patch = contactPatch(message);
  if (command.name !== "start" || patch === null || message.chat.type !== "private")
    return ignored("command");
  // Telegram's own rule for deep links; anything else was typed by hand and stays in the stored update.
  const source = /^[A-Za-z0-9_-]{1,64}$/.test(command.rest) ? { source: command.rest } : {};
  return { ...ignored("command"), contact: { ...patch, ...source } };
}

/** The first action whose `when` matches takes the update. */
function actionFor(
  update: ParsedUpdate,
  message: TelegramMessage,
  settings: IntakeSettings,
): ActionSettings | null {
  const kind = updateKind(update);
  return (
    settings.actions.find(
      ({ when }) => when.update.includes(kind) && (when.chat === "any" || when.chat === message.chat.type),
    ) ?? null
  );
}

function contactPatch(message: TelegramMessage): ContactPatch | null {
  const sender = senderOf(message);
  if (sender === null) return null;
  const { user, userId } = sender;
  const given = isOwnContact(message) ? message.contact?.phone_number : undefined;
  return {
    userId,
    firstName: user.first_name ?? null,
    lastName: user.last_name ?? null,
    username: user.username ?? null,
    language: user.language_code ?? null,
    ...(given === undefined ? {} : { phone: { given, e164: toE164(given) } }),
  };
}

function ignored(reason: IgnoreReason): Plan {
  return { state: "ignored", reason, contact: null, operations: [] };
}
