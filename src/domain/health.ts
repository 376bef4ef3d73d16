/**
 * When a destination pauses as a whole and how it comes back (design §6, "Pause and probe"), as pure functions over the
 * row in `destinations`. Serves P4: a CRM that is down or locks us out costs one alert, not a thousand failed jobs.
 */
import type { JobId } from "./ids.ts";
import { isConfirmed, type Outcome, type Probe } from "./outcome.ts";
import { backoffMs } from "./retry.ts";
import type { RetrySettings } from "./settings.ts";

export type PauseReason = "unauthorised" | "same_failure" | "refused_in_a_row" | "operator";

export interface Health {
  state: "active" | "paused";
  reason: PauseReason | null;
  /** The failure in words, e.g. `HTTP 503 from two jobs in a row`. */
  detail: string | null;
  pausedSinceMs: number | null;
  nextProbeAtMs: number | null;
  /** Probes and trials since the pause began; drives their growing distance. */
  probes: number;
  /** A good probe has let one job through that has not been claimed yet. */
  trialReady: boolean;
  /** The job of the last trial: the next trial takes another one where there is another. */
  trialJobId: JobId | null;
  /** The last failure since the last success, and whose it was. */
  failure: { signature: string; jobId: JobId } | null;
  /** Different jobs refused in a row. */
  refusedJobs: readonly JobId[];
}

export const HEALTHY: Health = {
  state: "active",
  reason: null,
  detail: null,
  pausedSinceMs: null,
  nextProbeAtMs: null,
  probes: 0,
  trialReady: false,
  trialJobId: null,
  failure: null,
  refusedJobs: [],
};

const REFUSED_JOBS_TO_PAUSE = 5;
/** After a trial ended `unknown` where the class forbids a repeat, each further trial may cost a person's time. */
const COSTLY_TRIAL_MS = 60 * 60 * 1000;

/** 404, 405, 5xx and a dead network concern the destination; other refusals concern one job. */
function failureSignature(outcome: Outcome): string | null {
  if (isConfirmed(outcome) || outcome.kind === "unauthorised") return null;
  const { status } = outcome;
  if (status === null) return "network";
  if (status === 404 || status === 405) return `HTTP ${status}`;
  return status >= 500 ? "HTTP 5xx" : null;
}

/** @param parked the attempt left the job waiting for a look-up or a person */
export function afterOutcome(
  health: Health,
  jobId: JobId,
  outcome: Outcome,
  parked: boolean,
  retry: RetrySettings,
  nowMs: number,
  fraction: number,
): Health {
  // Only a confirmed effect proves that the destination works; it ends a pause, unless a person asked for it.
  if (isConfirmed(outcome)) return health.reason === "operator" ? health : HEALTHY;

  const signature = failureSignature(outcome);
  const refusedJobs =
    outcome.kind === "refused" && !health.refusedJobs.includes(jobId)
      ? [...health.refusedJobs, jobId]
      : health.refusedJobs;
  const next: Health = {
    ...health,
    refusedJobs,
    failure: signature === null ? health.failure : { signature, jobId },
  };

  if (health.state === "paused") {
    if (health.trialJobId !== jobId) return next;
    const distance = backoffMs(retry, health.probes + 1, fraction);
    const nextProbeAtMs = nowMs + (parked ? Math.max(distance, costlyTrialMs(health.probes)) : distance);
    return { ...next, probes: health.probes + 1, trialReady: false, nextProbeAtMs };
  }
  if (outcome.kind === "unauthorised") {
    return pause(
      next,
      "unauthorised",
      `HTTP ${outcome.status ?? "?"}: the credentials were refused`,
      retry,
      nowMs,
    );
  }
  if (
    signature !== null &&
    health.failure !== null &&
    health.failure.signature === signature &&
    health.failure.jobId !== jobId
  ) {
    return pause(next, "same_failure", `${signature} from two different jobs in a row`, retry, nowMs);
  }
  if (refusedJobs.length >= REFUSED_JOBS_TO_PAUSE) {
    return pause(
      next,
      "refused_in_a_row",
      `${refusedJobs.length} different jobs refused in a row`,
      retry,
      nowMs,
    );
  }
  return next;
}

function costlyTrialMs(probes: number): number {
  return Math.min(COSTLY_TRIAL_MS, 60_000 * 2 ** Math.min(probes, 10));
}

function pause(
  health: Health,
  reason: Exclude<PauseReason, "operator">,
  detail: string,
  retry: RetrySettings,
  nowMs: number,
): Health {
  return {
    ...health,
    state: "paused",
    reason,
    detail,
    pausedSinceMs: nowMs,
    nextProbeAtMs: nowMs + retry.firstMs,
    probes: 0,
    trialReady: false,
    trialJobId: null,
  };
}

export function pausedByOperator(health: Health, why: string, nowMs: number): Health {
  return {
    ...health,
    state: "paused",
    reason: "operator",
    detail: why,
    pausedSinceMs: health.pausedSinceMs ?? nowMs,
    // A person's pause is ended by a person: no probe.
    nextProbeAtMs: null,
    trialReady: false,
    trialJobId: null,
  };
}

export function afterProbe(
  health: Health,
  probe: Probe,
  retry: RetrySettings,
  nowMs: number,
  fraction: number,
): Health {
  if (health.state !== "paused" || health.reason === "operator") return health;
  if (probe.kind === "good") return { ...health, trialReady: true, nextProbeAtMs: null };
  const probes = health.probes + 1;
  return { ...health, probes, nextProbeAtMs: nowMs + backoffMs(retry, probes + 1, fraction) };
}
