/**
 * A success that nobody waits for any more (design §3.5): an answer whose lease was lost, or a look-up that finds the
 * record after somebody decided. Keeps P2: such evidence is never thrown away, because forgetting a success is what
 * makes a second lead.
 */
import type Database from "better-sqlite3";
import type { Transition } from "../domain/store.ts";
import { alertBook } from "./alerts.ts";
import { type JobRow, jobBook } from "./jobs.ts";

export interface Effect {
  externalId: string | null;
  link: string | null;
}

export interface EvidenceBook {
  /** Withdraws the repeat where there is one; where it is too late for that, tells people. */
  apply(job: JobRow, effect: Effect, nowMs: number): Transition[];
  /** Raises an alert unless the late record is the one that is known. */
  warnOfTwo(job: JobRow, known: string | null, late: string | null, nowMs: number): void;
}

export function evidenceBook(db: Database.Database): EvidenceBook {
  const jobs = jobBook(db);
  const alerts = alertBook(db);

  function warnOfTwo(job: JobRow, known: string | null, late: string | null, nowMs: number): void {
    if (job.state === "done" && known === late) return;
    alerts.raise(
      "late_evidence",
      String(job.jobId),
      `job ${job.jobId} is ${job.state} (record ${known ?? "none"}), but late evidence names record ${late ?? "without an id"}: look at both in ${job.destination}. leadonce trace ${job.operationId} · when that is done: leadonce dismiss ${job.jobId} --why …`,
      nowMs,
    );
  }

  return {
    apply: (job, effect, nowMs) => {
      switch (job.state) {
        case "needs_reconciliation":
        case "pending":
        case "failed":
          return jobs
            .done(job, { ...effect, reason: "late_evidence" }, nowMs)
            .map((transition) => ({ ...transition, late: true }));
        case "leased":
          // The attempt that begins or runs under the lease finds it on record.
          return [];
        case "blocked":
        case "done":
        case "cancelled":
          warnOfTwo(job, job.externalId, effect.externalId, nowMs);
          return [];
      }
    },
    warnOfTwo,
  };
}
