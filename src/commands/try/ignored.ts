/** Why an update would make nothing, for the person who wonders where their lead is. */
import { unreachable } from "../../domain/errors.ts";
import type { IgnoreReason } from "../../domain/operation.ts";
import type { ActionSettings } from "../../domain/settings.ts";

export function ignoredText(reason: IgnoreReason, actions: readonly ActionSettings[]): string {
  switch (reason) {
    case "unknown_kind":
      return "this version does not know this kind of update; it would be stored, and nothing made of it";
    case "no_action":
      return `no action takes it: ${actions.map(whatItTakes).join("; ")}`;
    case "command":
      return "a command makes nothing; what follows /start is kept as the source of the person's later leads";
    case "command_for_other_bot":
      return "the command names another bot; is the bot's own name known? The first leadonce run asks Telegram";
    case "service_message":
      return "Telegram wrote it itself, about somebody who joined or a title that changed: nobody said anything";
    case "channel_copy":
      return "it is the copy of a channel's post in its discussion group";
    case "from_bot":
      return "another bot wrote it";
    case "business_bot":
      return "a bot wrote it in the name of the business account";
    case "business_owner":
      return "the owner of the business account wrote it, not a customer";
    case "edits_not_taken":
      return "it edits a message that has made its lead; this version leaves the lead as it is";
    case "same_message":
      return "its message has made a lead already";
    case "known_operation":
      return "its lead exists already";
    case "bot_membership":
      return "it tells that somebody has started, stopped, added or removed the bot";
    case "tap_not_taken":
      return "no action of this version takes taps on buttons";
    default:
      return unreachable(reason);
  }
}

function whatItTakes({ name, when }: ActionSettings): string {
  const where = when.chat === "any" ? "any chat" : `a ${when.chat} chat`;
  return `"${name}" takes ${when.update.join(", ")} in ${where}`;
}
