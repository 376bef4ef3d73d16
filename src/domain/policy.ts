/**
 * What follows an attempt (design §4 and §6), as pure functions: from the outcome, the safety class configured now and
 * what is on record of earlier attempts to the job's next state. P2 and P3 are decided here and nowhere else.
 */
import { unreachable } from "./errors.ts";
import type { Outcome } from "./outcome.ts";
import { backoffMs } from "./retry.ts";
import type { StepSettings } from "./settings.ts";

/** What the attempts of a job say; all but their number since the last decision that closed them. */
export interface AttemptHistory {
  /** Every counted attempt, this one included: an accepted repeat too is sent at a growing distance. */
  attempts: number;
  /** An earlier attempt ended `unknown` and nothing has settled it since: unknown sticks. */
  openUnknown: boolean;
  /** When the first attempt that may have left was begun; null when none may have. */
  firstMayHaveLeftAtMs: number | null;
  /** Time since the first attempt was begun, without the time the destination was paused. */
  tryingForMs: number;
}

/** Why a job is parked or failed; stable words, shown to people with an explanation. */
export type JobReason =
  | "refused"
  | "refused_after_unknown"
  | "gave_up"
  | "gave_up_after_unknown"
  | "unknown_outcome"
  | "key_expired"
  | "class_forbids_repeat"
  | "unrenderable"
  | "lead_dismissed"
  | "unauthorised"
  | "not_applied"
  | "repeat_unknown"
  | "given_back"
  | "found_twice"
  | "late_evidence";

export type NextStep =
  | { to: "done"; externalId: string | null; link: string | null }
  | { to: "failed"; reason: JobReason }
  | { to: "needs_reconciliation"; reason: JobReason }
  /** `closesUnknown`: the unknown is accepted as it is, and counting starts anew (`on_unknown = "repeat"`). */
  | { to: "pending"; reason: JobReason; runAtMs: number; counted: boolean; closesUnknown: boolean };

/** @param settings null where the configuration no longer names the destination or step: nothing may be repeated */
export function afterAttempt(
  outcome: Outcome,
  history: AttemptHistory,
  settings: StepSettings | null,
  nowMs: number,
  fraction: number,
): NextStep {
  switch (outcome.kind) {
    case "confirmed":
    case "already":
      return { to: "done", externalId: outcome.externalId, link: outcome.link };
    case "refused":
      return history.openUnknown
        ? { to: "needs_reconciliation", reason: "refused_after_unknown" }
        : { to: "failed", reason: "refused" };
    case "not_applied":
      if (settings === null || history.tryingForMs >= settings.retry.giveUpAfterMs) return gaveUp(history);
      return {
        to: "pending",
        reason: "not_applied",
        runAtMs: nowMs + backoffMs(settings.retry, history.attempts, fraction, outcome.retryAfterMs),
        counted: true,
        closesUnknown: false,
      };
    case "unauthorised":
      // The destination pauses as a whole; the job itself has done nothing wrong and loses nothing.
      return {
        to: "pending",
        reason: "unauthorised",
        runAtMs: nowMs,
        counted: false,
        closesUnknown: false,
      };
    case "unknown":
      return afterUnknown(history, settings, nowMs, fraction);
    default:
      return unreachable(outcome);
  }
}

function gaveUp(history: AttemptHistory): NextStep {
  return history.openUnknown
    ? { to: "needs_reconciliation", reason: "gave_up_after_unknown" }
    : { to: "failed", reason: "gave_up" };
}

function afterUnknown(
  history: AttemptHistory,
  settings: StepSettings | null,
  nowMs: number,
  fraction: number,
): NextStep {
  const parked: NextStep = { to: "needs_reconciliation", reason: "unknown_outcome" };
  if (settings === null) return parked;
  if (settings.onUnknown === "accept") return { to: "done", externalId: null, link: null };
  const closesUnknown = settings.onUnknown === "repeat";
  if (!closesUnknown && !classAllowsRepeat(settings)) return parked;
  if (history.tryingForMs >= settings.retry.giveUpAfterMs) {
    return { to: "needs_reconciliation", reason: "gave_up_after_unknown" };
  }
  // The timed-out request may still be running in the CRM, and not every CRM checks uniqueness with an index.
  const wait = Math.max(settings.unknownWaitMs, backoffMs(settings.retry, history.attempts, fraction));
  const runAtMs = nowMs + wait;
  if (!closesUnknown && keyExpired(settings, history.firstMayHaveLeftAtMs, runAtMs)) {
    return { to: "needs_reconciliation", reason: "key_expired" };
  }
  return { to: "pending", reason: "repeat_unknown", runAtMs, counted: true, closesUnknown };
}

function classAllowsRepeat(settings: StepSettings): boolean {
  return settings.safety === "idempotency-key" || settings.safety === "external-id";
}

/** A clock that stands before the first attempt proves nothing about the key's age, so it counts as expired. */
function keyExpired(settings: StepSettings, firstMayHaveLeftAtMs: number | null, atMs: number): boolean {
  if (settings.safety !== "idempotency-key" || firstMayHaveLeftAtMs === null) return false;
  const age = atMs - firstMayHaveLeftAtMs;
  return age < 0 || settings.keyValidForMs === null || age >= settings.keyValidForMs;
}

/**
 * Judged when the attempt begins, by the class configured *now*: whether a job with an unknown behind it may be sent
 * again. Null means yes.
 */
export function mayNotRepeat(
  history: Pick<AttemptHistory, "openUnknown" | "firstMayHaveLeftAtMs">,
  settings: StepSettings,
  nowMs: number,
): JobReason | null {
  if (!history.openUnknown) return null;
  if (!classAllowsRepeat(settings)) return "class_forbids_repeat";
  return keyExpired(settings, history.firstMayHaveLeftAtMs, nowMs) ? "key_expired" : null;
}

/** When the next automatic look-up is due; null when the schedule is used up or there is nothing to look with. */
export function nextCheckAtMs(
  settings: StepSettings | null,
  unknownAtMs: number,
  checksDone: number,
  nowMs: number,
): number | null {
  if (settings === null || !settings.canFind) return null;
  const delay = settings.checksMs[checksDone];
  if (delay !== undefined) return Math.max(unknownAtMs + delay, nowMs);
  // One more look later than `assume_absent_after`, if no check of the schedule was late enough to count for it.
  const absent = settings.assumeAbsentAfterMs;
  if (absent === null) return null;
  return Math.max(unknownAtMs + absent + 1, nowMs);
}
