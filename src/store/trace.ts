/** `trace <anything>`: from whatever a person has in hand to the whole way of an update. */
import type Database from "better-sqlite3";
import { z } from "zod";
import { asJobId } from "../domain/ids.ts";
import type { TraceReport } from "../domain/reports.ts";
import { iso, jobReportRow, lookUpsOf, reconciliationRow } from "./report-rows.ts";
import { look, reader } from "./sql.ts";

const updateRow = z.object({
  event_key: z.string(),
  update_id: z.number().nullable(),
  kind: z.string(),
  state: z.string(),
  reason: z.string().nullable(),
  received_at_ms: z.number(),
  redelivered: z.number(),
});
const operationRow = z.object({
  operation_id: z.string(),
  code: z.string(),
  business_key: z.string(),
  kind: z.string(),
  action: z.string(),
  state: z.string(),
  created_at_ms: z.number(),
});
const idRow = z.object({ id: z.string() });
const attemptRow = z.object({
  job_id: z.number().transform(asJobId),
  n: z.number(),
  begun_at_ms: z.number(),
  sent_at_ms: z.number().nullable(),
  ended_at_ms: z.number().nullable(),
  outcome: z.string().nullable(),
  status: z.number().nullable(),
  detail: z.string().nullable(),
  external_id: z.string().nullable(),
});
const actionRow = z.object({
  at_ms: z.number(),
  who: z.string(),
  action: z.string(),
  job_id: z.number().transform(asJobId).nullable(),
  why: z.string().nullable(),
  detail: z.string().nullable(),
});

/** Every way from what a person has in hand to operations. */
const OPERATIONS_BY = `
  SELECT operation_id AS id FROM operations WHERE operation_id = lower(@text)
  UNION SELECT operation_id FROM operations WHERE code = upper(@text)
  UNION SELECT operation_id FROM operations WHERE business_key = @text
  UNION SELECT operation_id FROM jobs WHERE external_id = @text
  UNION SELECT j.operation_id FROM jobs j JOIN attempts a USING (job_id) WHERE a.external_id = @text
  UNION SELECT ou.operation_id FROM operation_updates ou JOIN updates u USING (event_key)
    WHERE u.event_key = @text OR u.update_id = CAST(@number AS INTEGER)
  UNION SELECT operation_id FROM operations WHERE contact_id IN (SELECT contact_id FROM contacts
    WHERE username = @username COLLATE NOCASE OR phone_e164 = @phone OR phone_given = @text OR user_id = CAST(@number AS INTEGER))`;

export function tracer(db: Database.Database): (anything: string) => Promise<TraceReport | null> {
  const operationsBy = reader(db, idRow, OPERATIONS_BY);
  const updatesBy = reader(
    db,
    updateRow,
    "SELECT * FROM updates WHERE event_key = @text OR update_id = CAST(@number AS INTEGER) ORDER BY received_at_ms",
  );
  const operation = reader(
    db,
    operationRow,
    "SELECT o.*, v.state FROM operations o JOIN v_operations v USING (operation_id) WHERE o.operation_id = ?",
  );
  const updatesOf = reader(
    db,
    updateRow,
    "SELECT u.* FROM updates u JOIN operation_updates ou USING (event_key) WHERE ou.operation_id = ? ORDER BY u.received_at_ms",
  );
  const operationsOf = reader(
    db,
    idRow,
    "SELECT operation_id AS id FROM operation_updates WHERE event_key = ?",
  );
  const jobsOf = reader(
    db,
    jobReportRow,
    `SELECT j.*, coalesce(d.name, j.destination) AS name FROM jobs j LEFT JOIN destinations d ON d.destination = j.destination
     WHERE j.operation_id = ? ORDER BY j.job_id`,
  );
  const attemptsOf = reader(
    db,
    attemptRow,
    "SELECT a.* FROM attempts a JOIN jobs j USING (job_id) WHERE j.operation_id = ? ORDER BY a.begun_at_ms, a.job_id, a.n",
  );
  const reconciliationsOf = reader(
    db,
    reconciliationRow,
    `SELECT r.*, j.operation_id, j.step, o.code, coalesce(d.name, j.destination) AS name, NULL AS username, NULL AS user_id
     FROM reconciliations r JOIN jobs j USING (job_id) JOIN operations o USING (operation_id)
       LEFT JOIN destinations d ON d.destination = j.destination
     WHERE j.operation_id = ? ORDER BY r.opened_at_ms`,
  );
  const actionsOf = reader(
    db,
    actionRow,
    `SELECT a.* FROM operator_actions a JOIN jobs j USING (job_id) WHERE j.operation_id = @id
     UNION SELECT a.* FROM operator_actions a JOIN operation_updates ou ON ou.event_key = a.subject WHERE ou.operation_id = @id
     ORDER BY at_ms`,
  );

  return async (anything) =>
    look("read the trace", () => {
      const text = anything.trim();
      const digits = text.replace(/[^\d]/g, "");
      const number = /^-?\d{1,16}$/.test(text) ? text : null;
      const ids = operationsBy
        .all({ text, number, phone: digits === "" ? null : `+${digits}`, username: text.replace(/^@/, "") })
        .map(({ id }) => id);
      const updates = new Map(
        [...updatesBy.all({ text, number }), ...ids.flatMap((id) => updatesOf.all(id))].map((row) => [
          row.event_key,
          row,
        ]),
      );
      if (ids.length === 0 && updates.size === 0) return null;
      return {
        updates: [...updates.values()].map(({ received_at_ms, ...row }) => ({
          ...row,
          received_at: iso(received_at_ms),
          operation_ids: operationsOf.all(row.event_key).map(({ id }) => id),
        })),
        operations: ids.flatMap((id) =>
          operation.all(id).map(({ created_at_ms, ...row }) => ({ ...row, created_at: iso(created_at_ms) })),
        ),
        jobs: ids.flatMap((id) => jobsOf.all(id)),
        attempts: ids.flatMap((id) =>
          attemptsOf.all(id).map(({ begun_at_ms, sent_at_ms, ended_at_ms, ...row }) => ({
            ...row,
            begun_at: iso(begun_at_ms),
            sent_at: iso(sent_at_ms),
            ended_at: iso(ended_at_ms),
          })),
        ),
        reconciliations: ids.flatMap((id) =>
          reconciliationsOf.all(id).map((row) => ({
            ...lookUpsOf(row),
            resolved_at: iso(row.resolved_at_ms),
            resolution: row.resolution,
          })),
        ),
        operator_actions: ids.flatMap((id) =>
          actionsOf.all({ id }).map(({ at_ms, ...row }) => ({ ...row, at: iso(at_ms) })),
        ),
      };
    });
}
