/** What a person decides about a job (design §4, §9), each recorded with who and why in the same transaction. */
import { z } from "zod";
import { unreachable } from "../domain/errors.ts";
import type { JobState } from "../domain/jobs.ts";
import type { Decided, Decision, DecisionStore, Operator, Transition } from "../domain/store.ts";
import { type JobRow, jobBook } from "./jobs.ts";
import { actionBook } from "./operator-actions.ts";
import { reader, type StoreContext, transact } from "./sql.ts";
import { stepContextLoader } from "./step-context.ts";

const countRow = z.object({ n: z.number() });

export function decisionStore({ db }: StoreContext): Pick<DecisionStore, "decideJob"> {
  const jobs = jobBook(db);
  const actions = actionBook(db);
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

  return {
    decideJob: async (jobId, decision, operator: Operator, nowMs): Promise<Decided> =>
      transact(db, "record a decision", () => {
        const job = jobs.get(jobId);
        if (job === undefined) return { kind: "no_such_job" };
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
