/**
 * The store as the rest of the program sees it. Every method is one transaction with a name from the design; it takes
 * the clock's reading, checks state and lease token, and says whether it applied. Methods return promises although
 * SQLite answers at once, so that another database can stand behind them.
 */
import type { Prepared, StepContext } from "./connector.ts";
import type { Health } from "./health.ts";
import type { BotId, DestinationKey, EventKey, JobId, LeaseToken, OperationId, RunId } from "./ids.ts";
import type { JobState, Step } from "./jobs.ts";
import type { Facts, Plan, Wanted } from "./operation.ts";
import type { LookUp, Outcome, OutcomeKind, Probe } from "./outcome.ts";
import type { JobReason } from "./policy.ts";
import type { DestinationSettings, StepSettingsOf } from "./settings.ts";
import type { ParsedUpdate } from "./update.ts";

// ---- intake -------------------------------------------------------------------------------------------------------

/** One answer of getUpdates. */
export interface Page {
  botId: BotId;
  /** Each element as Telegram sent it. */
  elements: readonly unknown[];
  /** The last valid id of this page + 1; what the next poll confirms. */
  nextOffset: number;
  receivedAtMs: number;
}

export interface Decide {
  wants(update: ParsedUpdate): Wanted;
  decide(update: ParsedUpdate, facts: Facts, nowMs: number): Plan;
}

export interface AcceptedUpdate {
  eventKey: EventKey;
  updateId: number | null;
  state: "accepted" | "ignored" | "quarantined";
  reason: string | null;
  operations: { id: OperationId; code: string; action: string }[];
}

export interface Accepted {
  updates: AcceptedUpdate[];
  /** Elements that were stored before; absorbed by the unique event key. */
  duplicates: number;
  /** Destinations that have new work. */
  work: boolean;
}

export type PollerState =
  | "starting"
  | "polling"
  | "retrying"
  | "conflict"
  | "webhook"
  | "unauthorised"
  | "storage"
  | "stopped";

export interface PollerReport {
  state: PollerState;
  lastCompletedAtMs: number | null;
  lastError: string | null;
}

export interface BotRow {
  botId: BotId;
  username: string | null;
  nextOffset: number | null;
  lastCompletedAtMs: number | null;
}

export interface IntakeStore {
  /** The bot that this database belongs to, or null before the first start. */
  bot(): Promise<BotRow | null>;
  /** Binds the database to the bot for ever. `other` names the bot it is bound to; nothing is changed then. */
  bindBot(
    botId: BotId,
    username: string | null,
    nowMs: number,
  ): Promise<{ kind: "bound" } | { kind: "other"; bot: BotRow }>;
  /** P1, P2: the updates of one page, what `decide` makes of them and the offset, in one durable commit. */
  accept(page: Page, decide: Decide): Promise<Accepted>;
  /** Decides quarantined updates again, or, by a person, one ignored or quarantined update. */
  redecide(
    which: { eventKey: EventKey; operator: Operator } | "quarantined",
    decide: Decide,
    nowMs: number,
  ): Promise<Accepted>;
  recordPoller(botId: BotId, report: PollerReport, nowMs: number): Promise<void>;
}

// ---- work ---------------------------------------------------------------------------------------------------------

export interface ClaimedJob {
  jobId: JobId;
  token: LeaseToken;
  operationId: OperationId;
  destination: DestinationKey;
  step: Step;
  /** The one job that a paused destination lets through after a good probe. */
  trial: boolean;
}

export interface ClaimRequest {
  destination: DestinationKey;
  /** How many more jobs the destination's queue can take. */
  limit: number;
  leaseMs: number;
}

export interface LeaseRef {
  jobId: JobId;
  token: LeaseToken;
}

/** Renders the request; pure and synchronous, since it runs inside the transaction. Null: no such connector. */
export type Prepare = (
  destination: DestinationKey,
  context: StepContext,
  storedBody: string | null | undefined,
) => Prepared | null;

export type Begun =
  | {
      kind: "begun";
      jobId: JobId;
      n: number;
      send(signal: AbortSignal): Promise<Outcome>;
    }
  /** The token no longer matches: nothing may be sent. */
  | { kind: "lost"; jobId: JobId }
  /** The job left the lease without an attempt: parked or failed, with the reason. */
  | { kind: "stopped"; jobId: JobId; to: JobState; reason: JobReason };

export interface Settlement {
  jobId: JobId;
  token: LeaseToken;
  n: number;
  outcome: Outcome;
}

/** What became of a job, for the log and for whoever waits for work. */
export interface Transition {
  jobId: JobId;
  operationId: OperationId;
  destination: DestinationKey;
  step: Step;
  from: JobState;
  to: JobState;
  reason: string | null;
  /** The record at the destination, where the job is done and has one. */
  externalId: string | null;
  /** The lease was lost meanwhile; the outcome was kept as evidence. */
  late: boolean;
}

export interface StaleLease extends LeaseRef {
  destination: DestinationKey;
}

