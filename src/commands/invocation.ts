/**
 * What argv becomes: one plain value per command. `parse.ts` makes it, `cli.ts` hands it to the command, and tests make
 * it by hand, without a shell.
 */
import type { ExitCode } from "../domain/errors.ts";
import type { JobId } from "../domain/ids.ts";
import type { JobState } from "../domain/jobs.ts";
import type { Decision } from "../domain/store.ts";

export interface GlobalOptions {
  /** `--config`; null: LEADONCE_CONFIG or service.conf in the working directory. */
  config: string | null;
  /** Print JSON (design §9) instead of text for people. */
  json: boolean;
}

export interface LeadsOptions extends GlobalOptions {
  /** Ms since the epoch; null: all of them. */
  sinceMs: number | null;
}

export interface JobsOptions extends GlobalOptions {
  state: JobState | null;
  destination: string | null;
}

export interface TraceOptions extends GlobalOptions {
  /** Whatever a person has in hand. It may be a phone number, so it is never printed. */
  anything: string;
}

/** The states in which a person's decision is waited for. */
export type WaitingState = Extract<JobState, "failed" | "needs_reconciliation">;

/** Which jobs a decision is about. */
export type Chosen =
  | { kind: "jobs"; jobs: readonly JobId[] }
  | { kind: "all"; state: WaitingState; destination: string | null; yes: boolean };

export interface DecideOptions extends GlobalOptions {
  decision: Decision;
  chosen: Chosen;
  why: string | null;
}

export interface RetryUpdateOptions extends GlobalOptions {
  /** An event key, or Telegram's update id where it names one update only. */
  update: string;
}

export interface DestinationOptions extends GlobalOptions {
  name: string;
  why: string | null;
}

export type RunOptions = GlobalOptions;
export type DemoOptions = GlobalOptions;

export interface CheckOptions extends GlobalOptions {
  offline: boolean;
}

export interface TryOptions extends GlobalOptions {
  /** A file with one update as JSON. */
  update: string | null;
  destination: string | null;
  send: boolean;
}

export type Invocation =
  /** `--help`, `--version`, or no command at all: there is nothing more to do. */
  | { command: "print"; text: string; exitCode: ExitCode }
  | { command: "run"; options: RunOptions }
  | { command: "demo"; options: DemoOptions }
  | { command: "check"; options: CheckOptions }
  | { command: "try"; options: TryOptions }
  | { command: "status"; options: GlobalOptions }
  | { command: "leads"; options: LeadsOptions }
  | { command: "jobs"; options: JobsOptions }
  | { command: "trace"; options: TraceOptions }
  | { command: "reconcile list"; options: GlobalOptions }
  | { command: "decide"; options: DecideOptions }
  | { command: "retry update"; options: RetryUpdateOptions }
  | { command: "pause"; options: DestinationOptions }
  | { command: "resume"; options: DestinationOptions };
