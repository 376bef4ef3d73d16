/**
 * The transitions of a job (design §4), one function each: it names the state it leaves, fills the whole set of columns,
 * and brings along what must happen with it (lease, reconciliation, alert, the jobs that follow). Used inside the
 * transactions of the other modules; the triggers of the schema stand behind it.
 */
import type Database from "better-sqlite3";
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import { reasonText } from "../domain/explain.ts";
import {
  asDestinationKey,
  asJobId,
  asOperationId,
  type JobId,
  type LeaseToken,
  type RunId,
} from "../domain/ids.ts";
import { JOB_STATES, type JobState, STEPS } from "../domain/jobs.ts";
import { nextCheckAtMs } from "../domain/policy.ts";
import type { StepSettingsOf } from "../domain/settings.ts";
import type { Transition } from "../domain/store.ts";
import { alertBook } from "./alerts.ts";
import { reader } from "./sql.ts";

export const jobRow = z
  .object({
    job_id: z.number().transform(asJobId),
    operation_id: z.string().transform(asOperationId),
    destination: z.string().transform(asDestinationKey),
    step: z.enum(STEPS),
    state: z.enum(JOB_STATES),
    follows_job_id: z.number().transform(asJobId).nullable(),
    contact_id: z.number().nullable(),
    attempts: z.number(),
    key_number: z.number(),
    closed_through_n: z.number(),
    external_id: z.string().nullable(),
    link: z.string().nullable(),
    reason: z.string().nullable(),
  })
  .transform((row) => ({
    jobId: row.job_id,
    operationId: row.operation_id,
    destination: row.destination,
    step: row.step,
    state: row.state,
    followsJobId: row.follows_job_id,
    contactId: row.contact_id,
    attempts: row.attempts,
    keyNumber: row.key_number,
    closedThroughN: row.closed_through_n,
    externalId: row.external_id,
    link: row.link,
    reason: row.reason,
  }));
export type JobRow = z.infer<typeof jobRow>;

export interface JobBook {
  get(jobId: JobId): JobRow | undefined;
  lease(job: JobRow, token: LeaseToken, runId: RunId, expiresAtMs: number, nowMs: number): void;
  done(
    job: JobRow,
    effect: { externalId: string | null; link: string | null; reason: string | null },
    nowMs: number,
  ): Transition[];
  fail(job: JobRow, reason: string, detail: string | null, nowMs: number): Transition[];
  /** Opens a reconciliation; `unknownAtMs` is when the attempt in question may have left. */
  park(
    job: JobRow,
    reason: string,
    detail: string | null,
    unknownAtMs: number,
    settings: StepSettingsOf,
    nowMs: number,
  ): Transition[];
  /** `closes`: every attempt so far is settled by this decision, and counting starts anew. */
  toPending(job: JobRow, reason: string, runAtMs: number, closes: boolean, nowMs: number): Transition[];
  /** By a decision that closes every attempt so far; a job that waits for another goes back behind it. */
  sendAgain(job: JobRow, reason: string, nowMs: number): Transition[];
  /** `followers`: what becomes of jobs that wait for this one. */
  cancel(job: JobRow, reason: string, followers: "fail" | "cancel", nowMs: number): Transition[];
  openReconciliation(jobId: JobId): number | null;
}

const idRow = z.object({ id: z.number() });
const maxRow = z.object({ n: z.number() });

