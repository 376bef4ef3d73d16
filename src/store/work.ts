/**
 * The life of an attempt in the database (design §3.4-3.5). Keeps P3: the attempt and the body that goes out are
 * committed before anything leaves. Keeps P2: only the holder of the lease token settles the job; what comes late is
 * kept as evidence.
 */
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import { afterOutcome } from "../domain/health.ts";
import { asDestinationKey, asJobId, asLeaseToken, asRunId } from "../domain/ids.ts";
import { isConfirmed, type Outcome } from "../domain/outcome.ts";
import { afterAttempt, mayNotRepeat, type NextStep } from "../domain/policy.ts";
import { DEFAULT_RETRY } from "../domain/retry.ts";
import type { StepSettingsOf } from "../domain/settings.ts";
import type { Begun, LeaseRef, Prepare, Settlement, Transition, WorkStore } from "../domain/store.ts";
import { attemptBook } from "./attempts.ts";
import { claimer } from "./claim.ts";
import { evidenceBook } from "./evidence.ts";
import { healthBook } from "./health.ts";
import { type JobRow, jobBook } from "./jobs.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";
import { stepContextLoader } from "./step-context.ts";

const leaseRow = z.object({
  job_id: z.number().transform(asJobId),
  token: z.string().transform(asLeaseToken),
  run_id: z.string().transform(asRunId),
  destination: z.string().transform(asDestinationKey),
});

type AttemptStore = Omit<WorkStore, "destinations" | "configureDestinations" | "dueProbes" | "recordProbe">;