export interface DestinationRow {
  key: DestinationKey;
  name: string;
  configured: boolean;
  health: Health;
}

export interface WorkStore {
  claim(
    requests: readonly ClaimRequest[],
    runId: RunId,
    newToken: () => LeaseToken,
    nowMs: number,
  ): Promise<ClaimedJob[]>;
  /** P3: commits the attempt, with the body that will be sent, before anything leaves. */
  beginAttempt(
    leases: readonly (LeaseRef & { leaseMs: number })[],
    prepare: Prepare,
    settings: StepSettingsOf,
    nowMs: number,
  ): Promise<Begun[]>;
  /** P2, P3: the outcome and what follows, guarded by state and token. Late evidence is kept, never thrown away. */
  settle(
    settlements: readonly Settlement[],
    settings: StepSettingsOf,
    nowMs: number,
    fraction: () => number,
  ): Promise<Transition[]>;
  /** Gives back claimed jobs that were not begun; nothing is counted. */
  release(leases: readonly LeaseRef[], nowMs: number): Promise<Transition[]>;
  /** Leases that have run out; at start, with the lock held, every lease (pass Infinity). */
  staleLeases(nowMs: number): Promise<StaleLease[]>;
  /** Takes stale leases back: no attempt begun → pending; one was → as unknown. */
  rescue(
    leases: readonly LeaseRef[],
    settings: StepSettingsOf,
    nowMs: number,
    fraction: () => number,
  ): Promise<Transition[]>;
  /** When the next job, probe or look-up becomes due, later than now; null when nothing will by itself. */
  nextDueAtMs(nowMs: number): Promise<number | null>;

  destinations(): Promise<DestinationRow[]>;
  /** Enters what is configured; a changed fingerprint ends a pause that no person made. */
  configureDestinations(destinations: readonly DestinationSettings[], nowMs: number): Promise<void>;
  dueProbes(nowMs: number): Promise<DestinationKey[]>;
  recordProbe(
    destination: DestinationKey,
    probe: Probe,
    settings: DestinationSettings,
    nowMs: number,
    fraction: number,
  ): Promise<Health>;
}

// ---- reconciliation -----------------------------------------------------------------------------------------------

export interface DueCheck {
  reconciliationId: number;
  jobId: JobId;
  destination: DestinationKey;
  context: StepContext;
}

export interface ReconcileStore {
  dueChecks(nowMs: number, limit: number): Promise<DueCheck[]>;
  /** Found once → done; twice → a person; none → the next check, a person, or proof of absence where configured. */
  recordLookUp(
    check: Pick<DueCheck, "reconciliationId" | "jobId">,
    lookUp: LookUp,
    settings: StepSettingsOf,
    startedAtMs: number,
    nowMs: number,
    fraction: number,
  ): Promise<Transition[]>;
}

// ---- a person's decisions -----------------------------------------------------------------------------------------

export interface Operator {
  /** Who decided: the login name on this machine. */
  who: string;
  why: string | null;
}

export type Decision =
  | { kind: "retry" }
  | { kind: "link"; externalId: string }
  | { kind: "recreate" }
  | { kind: "dismiss"; withNotes: boolean };

export type Decided =
  | { kind: "applied"; transitions: Transition[]; following: number }
  /** The job is not in a state that this decision applies to; `why` says so for people. */
  | { kind: "not_applicable"; state: JobState; why: string }
  | { kind: "no_such_job" };

export interface DecisionStore {
  /** Recorded in `operator_actions` with who and why. `settings`, where known, give the state of what follows. */
  decideJob(jobId: JobId, decision: Decision, operator: Operator, nowMs: number): Promise<Decided>;
  pause(destination: DestinationKey, operator: Operator, nowMs: number): Promise<void>;
  resume(destination: DestinationKey, operator: Operator, nowMs: number): Promise<void>;
}

export type OutcomeWord = OutcomeKind;

// ---- alerts and runs ----------------------------------------------------------------------------------------------

export interface Alert {
  kind: string;
  subject: string;
  message: string;
  raisedAtMs: number;
  times: number;
}

export interface AlertStore {
  /** Opens the alert, or counts it again while it is open. */
  raiseAlert(kind: string, subject: string, message: string, nowMs: number): Promise<void>;
  clearAlert(kind: string, subject: string, nowMs: number): Promise<void>;
  openAlerts(): Promise<Alert[]>;
}

export interface RunRow {
  runId: RunId;
  version: string;
  configHash: string;
  pid: number;
  host: string;
  startedAtMs: number;
  heartbeatAtMs: number;
  /** Null while it runs, and for ever if it did not end in order. */
  endedAtMs: number | null;
}

export interface RunStore {
  /** The newest run: while the lock is held and the run has not ended, its holder. */
  lastRun(): Promise<RunRow | null>;
  startRun(run: Omit<RunRow, "startedAtMs" | "heartbeatAtMs" | "endedAtMs">, nowMs: number): Promise<void>;
  heartbeat(runId: RunId, nowMs: number): Promise<void>;
  endRun(runId: RunId, nowMs: number): Promise<void>;
}
