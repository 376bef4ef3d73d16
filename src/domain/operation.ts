/**
 * One thing the business wants done once, and what it knows (design §2): plain values that are stored as JSON in
 * `operations.input`. Texts are exactly what was written; cleaning them for a CRM is the renderer's work.
 */
import { z } from "zod";
import type {
  BusinessKey,
  DestinationKey,
  EventKey,
  MessageIdentity,
  OperationCode,
  OperationId,
  UserId,
} from "./ids.ts";
import type { JobState, Step } from "./jobs.ts";

export const OPERATION_KINDS = ["lead", "note", "update", "contact"] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

export const inputMessageSchema = z.object({
  /** Message identity; for people and templates `message.ref`. */
  ref: z.string(),
  messageId: z.number(),
  kind: z.string(),
  /** Never empty: `[photo] caption`, `[phone] +1202…`. */
  text: z.string(),
  /** Seconds since the epoch, by Telegram's clock. */
  date: z.number(),
  /** A t.me link where one can exist, else null; never one with the token. */
  link: z.string().nullable(),
});
export type InputMessage = z.infer<typeof inputMessageSchema>;

export const inputContactSchema = z.object({
  userId: z.number().nullable(),
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  username: z.string().nullable(),
  language: z.string().nullable(),
  /** E.164 where the number could be read, else as the customer gave it. */
  phone: z.string().nullable(),
});
export type InputContact = z.infer<typeof inputContactSchema>;

export const operationInputSchema = z.object({
  messages: z.array(inputMessageSchema),
  contact: inputContactSchema,
  source: z.object({ first: z.string().nullable(), last: z.string().nullable() }),
});
export type OperationInput = z.infer<typeof operationInputSchema>;

/** What an update tells about the person who sent it; absent members leave the stored value alone. */
export interface ContactPatch {
  userId: UserId;
  firstName: string | null;
  lastName: string | null;
  username: string | null;
  language: string | null;
  /** Only the customer's own number, as given and in E.164 where it can be read. */
  phone?: { given: string; e164: string | null };
  /** A `/start` payload: kept as first source if there is none yet, and always as last. */
  source?: string;
}

export interface PlannedJob {
  destination: DestinationKey;
  step: Step;
  state: Extract<JobState, "pending" | "blocked" | "done">;
  runAtMs: number;
  /** The job at the same destination that must be done first. */
  follows: { operationId: OperationId; step: Step } | null;
  /** Only with `done`: the ledger's own id. */
  externalId: string | null;
}

export interface PlannedOperation {
  id: OperationId;
  code: OperationCode;
  businessKey: BusinessKey;
  kind: OperationKind;
  action: string;
  input: OperationInput;
  /** The messages that it takes for ever: one message belongs to exactly one lead or note. */
  messages: readonly MessageIdentity[];
  jobs: readonly PlannedJob[];
}

/** Why an update made nothing; stable words, shown in `trace`. */
export type IgnoreReason =
  | "unknown_kind"
  | "no_action"
  | "command"
  | "command_for_other_bot"
  | "service_message"
  | "channel_copy"
  | "from_bot"
  | "business_bot"
  | "business_owner"
  | "edits_not_taken"
  | "same_message"
  | "known_operation"
  | "bot_membership"
  | "tap_not_taken";

/** What `decide` makes of one update. */
export interface Plan {
  state: "accepted" | "ignored";
  reason: IgnoreReason | null;
  contact: ContactPatch | null;
  operations: readonly PlannedOperation[];
}

/** Which stored facts `decide` needs for an update. */
export interface Wanted {
  contact: UserId | null;
  messages: readonly MessageIdentity[];
  businessKeys: readonly BusinessKey[];
}

export interface Facts {
  contact: {
    phone: string | null;
    source: { first: string | null; last: string | null };
  } | null;
  /** The messages that an operation has taken, each with the update that fed it. */
  takenMessages: ReadonlyMap<MessageIdentity, { operationId: OperationId; eventKey: EventKey }>;
  knownBusinessKeys: ReadonlySet<BusinessKey>;
}