export function workStore(context: StoreContext): AttemptStore {
  const { db, crash } = context;
  const jobs = jobBook(db);
  const attempts = attemptBook(db);
  const health = healthBook(db);
  const contexts = stepContextLoader(db);
  const late = evidenceBook(db);
  const { claim, nextDueAtMs } = claimer(context);
  const leaseOf = reader(
    db,
    leaseRow,
    "SELECT l.*, j.destination FROM leases l JOIN jobs j USING (job_id) WHERE l.job_id = ? AND l.token = ?",
  );
  const expired = reader(
    db,
    leaseRow,
    "SELECT l.*, j.destination FROM leases l JOIN jobs j USING (job_id) WHERE l.expires_at_ms <= ? ORDER BY l.job_id",
  );
  const everyLease = reader(
    db,
    leaseRow,
    "SELECT l.*, j.destination FROM leases l JOIN jobs j USING (job_id) ORDER BY l.job_id",
  );
  const extend = db.prepare("UPDATE leases SET expires_at_ms = ? WHERE job_id = ? AND token = ?");
  const count = db.prepare("UPDATE jobs SET attempts = attempts + ? WHERE job_id = ?");

  /** The job, if it is leased under this very token. */
  function held({
    jobId,
    token,
  }: LeaseRef): { job: JobRow; runId: z.infer<typeof leaseRow>["run_id"] } | null {
    const lease = leaseOf.get(jobId, token);
    const job = jobs.get(jobId);
    return lease === undefined || job?.state !== "leased" ? null : { job, runId: lease.run_id };
  }

  function begin(
    lease: LeaseRef & { leaseMs: number },
    prepare: Prepare,
    settingsOf: StepSettingsOf,
    nowMs: number,
  ): Begun {
    const holder = held(lease);
    if (holder === null) return { kind: "lost", jobId: lease.jobId };
    const { job, runId } = holder;
    const evidence = attempts.evidence(job);
    if (evidence !== undefined) {
      // Its success came in while it waited for its turn: nothing is sent.
      const effect = { externalId: evidence.external_id, link: evidence.link, reason: "late_evidence" };
      jobs.done(job, effect, nowMs);
      health.rearmTrial(job.destination, job.jobId, nowMs);
      return { kind: "stopped", jobId: job.jobId, to: "done", reason: "late_evidence" };
    }
    const settings = settingsOf(job.destination, job.step);
    const history = attempts.history(job, health.pausedMs(job.destination, nowMs), nowMs);

    const stop = (
      to: "failed" | "needs_reconciliation",
      reason: "unrenderable" | "class_forbids_repeat" | "key_expired",
      detail: string | null,
    ): Begun => {
      // Unknown sticks: what may have been applied is never called a plain failure.
      if (to === "failed" && !history.openUnknown) jobs.fail(job, reason, detail, nowMs);
      else {
        const unknownAt = attempts.lastMayHaveLeftAtMs(job) ?? nowMs;
        jobs.park(job, reason, detail, unknownAt, settingsOf, nowMs);
      }
      health.rearmTrial(job.destination, job.jobId, nowMs);
      return { kind: "stopped", jobId: job.jobId, to: jobs.get(job.jobId)?.state ?? to, reason };
    };

    if (settings === null) return stop("failed", "unrenderable", `no step "${job.step}" is configured`);
    const forbidden = mayNotRepeat(history, settings, nowMs);
    if (forbidden === "class_forbids_repeat" || forbidden === "key_expired") {
      return stop("needs_reconciliation", forbidden, null);
    }
    const stepContext = contexts.load(job);
    const storedBody = contexts.storedBody(job);
    const prepared = prepare(job.destination, stepContext, storedBody);
    if (prepared === null) return stop("failed", "unrenderable", "the destination is not configured");
    if (prepared.kind === "unrenderable") {
      return stop("failed", "unrenderable", `${prepared.template}: ${prepared.message}`);
    }
    if (storedBody === undefined) contexts.keepBody(job, stepContext, prepared.body);
    const n = attempts.begin(job, lease.token, runId, health.pausedMs(job.destination, nowMs), nowMs);
    count.run(1, job.jobId);
    extend.run(nowMs + lease.leaseMs, job.jobId, lease.token);
    return { kind: "begun", jobId: job.jobId, n, send: prepared.send };
  }

  function settleOne(
    settlement: Settlement,
    settingsOf: StepSettingsOf,
    nowMs: number,
    fraction: number,
  ): Transition[] {
    const { jobId, token, n, outcome } = settlement;
    const attempt = attempts.under(jobId, token);
    assert(attempt?.n === n, `job ${jobId} has no attempt ${n} under this lease`);
    // A success on record is never overwritten.
    if (attempt.outcome === "confirmed" || attempt.outcome === "already") return [];
    attempts.end(jobId, n, outcome, nowMs);
    const holder = held(settlement);
    if (holder === null) return settleLate(settlement, nowMs);
    const transitions = conclude(holder.job, outcome, settingsOf, nowMs, fraction);
    noteHealth(holder.job, outcome, transitions, settingsOf, nowMs, fraction);
    return transitions;
  }

  /** What follows for a job whose lease we hold. */
  function conclude(
    job: JobRow,
    outcome: Outcome,
    settingsOf: StepSettingsOf,
    nowMs: number,
    fraction: number,
  ): Transition[] {
    const settings = settingsOf(job.destination, job.step);
    const history = attempts.history(job, health.pausedMs(job.destination, nowMs), nowMs);
    const evidence = attempts.evidence(job);
    const next: NextStep =
      evidence === undefined
        ? afterAttempt(outcome, history, settings, nowMs, fraction)
        : // An earlier attempt's success came in while this one ran: it stands, whatever this one says.
          { to: "done", externalId: evidence.external_id, link: evidence.link };
    if (outcome.kind === "unauthorised") count.run(-1, job.jobId);
    const transitions = applyNext(job, next, outcome, settingsOf, nowMs);
    if (evidence !== undefined && isConfirmed(outcome))
      late.warnOfTwo({ ...job, state: "done" }, evidence.external_id, outcome.externalId, nowMs);
    return transitions;
  }

  function applyNext(
    job: JobRow,
    next: NextStep,
    outcome: Outcome,
    settingsOf: StepSettingsOf,
    nowMs: number,
  ): Transition[] {
    switch (next.to) {
      case "done":
        return jobs.done(job, { externalId: next.externalId, link: next.link, reason: null }, nowMs);
      case "failed":
        return jobs.fail(job, next.reason, outcome.detail, nowMs);
      case "needs_reconciliation": {
        const unknownAt = attempts.lastMayHaveLeftAtMs(job) ?? nowMs;
        return jobs.park(job, next.reason, outcome.detail, unknownAt, settingsOf, nowMs);
      }
      case "pending":
        return jobs.toPending(job, next.reason, next.runAtMs, next.closesUnknown, nowMs);
    }
  }

  function noteHealth(
    job: JobRow,
    outcome: Outcome,
    transitions: readonly Transition[],
    settingsOf: StepSettingsOf,
    nowMs: number,
    fraction: number,
  ): void {
    const stored = health.get(job.destination);
    if (stored === undefined) return;
    const parked = transitions[0]?.to === "needs_reconciliation";
    const retry = settingsOf(job.destination, job.step)?.retry ?? DEFAULT_RETRY;
    const next = afterOutcome(stored.health, job.jobId, outcome, parked, retry, nowMs, fraction);
    health.save(job.destination, next, nowMs);
  }

  /** The lease was lost meanwhile. A success is evidence and never thrown away; the rest stands on the attempt. */
  function settleLate({ jobId, outcome }: Settlement, nowMs: number): Transition[] {
    const job = jobs.get(jobId);
    assert(job !== undefined, `job ${jobId} does not exist`);
    const transitions = isConfirmed(outcome) ? late.apply(job, outcome, nowMs) : [];
    if (transitions.length > 0) return transitions;
    const { operationId, destination, step, state, externalId } = job;
    const reason = "late_evidence";
    return [
      { jobId, operationId, destination, step, from: state, to: state, reason, externalId, late: true },
    ];
  }

  function rescueOne(
    lease: LeaseRef,
    settingsOf: StepSettingsOf,
    nowMs: number,
    fraction: number,
  ): Transition[] {
    const holder = held(lease);
    if (holder === null) return [];
    const attempt = attempts.under(lease.jobId, lease.token);
    if (attempt === undefined || attempt.ended_at_ms !== null) return giveBack(holder.job, nowMs);
    const outcome: Outcome = {
      kind: "unknown",
      status: null,
      detail: "the process ended before the answer was recorded",
    };
    attempts.end(lease.jobId, attempt.n, outcome, nowMs);
    const transitions = conclude(holder.job, outcome, settingsOf, nowMs, fraction);
    // Our own death says nothing about the destination. But a trial has to end, or no other one is ever let through.
    if (health.get(holder.job.destination)?.health.trialJobId === lease.jobId)
      noteHealth(holder.job, outcome, transitions, settingsOf, nowMs, fraction);
    return transitions;
  }

  function giveBack(job: JobRow, nowMs: number): Transition[] {
    const transitions = jobs.toPending(job, job.reason ?? "given_back", nowMs, false, nowMs);
    health.rearmTrial(job.destination, job.jobId, nowMs);
    return transitions;
  }

  return {
    claim,
    nextDueAtMs,

    beginAttempt: async (leases, prepare, settings, nowMs) => {
      const begun = transact(db, "begin attempts", () => {
        const result = leases.map((lease) => begin(lease, prepare, settings, nowMs));
        crash("begin.before_commit");
        return result;
      });
      crash("begin.committed");
      return begun;
    },

    settle: async (settlements, settings, nowMs, fraction) => {
      const transitions = transact(db, "settle attempts", () => {
        const result = settlements.flatMap((settlement) =>
          settleOne(settlement, settings, nowMs, fraction()),
        );
        crash("settle.before_commit");
        return result;
      });
      crash("settle.committed");
      return transitions;
    },

    release: async (leases, nowMs) =>
      transact(db, "give jobs back", () =>
        leases.flatMap((lease) => {
          const holder = held(lease);
          return holder === null || attempts.under(lease.jobId, lease.token) !== undefined
            ? []
            : giveBack(holder.job, nowMs);
        }),
      ),

    staleLeases: async (nowMs) =>
      look("read stale leases", () => {
        const rows = nowMs === Number.POSITIVE_INFINITY ? everyLease.all() : expired.all(nowMs);
        return rows.map(({ job_id, token, destination }) => ({ jobId: job_id, token, destination }));
      }),

    rescue: async (leases, settings, nowMs, fraction) =>
      transact(db, "take leases back", () =>
        leases.flatMap((lease) => rescueOne(lease, settings, nowMs, fraction())),
      ),
  };
}
