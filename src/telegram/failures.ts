/** What follows when a poll fails (pure): the poller's state, who is told what, and how long to wait. */
import { StorageUnavailableError } from "../domain/errors.ts";
import { backoffMs } from "../domain/retry.ts";
import type { PollerState } from "../domain/store.ts";
import type { LastingAlert } from "./alarms.ts";
import { TelegramError, type TelegramErrorKind } from "./errors.ts";

export interface Failure {
  state: PollerState;
  /** Raised at once; the alerts that need a while to be sure are the poller's. */
  alert: LastingAlert | null;
  /** For people: what happened, what is safe, what to do. */
  message: string;
  wait: { firstMs: number; maxMs: number };
  askedMs: number | null;
  /** Telegram itself answered, so a long wait after it is no stall. */
  reached: boolean;
}

/** Quick at first, since most trouble is short; never more than one try a minute in a long outage. */
const TRANSIENT = { firstMs: 1_000, maxMs: 60_000 };
/** Two that poll in turns would evict each other for ever if they kept the same pace. */
const CONFLICT = { firstMs: 10_000, maxMs: 30_000 };
/** After a token is revoked, refusals and successes alternate for a while. */
const UNAUTHORISED = { firstMs: 120_000, maxMs: 240_000 };

/** Null when the error is no trouble that passes, but a bug, a broken database or a wrong configuration. */
export function failureOf(error: unknown): Failure | null {
  if (error instanceof StorageUnavailableError) {
    return {
      state: "storage",
      alert: "storage",
      message: `${error.message}. Updates wait at Telegram, for 24 hours at most.${error.hint === null ? "" : ` ${error.hint}`}`,
      wait: TRANSIENT,
      askedMs: null,
      reached: true,
    };
  }
  return error instanceof TelegramError ? failureOfCall(error) : null;
}

function failureOfCall({ kind, message, retryAfterMs }: TelegramError): Failure {
  const transient: Failure = {
    state: "retrying",
    alert: null,
    message,
    wait: TRANSIENT,
    askedMs: retryAfterMs,
    reached: REACHED.has(kind),
  };
  switch (kind) {
    case "conflict":
      return { ...transient, state: "conflict", wait: CONFLICT };
    case "webhook":
      return { ...transient, state: "webhook" };
    case "unauthorised":
      return {
        ...transient,
        state: "unauthorised",
        alert: "unauthorised",
        message:
          `${message}. Was the token revoked or mistyped? Take the current one from @BotFather into [telegram] token ` +
          "and restart. What is stored goes on to the CRM meanwhile.",
        wait: UNAUTHORISED,
      };
    case "aborted":
    case "network":
    case "timeout":
    case "server":
    case "invalid_answer":
    case "throttled":
    case "refused":
      return transient;
  }
}

const REACHED: ReadonlySet<TelegramErrorKind> = new Set([
  "conflict",
  "webhook",
  "unauthorised",
  "throttled",
  "refused",
]);

/** @param n 1 for the first failure of its kind in a row */
export function waitAfter(failure: Failure, n: number, fraction: number): number {
  return backoffMs(failure.wait, n, fraction, failure.askedMs);
}
