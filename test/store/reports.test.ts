/** What commands and people see (design §7, §9): exact shapes, plain SQLite, and no text or phone anywhere (P4, P5). */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it, type TestContext } from "node:test";
import { type JobId, LEDGER } from "../../src/domain/ids.ts";
import { openStore } from "../../src/store/index.ts";
import {
  actionSettings,
  BOT,
  confirmed,
  jobIdOf,
  MINUTE,
  makeWorld,
  messageUpdate,
  notApplied,
  OPERATOR,
  refused,
  SALES,
  SECOND,
  T0,
  unauthorised,
  unknown,
  type World,
} from "./fixtures.ts";

const WORDS = "the planted words of a customer";
const PHONE = "+12025550142";
const iso = (ms: number): string => new Date(ms).toISOString();

/** One of everything: done, failed, parked, pending, blocked, cancelled, quarantined, ignored, decisions, alerts. */
async function fullWorld(t: TestContext) {
  const world = await makeWorld(t, {
    lead: { safety: "search" },
    intake: { actions: [actionSettings({ to: [SALES, LEDGER] })] },
  });
  const contact = { phone_number: "12025550142", user_id: 7001, first_name: "Test" };
  await world.accept(messageUpdate({ updateId: 1, message: { contact }, from: { username: "TestPerson" } }));
  const done = jobIdOf(world.row("SELECT job_id FROM jobs WHERE destination = 'sales'"));
  await world.attempt(done, notApplied(429));
  await world.attempt(done, confirmed("C-1", "https://crm.example/leads/C-1"));
  const failed = await world.lead({ userId: 7002, text: WORDS });
  await world.attempt(failed, refused());
  const parked = await world.lead({ userId: 7003, text: WORDS, from: { username: "OtherPerson" } });
  await world.attempt(parked, unknown(408));
  world.now += 15 * SECOND;
  await world.lookUp([]);
  const dismissed = await world.lead({ userId: 7004, text: WORDS });
  const orphan = await world.note(dismissed, { userId: 7004, text: WORDS });
  await world.decideJob(dismissed, { kind: "dismiss", withNotes: false });
  const pending = await world.lead({ userId: 7005, text: WORDS });
  const blocked = await world.note(pending, { userId: 7005, text: WORDS });
  const leased = await world.lead({ userId: 7006, text: WORDS });
  await world.begin(await world.claimJob(leased));
  const start = messageUpdate({ updateId: 500, text: "/start", from: { username: "TestPerson" } });
  await world.accept(
    start,
    messageUpdate({ updateId: 501, message: { text: { hidden: WORDS } } }),
    messageUpdate({ updateId: 502, userId: 7006, message: { photo: [{}], caption: WORDS } }),
    {
      update_id: 503,
      edited_message: { message_id: 1, date: 1, text: WORDS, chat: { id: 1, type: "private" } },
    },
  );
  await world.accept(start);
  await world.store.recordPoller(
    BOT,
    { state: "polling", lastCompletedAtMs: world.now, lastError: null },
    world.now,
  );
  return { world, jobs: { done, failed, parked, dismissed, orphan, pending, blocked, leased } };
}

const keysOf = (value: object | undefined): string[] =>
  Object.keys(value ?? assert.fail("nothing there")).sort();

describe("status", () => {
  it("has the shape of the design, with numbers for every state", async (t) => {
    const { world } = await fullWorld(t);
    const status = await world.store.status("1.2.3", world.now + 90 * SECOND);
    const { alerts, ...rest } = status;
    assert.deepEqual(rest, {
      version: "1.2.3",
      bot: { id: 4242, username: "TestEnquiryBot" },
      poller: {
        state: "polling",
        next_offset: 501,
        last_completed_at: iso(world.now),
        last_error: null,
      },
      updates: { accepted: 9, ignored: 2, quarantined: 1, duplicates: 1 },
      jobs: {
        blocked: 1,
        pending: 2,
        leased: 1,
        done: 10,
        failed: 2,
        needs_reconciliation: 1,
        cancelled: 1,
      },
      oldest_pending_age_s: 90,
      destinations: [
        { name: "ledger", state: "active", reason: null },
        { name: "sales", state: "active", reason: null },
      ],
      reconciliations_open: 1,
    });
    assert.deepEqual(keysOf(alerts[0]), ["kind", "message", "since", "subject", "times"]);
    assert.deepEqual(alerts.map(({ kind }) => kind).sort(), ["failed", "failed", "quarantined"]);
  });

  it("of a fresh database says so", async (t) => {
    const world = await makeWorld(t);
    world.write("DELETE FROM bots");
    const status = await world.store.status("1", T0);
    assert.deepEqual(status.bot, { id: null, username: null });
    assert.deepEqual(status.poller, {
      state: "never_started",
      next_offset: null,
      last_completed_at: null,
      last_error: null,
    });
    assert.equal(status.oldest_pending_age_s, null);
    assert.deepEqual(Object.values(status.jobs), [0, 0, 0, 0, 0, 0, 0]);
  });

  it("says why a destination is paused", async (t) => {
    const world = await makeWorld(t);
    await world.attempt(await world.lead(), unauthorised());
    const { destinations } = await world.store.status("1", T0);
    assert.deepEqual(destinations[1], {
      name: "sales",
      state: "paused",
      reason: "HTTP 401: the credentials were refused",
    });
  });
});

