/**
 * Builders for the tests of the store: updates as Telegram sends them, settings with the defaults of the design, and a
 * world: one real database in a folder of its own, a clock that moves by hand, and the usual steps in one call each.
 * When a test ends, its database is checked against the invariants that must hold whatever happened.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type Database from "better-sqlite3";
import type { Prepared, StepContext } from "../../src/domain/connector.ts";
import {
  asBotId,
  asDestinationKey,
  asJobId,
  asLeaseToken,
  asOperationId,
  asRunId,
  type DestinationKey,
  type JobId,
  LEDGER,
  type LeaseToken,
  type OperationId,
} from "../../src/domain/ids.ts";
import { makeIntake } from "../../src/domain/intake.ts";
import type { Outcome } from "../../src/domain/outcome.ts";
import type { CrashHook } from "../../src/domain/ports.ts";
import type {
  ActionSettings,
  DestinationSettings,
  IntakeSettings,
  StepSettings,
  StepSettingsOf,
} from "../../src/domain/settings.ts";
import type {
  Accepted,
  Begun,
  ClaimedJob,
  Decide,
  Decided,
  Decision,
  Prepare,
  Transition,
} from "../../src/domain/store.ts";
import { connect } from "../../src/store/connect.ts";
import { openStore, type Store } from "../../src/store/index.ts";

export const BOT = asBotId(4242);
export const SALES = asDestinationKey("sales");
export const RUN = asRunId("run-1");
/** Monday, 5 January 2026, 09:00 UTC; updates carry the same moment in seconds. */
export const T0 = Date.UTC(2026, 0, 5, 9);
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const OPERATOR = { who: "tester", why: "because" };

// ---- what Telegram sends ------------------------------------------------------------------------------------------

export type Json = Record<string, unknown>;

export interface MessageOptions {
  updateId: number;
  /** Default: the update's id. */
  messageId?: number;
  userId?: number;
  text?: string;
  /** Members of the message that replace or join the usual ones. */
  message?: Json;
  from?: Json;
  chat?: Json;
  /** Default: `message`. */
  kind?: string;
}

/** An update that holds a private text message of `Test Person`. */
export function messageUpdate(options: MessageOptions): Json {
  const { updateId, messageId = updateId, userId = 7001, text = "Hello", kind = "message" } = options;
  return {
    update_id: updateId,
    [kind]: {
      message_id: messageId,
      from: { id: userId, is_bot: false, first_name: "Test", last_name: "Person", ...options.from },
      chat: { id: userId, type: "private", first_name: "Test", last_name: "Person", ...options.chat },
      date: T0 / SECOND,
      ...(options.message !== undefined && !("text" in options.message) ? {} : { text }),
      ...options.message,
    },
  };
}

// ---- settings -----------------------------------------------------------------------------------------------------

export function stepSettings(overrides: Partial<StepSettings> = {}): StepSettings {
  const safety = overrides.safety ?? "search";
  return {
    safety,
    keyValidForMs: safety === "idempotency-key" ? DAY : null,
    unknownWaitMs: 30 * SECOND,
    retry: { firstMs: SECOND, maxMs: 15 * MINUTE, giveUpAfterMs: 7 * DAY },
    checksMs: [15 * SECOND, 2 * MINUTE, 10 * MINUTE, HOUR],
    assumeAbsentAfterMs: null,
    onUnknown: "reconcile",
    canFind: safety === "search",
    ...overrides,
  };
}

export function destinationSettings(overrides: Partial<DestinationSettings> = {}): DestinationSettings {
  return {
    key: SALES,
    name: "sales",
    kind: "http",
    concurrency: 4,
    rate: null,
    timeoutMs: 20 * SECOND,
    leaseMs: MINUTE,
    retry: { firstMs: SECOND, maxMs: 15 * MINUTE, giveUpAfterMs: 7 * DAY },
    steps: { lead: stepSettings() },
    fingerprint: "one",
    ...overrides,
  };
}

export const LEDGER_SETTINGS: DestinationSettings = destinationSettings({
  key: LEDGER,
  name: "ledger",
  kind: "ledger",
  steps: {},
});

export function actionSettings(overrides: Partial<ActionSettings> = {}): ActionSettings {
  return {
    name: "enquiry",
    key: "enquiry",
    kind: "lead",
    when: { update: ["message"], chat: "private" },
    repeat: { rule: "each" },
    to: [SALES],
    ...overrides,
  };
}

