/**
 * Finding out what became of an attempt whose outcome is unknown (design §6). Keeps P3: a hit is proof, an empty answer
 * is not, and a look-up that was not answered says nothing at all.
 */
import { z } from "zod";
import { asDestinationKey, asJobId } from "../domain/ids.ts";
import type { LookUp } from "../domain/outcome.ts";
import { nextCheckAtMs } from "../domain/policy.ts";
import { backoffMs, DEFAULT_RETRY } from "../domain/retry.ts";
import type { StepSettings, StepSettingsOf } from "../domain/settings.ts";
import type { ReconcileStore, Transition } from "../domain/store.ts";
import { alertBook } from "./alerts.ts";
import { attemptBook } from "./attempts.ts";
import { evidenceBook } from "./evidence.ts";
import { type JobRow, jobBook } from "./jobs.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";
import { stepContextLoader } from "./step-context.ts";

const seenSchema = z.array(
  z.object({ at_ms: z.number(), found: z.array(z.string()).nullable(), detail: z.string().nullable() }),
);
type Seen = z.infer<typeof seenSchema>[number];
/** Enough for a person to judge; the first look-ups matter no more once there are this many later ones. */
const EVIDENCE_KEPT = 20;
/** So many look-ups in a row without an answer are no hiccup any more, and somebody has to know (P4). */
const UNANSWERED_TO_TELL = 5;

const reconciliationRow = z.object({
  reconciliation_id: z.number(),
  job_id: z.number().transform(asJobId),
  reason: z.string(),
  unknown_at_ms: z.number(),
  checks: z.number(),
  failed_checks: z.number(),
  resolved_at_ms: z.number().nullable(),
  evidence: z.string().transform((json) => seenSchema.parse(JSON.parse(json))),
});
type ReconciliationRow = z.infer<typeof reconciliationRow>;

const dueRow = z.object({
  reconciliation_id: z.number(),
  job_id: z.number().transform(asJobId),
  destination: z.string().transform(asDestinationKey),
});