describe("leads", () => {
  it("have the shape of the design: one row per lead, with its job at each destination, newest last", async (t) => {
    const { world } = await fullWorld(t);
    const leads = await world.store.leads(null);
    const operation = world.row("SELECT * FROM operations ORDER BY rowid LIMIT 1");
    assert.deepEqual(leads[0], {
      operation_id: operation.operation_id,
      code: operation.code,
      business_key: "lead:4242:7001:1",
      action: "enquiry",
      state: "completed",
      created_at: iso(T0),
      contact: "@TestPerson",
      event_keys: [world.row("SELECT event_key FROM updates WHERE update_id = 1").event_key],
      destinations: [
        { name: "sales", state: "done", external_id: "C-1", link: "https://crm.example/leads/C-1" },
        { name: "ledger", state: "done", external_id: operation.code, link: null },
      ],
    });
    assert.deepEqual(
      leads.map(({ state }) => state),
      // The dismissed one is in the ledger, so it is not cancelled everywhere.
      ["completed", "failed", "open", "completed", "open", "open", "open"],
    );
  });

  it("since a moment leave out the earlier ones", async (t) => {
    const { world } = await fullWorld(t);
    const all = await world.store.leads(null);
    const since = Date.parse(all[3]?.created_at ?? "");
    assert.deepEqual(
      (await world.store.leads(since)).map(({ code }) => code),
      all.filter(({ created_at }) => Date.parse(created_at) >= since).map(({ code }) => code),
    );
    assert.deepEqual(await world.store.leads(world.now + MINUTE), []);
  });
});

describe("jobs", () => {
  it("have the shape of the design", async (t) => {
    const { world, jobs } = await fullWorld(t);
    const [failed] = await world.store.jobs({ state: "failed" });
    assert.deepEqual(failed, {
      job_id: jobs.failed,
      operation_id: world.job(jobs.failed).operation_id,
      destination: "sales",
      step: "lead",
      state: "failed",
      attempts: 1,
      run_at: iso(T0 + 750),
      reason: "refused",
      external_id: null,
      detail: "bad field",
    });
  });

  it("can be chosen by state and by the destination's name", async (t) => {
    const { world } = await fullWorld(t);
    const all = await world.store.jobs({});
    assert.equal(all.length, 18);
    assert.equal((await world.store.jobs({ destination: "ledger" })).length, 9);
    assert.deepEqual(
      (await world.store.jobs({ state: "done", destination: "sales" })).map(({ external_id }) => external_id),
      ["C-1"],
    );
    assert.deepEqual(await world.store.jobs({ destination: "nobody" }), []);
  });
});

describe("reconcile list", () => {
  it("has the shape of the design, with what the look-ups saw and where the person can be found", async (t) => {
    const { world, jobs } = await fullWorld(t);
    const opened = world.row("SELECT * FROM reconciliations");
    assert.deepEqual(await world.store.openReconciliations(), [
      {
        job_id: jobs.parked,
        operation_id: world.job(jobs.parked).operation_id,
        destination: "sales",
        reason: "unknown_outcome",
        opened_at: iso(Number(opened.opened_at_ms)),
        checks: 1,
        next_check_at: iso(Number(opened.unknown_at_ms) + 2 * MINUTE),
        evidence: [{ at: iso(Number(opened.unknown_at_ms) + 15 * SECOND), found: [], detail: null }],
        code: world.row(
          "SELECT code FROM operations JOIN jobs USING (operation_id) WHERE job_id = ?",
          jobs.parked,
        ).code,
        step: "lead",
        contact: "@OtherPerson",
      },
    ]);
  });
});