export function intakeSettings(overrides: Partial<IntakeSettings> = {}): IntakeSettings {
  return {
    bot: { id: BOT, username: "TestEnquiryBot" },
    actions: [actionSettings()],
    destinations: [
      { key: SALES, kind: "http" },
      { key: LEDGER, kind: "ledger" },
    ],
    ...overrides,
  };
}

// ---- outcomes -----------------------------------------------------------------------------------------------------

export const confirmed = (externalId: string | null, link: string | null = null): Outcome => ({
  kind: "confirmed",
  status: 201,
  detail: null,
  externalId,
  link,
});
export const already = (externalId: string): Outcome => ({
  kind: "already",
  status: 409,
  detail: null,
  externalId,
  link: null,
});
export const refused = (status = 422): Outcome => ({ kind: "refused", status, detail: "bad field" });
export const unauthorised = (status = 401): Outcome => ({ kind: "unauthorised", status, detail: null });
export const unknown = (status: number | null = null): Outcome => ({
  kind: "unknown",
  status,
  detail: "timed out",
});
export const notApplied = (status: number | null = 429, retryAfterMs: number | null = null): Outcome => ({
  kind: "not_applied",
  status,
  detail: null,
  retryAfterMs,
});

// ---- the world ----------------------------------------------------------------------------------------------------

const makeFolder = (): string => mkdtempSync(join(tmpdir(), "leadonce-store-"));
const removeFolder = (folder: string): void => rmSync(folder, { recursive: true, force: true });

export function tempFolder(t: TestContext): string {
  const folder = makeFolder();
  t.after(() => removeFolder(folder));
  return folder;
}

export interface WorldOptions {
  /** Settings of the `lead` step at `sales`. */
  lead?: Partial<StepSettings>;
  intake?: Partial<IntakeSettings>;
  crash?: CrashHook;
}

export interface World {
  readonly path: string;
  /** Replaced by `reopen`. */
  store: Store;
  /** The clock; a test moves it. */
  now: number;
  /** What is configured for the steps of `sales` now; null: the destination is no longer configured. */
  steps: Partial<Record<string, StepSettings>> | null;
  settings: StepSettingsOf;
  decide: Decide;

  accept(...elements: unknown[]): Promise<Accepted>;
  /** Accepts one private message and returns the lead's job at `sales`. */
  lead(options?: Partial<MessageOptions>): Promise<JobId>;
  /** Accepts one more message of the same person as a note that follows the lead, as the lead stands now. */
  note(leadJob: JobId, options?: Partial<MessageOptions>): Promise<JobId>;
  claim(limit?: number, destination?: DestinationKey): Promise<ClaimedJob[]>;
  /** Moves the clock to when the job may run, and claims it alone. */
  claimJob(jobId: JobId): Promise<ClaimedJob>;
  begin(claimed: ClaimedJob, prepare?: Prepare): Promise<Begun>;
  settle(claimed: ClaimedJob, n: number, outcome: Outcome): Promise<Transition[]>;
  /** Claims the job when it is due, begins, and settles with `outcome`. */
  attempt(jobId: JobId, outcome: Outcome): Promise<Transition[]>;
  decideJob(jobId: JobId, decision: Decision): Promise<Decided>;
  /** Runs the look-ups that are due with one answer for all. */
  lookUp(records: readonly string[] | "not answered"): Promise<Transition[]>;

  /** Rows as a plain SQLite shell sees them, over a connection of its own. */
  rows(sql: string, ...parameters: (string | number | null)[]): Record<string, unknown>[];
  /** The first row; fails the test where there is none. */
  row(sql: string, ...parameters: (string | number | null)[]): Record<string, unknown>;
  /** Writes past the store: only for what the store itself never does. */
  write(sql: string, ...parameters: (string | number | null)[]): void;
  job(jobId: JobId): Record<string, unknown>;
  state(jobId: JobId): unknown;
  alerts(kind: string): Promise<string[]>;
  reopen(): void;
}

/** Renders like a connector: a stored body goes out unchanged. */
export const prepare: Prepare = (_destination, context, storedBody) => ready(context, storedBody);

export function ready(context: StepContext, storedBody: string | null | undefined): Prepared {
  const body = JSON.stringify({ ref: context.operation.id, text: context.input.messages[0]?.text });
  return {
    kind: "ready",
    body: storedBody === undefined ? body : storedBody,
    send: async () => confirmed("C-1"),
  };
}

const AT_SALES = "SELECT job_id FROM jobs WHERE operation_id = ? AND destination = 'sales'";

