/** What a decision did, in the JSON shape for programs and in words for people. */
import { unreachable } from "../domain/errors.ts";
import type { JobId } from "../domain/ids.ts";
import type { JobState, Step } from "../domain/jobs.ts";
import type { Decision } from "../domain/store.ts";
import { oneLine } from "./terminal.ts";
import { count } from "./text.ts";

export interface AppliedDecision {
  job_id: JobId;
  operation_id: string;
  destination: string;
  step: Step;
  /** The state it is in now. */
  state: JobState;
  reason: string | null;
  external_id: string | null;
  /** Jobs that followed it and changed with it. */
  following: { job_id: JobId; step: Step; state: JobState }[];
}

export interface RefusedDecision {
  job_id: JobId;
  /** Null: there is no such job. */
  state: JobState | null;
  why: string;
}

export interface DecisionReport {
  applied: AppliedDecision[];
  refused: RefusedDecision[];
}

/** More numbers than this help nobody. */
const NUMBERS_SHOWN = 10;

export function decisionText({ applied, refused }: DecisionReport, decision: Decision): string[] {
  if (applied.length === 0 && refused.length === 0)
    return ["No job waits for that. Is all well? leadonce status"];
  return [
    ...bySentence(applied, (job) => appliedSentence(job, decision)),
    ...followingText(
      applied.flatMap(({ following }) => following),
      decision,
    ),
    ...bySentence(
      refused.filter(({ state }) => state !== null),
      refusedSentence,
    ),
    ...(applied.some(({ state }) => state === "pending")
      ? ["A running daemon notices within a second. Watch it: leadonce status"]
      : []),
  ];
}

/** Jobs of which the same is said share a line. */
function bySentence<Job extends { job_id: JobId }>(
  jobs: readonly Job[],
  sentence: (job: Job) => string,
): string[] {
  const groups = new Map<string, JobId[]>();
  for (const job of jobs) {
    const text = sentence(job);
    groups.set(text, [...(groups.get(text) ?? []), job.job_id]);
  }
  return [...groups].map(([text, ids]) => `${numbers(ids)}: ${text}`);
}

function numbers(ids: readonly JobId[]): string {
  const more = ids.length - NUMBERS_SHOWN;
  const shown = ids.slice(0, NUMBERS_SHOWN).join(", ");
  return `${ids.length === 1 ? "job" : "jobs"} ${shown}${more > 0 ? ` and ${more} more` : ""}`;
}

function appliedSentence({ state, reason, external_id }: AppliedDecision, decision: Decision): string {
  switch (decision.kind) {
    case "retry":
    case "recreate": {
      const how = decision.kind === "retry" ? "will be made anew and sent again" : "will be sent once more";
      return state === "blocked" ? `${how} as soon as the job that it follows is done` : how;
    }
    case "link":
      return `done as record ${oneLine(external_id ?? "")}; nothing was sent`;
    case "dismiss":
      return reason === "acknowledged" ? `stays ${state}; its late answer is looked into` : "dismissed";
    default:
      return unreachable(decision);
  }
}

/** A customer's further words never vanish silently: whoever dismisses a lead hears what becomes of its notes. */
function followingText(
  following: readonly AppliedDecision["following"][number][],
  decision: Decision,
): string[] {
  if (following.length === 0) return [];
  const noun = following.every(({ step }) => step === "note") ? "note" : "job";
  const amount = `${count(following.length, noun)} that followed`;
  if (decision.kind !== "dismiss") return [`${amount}: sent now`];
  if (decision.withNotes) return [`${amount}: dismissed too`];
  const ids = following.map(({ job_id }) => job_id);
  return [
    `${amount}, waiting as failed (${numbers(ids)})`,
    `  next: leadonce dismiss ${ids.slice(0, NUMBERS_SHOWN).join(" ")} --why "…" · leadonce link ${ids[0] ?? "JOB"} ID`,
  ];
}

function refusedSentence({ state, why }: RefusedDecision): string {
  return `left as it is: ${why}${state === null ? "" : `. Next: ${nextCommand(state)}`}`;
}

function nextCommand(state: JobState): string {
  switch (state) {
    case "blocked":
    case "pending":
    case "leased":
      return "leadonce status";
    case "needs_reconciliation":
      return "leadonce reconcile list";
    case "failed":
    case "done":
    case "cancelled":
      return `leadonce jobs --state ${state}`;
    default:
      return unreachable(state);
  }
}
