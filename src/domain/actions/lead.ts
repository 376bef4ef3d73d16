/** The `lead` action with `repeat = "each"`: every message is a lead at every destination of the action. */
import type { Content } from "../content.ts";
import { messageLink } from "../content.ts";
import { LEDGER, leadKey, messageIdentity, operationCode, operationId } from "../ids.ts";
import type { ContactPatch, Facts, OperationInput, Plan, PlannedJob, Wanted } from "../operation.ts";
import type { ActionSettings, IntakeSettings } from "../settings.ts";
import { messageRef, type TelegramMessage } from "../update.ts";

export function leadWants(message: TelegramMessage, settings: IntakeSettings): Omit<Wanted, "contact"> {
  const ref = messageRef(settings.bot.id, message);
  return { messages: [messageIdentity(ref)], businessKeys: [leadKey(ref)] };
}

export interface LeadRequest {
  message: TelegramMessage;
  content: Content;
  contact: ContactPatch | null;
  facts: Facts;
  nowMs: number;
  action: ActionSettings;
  settings: IntakeSettings;
}

export function leadPlan(request: LeadRequest): Plan {
  const { message, contact, facts, action, settings } = request;
  const ref = messageRef(settings.bot.id, message);
  const identity = messageIdentity(ref);
  const businessKey = leadKey(ref);
  // Another update id for a message that made its lead already: Telegram does send such copies.
  if (facts.takenMessages.has(identity)) return repeat("same_message", contact);
  if (facts.knownBusinessKeys.has(businessKey)) return repeat("known_operation", contact);

  const id = operationId(businessKey);
  const code = operationCode(id);
  const jobs = action.to.map((destination): PlannedJob => {
    const inLedger = destination === LEDGER || kindOf(destination, settings) === "ledger";
    return {
      destination,
      step: "lead",
      // The ledger is the operations table itself: being stored is the effect.
      state: inLedger ? "done" : "pending",
      runAtMs: request.nowMs,
      follows: null,
      externalId: inLedger ? code : null,
    };
  });
  const input = leadInput(request);
  const operation = {
    id,
    code,
    businessKey,
    kind: "lead" as const,
    action: action.name,
    input,
    messages: [identity],
    jobs,
  };
  return { state: "accepted", reason: null, contact, operations: [operation] };
}

function repeat(reason: "same_message" | "known_operation", contact: ContactPatch | null): Plan {
  return { state: "ignored", reason, contact, operations: [] };
}

function kindOf(destination: string, settings: IntakeSettings): string | undefined {
  return settings.destinations.find(({ key }) => key === destination)?.kind;
}

function leadInput({ message, content, contact, facts, settings }: LeadRequest): OperationInput {
  const phone =
    contact?.phone === undefined ? facts.contact?.phone : (contact.phone.e164 ?? contact.phone.given);
  return {
    messages: [
      {
        ref: messageIdentity(messageRef(settings.bot.id, message)),
        messageId: message.message_id,
        kind: content.kind,
        text: content.text,
        date: message.date,
        link: messageLink(message),
      },
    ],
    contact: {
      userId: contact?.userId ?? null,
      firstName: contact?.firstName ?? message.sender_chat?.title ?? null,
      lastName: contact?.lastName ?? null,
      username: contact?.username ?? message.sender_chat?.username ?? null,
      language: contact?.language ?? null,
      phone: phone ?? null,
    },
    source: facts.contact?.source ?? { first: null, last: null },
  };
}