describe("trace", () => {
  it("has the shape of the design", async (t) => {
    const { world, jobs } = await fullWorld(t);
    const trace = await world.store.trace("C-1");
    assert.ok(trace !== null);
    assert.deepEqual(keysOf(trace), [
      "attempts",
      "jobs",
      "operations",
      "operator_actions",
      "reconciliations",
      "updates",
    ]);
    assert.deepEqual(trace.updates.length, 1);
    assert.deepEqual(
      trace.attempts.map(({ job_id, n, outcome, status, sent_at, external_id }) => [
        job_id,
        n,
        outcome,
        status,
        sent_at === null,
        external_id,
      ]),
      [
        [jobs.done, 1, "not_applied", 429, true, null],
        [jobs.done, 2, "confirmed", 201, false, "C-1"],
      ],
    );
    assert.deepEqual(keysOf(trace.attempts[0]), [
      "begun_at",
      "detail",
      "ended_at",
      "external_id",
      "job_id",
      "n",
      "outcome",
      "sent_at",
      "status",
    ]);
    const decided = await world.store.trace(String(world.job(jobs.dismissed).operation_id));
    assert.deepEqual(
      decided?.operator_actions.map(({ at: _, ...action }) => action),
      [{ who: "tester", action: "dismiss", job_id: jobs.dismissed, why: "because", detail: null }],
    );
    const looked = await world.store.trace(String(world.job(jobs.parked).operation_id));
    assert.deepEqual(keysOf(looked?.reconciliations[0]), [
      "checks",
      "destination",
      "evidence",
      "job_id",
      "next_check_at",
      "opened_at",
      "operation_id",
      "reason",
      "resolution",
      "resolved_at",
    ]);
  });

  it("finds an operation by everything that a person may have in hand", async (t) => {
    const { world } = await fullWorld(t);
    const { operation_id, code, business_key } = world.row("SELECT * FROM operations ORDER BY rowid LIMIT 1");
    const eventKey = world.row("SELECT event_key FROM updates WHERE update_id = 1").event_key;
    const handles = [
      "1",
      eventKey,
      operation_id,
      String(operation_id).toUpperCase(),
      code,
      String(code).toLowerCase(),
      ` ${code} `,
      business_key,
      "C-1",
      PHONE,
      "12025550142",
      "+1 (202) 555-0142",
      "@TestPerson",
      "testperson",
      "7001",
    ].map(String);
    for (const handle of handles) {
      const trace = await world.store.trace(handle);
      assert.deepEqual(
        trace?.operations.map((found) => found.operation_id),
        [operation_id],
        handle,
      );
      assert.ok(
        trace?.updates.some(({ update_id }) => update_id === 1),
        handle,
      );
    }
  });

  it("finds a record that only a late answer named", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    await world.begin(claimed);
    await world.store.rescue([claimed], world.settings, world.now, () => 0.5);
    await world.decideJob(job, { kind: "link", externalId: "C-1" });
    await world.settle(claimed, 1, confirmed("C-2"));
    assert.equal((await world.store.trace("C-2"))?.jobs[0]?.job_id, job);
  });

  it("shows an update that made nothing, and why", async (t) => {
    const { world } = await fullWorld(t);
    const ignored = await world.store.trace("500");
    assert.deepEqual(
      ignored?.updates.map(({ state, reason, redelivered, operation_ids }) => [
        state,
        reason,
        redelivered,
        operation_ids,
      ]),
      [["ignored", "command", 1, []]],
    );
    assert.deepEqual(ignored?.jobs, []);
    const [quarantined] = (await world.store.trace("501"))?.updates ?? [];
    assert.match(quarantined?.reason ?? "", /^malformed: unexpected shape at message\.text/);
  });

  it("finds nothing for what nobody knows, and is never fooled by a pattern", async (t) => {
    const { world } = await fullWorld(t);
    for (const handle of ["", "nobody", "%", "_", "999999", "-1", "' OR 1=1 --", "12025550199", "\u0000"]) {
      assert.equal(await world.store.trace(handle), null, JSON.stringify(handle));
    }
  });
});

