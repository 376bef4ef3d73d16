/** Gathers what a template may ask for (design §8): the operation, its input, and the records that the job follows. */
import type Database from "better-sqlite3";
import { z } from "zod";
import type { StepContext } from "../domain/connector.ts";
import { assert } from "../domain/errors.ts";
import { asOperationId, idempotencyKey, type OperationCode } from "../domain/ids.ts";
import { operationInputSchema } from "../domain/operation.ts";
import type { JobRow } from "./jobs.ts";
import { reader } from "./sql.ts";

const operationRow = z.object({
  operation_id: z.string().transform(asOperationId),
  // A code is whatever was derived when the operation was made; nothing else writes the column.
  code: z.string().transform((code) => code as OperationCode),
  action: z.string(),
  created_at_ms: z.number(),
  bot_id: z.number(),
  username: z.string().nullable(),
  input: z.string().nullable(),
});

const bodyRow = z.object({ input: z.string(), rendered: z.number(), body: z.string().nullable() });
const followedRow = z.object({
  step: z.string(),
  external_id: z.string().nullable(),
  link: z.string().nullable(),
});

export interface StepContextLoader {
  load(job: JobRow): StepContext;
  /** The body to send again unchanged; undefined when it has to be rendered. */
  storedBody(job: JobRow): string | null | undefined;
  keepBody(job: JobRow, context: StepContext, body: string | null): void;
  /** After a person's retry: the same input is rendered anew with the current configuration. */
  renderAnew(job: JobRow): void;
}

export function stepContextLoader(db: Database.Database): StepContextLoader {
  const operation = reader(
    db,
    operationRow,
    "SELECT o.*, b.username FROM operations o JOIN bots b USING (bot_id) WHERE o.operation_id = ?",
  );
  const body = reader(db, bodyRow, "SELECT * FROM job_bodies WHERE job_id = ?");
  const followed = reader(db, followedRow, "SELECT step, external_id, link FROM jobs WHERE job_id = ?");
  const insertBody = db.prepare(
    `INSERT INTO job_bodies (job_id, input, rendered, body) VALUES (?, ?, 1, ?)
     ON CONFLICT (job_id) DO UPDATE SET rendered = 1, body = excluded.body`,
  );
  const dropBody = db.prepare("UPDATE job_bodies SET rendered = 0, body = NULL WHERE job_id = ?");

  return {
    load: (job) => {
      const row = operation.get(job.operationId);
      assert(row !== undefined, `job ${job.jobId} has no operation`);
      const input = body.get(job.jobId)?.input ?? row.input;
      assert(input !== null, `operation ${job.operationId} has no input left`);
      const behind = job.followsJobId === null ? undefined : followed.get(job.followsJobId);
      return {
        step: job.step,
        operation: {
          id: row.operation_id,
          key: idempotencyKey(row.operation_id, job.keyNumber),
          code: row.code,
          createdAtMs: row.created_at_ms,
        },
        input: operationInputSchema.parse(JSON.parse(input)),
        action: row.action,
        bot: { id: row.bot_id, username: row.username ?? "" },
        lead:
          behind?.step === "lead" ? { id: behind.external_id, link: behind.link } : { id: null, link: null },
        contactRecordId: behind?.step === "contact" ? behind.external_id : null,
      };
    },
    storedBody: (job) => {
      const row = body.get(job.jobId);
      return row === undefined || row.rendered === 0 ? undefined : row.body;
    },
    keepBody: (job, context, text) => void insertBody.run(job.jobId, JSON.stringify(context.input), text),
    renderAnew: (job) => void dropBody.run(job.jobId),
  };
}