let tokens = 0;
export const newToken = (): LeaseToken => {
  tokens += 1;
  return asLeaseToken(`token-${tokens}`);
};

/** Halfway through the jitter, the same every time. */
const fraction = (): number => 0.5;

export async function makeWorld(t: TestContext, options: WorldOptions = {}): Promise<World> {
  const folder = makeFolder();
  const path = join(folder, "leadonce.db");
  const crash = options.crash;
  const open = (): Store =>
    openStore(path, { mode: "create", nowMs: T0, ...(crash === undefined ? {} : { crash }) });
  let lastUpdateId = 1_000;

  const world: World = {
    path,
    store: open(),
    now: T0,
    steps: { lead: stepSettings(options.lead), note: stepSettings({ safety: "none" }) },
    settings: (destination, step) =>
      destination === SALES && world.steps !== null ? (world.steps[step] ?? null) : null,
    decide: makeIntake(intakeSettings(options.intake)),

    accept: (...elements) =>
      world.store.accept(
        { botId: BOT, elements, nextOffset: nextOffset(elements), receivedAtMs: world.now },
        world.decide,
      ),
    lead: async (message = {}) => {
      lastUpdateId += 1;
      const { updates } = await world.accept(messageUpdate({ updateId: lastUpdateId, ...message }));
      const operationId = updates[0]?.operations[0]?.id;
      assert.ok(operationId !== undefined, "the message made no lead");
      return jobIdOf(world.row(AT_SALES, operationId));
    },
    note: async (leadJob, message = {}) => {
      lastUpdateId += 1;
      const { operation_id, state } = world.job(leadJob);
      const { updates } = await world.store.accept(
        {
          botId: BOT,
          elements: [messageUpdate({ updateId: lastUpdateId, ...message })],
          nextOffset: lastUpdateId + 1,
          receivedAtMs: world.now,
        },
        asNote(world.decide, asOperationId(String(operation_id)), state === "done"),
      );
      const operationId = updates[0]?.operations[0]?.id;
      assert.ok(operationId !== undefined, `the message made no note: ${updates[0]?.reason}`);
      return jobIdOf(world.row(AT_SALES, operationId));
    },
    claim: (limit = 10, destination = SALES) =>
      world.store.claim([{ destination, limit, leaseMs: MINUTE }], RUN, newToken, world.now),
    claimJob: async (jobId) => {
      world.now = Math.max(world.now, Number(world.job(jobId).run_at_ms));
      const claimed = await world.claim(100);
      const others = claimed.filter((job) => job.jobId !== jobId);
      await world.store.release(others, world.now);
      const [mine] = claimed.filter((job) => job.jobId === jobId);
      assert.ok(mine !== undefined, `job ${jobId} could not be claimed`);
      return mine;
    },
    begin: async (claimed, how = prepare) => {
      const [begun] = await world.store.beginAttempt(
        [{ ...claimed, leaseMs: MINUTE }],
        how,
        world.settings,
        world.now,
      );
      assert.ok(begun !== undefined);
      return begun;
    },
    settle: ({ jobId, token }, n, outcome) =>
      world.store.settle([{ jobId, token, n, outcome }], world.settings, world.now, fraction),
    attempt: async (jobId, outcome) => {
      const claimed = await world.claimJob(jobId);
      const begun = await world.begin(claimed);
      assert.equal(begun.kind, "begun", `job ${jobId} was not begun: ${JSON.stringify(begun)}`);
      return begun.kind === "begun" ? world.settle(claimed, begun.n, outcome) : [];
    },
    decideJob: (jobId, decision) => world.store.decideJob(jobId, decision, OPERATOR, world.now),
    lookUp: async (records) => {
      const transitions: Transition[] = [];
      for (const check of await world.store.dueChecks(world.now, 100)) {
        transitions.push(
          ...(await world.store.recordLookUp(
            check,
            records === "not answered"
              ? { kind: "not_answered", status: 503, detail: "HTTP 503" }
              : { kind: "answered", records: records.map((externalId) => ({ externalId, link: null })) },
            world.settings,
            world.now,
            world.now,
            0.5,
          )),
        );
      }
      return transitions;
    },

    // better-sqlite3 types rows as unknown; what the tests compare with says what they are.
    rows: (sql, ...parameters) =>
      withRaw(path, (db) => db.prepare(sql).all(...parameters) as Record<string, unknown>[]),
    row: (sql, ...parameters) => {
      const [row] = world.rows(sql, ...parameters);
      assert.ok(row !== undefined, `no row: ${sql}`);
      return row;
    },
    write: (sql, ...parameters) =>
      withRaw(path, (db) => {
        db.pragma("foreign_keys = ON");
        db.prepare(sql).run(...parameters);
      }),
    job: (jobId) => world.row("SELECT * FROM jobs WHERE job_id = ?", jobId),
    state: (jobId) => world.job(jobId).state,
    alerts: async (kind) =>
      (await world.store.openAlerts()).filter((alert) => alert.kind === kind).map(({ message }) => message),
    reopen: () => {
      world.store.close();
      world.store = open();
    },
  };
  t.after(() => {
    try {
      assertInvariants(path);
    } finally {
      world.store.close();
      removeFolder(folder);
    }
  });
  await world.store.bindBot(BOT, "TestEnquiryBot", T0);
  await world.store.configureDestinations([destinationSettings(), LEDGER_SETTINGS], T0);
  return world;
}

