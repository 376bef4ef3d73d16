/**
 * Which jobs may run now (design §3.4): due, of an active destination, and first in line for their contact there. Uses
 * partial indexes, so a million finished jobs cost nothing.
 */
import { z } from "zod";
import type { DestinationKey, LeaseToken, RunId } from "../domain/ids.ts";
import type { ClaimedJob, ClaimRequest } from "../domain/store.ts";
import { healthBook } from "./health.ts";
import { type JobRow, jobBook, jobRow } from "./jobs.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";

/** A pending job holds back its contact's later ones; a leased one all others of the contact. */
export const CLAIMABLE = `
  SELECT j.* FROM jobs j INDEXED BY jobs_ready
  WHERE j.state = 'pending' AND j.destination = ? AND j.run_at_ms <= ?
    AND NOT EXISTS (
      SELECT 1 FROM jobs e INDEXED BY jobs_holding_back
      WHERE e.destination = j.destination AND e.contact_id = j.contact_id AND e.state IN ('pending', 'leased')
        AND e.job_id <> j.job_id AND (e.job_id < j.job_id OR e.state = 'leased'))`;

export interface Claimer {
  claim(
    requests: readonly ClaimRequest[],
    runId: RunId,
    newToken: () => LeaseToken,
    nowMs: number,
  ): Promise<ClaimedJob[]>;
  nextDueAtMs(nowMs: number): Promise<number | null>;
}

const dueRow = z.object({ at: z.number().nullable() });

export function claimer({ db, crash }: StoreContext): Claimer {
  const jobs = jobBook(db);
  const health = healthBook(db);
  const ready = reader(db, jobRow, `${CLAIMABLE} ORDER BY j.run_at_ms, j.job_id LIMIT ?`);
  const oneForTrial = reader(db, jobRow, `${CLAIMABLE} ORDER BY j.job_id = ?, j.run_at_ms, j.job_id LIMIT 1`);
  const nextDue = reader(
    db,
    dueRow,
    `SELECT min(at) AS at FROM (
       SELECT (SELECT min(j.run_at_ms) FROM jobs j INDEXED BY jobs_ready
               WHERE j.state = 'pending' AND j.destination = d.destination AND j.run_at_ms > ?) AS at
         FROM destinations d WHERE d.configured = 1 AND (d.state = 'active' OR d.trial_ready = 1)
       UNION ALL SELECT next_probe_at_ms FROM destinations WHERE configured = 1 AND next_probe_at_ms > ?
       UNION ALL SELECT min(next_check_at_ms) FROM reconciliations
         WHERE resolved_at_ms IS NULL AND next_check_at_ms IS NOT NULL AND next_check_at_ms > ?)`,
  );

  function candidates(
    { destination, limit }: ClaimRequest,
    nowMs: number,
  ): { rows: JobRow[]; trial: boolean } {
    const stored = health.get(destination);
    if (stored === undefined || limit <= 0) return { rows: [], trial: false };
    if (stored.health.state === "active") return { rows: ready.all(destination, nowMs, limit), trial: false };
    if (!stored.health.trialReady) return { rows: [], trial: false };
    const row = oneForTrial.get(destination, nowMs, stored.health.trialJobId ?? 0);
    if (row === undefined) return { rows: [], trial: false };
    // No probe while the trial is under way: a good one would let a second job through.
    const underWay = { ...stored.health, trialReady: false, nextProbeAtMs: null, trialJobId: row.jobId };
    health.save(destination, underWay, nowMs);
    return { rows: [row], trial: true };
  }

  return {
    claim: async (requests, runId, newToken, nowMs) => {
      // Most wake-ups find nothing; then there is no write, and no commit.
      const anything = look("read ready jobs", () =>
        requests.some(({ destination, limit }) => limit > 0 && anythingReady(destination, nowMs)),
      );
      if (!anything) return [];
      const claimed = transact(db, "claim jobs", () => {
        const result: ClaimedJob[] = [];
        for (const request of requests) {
          const { rows, trial } = candidates(request, nowMs);
          for (const job of rows) {
            const token = newToken();
            jobs.lease(job, token, runId, nowMs + request.leaseMs, nowMs);
            const { jobId, operationId, destination, step } = job;
            result.push({ jobId, token, operationId, destination, step, trial });
          }
        }
        crash("claim.before_commit");
        return result;
      });
      if (claimed.length > 0) crash("claim.committed");
      return claimed;
    },
    nextDueAtMs: async (nowMs) =>
      look("read what is due next", () => nextDue.get(nowMs, nowMs, nowMs)?.at ?? null),
  };

  function anythingReady(destination: DestinationKey, nowMs: number): boolean {
    return ready.all(destination, nowMs, 1).length > 0;
  }
}
