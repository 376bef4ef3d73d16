/** Which jobs may run (design §3.4): one at a time per person and destination, in accept order, and fast. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type Database from "better-sqlite3";
import { asDestinationKey, type JobId } from "../../src/domain/ids.ts";
import type { Probe } from "../../src/domain/outcome.ts";
import { noCrash } from "../../src/domain/ports.ts";
import type { ClaimedJob } from "../../src/domain/store.ts";
import { claimer } from "../../src/store/claim.ts";
import { connect } from "../../src/store/connect.ts";
import { intakeStore } from "../../src/store/intake.ts";
import { reconcileStore } from "../../src/store/reconciliations.ts";
import { workStore } from "../../src/store/work.ts";
import {
  actionSettings,
  BOT,
  confirmed,
  DAY,
  destinationSettings,
  HOUR,
  MINUTE,
  makeWorld,
  messageUpdate,
  newToken,
  notApplied,
  OPERATOR,
  prepare,
  RUN,
  refused,
  SALES,
  SECOND,
  T0,
  unauthorised,
  unknown,
  type World,
} from "./fixtures.ts";

const OTHER = asDestinationKey("other");
const ids = (claimed: readonly ClaimedJob[]): JobId[] => claimed.map(({ jobId }) => jobId);

describe("one person's jobs at one destination", () => {
  it("run one at a time in accept order", async (t) => {
    const world = await makeWorld(t);
    const jobs = [await world.lead(), await world.lead(), await world.lead()];
    for (const job of jobs) {
      const claimed = await world.claim();
      assert.deepEqual(ids(claimed), [job]);
      assert.deepEqual(ids(await world.claim()), [], "the next one waits while this one is leased");
      const [first] = claimed;
      assert.ok(first !== undefined);
      const begun = await world.begin(first);
      assert.ok(begun.kind === "begun");
      await world.settle(first, begun.n, confirmed(`C-${job}`));
    }
    assert.deepEqual(ids(await world.claim()), []);
  });

  it("wait behind an earlier one that is tried again later", async (t) => {
    const world = await makeWorld(t);
    const [first] = [await world.lead(), await world.lead()];
    await world.attempt(first, notApplied(429, 10 * MINUTE));
    assert.deepEqual(ids(await world.claim()), []);
    world.now += 10 * MINUTE;
    assert.deepEqual(ids(await world.claim()), [first]);
  });

  it("do not wait behind one that failed, is parked, or is blocked", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "none" } });
    const failed = await world.lead();
    const parked = await world.lead();
    const note = await world.note(parked);
    const last = await world.lead();
    await world.attempt(failed, refused());
    await world.attempt(parked, unknown());
    assert.deepEqual(
      [failed, parked, note].map((job) => world.state(job)),
      ["failed", "needs_reconciliation", "blocked"],
    );
    assert.deepEqual(ids(await world.claim()), [last]);
  });

  it("wait while an earlier one that a person sent again is leased, and the other way round", async (t) => {
    const world = await makeWorld(t);
    const [first, second] = [await world.lead(), await world.lead()];
    await world.attempt(first, refused());
    const claimed = await world.claimJob(second);
    await world.decideJob(first, { kind: "retry" });
    assert.deepEqual(ids(await world.claim()), [], "the earlier one too waits for the one that is leased");
    const begun = await world.begin(claimed);
    assert.ok(begun.kind === "begun");
    await world.settle(claimed, begun.n, confirmed("C-2"));
    assert.deepEqual(ids(await world.claim()), [first]);
  });

  it("do not wait for other people's, nor for their own elsewhere", async (t) => {
    const world = await makeWorld(t, { intake: { actions: [actionSettings({ to: [SALES, OTHER] })] } });
    await world.store.configureDestinations(
      [destinationSettings(), destinationSettings({ key: OTHER, name: "other" })],
      T0,
    );
    await world.accept(
      messageUpdate({ updateId: 1, userId: 7001 }),
      messageUpdate({ updateId: 2, userId: 7002 }),
      messageUpdate({ updateId: 3, userId: 7001 }),
    );
    assert.equal((await world.claim(10, SALES)).length, 2);
    assert.equal((await world.claim(10, OTHER)).length, 2);
    assert.equal((await world.claim(10, SALES)).length, 0);
  });
});

describe("a claim", () => {
  async function people(world: World, count: number): Promise<JobId[]> {
    const jobs: JobId[] = [];
    for (let n = 0; n < count; n += 1) jobs.push(await world.lead({ userId: 7001 + n }));
    return jobs;
  }

  it("takes no more than asked, the longest waiting first", async (t) => {
    const world = await makeWorld(t);
    const jobs = await people(world, 5);
    assert.deepEqual(ids(await world.claim(0)), []);
    assert.deepEqual(ids(await world.claim(-1)), []);
    assert.deepEqual(ids(await world.claim(2)), jobs.slice(0, 2));
    assert.deepEqual(ids(await world.claim(2)), jobs.slice(2, 4));
    assert.deepEqual(ids(await world.claim(2)), jobs.slice(4));
  });

  it("takes nothing before its time", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, notApplied(429, MINUTE));
    world.now = Number(world.job(job).run_at_ms) - 1;
    assert.deepEqual(ids(await world.claim()), []);
    world.now += 1;
    assert.deepEqual(ids(await world.claim()), [job]);
  });

  it("gives each job a lease of its own with a deadline", async (t) => {
    const world = await makeWorld(t);
    const [one, two] = await people(world, 2);
    const claimed = await world.claim();
    assert.equal(new Set(claimed.map(({ token }) => token)).size, 2);
    assert.deepEqual(
      world.rows("SELECT job_id, token, run_id, expires_at_ms FROM leases ORDER BY job_id"),
      [one, two].map((job, n) => ({
        job_id: job,
        token: claimed[n]?.token,
        run_id: RUN,
        expires_at_ms: T0 + MINUTE,
      })),
    );
    assert.deepEqual(
      claimed.map(({ trial, step, destination }) => [trial, step, destination]),
      [
        [false, "lead", SALES],
        [false, "lead", SALES],
      ],
    );
  });

  it("that finds nothing writes nothing", async (t) => {
    const world = await makeWorld(t);
    await world.attempt(await world.lead(), confirmed("C-1"));
    const watcher = connect(world.path);
    t.after(() => watcher.close());
    const before = watcher.pragma("data_version", { simple: true });
    assert.deepEqual(ids(await world.claim()), []);
    assert.equal(watcher.pragma("data_version", { simple: true }), before);
  });

  it("cut off before its commit claims nothing; after it the leases stand", async (t) => {
    let point = "claim.before_commit";
    const world = await makeWorld(t, {
      crash: (passed) => {
        if (passed === point) throw new Error("cut off");
      },
    });
    const job = await world.lead();
    await assert.rejects(world.claim(), /cut off/);
    assert.equal(world.state(job), "pending");
    assert.deepEqual(world.rows("SELECT * FROM leases"), []);
    point = "claim.committed";
    await assert.rejects(world.claim(), /cut off/);
    assert.equal(world.state(job), "leased");
    point = "none";
    await world.store.rescue(
      await world.store.staleLeases(Number.POSITIVE_INFINITY),
      world.settings,
      world.now,
      () => 0.5,
    );
  });

  it("by several claimers at once never gives one job to two", async (t) => {
    const world = await makeWorld(t);
    const jobs = await people(world, 60);
    const script = fileURLToPath(new URL("claim-all.ts", import.meta.url));
    const children = ["a", "b", "c"].map((name) =>
      spawn(process.execPath, ["--import", "tsx", script, world.path, name], {
        stdio: ["pipe", "pipe", "inherit"],
      }),
    );
    t.after(() => {
      for (const child of children) child.kill("SIGKILL");
    });
    await Promise.all(children.map((child) => once(child.stdout, "data")));
    const answers = children.map((child) => text(child.stdout));
    for (const child of children) child.stdin.write("go\n");
    const got = (await Promise.all(answers)).flatMap((answer): number[] => JSON.parse(answer));
    assert.deepEqual(
      [...got].sort((a, b) => a - b),
      jobs,
    );
  });

  it("serves several destinations in one call, each to its own limit", async (t) => {
    const world = await makeWorld(t, { intake: { actions: [actionSettings({ to: [SALES, OTHER] })] } });
    await world.store.configureDestinations(
      [destinationSettings(), destinationSettings({ key: OTHER, name: "other" })],
      T0,
    );
    await people(world, 3);
    const claimed = await world.store.claim(
      [
        { destination: SALES, limit: 1, leaseMs: MINUTE },
        { destination: OTHER, limit: 2, leaseMs: HOUR },
        { destination: asDestinationKey("nobody"), limit: 9, leaseMs: MINUTE },
      ],
      RUN,
      newToken,
      T0,
    );
    assert.deepEqual(
      claimed.map(({ destination }) => destination),
      [SALES, OTHER, OTHER],
    );
  });
});

describe("a paused destination", () => {
  const good: Probe = { kind: "good", status: 200, detail: null };
  const probe = (world: World, seen: Probe = good): Promise<unknown> =>
    world.store.recordProbe(SALES, seen, destinationSettings(), world.now, 0.5);

  it("lets nothing through until a good probe, then exactly one job, and another one each time", async (t) => {
    const world = await makeWorld(t);
    const jobs: JobId[] = [];
    for (let n = 0; n < 4; n += 1) jobs.push(await world.lead({ userId: 7001 + n }));
    await world.attempt(jobs[0] ?? assert.fail(), unauthorised());
    assert.deepEqual(ids(await world.claim()), []);
    await probe(world, { kind: "bad", status: 503, detail: null });
    assert.deepEqual(ids(await world.claim()), []);

    await probe(world);
    const [trial, ...others] = await world.claim();
    assert.ok(trial !== undefined && others.length === 0);
    assert.equal(trial.trial, true);
    assert.deepEqual(ids(await world.claim()), [], "one job, not one per claim");
    const begun = await world.begin(trial);
    assert.ok(begun.kind === "begun");
    await world.settle(trial, begun.n, unauthorised());
    assert.deepEqual(ids(await world.claim()), []);

    await probe(world);
    const [next] = await world.claim();
    assert.ok(next !== undefined);
    assert.notEqual(next.jobId, trial.jobId, "another one each time");
    const again = await world.begin(next);
    assert.ok(again.kind === "begun");
    await world.settle(next, again.n, confirmed("C-1"));
    assert.equal((await world.claim()).length, 3, "the rest follow when it is confirmed");
  });

  it("tries the same job again where there is no other", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, unauthorised());
    for (let time = 0; time < 2; time += 1) {
      await probe(world);
      const [trial] = await world.claim();
      assert.equal(trial?.jobId, job);
      const begun = await world.begin(trial ?? assert.fail());
      assert.ok(begun.kind === "begun");
      await world.settle(trial ?? assert.fail(), begun.n, unauthorised());
    }
  });

  it("that was probed well while nothing was ready lets the next job through, alone", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, unauthorised());
    await world.decideJob(job, { kind: "dismiss", withNotes: false });
    await probe(world);
    assert.deepEqual(ids(await world.claim()), []);
    const later = [await world.lead({ userId: 7002 }), await world.lead({ userId: 7003 })];
    assert.deepEqual(ids(await world.claim()), later.slice(0, 1));
  });

  it("is not probed again while a trial is under way, also when the trial before was lost in a restart", async (t) => {
    const world = await makeWorld(t);
    await world.attempt(await world.lead(), unauthorised());
    await probe(world);
    const lost = await world.claim();
    await world.store.configureDestinations([destinationSettings()], world.now);
    await world.store.rescue(lost, world.settings, world.now, () => 0.5);
    assert.equal((await world.claim()).length, 1);
    world.now += DAY;
    assert.deepEqual(await world.store.dueProbes(world.now), []);
  });

  it("by a person lets nothing through, whatever a probe says", async (t) => {
    const world = await makeWorld(t);
    await world.lead();
    await world.store.pause(SALES, OPERATOR, T0);
    await probe(world);
    assert.deepEqual(ids(await world.claim()), []);
    await world.store.resume(SALES, OPERATOR, T0);
    assert.equal((await world.claim()).length, 1);
  });
});

describe("when something becomes due", () => {
  it("is never for a destination that is paused, done with, or not configured", async (t) => {
    const world = await makeWorld(t);
    assert.equal(await world.store.nextDueAtMs(T0), null);
    const job = await world.lead();
    await world.attempt(job, notApplied(429, MINUTE));
    assert.equal(await world.store.nextDueAtMs(T0), T0 + MINUTE);
    await world.store.pause(SALES, OPERATOR, T0);
    assert.equal(await world.store.nextDueAtMs(T0), null);
    await world.store.resume(SALES, OPERATOR, T0);
    await world.store.configureDestinations([], T0);
    assert.equal(await world.store.nextDueAtMs(T0), null);
  });

  it("is the earliest of the next job, probe and look-up", async (t) => {
    const world = await makeWorld(t);
    await world.attempt(await world.lead({ userId: 7001 }), unknown());
    assert.equal(await world.store.nextDueAtMs(T0), T0 + 15 * SECOND, "the first look-up");
    await world.attempt(await world.lead({ userId: 7002 }), unauthorised());
    assert.equal(await world.store.nextDueAtMs(T0), T0 + SECOND, "the probe");
    assert.equal(await world.store.nextDueAtMs(T0 + SECOND), T0 + 15 * SECOND);
    assert.deepEqual(await world.store.dueProbes(T0 + SECOND - 1), []);
    assert.deepEqual(await world.store.dueProbes(T0 + SECOND), [SALES]);
  });
});

describe("the hot queries", () => {
  it("use their partial indexes: a million finished jobs cost nothing", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const statements = new Set<string>();
    const db = connect(world.path, { verbose: (sql) => void statements.add(String(sql)) });
    t.after(() => db.close());
    const context = { db, crash: noCrash };
    const [intake, work, looks] = [intakeStore(context), workStore(context), reconcileStore(context)];
    const { claim, nextDueAtMs } = claimer(context);
    const request = { destination: SALES, limit: 4, leaseMs: MINUTE };
    const elements = [1, 2, 3].map((updateId) => messageUpdate({ updateId, userId: 7000 + updateId }));
    await intake.accept({ botId: BOT, elements, nextOffset: 4, receivedAtMs: T0 }, world.decide);
    await intake.accept({ botId: BOT, elements, nextOffset: 4, receivedAtMs: T0 }, world.decide);
    const claimed = await claim([request], RUN, newToken, T0);
    await work.beginAttempt(
      claimed.map((lease) => ({ ...lease, leaseMs: MINUTE })),
      prepare,
      world.settings,
      T0,
    );
    const [one, two, three] = claimed;
    assert.ok(one !== undefined && two !== undefined && three !== undefined);
    await work.settle(
      [
        { ...one, n: 1, outcome: confirmed("C-1") },
        { ...two, n: 1, outcome: unknown() },
        { ...three, n: 1, outcome: unauthorised() },
      ],
      world.settings,
      T0,
      () => 0.5,
    );
    const [check] = await looks.dueChecks(T0 + MINUTE, 10);
    assert.ok(check !== undefined);
    await looks.recordLookUp(
      check,
      { kind: "answered", records: [] },
      world.settings,
      T0 + MINUTE,
      T0 + MINUTE,
      0.5,
    );
    await nextDueAtMs(T0);
    await work.staleLeases(T0);
    await world.store.recordProbe(
      SALES,
      { kind: "good", status: 200, detail: null },
      destinationSettings(),
      T0,
      0,
    );
    await claim([request], RUN, newToken, T0);
    await work.release(await work.staleLeases(Number.POSITIVE_INFINITY), T0);

    // Foreign-key checks that SQLite plans but skips while no reference is broken are none of the queries'.
    const planner = connect(world.path);
    t.after(() => planner.close());
    planner.pragma("foreign_keys = OFF");
    const plans = [...statements]
      .filter((sql) => /^\s*(SELECT|UPDATE|DELETE|INSERT|WITH)/i.test(sql))
      .map((sql) => ({ sql, plan: planOf(planner, sql) }));
    assert.ok(plans.length > 25, `${plans.length} statements were seen`);
    for (const { sql, plan } of plans) {
      assert.doesNotMatch(
        plan,
        /SCAN (j|e|o|a|u|r|jobs|operations|updates|attempts|reconciliations|contacts|operation_updates)\b(?! USING INDEX (jobs_ready|reconciliations_due))/,
        sql,
      );
    }
    const using = (index: string): number => plans.filter(({ plan }) => plan.includes(index)).length;
    for (const index of ["jobs_ready", "jobs_holding_back", "reconciliations_due"]) {
      assert.ok(using(index) > 0, index);
    }
  });

  function planOf(db: Database.Database, sql: string): string {
    const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
    // The column of a plan that says what is done; SQLite documents it as text.
    return steps.map((step) => (step as { detail: string }).detail).join("\n");
  }
});
