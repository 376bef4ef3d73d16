/**
 * What the core asks of the outside: time, randomness, a log and the crash points of the tests. Adapters implement
 * them; the simulation brings its own.
 */
import type { LeaseToken, RunId } from "./ids.ts";

export interface Clock {
  /** Wall clock, ms since the epoch. It may jump; use it for data and due times, never for durations. */
  now(): number;
  /** Monotonic, ms from an arbitrary start. */
  monotonic(): number;
  /** Resolves after `ms`, or at once when `signal` aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Random {
  leaseToken(): LeaseToken;
  runId(): RunId;
  /** In [0, 1), for jitter. */
  fraction(): number;
}

/** Values of a log line. Never a text, a phone number or a secret (P5). */
export type LogFields = Record<string, string | number | boolean | null>;

export interface Log {
  /** `event` is stable text for machines such as `job.settled`; the sentence for people goes in `fields.message`. */
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

/** The steps of the path between which the crash tests kill the process. */
export const CRASH_POINTS = [
  "poll.received",
  "accept.before_commit",
  "accept.committed",
  "poll.before_next",
  "claim.before_commit",
  "claim.committed",
  "begin.before_commit",
  "begin.committed",
  "send.answered",
  "settle.before_commit",
  "settle.committed",
  "lookup.answered",
  "resolve.before_commit",
  "resolve.committed",
] as const;
export type CrashPoint = (typeof CRASH_POINTS)[number];

/** Does nothing in production. */
export type CrashHook = (point: CrashPoint) => void;
export const noCrash: CrashHook = () => {};
