/** The record of attempts, and what it says about a job: whether an unknown still sticks, and since when it is tried. */
import type Database from "better-sqlite3";
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import type { JobId, LeaseToken, RunId } from "../domain/ids.ts";
import { isConfirmed, OUTCOMES, type Outcome } from "../domain/outcome.ts";
import type { AttemptHistory } from "../domain/policy.ts";
import type { JobRow } from "./jobs.ts";
import { reader } from "./sql.ts";

const attemptRow = z.object({
  n: z.number(),
  begun_at_ms: z.number(),
  sent_at_ms: z.number().nullable(),
  ended_at_ms: z.number().nullable(),
  outcome: z.enum(OUTCOMES).nullable(),
  external_id: z.string().nullable(),
  link: z.string().nullable(),
  paused_ms_before: z.number(),
});
export type AttemptRow = z.infer<typeof attemptRow>;

export interface AttemptBook {
  /** The attempt begun under this lease, if any. */
  under(jobId: JobId, token: LeaseToken): AttemptRow | undefined;
  begin(job: JobRow, token: LeaseToken, runId: RunId, pausedMs: number, nowMs: number): number;
  /** `sent_at_ms` is cleared only when the outcome proves that nothing was applied. */
  end(jobId: JobId, n: number, outcome: Outcome, nowMs: number): void;
  /** @param pausedMs the destination's total pause until now */
  history(job: JobRow, pausedMs: number, nowMs: number): AttemptHistory;
  /** A confirmed effect on record, also one that came after its lease was lost. */
  evidence(job: JobRow): AttemptRow | undefined;
  /** A look-up that nobody waited for found the record: that is how the last unknown attempt ended. */
  prove(job: JobRow, effect: { externalId: string; link: string | null }): void;
  /** When the last attempt that may have left was begun. */
  lastMayHaveLeftAtMs(job: JobRow): number | null;
}

export function attemptBook(db: Database.Database): AttemptBook {
  const under = reader(
    db,
    attemptRow,
    "SELECT * FROM attempts WHERE job_id = ? AND token = ? ORDER BY n DESC LIMIT 1",
  );
  const open = reader(db, attemptRow, "SELECT * FROM attempts WHERE job_id = ? AND n > ? ORDER BY n");
  const all = reader(db, attemptRow, "SELECT * FROM attempts WHERE job_id = ? ORDER BY n");
  const insert = db.prepare(
    `INSERT INTO attempts (job_id, n, token, run_id, begun_at_ms, sent_at_ms, paused_ms_before)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const end = db.prepare(
    `UPDATE attempts SET ended_at_ms = ?, outcome = ?, status = ?, detail = ?, external_id = ?, link = ?,
       sent_at_ms = CASE WHEN ? = 'not_applied' THEN NULL ELSE sent_at_ms END
     WHERE job_id = ? AND n = ?`,
  );

  const prove = db.prepare(
    `UPDATE attempts SET outcome = 'confirmed', detail = 'found by a look-up', external_id = ?, link = ?
     WHERE job_id = ? AND n = (SELECT max(n) FROM attempts WHERE job_id = ? AND outcome = 'unknown')`,
  );

  return {
    under: (jobId, token) => under.get(jobId, token),

    begin: (job, token, runId, pausedMs, nowMs) => {
      const n = (all.all(job.jobId).at(-1)?.n ?? 0) + 1;
      insert.run(job.jobId, n, token, runId, nowMs, nowMs, pausedMs);
      return n;
    },

    end: (jobId, n, outcome, nowMs) => {
      const effect = isConfirmed(outcome) ? outcome : { externalId: null, link: null };
      const { kind, status, detail } = outcome;
      const { changes } = end.run(
        nowMs,
        kind,
        status,
        detail,
        effect.externalId,
        effect.link,
        kind,
        jobId,
        n,
      );
      assert(changes === 1, `job ${jobId} has no attempt ${n}`);
    },

    history: (job, pausedMs, nowMs) => {
      const attempts = open.all(job.jobId, job.closedThroughN);
      const counts = ({ outcome }: AttemptRow): boolean => outcome !== "unauthorised";
      const first = attempts.find(counts);
      const left = attempts.find(({ sent_at_ms }) => sent_at_ms !== null);
      return {
        attempts: Math.max(1, all.all(job.jobId).filter(counts).length),
        openUnknown: attempts.some(({ outcome }) => outcome === "unknown"),
        firstMayHaveLeftAtMs: left?.sent_at_ms ?? null,
        tryingForMs:
          first === undefined ? 0 : nowMs - first.begun_at_ms - (pausedMs - first.paused_ms_before),
      };
    },

    evidence: (job) =>
      all.all(job.jobId).find(({ outcome }) => outcome === "confirmed" || outcome === "already"),

    prove: (job, { externalId, link }) => void prove.run(externalId, link, job.jobId, job.jobId),

    lastMayHaveLeftAtMs: (job) =>
      all.all(job.jobId).findLast(({ sent_at_ms }) => sent_at_ms !== null)?.sent_at_ms ?? null,
  };
}