export function reconcileStore({ db, crash }: StoreContext): ReconcileStore {
  const jobs = jobBook(db);
  const alerts = alertBook(db);
  const attempts = attemptBook(db);
  const late = evidenceBook(db);
  const contexts = stepContextLoader(db);
  const due = reader(
    db,
    dueRow,
    `SELECT r.reconciliation_id, r.job_id, j.destination FROM reconciliations r INDEXED BY reconciliations_due
       JOIN jobs j USING (job_id) JOIN destinations d ON d.destination = j.destination AND d.configured = 1
     WHERE r.resolved_at_ms IS NULL AND r.next_check_at_ms IS NOT NULL AND r.next_check_at_ms <= ?
     ORDER BY r.next_check_at_ms LIMIT ?`,
  );
  const byId = reader(db, reconciliationRow, "SELECT * FROM reconciliations WHERE reconciliation_id = ?");
  const note = db.prepare(
    "UPDATE reconciliations SET checks = ?, failed_checks = ?, next_check_at_ms = ?, evidence = ?, reason = ? WHERE reconciliation_id = ?",
  );

  interface Progress {
    checks: number;
    failedChecks: number;
    nextCheckAtMs: number | null;
    reason?: string;
  }

  function record(row: ReconciliationRow, seen: Seen, progress: Progress): void {
    const evidence = [...row.evidence, seen].slice(-EVIDENCE_KEPT);
    const { checks, failedChecks, nextCheckAtMs: next, reason = row.reason } = progress;
    note.run(checks, failedChecks, next, JSON.stringify(evidence), reason, row.reconciliation_id);
  }

  function askAPerson(job: JobRow, why: string, nowMs: number): void {
    const message = `job ${job.jobId} (${job.step}) waits for a person: ${why} Look: leadonce reconcile list`;
    alerts.raise("needs_reconciliation", String(job.jobId), message, nowMs);
  }

  function notAnswered(
    row: ReconciliationRow,
    job: JobRow,
    lookUp: Extract<LookUp, { kind: "not_answered" }>,
    settings: StepSettings | null,
    nowMs: number,
    fraction: number,
  ): void {
    const failedChecks = row.failed_checks + 1;
    const wait = backoffMs(settings?.retry ?? DEFAULT_RETRY, failedChecks, fraction);
    const seen = { at_ms: nowMs, found: null, detail: `not answered: ${lookUp.detail}` };
    record(row, seen, { checks: row.checks, failedChecks, nextCheckAtMs: nowMs + Math.max(wait, 1_000) });
    if (failedChecks !== UNANSWERED_TO_TELL) return;
    const last = lookUp.status === null ? "no answer came" : `HTTP ${lookUp.status}`;
    askAPerson(
      job,
      `${failedChecks} look-ups in a row failed (${last}); they go on, but nothing is found out.`,
      nowMs,
    );
  }

  function foundNothing(
    row: ReconciliationRow,
    job: JobRow,
    settings: StepSettings | null,
    startedAtMs: number,
    nowMs: number,
  ): Transition[] {
    const checks = row.checks + 1;
    const seen = { at_ms: nowMs, found: [], detail: null };
    const absentAfter = settings?.assumeAbsentAfterMs ?? null;
    if (absentAfter !== null && startedAtMs > row.unknown_at_ms + absentAfter) {
      record(
        row,
        { ...seen, detail: "taken as proof of absence (assume_absent_after)" },
        { checks, failedChecks: 0, nextCheckAtMs: null },
      );
      return jobs.sendAgain(job, "proved_absent", nowMs);
    }
    const next = nextCheckAtMs(settings, row.unknown_at_ms, checks, nowMs);
    record(row, seen, { checks, failedChecks: 0, nextCheckAtMs: next });
    if (next === null) {
      askAPerson(job, `${checks} look-ups found no record, which is no proof that there is none.`, nowMs);
    }
    return [];
  }

  function conclude(
    row: ReconciliationRow,
    job: JobRow,
    lookUp: LookUp,
    settings: StepSettings | null,
    startedAtMs: number,
    nowMs: number,
    fraction: number,
  ): Transition[] {
    if (lookUp.kind === "not_answered") {
      notAnswered(row, job, lookUp, settings, nowMs, fraction);
      return [];
    }
    const found = distinct(lookUp);
    const [only] = found;
    if (only === undefined) return foundNothing(row, job, settings, startedAtMs, nowMs);
    const ids = found.map(({ externalId }) => externalId);
    if (found.length > 1) {
      recordHit(row, ids, "found_twice", nowMs);
      askAPerson(job, `the look-up found ${found.length} records: ${ids.join(", ")}.`, nowMs);
      return [];
    }
    recordHit(row, ids, row.reason, nowMs);
    return jobs.done(job, { externalId: only.externalId, link: only.link, reason: "found" }, nowMs);
  }

  /** Somebody decided while the look-up was under way. That stands, but a record that it found is evidence. */
  function afterDecision(
    row: ReconciliationRow,
    job: JobRow,
    lookUp: LookUp,
    settingsOf: StepSettingsOf,
    nowMs: number,
  ): Transition[] {
    const found = distinct(lookUp);
    const [only, second] = found;
    if (only === undefined) return [];
    const ids = found.map(({ externalId }) => externalId);
    recordHit(row, ids, row.reason, nowMs);
    if (second !== undefined && job.state === "pending")
      return jobs.park(job, "found_twice", null, row.unknown_at_ms, settingsOf, nowMs);
    attempts.prove(job, only);
    return late.apply(job, only, nowMs);
  }

  function recordHit(row: ReconciliationRow, ids: string[], reason: string, nowMs: number): void {
    const seen = { at_ms: nowMs, found: ids, detail: null };
    record(row, seen, { checks: row.checks + 1, failedChecks: 0, nextCheckAtMs: null, reason });
  }

  return {
    dueChecks: async (nowMs, limit) =>
      look("read due look-ups", () =>
        due.all(nowMs, limit).flatMap(({ reconciliation_id, job_id, destination }) => {
          const job = jobs.get(job_id);
          if (job === undefined) return [];
          const context = contexts.load(job);
          return [{ reconciliationId: reconciliation_id, jobId: job_id, destination, context }];
        }),
      ),

    recordLookUp: async (
      { reconciliationId },
      lookUp,
      settingsOf: StepSettingsOf,
      startedAtMs,
      nowMs,
      fraction,
    ) => {
      crash("lookup.answered");
      const transitions = transact(db, "record a look-up", () => {
        const row = byId.get(reconciliationId);
        const job = row === undefined ? undefined : jobs.get(row.job_id);
        if (row === undefined || job === undefined) return [];
        const settings = settingsOf(job.destination, job.step);
        const result =
          row.resolved_at_ms === null
            ? conclude(row, job, lookUp, settings, startedAtMs, nowMs, fraction)
            : afterDecision(row, job, lookUp, settingsOf, nowMs);
        crash("resolve.before_commit");
        return result;
      });
      crash("resolve.committed");
      return transitions;
    },
  };
}

/** One search may list a record more than once. */
function distinct(lookUp: LookUp): { externalId: string; link: string | null }[] {
  if (lookUp.kind === "not_answered") return [];
  return [...new Map(lookUp.records.map((record) => [record.externalId, record])).values()];
}