describe("no text and no phone (P5)", () => {
  const planted = [WORDS, PHONE, "12025550142", "2025550142"];

  function assertClean(what: string, text: string): void {
    for (const secret of planted) assert.equal(text.includes(secret), false, `${secret} in ${what}`);
  }

  it("stands in no report", async (t) => {
    const { world } = await fullWorld(t);
    const { store } = world;
    const traces = await Promise.all(
      [
        "1",
        PHONE,
        "501",
        "C-1",
        ...world.rows("SELECT operation_id AS id FROM operations").map(({ id }) => String(id)),
      ].map((handle) => store.trace(handle)),
    );
    const reports = {
      status: await store.status("1", world.now),
      leads: await store.leads(null),
      jobs: await store.jobs({}),
      reconciliations: await store.openReconciliations(),
      traces,
      alerts: await store.openAlerts(),
      destinations: await store.destinations(),
    };
    assert.ok(traces.every((trace) => trace !== null));
    for (const [name, report] of Object.entries(reports)) assertClean(name, JSON.stringify(report));
  });

  it("stands in no view and in no table but those made for it", async (t) => {
    const { world } = await fullWorld(t);
    const holders = ["updates", "operations", "contacts", "job_bodies"];
    const names = world
      .rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
      .map(({ name }) => String(name));
    assert.ok(names.includes("v_trace") && names.length > 20);
    for (const name of names) {
      const rows = JSON.stringify(world.rows(`SELECT * FROM ${name}`));
      if (holders.includes(name))
        assert.ok(
          planted.some((secret) => rows.includes(secret)),
          name,
        );
      else assertClean(name, rows);
    }
  });
});

describe("a plain SQLite shell", () => {
  const shell = (world: World, sql: string): string =>
    execFileSync("sqlite3", ["-readonly", world.path, sql], { encoding: "utf8" }).trim();

  it("reads every view while the daemon writes", async (t) => {
    const { world, jobs } = await fullWorld(t);
    const views = world
      .rows("SELECT name FROM sqlite_schema WHERE type = 'view'")
      .map(({ name }) => String(name));
    assert.deepEqual([...views].sort(), [
      "v_failed",
      "v_operations",
      "v_pending",
      "v_reconciliation",
      "v_status",
      "v_trace",
    ]);
    for (const view of views) assert.notEqual(shell(world, `SELECT * FROM ${view}`), "", view);
    assert.equal(
      shell(
        world,
        "SELECT destination, external_id FROM v_trace WHERE update_id = 1 AND destination = 'sales'",
      ),
      "sales|C-1",
    );
    assert.equal(shell(world, "SELECT n FROM v_status WHERE what = 'jobs needs_reconciliation'"), "1");
    assert.equal(
      shell(world, "SELECT job_id, state FROM v_pending ORDER BY job_id LIMIT 1"),
      `${jobs.pending}|pending`,
    );
  });

  it("is told why, what is safe and the next command", async (t) => {
    const { world, jobs } = await fullWorld(t);
    const failed = shell(world, `SELECT why, safe, next_command FROM v_failed WHERE job_id = ${jobs.failed}`);
    assert.match(
      failed,
      new RegExp(`refused it for good.*can't make a second.*leadonce retry ${jobs.failed} `),
    );
    const parked = shell(world, "SELECT why, safe, next_command FROM v_reconciliation");
    assert.match(
      parked,
      new RegExp(`answer was lost.*Look in the CRM.*leadonce reconcile recreate ${jobs.parked} `),
    );
  });
});

describe("the destination of a job", () => {
  it("has a name in the views also where it was never entered", async (t) => {
    const world = await makeWorld(t);
    await world.lead();
    world.write("DELETE FROM destinations WHERE destination = 'sales'");
    assert.equal(world.row("SELECT destination FROM v_pending").destination, "sales");
    assert.equal(world.row("SELECT destination FROM v_trace").destination, "sales");
  });
});

describe("an operation's state", () => {
  it("is derived from its jobs", async (t) => {
    const cases: [string, (world: World, job: JobId) => Promise<unknown>][] = [
      ["open", async () => {}],
      ["open", (world, job) => world.claimJob(job)],
      ["open", (world, job) => world.attempt(job, unknown())],
      ["failed", (world, job) => world.attempt(job, refused())],
      ["completed", (world, job) => world.attempt(job, confirmed("C-1"))],
      ["cancelled", (world, job) => world.decideJob(job, { kind: "dismiss", withNotes: false })],
    ];
    for (const [state, happen] of cases) {
      const world = await makeWorld(t);
      await happen(world, await world.lead());
      assert.equal(world.row("SELECT state FROM v_operations").state, state);
      assert.equal((await world.store.leads(null))[0]?.state, state);
    }
  });
});

describe("a reader beside the daemon", () => {
  it("sees the same reports over a read-only connection", async (t) => {
    const { world } = await fullWorld(t);
    const reader = openStore(world.path, { mode: "read", nowMs: world.now });
    t.after(() => reader.close());
    assert.deepEqual(await reader.status("1", world.now), await world.store.status("1", world.now));
    assert.deepEqual(await reader.leads(null), await world.store.leads(null));
    assert.deepEqual(await reader.trace("1"), await world.store.trace("1"));
    await assert.rejects(reader.pause(SALES, OPERATOR, T0), /read-only/);
  });
});
