/**
 * The states of a job and every legal way between them (design §4): the one list in code. The database holds the same
 * list as CHECKs and a trigger; `test/store` compares the two and tries every pair.
 */
export const JOB_STATES = [
  "blocked",
  "pending",
  "leased",
  "done",
  "failed",
  "needs_reconciliation",
  "cancelled",
] as const;
export type JobState = (typeof JOB_STATES)[number];

export const FINAL_JOB_STATES = ["done", "cancelled"] as const satisfies readonly JobState[];

export function isFinal(state: JobState): boolean {
  return state === "done" || state === "cancelled";
}

/** What a job does at its destination (design §2). Later kinds of step join here. */
export const STEPS = ["contact", "lead", "note", "update", "message"] as const;
export type Step = (typeof STEPS)[number];

export interface JobTransition {
  from: JobState;
  to: JobState;
  /** What brings it about, in the words of design §4. */
  by: string;
}

export const JOB_TRANSITIONS: readonly JobTransition[] = [
  { from: "blocked", to: "pending", by: "the job it follows is done" },
  { from: "blocked", to: "failed", by: "the job it follows was cancelled" },
  { from: "blocked", to: "cancelled", by: "operator: dismiss" },
  { from: "blocked", to: "needs_reconciliation", by: "an older backup was put back" },
  { from: "pending", to: "leased", by: "claim" },
  { from: "pending", to: "needs_reconciliation", by: "operator: I took it; an older backup was put back" },
  { from: "pending", to: "cancelled", by: "operator: dismiss" },
  { from: "pending", to: "done", by: "late evidence" },
  { from: "leased", to: "done", by: "confirmed" },
  { from: "leased", to: "failed", by: "refused, given up, or not renderable" },
  { from: "leased", to: "pending", by: "certainly not applied, safe to repeat, or given back" },
  { from: "leased", to: "needs_reconciliation", by: "unknown" },
  { from: "leased", to: "cancelled", by: "a message to someone who blocked the bot" },
  { from: "failed", to: "pending", by: "operator: retry" },
  { from: "failed", to: "blocked", by: "operator: retry while the job it follows is not done" },
  { from: "failed", to: "done", by: "operator: link; late evidence" },
  { from: "failed", to: "cancelled", by: "operator: dismiss" },
  { from: "failed", to: "needs_reconciliation", by: "an older backup was put back" },
  { from: "needs_reconciliation", to: "done", by: "found; operator: link" },
  { from: "needs_reconciliation", to: "pending", by: "proved absent; operator: recreate" },
  {
    from: "needs_reconciliation",
    to: "blocked",
    by: "operator: recreate while the job it follows is not done",
  },
  { from: "needs_reconciliation", to: "cancelled", by: "operator: dismiss" },
];