/** Turns the lead that a message would make into a note at the same destinations. */
function asNote(intake: Decide, leadOperation: OperationId, leadDone: boolean): Decide {
  return {
    wants: intake.wants,
    decide: (update, facts, nowMs) => {
      const plan = intake.decide(update, facts, nowMs);
      return {
        ...plan,
        operations: plan.operations.map((operation) => ({
          ...operation,
          kind: "note" as const,
          jobs: operation.jobs.map((job) => ({
            ...job,
            step: "note" as const,
            state:
              job.state === "done"
                ? ("done" as const)
                : leadDone
                  ? ("pending" as const)
                  : ("blocked" as const),
            follows: { operationId: leadOperation, step: "lead" as const },
          })),
        })),
      };
    },
  };
}

function nextOffset(elements: readonly unknown[]): number {
  const ids = elements.flatMap((element) =>
    typeof element === "object" && element !== null && "update_id" in element
      ? typeof element.update_id === "number"
        ? [element.update_id]
        : []
      : [],
  );
  return (ids.at(-1) ?? 0) + 1;
}

export function jobIdOf(row: Record<string, unknown>): JobId {
  return asJobId(Number(row.job_id));
}

export function withRaw<Result>(path: string, work: (db: Database.Database) => Result): Result {
  const db = connect(path);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Each query finds the rows that break the invariant it is named after. */
const INVARIANTS: Readonly<Record<string, string>> = {
  "a job is leased exactly while it has a lease": `SELECT job_id FROM jobs LEFT JOIN leases USING (job_id)
    WHERE (state = 'leased') <> (token IS NOT NULL)`,
  "a job needs reconciliation exactly while a reconciliation is open": `SELECT j.job_id FROM jobs j
    LEFT JOIN reconciliations r ON r.job_id = j.job_id AND r.resolved_at_ms IS NULL
    WHERE (j.state = 'needs_reconciliation') <> (r.job_id IS NOT NULL)`,
  "an attempt without an end runs under the present lease": `SELECT a.job_id FROM attempts a
    LEFT JOIN leases l ON l.job_id = a.job_id AND l.token = a.token
    WHERE a.ended_at_ms IS NULL AND l.job_id IS NULL`,
  "an attempt that was not applied did not leave": `SELECT job_id FROM attempts
    WHERE outcome IS NOT NULL AND (outcome = 'not_applied') <> (sent_at_ms IS NULL)`,
  "an accepted update fed an operation": `SELECT event_key FROM updates
    LEFT JOIN operation_updates USING (event_key) WHERE state = 'accepted' AND operation_id IS NULL`,
  "an operation has an update that fed it": `SELECT operation_id FROM operations
    LEFT JOIN operation_updates USING (operation_id) WHERE event_key IS NULL`,
  "an operation has jobs": `SELECT operation_id FROM operations LEFT JOIN jobs USING (operation_id)
    WHERE job_id IS NULL`,
  "a failed job has an open alert": `SELECT job_id FROM jobs
    LEFT JOIN alerts ON kind = 'failed' AND subject = CAST(job_id AS TEXT) AND cleared_at_ms IS NULL
    WHERE (state = 'failed') <> (alert_id IS NOT NULL)`,
};

export function assertInvariants(path: string): void {
  withRaw(path, (db) => {
    assert.deepEqual(db.pragma("integrity_check"), [{ integrity_check: "ok" }]);
    assert.deepEqual(db.pragma("foreign_key_check"), []);
    for (const [name, sql] of Object.entries(INVARIANTS)) {
      assert.deepEqual(db.prepare(sql).all(), [], `broken: ${name}`);
    }
  });
}
