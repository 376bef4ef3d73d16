/** The row of a destination: what is configured, and whether it is paused (design §6). */
import type Database from "better-sqlite3";
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import type { Health } from "../domain/health.ts";
import { asDestinationKey, asJobId, type DestinationKey, type JobId } from "../domain/ids.ts";
import { alertBook } from "./alerts.ts";
import { reader } from "./sql.ts";

export const destinationRow = z
  .object({
    destination: z.string().transform(asDestinationKey),
    name: z.string(),
    configured: z.number(),
    fingerprint: z.string(),
    state: z.enum(["active", "paused"]),
    reason: z.enum(["unauthorised", "same_failure", "refused_in_a_row", "operator"]).nullable(),
    detail: z.string().nullable(),
    paused_since_ms: z.number().nullable(),
    next_probe_at_ms: z.number().nullable(),
    probes: z.number(),
    trial_ready: z.number(),
    trial_job_id: z.number().transform(asJobId).nullable(),
    failure_signature: z.string().nullable(),
    failure_job_id: z.number().transform(asJobId).nullable(),
    refused_jobs: z
      .string()
      .transform((json) => z.array(z.number().transform(asJobId)).parse(JSON.parse(json))),
    total_paused_ms: z.number(),
  })
  .transform((row) => ({
    key: row.destination,
    name: row.name,
    configured: row.configured === 1,
    fingerprint: row.fingerprint,
    totalPausedMs: row.total_paused_ms,
    health: {
      state: row.state,
      reason: row.reason,
      detail: row.detail,
      pausedSinceMs: row.paused_since_ms,
      nextProbeAtMs: row.next_probe_at_ms,
      probes: row.probes,
      trialReady: row.trial_ready === 1,
      trialJobId: row.trial_job_id,
      failure:
        row.failure_signature === null || row.failure_job_id === null
          ? null
          : { signature: row.failure_signature, jobId: row.failure_job_id },
      refusedJobs: row.refused_jobs,
    } satisfies Health,
  }));
export type StoredDestination = z.infer<typeof destinationRow>;

export interface HealthBook {
  get(destination: DestinationKey): StoredDestination | undefined;
  all(): StoredDestination[];
  save(destination: DestinationKey, health: Health, nowMs: number): void;
  /** All pauses until now, the present one included. */
  pausedMs(destination: DestinationKey, nowMs: number): number;
  /** A trial that left its lease without an outcome proved nothing: another job may be tried at once. */
  rearmTrial(destination: DestinationKey, jobId: JobId, nowMs: number): void;
}

export function healthBook(db: Database.Database): HealthBook {
  const alerts = alertBook(db);
  const one = reader(db, destinationRow, "SELECT * FROM destinations WHERE destination = ?");
  const all = reader(db, destinationRow, "SELECT * FROM destinations ORDER BY name");
  const update = db.prepare(
    `UPDATE destinations SET state = @state, reason = @reason, detail = @detail, paused_since_ms = @pausedSinceMs,
       next_probe_at_ms = @nextProbeAtMs, probes = @probes, trial_ready = @trialReady, trial_job_id = @trialJobId,
       failure_signature = @failureSignature, failure_job_id = @failureJobId, refused_jobs = @refusedJobs,
       total_paused_ms = @totalPausedMs
     WHERE destination = @destination`,
  );

  function save(destination: DestinationKey, health: Health, nowMs: number): void {
    const before = one.get(destination);
    assert(before !== undefined, `destination ${destination} is not entered`);
    // Most outcomes change nothing here; a write for each would double the log.
    if (JSON.stringify(before.health) === JSON.stringify(health)) return;
    const since = before.health.pausedSinceMs;
    const ended = since !== null && health.state === "active" ? Math.max(0, nowMs - since) : 0;
    const { failure, refusedJobs, trialReady, ...columns } = health;
    update.run({
      ...columns,
      destination,
      trialReady: trialReady ? 1 : 0,
      failureSignature: failure?.signature ?? null,
      failureJobId: failure?.jobId ?? null,
      refusedJobs: JSON.stringify(refusedJobs),
      totalPausedMs: before.totalPausedMs + ended,
    });
    // The subject is the key: a name may be changed while the alert is open.
    if (health.state === "active") alerts.clear("paused", destination, nowMs);
    else if (before.health.state === "active" || before.health.detail !== health.detail) {
      alerts.raise(
        "paused",
        destination,
        `destination ${before.name} is paused: ${health.detail ?? health.reason ?? ""}. Jobs wait, nothing is lost. Continue by hand: leadonce resume ${before.name}`,
        nowMs,
      );
    }
  }

  return {
    get: (destination) => one.get(destination),
    all: () => all.all(),
    save,
    pausedMs: (destination, nowMs) => {
      const row = one.get(destination);
      if (row === undefined) return 0;
      const since = row.health.pausedSinceMs;
      return row.totalPausedMs + (since === null ? 0 : Math.max(0, nowMs - since));
    },
    rearmTrial: (destination, jobId, nowMs) => {
      const health = one.get(destination)?.health;
      if (health?.state === "paused" && health.reason !== "operator" && health.trialJobId === jobId) {
        save(destination, { ...health, trialReady: true }, nowMs);
      }
    },
  };
}