export function jobBook(db: Database.Database): JobBook {
  const alerts = alertBook(db);
  const byId = reader(db, jobRow, "SELECT * FROM jobs WHERE job_id = ?");
  const followersOf = reader(db, jobRow, "SELECT * FROM jobs WHERE follows_job_id = ? ORDER BY job_id");
  const openOf = reader(
    db,
    idRow,
    "SELECT reconciliation_id AS id FROM reconciliations WHERE job_id = ? AND resolved_at_ms IS NULL",
  );
  const lastAttempt = reader(db, maxRow, "SELECT coalesce(max(n), 0) AS n FROM attempts WHERE job_id = ?");
  const insertLease = db.prepare(
    "INSERT INTO leases (job_id, token, run_id, expires_at_ms) VALUES (?, ?, ?, ?)",
  );
  const dropLease = db.prepare("DELETE FROM leases WHERE job_id = ?");
  const insertReconciliation = db.prepare(
    `INSERT INTO reconciliations (job_id, reason, opened_at_ms, unknown_at_ms, next_check_at_ms) VALUES (?, ?, ?, ?, ?)`,
  );
  const resolve = db.prepare(
    "UPDATE reconciliations SET resolved_at_ms = ?, resolution = ?, next_check_at_ms = NULL WHERE job_id = ? AND resolved_at_ms IS NULL",
  );
  const change = db.prepare(
    `UPDATE jobs SET state = @to, reason = @reason, detail = @detail, run_at_ms = coalesce(@runAtMs, run_at_ms),
       external_id = @externalId, link = @link, closed_through_n = @closedThroughN, state_at_ms = @nowMs,
       finished_at_ms = CASE WHEN @to IN ('done', 'cancelled') THEN @nowMs END
     WHERE job_id = @jobId AND state = @from`,
  );

  interface Columns {
    reason: string | null;
    detail?: string | null;
    runAtMs?: number;
    externalId?: string | null;
    link?: string | null;
    closes?: boolean;
  }

  /** The one UPDATE of a job's state: guarded by the state it was read in, and must change exactly one row. */
  function leave(job: JobRow, to: JobState, columns: Columns, nowMs: number): Transition {
    if (job.state === "leased") dropLease.run(job.jobId);
    const closes = columns.closes === true;
    const { changes } = change.run({
      jobId: job.jobId,
      from: job.state,
      to,
      reason: columns.reason,
      detail: columns.detail ?? null,
      runAtMs: columns.runAtMs ?? null,
      externalId: columns.externalId ?? null,
      link: columns.link ?? null,
      closedThroughN: closes ? (lastAttempt.get(job.jobId)?.n ?? 0) : job.closedThroughN,
      nowMs,
    });
    assert(changes === 1, `job ${job.jobId} was no longer ${job.state}`);
    if (job.state === "needs_reconciliation") {
      resolve.run(nowMs, columns.reason ?? to, job.jobId);
      alerts.clear("needs_reconciliation", String(job.jobId), nowMs);
    }
    if (job.state === "failed") alerts.clear("failed", String(job.jobId), nowMs);
    return {
      jobId: job.jobId,
      operationId: job.operationId,
      destination: job.destination,
      step: job.step,
      from: job.state,
      to,
      reason: columns.reason,
      externalId: columns.externalId ?? null,
      late: false,
    };
  }

  function fail(job: JobRow, reason: string, detail: string | null, nowMs: number): Transition[] {
    const transition = leave(job, "failed", { reason, detail }, nowMs);
    alerts.raise(
      "failed",
      String(job.jobId),
      `job ${job.jobId} (${job.step}) failed: ${reasonText(reason).why} Decide: leadonce retry ${job.jobId} · leadonce link ${job.jobId} ID · leadonce dismiss ${job.jobId} --why …`,
      nowMs,
    );
    return [transition];
  }

  function cancel(job: JobRow, reason: string, followers: "fail" | "cancel", nowMs: number): Transition[] {
    const transitions = [leave(job, "cancelled", { reason }, nowMs)];
    for (const follower of followersOf.all(job.jobId)) {
      if (follower.state !== "blocked") continue;
      transitions.push(
        ...(followers === "cancel"
          ? cancel(follower, reason, followers, nowMs)
          : fail(follower, "lead_dismissed", null, nowMs)),
      );
    }
    return transitions;
  }

  return {
    get: (jobId) => byId.get(jobId),

    lease: (job, token, runId, expiresAtMs, nowMs) => {
      // The lease first: the schema refuses a leased job without one.
      insertLease.run(job.jobId, token, runId, expiresAtMs);
      leave(job, "leased", { reason: job.reason }, nowMs);
    },

    done: (job, effect, nowMs) => {
      const transitions = [leave(job, "done", effect, nowMs)];
      for (const follower of followersOf.all(job.jobId)) {
        if (follower.state !== "blocked") continue;
        transitions.push(leave(follower, "pending", { reason: null, runAtMs: nowMs }, nowMs));
      }
      return transitions;
    },

    fail,

    park: (job, reason, detail, unknownAtMs, settings, nowMs) => {
      const transition = leave(job, "needs_reconciliation", { reason, detail }, nowMs);
      const next = nextCheckAtMs(settings(job.destination, job.step), unknownAtMs, 0, nowMs);
      insertReconciliation.run(job.jobId, reason, nowMs, unknownAtMs, next);
      if (next === null) raiseParked(job, reason, nowMs);
      return [transition];
    },

    toPending: (job, reason, runAtMs, closes, nowMs) => [
      leave(job, "pending", { reason, runAtMs, closes }, nowMs),
    ],

    sendAgain: (job, reason, nowMs) => {
      const leader = job.followsJobId === null ? undefined : byId.get(job.followsJobId);
      if (leader === undefined || leader.state === "done")
        return [leave(job, "pending", { reason, runAtMs: nowMs, closes: true }, nowMs)];
      const blocked = leave(job, "blocked", { reason, closes: true }, nowMs);
      // Nothing will come of the one that it waits for, and a customer's words never vanish silently.
      return leader.state === "cancelled"
        ? [blocked, ...fail({ ...job, state: "blocked" }, "lead_dismissed", null, nowMs)]
        : [blocked];
    },

    cancel,

    openReconciliation: (jobId) => openOf.get(jobId)?.id ?? null,
  };

  function raiseParked(job: JobRow, reason: string, nowMs: number): void {
    alerts.raise(
      "needs_reconciliation",
      String(job.jobId),
      `job ${job.jobId} (${job.step}) waits for a person: ${reasonText(reason).why} Look: leadonce reconcile list`,
      nowMs,
    );
  }
}
