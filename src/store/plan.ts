/** Loads the facts that a decision needs and writes what it decided; always inside the accept transaction. */
import type Database from "better-sqlite3";
import { z } from "zod";
import {
  asBusinessKey,
  asEventKey,
  asOperationId,
  type BotId,
  type EventKey,
  type OperationId,
  type UserId,
} from "../domain/ids.ts";
import type { ContactPatch, Facts, Plan, PlannedOperation, Wanted } from "../domain/operation.ts";
import { reader } from "./sql.ts";

const contactRow = z.object({
  contact_id: z.number(),
  phone_given: z.string().nullable(),
  phone_e164: z.string().nullable(),
  source_first: z.string().nullable(),
  source_last: z.string().nullable(),
});
const takenRow = z.object({
  operation_id: z.string().transform(asOperationId),
  event_key: z.string().transform(asEventKey),
});
const keyRow = z.object({ business_key: z.string().transform(asBusinessKey) });
const idRow = z.object({ id: z.number() });

export interface PlanWriter {
  facts(botId: BotId, wanted: Wanted): Facts;
  apply(plan: Plan, botId: BotId, eventKey: EventKey, nowMs: number): void;
}

export function planWriter(db: Database.Database): PlanWriter {
  const contact = reader(db, contactRow, "SELECT * FROM contacts WHERE bot_id = ? AND user_id = ?");
  const taken = reader(
    db,
    takenRow,
    "SELECT operation_id, event_key FROM operation_updates WHERE message_identity = ?",
  );
  const knownKey = reader(db, keyRow, "SELECT business_key FROM operations WHERE business_key = ?");
  const jobOf = reader(
    db,
    idRow,
    "SELECT job_id AS id FROM jobs WHERE operation_id = ? AND destination = ? AND step = ?",
  );
  const upsertContact = reader(
    db,
    idRow,
    `INSERT INTO contacts (bot_id, user_id, first_name, last_name, username, language, phone_given, phone_e164,
       source_first, source_last, created_at_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (bot_id, user_id) DO UPDATE SET
       first_name = excluded.first_name, last_name = excluded.last_name, username = excluded.username,
       language = coalesce(excluded.language, language),
       phone_e164 = CASE WHEN excluded.phone_given IS NULL THEN phone_e164 ELSE excluded.phone_e164 END,
       phone_given = coalesce(excluded.phone_given, phone_given),
       source_first = coalesce(source_first, excluded.source_first),
       source_last = coalesce(excluded.source_last, source_last)
     RETURNING contact_id AS id`,
  );
  const insertOperation = db.prepare(
    `INSERT INTO operations (operation_id, business_key, code, kind, action, bot_id, contact_id, created_at_ms, input)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertFeed = db.prepare(
    "INSERT INTO operation_updates (operation_id, event_key, message_identity) VALUES (?, ?, ?)",
  );
  const insertJob = db.prepare(
    `INSERT INTO jobs (operation_id, destination, step, contact_id, follows_job_id, state, run_at_ms, external_id,
       created_at_ms, state_at_ms, finished_at_ms)
     VALUES (@operationId, @destination, @step, @contactId, @followsJobId, @state, @runAtMs, @externalId,
       @nowMs, @nowMs, @finishedAtMs)`,
  );

  function saveContact(patch: ContactPatch, botId: BotId, nowMs: number): number | null {
    const row = upsertContact.get(
      botId,
      patch.userId,
      forPeople(patch.firstName),
      forPeople(patch.lastName),
      forPeople(patch.username),
      forPeople(patch.language),
      forPeople(patch.phone?.given ?? null),
      patch.phone?.e164 ?? null,
      patch.source ?? null,
      patch.source ?? null,
      nowMs,
    );
    return row?.id ?? null;
  }

  function saveOperation(
    operation: PlannedOperation,
    contactId: number | null,
    botId: BotId,
    eventKey: EventKey,
    nowMs: number,
  ): void {
    const { id, businessKey, code, kind, action } = operation;
    insertOperation.run(
      id,
      businessKey,
      code,
      kind,
      action,
      botId,
      contactId,
      nowMs,
      JSON.stringify(operation.input),
    );
    for (const message of operation.messages) insertFeed.run(id, eventKey, message);
    if (operation.messages.length === 0) insertFeed.run(id, eventKey, null);
    for (const job of operation.jobs) {
      insertJob.run({
        operationId: id,
        destination: job.destination,
        step: job.step,
        contactId,
        followsJobId:
          job.follows === null ? null : followed(job.follows.operationId, job.destination, job.follows.step),
        state: job.state,
        runAtMs: job.runAtMs,
        externalId: job.externalId,
        nowMs,
        finishedAtMs: job.state === "done" ? nowMs : null,
      });
    }
  }

  function followed(operationId: OperationId, destination: string, step: string): number | null {
    return jobOf.get(operationId, destination, step)?.id ?? null;
  }

  return {
    facts: (botId, wanted) => ({
      contact: wanted.contact === null ? null : contactFacts(botId, wanted.contact),
      takenMessages: new Map(
        wanted.messages.flatMap((message) => {
          const row = taken.get(message);
          return row === undefined
            ? []
            : [[message, { operationId: row.operation_id, eventKey: row.event_key }]];
        }),
      ),
      knownBusinessKeys: new Set(
        wanted.businessKeys.flatMap((key) => knownKey.all(key).map(({ business_key }) => business_key)),
      ),
    }),
    apply: (plan, botId, eventKey, nowMs) => {
      const contactId = plan.contact === null ? null : saveContact(plan.contact, botId, nowMs);
      for (const operation of plan.operations) saveOperation(operation, contactId, botId, eventKey, nowMs);
    },
  };

  function contactFacts(botId: BotId, userId: UserId): Facts["contact"] {
    const row = contact.get(botId, userId);
    if (row === undefined) return null;
    return {
      phone: row.phone_e164 ?? row.phone_given,
      source: { first: row.source_first, last: row.source_last },
    };
  }
}

/**
 * Columns are for people and searches: SQLite's shell stops at a NUL and the driver garbles lone surrogates. What was
 * written exactly stands in the update's JSON.
 */
function forPeople(text: string | null): string | null {
  return text === null ? null : text.replaceAll("\u0000", "").toWellFormed();
}
