/** What a person decides about a job (design §4, §9), each recorded with who and why in the same transaction. */
import { z } from "zod";
import { unreachable } from "../domain/errors.ts";
import { isFinal, type JobState } from "../domain/jobs.ts";
import type { Decided, Decision, DecisionStore, Operator, Transition } from "../domain/store.ts";
import { alertBook } from "./alerts.ts";
import { type JobRow, jobBook } from "./jobs.ts";
import { actionBook } from "./operator-actions.ts";
import { reader, type StoreContext, transact } from "./sql.ts";
import { stepContextLoader } from "./step-context.ts";

const countRow = z.object({ n: z.number() });

export function decisionStore({ db }: StoreContext): Pick<DecisionStore, "decideJob"> {
  const jobs = jobBook(db);
  const actions = actionBook(db);
  const alerts = alertBook(db);
  const contexts = stepContextLoader(db);
  const following = reader(
    db,
    countRow,
    "SELECT count(*) AS n FROM jobs WHERE follows_job_id = ? AND state = 'blocked'",
  );
  const nextKey = db.prepare("UPDATE jobs SET key_number = key_number + 1 WHERE job_id = ?");

  function carryOut(job: JobRow, decision: Decision, nowMs: number): Transition[] {
    switch (decision.kind) {
      case "retry":
        nextKey.run(job.jobId);
        contexts.renderAnew(job);
        return jobs.sendAgain(job, "operator_retry", nowMs);
      case "recreate":
        return jobs.sendAgain(job, "operator_recreate", nowMs);
      case "link":
        return jobs.done(
          job,
          { externalId: decision.externalId, link: null, reason: "operator_link" },
          nowMs,
        );
      case "dismiss":
        return jobs.cancel(job, "operator_dismiss", decision.withNotes ? "cancel" : "fail", nowMs);
      default:
        return unreachable(decision);
    }
  }

  /** A final job changes no more; what a person can do about a late answer is to look, and to say so. */
  function acknowledge(job: JobRow, decision: Decision, nowMs: number): Transition[] {
    if (!isFinal(job.state) || decision.kind !== "dismiss") return [];
    if (!alerts.clear("late_evidence", String(job.jobId), nowMs)) return [];
    const { jobId, operationId, destination, step, state, externalId } = job;
    const reason = "acknowledged";
    return [
      { jobId, operationId, destination, step, from: state, to: state, reason, externalId, late: false },
    ];
  }

  return {
    decideJob: async (jobId, decision, operator: Operator, nowMs): Promise<Decided> =>
      transact(db, "record a decision", () => {
        const job = jobs.get(jobId);
        if (job === undefined) return { kind: "no_such_job" };
        const acknowledged = acknowledge(job, decision, nowMs);
        if (acknowledged.length > 0) {
          actions.record({ operator, action: "acknowledge", jobId, subject: null, detail: null }, nowMs);
          return { kind: "applied", transitions: acknowledged, following: 0 };
        }
        const leader = job.followsJobId === null ? undefined : jobs.get(job.followsJobId);
        const why = whyNot(job.state, decision, leader?.state ?? null);
        if (why !== null) return { kind: "not_applicable", state: job.state, why };
        const count = following.get(jobId)?.n ?? 0;
        const detail = decision.kind === "link" ? decision.externalId : null;
        const transitions = carryOut(job, decision, nowMs);
        actions.record({ operator, action: decision.kind, jobId, subject: null, detail }, nowMs);
        return { kind: "applied", transitions, following: count };
      }),
  };
}

const LEADER_DISMISSED = "the lead that it belongs to was dismissed; link or dismiss it";

/** Null when the decision applies to a job in this state; else the sentence for people. */
function whyNot(state: JobState, decision: Decision, leader: JobState | null): string | null {
  if (state === "leased") return "it is being sent at this moment; try again in a minute";
  if (state === "done" || state === "cancelled") return `it is ${state}, and that is final`;
  switch (decision.kind) {
    case "retry":
      if (state === "failed") return leader === "cancelled" ? LEADER_DISMISSED : null;
      return state === "needs_reconciliation"
        ? "it may exist in the CRM already; decide with: leadonce reconcile link | recreate | dismiss"
        : "it has not failed; it will be sent by itself";
    case "recreate":
      if (state === "needs_reconciliation") return leader === "cancelled" ? LEADER_DISMISSED : null;
      return "only a job that needs reconciliation can be recreated";
    case "link":
      return state === "failed" || state === "needs_reconciliation"
        ? null
        : "only a failed job or one that needs reconciliation can be linked";
    case "dismiss":
      return null;
  }
}
