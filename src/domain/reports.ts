/**
 * What the commands show, in the JSON shapes of design §9: stable names, times in ISO 8601 UTC, no message text, no
 * phone number. Other programs depend on these names; more may be added, none is changed.
 */
import type { JobId } from "./ids.ts";
import type { JobState } from "./jobs.ts";

export interface StatusReport {
  version: string;
  bot: { id: number | null; username: string | null };
  poller: {
    state: string;
    next_offset: number | null;
    last_completed_at: string | null;
    last_error: string | null;
  };
  updates: { accepted: number; ignored: number; quarantined: number; duplicates: number };
  jobs: Record<JobState, number>;
  oldest_pending_age_s: number | null;
  destinations: { name: string; state: "active" | "paused" | "unconfigured"; reason: string | null }[];
  reconciliations_open: number;
  alerts: { kind: string; subject: string; message: string; since: string; times: number }[];
}

export interface LeadReport {
  operation_id: string;
  code: string;
  business_key: string;
  action: string;
  state: "open" | "failed" | "cancelled" | "completed";
  created_at: string;
  /** Where the sender can be found in Telegram; no text, no phone. */
  contact: string | null;
  event_keys: string[];
  destinations: { name: string; state: JobState; external_id: string | null; link: string | null }[];
}

export interface JobReport {
  job_id: JobId;
  operation_id: string;
  destination: string;
  step: string;
  state: JobState;
  attempts: number;
  run_at: string;
  reason: string | null;
  external_id: string | null;
  detail: string | null;
}

export interface ReconciliationReport {
  job_id: JobId;
  operation_id: string;
  destination: string;
  reason: string;
  opened_at: string;
  checks: number;
  next_check_at: string | null;
  evidence: { at: string; found: string[] | null; detail: string | null }[];
  code: string;
  step: string;
  /** Where the sender can be found in Telegram, so that a person can compare; no text, no phone. */
  contact: string | null;
}

export interface TraceReport {
  updates: {
    event_key: string;
    update_id: number | null;
    kind: string;
    state: string;
    reason: string | null;
    received_at: string;
    redelivered: number;
    operation_ids: string[];
  }[];
  operations: {
    operation_id: string;
    code: string;
    business_key: string;
    kind: string;
    action: string;
    state: string;
    created_at: string;
  }[];
  jobs: JobReport[];
  attempts: {
    job_id: JobId;
    n: number;
    begun_at: string;
    sent_at: string | null;
    ended_at: string | null;
    outcome: string | null;
    status: number | null;
    detail: string | null;
    external_id: string | null;
  }[];
  reconciliations: (Omit<ReconciliationReport, "code" | "step" | "contact"> & {
    resolved_at: string | null;
    resolution: string | null;
  })[];
  operator_actions: {
    at: string;
    who: string;
    action: string;
    job_id: JobId | null;
    why: string | null;
    detail: string | null;
  }[];
}

export interface ReportStore {
  status(version: string, nowMs: number): Promise<StatusReport>;
  /** Newest last. */
  leads(sinceMs: number | null): Promise<LeadReport[]>;
  jobs(filter: { state?: JobState; destination?: string }): Promise<JobReport[]>;
  openReconciliations(): Promise<ReconciliationReport[]>;
  /** By update id, event key, operation id or code, external id, phone or username; null when nothing matches. */
  trace(anything: string): Promise<TraceReport | null>;
}
