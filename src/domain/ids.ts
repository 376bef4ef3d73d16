/**
 * The identities that everything else hangs on (design §2, §5). Owns how they are spelled; P2 rests on them being
 * the same after a restart, a restore or a lost database, so nothing here reads a clock or a random source.
 *
 * Hashing is deterministic, so this file may import `node:crypto` and `uuid` although the domain imports only zod.
 */
import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";

declare const brand: unique symbol;
type Branded<Base, Name extends string> = Base & { readonly [brand]: Name };

export type BotId = Branded<number, "BotId">;
export type UserId = Branded<number, "UserId">;
/** `tg:<bot_id>:<update_id or none>:<first 8 hex of the update's sha256>` */
export type EventKey = Branded<string, "EventKey">;
/** `<bot_id>:<chat_id>:<message_id>`, in a business chat with the connection id in front. */
export type MessageIdentity = Branded<string, "MessageIdentity">;
/** Kind, bot id, then what makes the operation unique. */
export type BusinessKey = Branded<string, "BusinessKey">;
/** UUIDv5 of the business key; the external reference in every CRM. */
export type OperationId = Branded<string, "OperationId">;
/** Twelve base32 characters in groups of four, for people to read out and type. */
export type OperationCode = Branded<string, "OperationCode">;
/** Row number of a job; grows in accept order, which is the order of a contact's effects. */
export type JobId = Branded<number, "JobId">;
/** Random per claim; whoever does not hold it may not finish the job. */
export type LeaseToken = Branded<string, "LeaseToken">;
export type RunId = Branded<string, "RunId">;
/** What the database calls a destination: its `key`, or its name where it has none. */
export type DestinationKey = Branded<string, "DestinationKey">;

// The `as` in the constructors below are the one place where a checked or computed value becomes its brand.
export const asBotId = (value: number): BotId => value as BotId;
export const asUserId = (value: number): UserId => value as UserId;
export const asJobId = (value: number): JobId => value as JobId;
export const asOperationId = (value: string): OperationId => value as OperationId;
export const asLeaseToken = (value: string): LeaseToken => value as LeaseToken;
export const asRunId = (value: string): RunId => value as RunId;
export const asDestinationKey = (value: string): DestinationKey => value as DestinationKey;
export const asEventKey = (value: string): EventKey => value as EventKey;
export const asBusinessKey = (value: string): BusinessKey => value as BusinessKey;

/** The destination that always exists: the operations table itself (design §7). */
export const LEDGER = asDestinationKey("ledger");

/** Fixed for ever: changing it would give every operation a new identity in every CRM. */
const OPERATION_NAMESPACE = "5f0a4a0e-6a5e-5c57-9d4b-3c1f2a7b9e60";

const BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** @param json the update as one JSON text, exactly as it is stored */
export function eventKey(botId: BotId, updateId: number | null, json: string): EventKey {
  return `tg:${botId}:${updateId ?? "none"}:${hash8(json)}` as EventKey;
}

export function hash8(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

export interface MessageRef {
  botId: BotId;
  chatId: number;
  messageId: number;
  businessConnectionId: string | null;
}

export function messageIdentity(ref: MessageRef): MessageIdentity {
  const identity = `${ref.botId}:${ref.chatId}:${ref.messageId}`;
  // A business chat has the customer's user id for chat id and so collides with the bot's own private chat.
  return (
    ref.businessConnectionId === null ? identity : `${ref.businessConnectionId}:${identity}`
  ) as MessageIdentity;
}

/** The lead that one message makes under `repeat = "each"`. */
export function leadKey(ref: MessageRef): BusinessKey {
  const connection = ref.businessConnectionId === null ? "" : `${ref.businessConnectionId}:`;
  return `lead:${ref.botId}:${connection}${ref.chatId}:${ref.messageId}` as BusinessKey;
}

export function operationId(key: BusinessKey): OperationId {
  return uuidv5(key, OPERATION_NAMESPACE) as OperationId;
}

/** Derived from the id alone: its first 60 bits without the version digit. */
export function operationCode(id: OperationId): OperationCode {
  const hex = id.replaceAll("-", "");
  let bits = BigInt(`0x${hex.slice(0, 12)}${hex.slice(13, 16)}`);
  let code = "";
  for (let position = 0; position < 12; position += 1) {
    code = (BASE32[Number(bits & 31n)] ?? "") + code;
    bits >>= 5n;
  }
  return (code.match(/.{4}/g) ?? []).join("-") as OperationCode;
}

/** What goes out as idempotency key: the id, after each operator's `retry` with `-2`, `-3`… */
export function idempotencyKey(id: OperationId, keyNumber: number): string {
  return keyNumber === 1 ? id : `${id}-${keyNumber}`;
}
