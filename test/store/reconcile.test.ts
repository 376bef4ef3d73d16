/** Finding out what became of an unknown attempt (design §6): a hit is proof, nothing found is not. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { JobId } from "../../src/domain/ids.ts";
import type { LookUp } from "../../src/domain/outcome.ts";
import type { StepSettings } from "../../src/domain/settings.ts";
import type { DueCheck, Transition } from "../../src/domain/store.ts";
import { connect } from "../../src/store/connect.ts";
import {
  confirmed,
  DAY,
  destinationSettings,
  HOUR,
  LEDGER_SETTINGS,
  MINUTE,
  makeWorld,
  refused,
  SECOND,
  stepSettings,
  T0,
  unknown,
  type World,
} from "./fixtures.ts";

/** A lead under `search` whose only attempt ended unknown at T0. */
async function parked(
  t: TestContext,
  lead: Partial<StepSettings> = {},
): Promise<{ world: World; job: JobId }> {
  const world = await makeWorld(t, { lead });
  const job = await world.lead();
  await world.attempt(job, unknown());
  assert.equal(world.state(job), "needs_reconciliation");
  return { world, job };
}

const row = (world: World): Record<string, unknown> =>
  world.row("SELECT * FROM reconciliations ORDER BY reconciliation_id DESC LIMIT 1");
const evidence = (world: World): unknown => JSON.parse(String(row(world).evidence));

/** Moves the clock to the next look-up that is due and answers it. */
async function next(world: World, records: readonly string[] | "not answered"): Promise<Transition[]> {
  world.now = Number(row(world).next_check_at_ms);
  return world.lookUp(records);
}

/** A look-up that is under way: it was due, and its answer comes later. */
async function inFlight(world: World): Promise<{ answer(...records: string[]): Promise<Transition[]> }> {
  world.now = Number(row(world).next_check_at_ms);
  const [check] = await world.store.dueChecks(world.now, 1);
  assert.ok(check !== undefined);
  const startedAtMs = world.now;
  return {
    answer: (...records) =>
      world.store.recordLookUp(
        check,
        { kind: "answered", records: records.map((externalId) => ({ externalId, link: null })) },
        world.settings,
        startedAtMs,
        world.now,
        0.5,
      ),
  };
}

describe("a look-up that finds", () => {
  it("one record: done with its id and link, and the reconciliation is closed", async (t) => {
    const { world, job } = await parked(t);
    const note = await world.note(job);
    world.now += 15 * SECOND;
    const [check] = await world.store.dueChecks(world.now, 10);
    assert.ok(check !== undefined);
    const transitions = await world.store.recordLookUp(
      check,
      { kind: "answered", records: [{ externalId: "C-1", link: "https://crm.example/C-1" }] },
      world.settings,
      world.now,
      world.now,
      0.5,
    );
    assert.deepEqual(
      transitions.map(({ jobId, to, reason, externalId }) => [jobId, to, reason, externalId]),
      [
        [job, "done", "found", "C-1"],
        [note, "pending", null, null],
      ],
    );
    assert.deepEqual([world.job(job).external_id, world.job(job).link], ["C-1", "https://crm.example/C-1"]);
    const { checks, resolution, resolved_at_ms, next_check_at_ms } = row(world);
    assert.deepEqual([checks, resolution, resolved_at_ms, next_check_at_ms], [1, "found", world.now, null]);
    assert.deepEqual(evidence(world), [{ at_ms: world.now, found: ["C-1"], detail: null }]);
  });

  it("the same record twice counts it once", async (t) => {
    const { world, job } = await parked(t);
    await next(world, ["C-1", "C-1"]);
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
  });

  it("two records leaves the choice to a person, names both, and looks no more", async (t) => {
    const { world, job } = await parked(t);
    assert.deepEqual(await next(world, ["C-1", "C-2", "C-1"]), []);
    assert.equal(world.state(job), "needs_reconciliation");
    assert.deepEqual([row(world).reason, row(world).next_check_at_ms], ["found_twice", null]);
    assert.match((await world.alerts("needs_reconciliation"))[0] ?? "", /2 records: C-1, C-2/);
    world.now += 400 * DAY;
    assert.deepEqual(await world.store.dueChecks(world.now, 10), []);
    await world.decideJob(job, { kind: "link", externalId: "C-1" });
    assert.deepEqual(await world.alerts("needs_reconciliation"), []);
  });
});

describe("a look-up that finds nothing", () => {
  it("is no proof: the schedule goes on, and when it is used up a person decides", async (t) => {
    const { world, job } = await parked(t);
    const due: number[] = [];
    for (let check = 0; check < 4; check += 1) {
      due.push(Number(row(world).next_check_at_ms) - T0);
      assert.deepEqual(await world.alerts("needs_reconciliation"), []);
      assert.deepEqual(await next(world, []), []);
    }
    assert.deepEqual(due, [15 * SECOND, 2 * MINUTE, 10 * MINUTE, HOUR]);
    assert.deepEqual(
      [world.state(job), row(world).checks, row(world).next_check_at_ms],
      ["needs_reconciliation", 4, null],
    );
    assert.match((await world.alerts("needs_reconciliation"))[0] ?? "", /4 look-ups found no record/);
    world.now += 400 * DAY;
    assert.deepEqual(await world.store.dueChecks(world.now, 10), []);
    assert.deepEqual(await world.claim(), []);
  });

  it("after a long stop of the daemon catches up one check at a time, not all at once", async (t) => {
    const { world } = await parked(t);
    world.now = T0 + DAY;
    await world.lookUp([]);
    assert.deepEqual([row(world).checks, row(world).next_check_at_ms], [1, world.now]);
  });
});

describe("a look-up that was not answered", () => {
  it("uses up no check and is repeated at a growing distance, as long as it takes", async (t) => {
    const { world, job } = await parked(t);
    const distances: number[] = [];
    for (let n = 0; n < 30; n += 1) {
      await next(world, "not answered");
      distances.push(Number(row(world).next_check_at_ms) - world.now);
    }
    assert.deepEqual([row(world).checks, row(world).failed_checks], [0, 30]);
    assert.ok(distances.every((distance) => distance >= SECOND && distance <= 15 * MINUTE));
    assert.ok((distances.at(-1) ?? 0) > 5 * MINUTE);
    assert.equal(world.state(job), "needs_reconciliation");
    // The evidence stays short enough to be read.
    assert.equal((evidence(world) as unknown[]).length, 20);
    await next(world, []);
    assert.deepEqual([row(world).checks, row(world).failed_checks], [1, 0]);
    await next(world, ["C-1"]);
    assert.equal(world.state(job), "done");
  });

  it("tells somebody when five have failed in a row, and no sooner (P4)", async (t) => {
    const { world } = await parked(t);
    for (let n = 1; n < 5; n += 1) await next(world, "not answered");
    assert.deepEqual(await world.alerts("needs_reconciliation"), []);
    await next(world, "not answered");
    assert.equal((await world.alerts("needs_reconciliation")).length, 1);
    await next(world, ["C-1"]);
    assert.deepEqual(await world.alerts("needs_reconciliation"), []);
  });

  it("says what was answered instead", async (t) => {
    const { world } = await parked(t);
    await next(world, "not answered");
    assert.deepEqual(evidence(world), [{ at_ms: world.now, found: null, detail: "not answered: HTTP 503" }]);
  });
});

describe("assume_absent_after", () => {
  const config = { assumeAbsentAfterMs: 2 * HOUR };

  it("acts only when a look-up begun later than the delay found nothing; then it is sent once more", async (t) => {
    const { world, job } = await parked(t, config);
    for (let check = 0; check < 4; check += 1) assert.deepEqual(await next(world, []), []);
    assert.equal(row(world).next_check_at_ms, T0 + 2 * HOUR + 1);
    const [transition] = await next(world, []);
    assert.deepEqual([transition?.to, transition?.reason], ["pending", "proved_absent"]);
    assert.equal(row(world).resolution, "proved_absent");
    assert.equal(world.job(job).closed_through_n, 1, "the unknown before it is closed");
    const body = world.row("SELECT body FROM job_bodies").body;
    await world.attempt(job, refused());
    assert.equal(world.row("SELECT body FROM job_bodies").body, body);
    assert.equal(world.state(job), "failed", "judged as if it were the first");
  });

  it("does not count a look-up that began before the delay and was answered after it: it looks once more", async (t) => {
    const { world, job } = await parked(t, { ...config, checksMs: [2 * HOUR] });
    const check = await inFlight(world);
    world.now += 5 * SECOND;
    assert.deepEqual(await check.answer(), []);
    assert.equal(world.state(job), "needs_reconciliation");
    assert.equal(row(world).next_check_at_ms, world.now);
    assert.deepEqual(await world.alerts("needs_reconciliation"), []);
    await next(world, []);
    assert.equal(world.state(job), "pending");
  });

  it("does not act on a look-up that was not answered", async (t) => {
    const { world, job } = await parked(t, { ...config, checksMs: [] });
    assert.equal(row(world).next_check_at_ms, T0 + 2 * HOUR + 1);
    await next(world, "not answered");
    assert.equal(world.state(job), "needs_reconciliation");
    await next(world, []);
    assert.equal(world.state(job), "pending");
  });

  it("a hit after the delay is still a hit", async (t) => {
    const { world, job } = await parked(t, { ...config, checksMs: [3 * HOUR] });
    await next(world, ["C-1"]);
    assert.equal(world.state(job), "done");
  });

  it("sends a note back behind its lead where that is not done", async (t) => {
    // A lead is open again behind a note that was sent only after a restored backup; here it is put there by hand.
    const world = await makeWorld(t);
    const lead = await world.lead();
    await world.attempt(lead, confirmed("C-1"));
    const note = await world.note(lead);
    world.steps = { lead: stepSettings(), note: stepSettings({ ...config, checksMs: [] }) };
    await world.attempt(note, unknown());
    const other = await world.lead({ userId: 7009 });
    world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", other, note);
    await next(world, []);
    assert.equal(world.state(note), "blocked");
    await world.attempt(other, confirmed("C-2"));
    assert.equal(world.state(note), "pending");
  });

  it("gives a note whose lead was dismissed to a person: a customer's words never vanish silently", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    await world.attempt(lead, confirmed("C-1"));
    const note = await world.note(lead);
    world.steps = { lead: stepSettings(), note: stepSettings({ ...config, checksMs: [] }) };
    await world.attempt(note, unknown());
    const other = await world.lead({ userId: 7009 });
    world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", other, note);
    await world.decideJob(other, { kind: "dismiss", withNotes: false });
    await next(world, []);
    assert.deepEqual([world.state(note), world.job(note).reason], ["failed", "lead_dismissed"]);
  });
});

describe("what is due", () => {
  it("is what its moment has come for, the longest waiting first, up to a limit", async (t) => {
    const world = await makeWorld(t);
    const jobs: JobId[] = [];
    for (let n = 0; n < 3; n += 1) {
      const job = await world.lead({ userId: 7001 + n });
      // No two failures of one kind in a row, which would pause the destination.
      await world.attempt(job, unknown(408));
      jobs.push(job);
      world.now += SECOND;
    }
    assert.deepEqual(await world.store.dueChecks(T0 + 15 * SECOND - 1, 10), []);
    const due = async (atMs: number, limit: number): Promise<JobId[]> =>
      (await world.store.dueChecks(atMs, limit)).map(({ jobId }) => jobId);
    assert.deepEqual(await due(T0 + 15 * SECOND, 10), jobs.slice(0, 1));
    assert.deepEqual(await due(T0 + HOUR, 2), jobs.slice(0, 2));
  });

  it("brings along what a look-up needs to ask with", async (t) => {
    const { world, job } = await parked(t);
    const [check] = await world.store.dueChecks(T0 + HOUR, 1);
    assert.deepEqual(
      [check?.jobId, check?.destination, check?.context.step, check?.context.operation.id],
      [job, "sales", "lead", world.job(job).operation_id],
    );
  });

  it("writes nothing and waits for nobody's write", async (t) => {
    const { world } = await parked(t);
    const before = world.store.dataVersion();
    const other = connect(world.path);
    other.exec("BEGIN IMMEDIATE");
    assert.equal((await world.store.dueChecks(T0 + HOUR, 1)).length, 1);
    other.exec("ROLLBACK");
    other.close();
    assert.equal(world.store.dataVersion(), before);
  });

  it("is nothing of a destination that is not configured: its jobs stay as they are, and nothing spins", async (t) => {
    const { world, job } = await parked(t);
    await world.store.configureDestinations([LEDGER_SETTINGS], T0);
    assert.deepEqual(await world.store.dueChecks(T0 + DAY, 10), []);
    assert.equal(world.state(job), "needs_reconciliation");
    await world.store.configureDestinations([destinationSettings(), LEDGER_SETTINGS], T0);
    assert.equal((await world.store.dueChecks(T0 + DAY, 10)).length, 1);
  });
});

describe("a step that the configuration no longer names", () => {
  it("is not looked up again at once for ever", async (t) => {
    const { world } = await parked(t);
    world.steps = {};
    await next(world, "not answered");
    assert.ok(Number(row(world).next_check_at_ms) > world.now);
  });

  it("is done when the record is found all the same", async (t) => {
    const { world, job } = await parked(t);
    world.steps = {};
    await next(world, ["C-1"]);
    assert.equal(world.state(job), "done");
  });

  it("waits for a person when nothing is found", async (t) => {
    const { world, job } = await parked(t);
    world.steps = {};
    await next(world, []);
    assert.deepEqual([world.state(job), row(world).next_check_at_ms], ["needs_reconciliation", null]);
    assert.equal((await world.alerts("needs_reconciliation")).length, 1);
  });
});

describe("a decision while a look-up is under way", () => {
  it("wins over nothing found: it is not asked again, and nothing is written", async (t) => {
    for (const decision of [{ kind: "recreate" }, { kind: "link", externalId: "C-1" }] as const) {
      const { world, job } = await parked(t);
      const check = await inFlight(world);
      await world.decideJob(job, decision);
      const before = [world.job(job), row(world)];
      assert.deepEqual(await check.answer(), []);
      assert.deepEqual([world.job(job), row(world)], before);
    }
  });

  it("recreate: a record that is found withdraws the repeat, since it would be a second lead", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "recreate" });
    const [transition] = await check.answer("C-1");
    assert.deepEqual([transition?.from, transition?.to, transition?.late], ["pending", "done", true]);
    assert.equal(world.job(job).external_id, "C-1");
    assert.deepEqual(await world.claim(), []);
    assert.deepEqual(evidence(world), [{ at_ms: world.now, found: ["C-1"], detail: null }]);
  });

  it("recreate, claimed already: the record is found before anything is sent", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "recreate" });
    const claimed = await world.claimJob(job);
    await check.answer("C-1");
    const begun = await world.begin(claimed, () => assert.fail("nothing may be rendered"));
    assert.equal(begun.kind === "stopped" && begun.to, "done");
    assert.equal(world.job(job).external_id, "C-1");
  });

  it("recreate, under way already: the record that was found stands, and another one raises an alert", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "recreate" });
    const claimed = await world.claimJob(job);
    await world.begin(claimed);
    await check.answer("C-1");
    await world.settle(claimed, 2, confirmed("C-2"));
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
    assert.match((await world.alerts("late_evidence"))[0] ?? "", /C-1.*C-2/);
  });

  it("recreate: two records that are found stop the repeat and leave the choice to a person", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "recreate" });
    await check.answer("C-1", "C-2");
    assert.deepEqual([world.state(job), world.job(job).reason], ["needs_reconciliation", "found_twice"]);
  });

  it("link: the same record is no news, another one raises an alert that names both", async (t) => {
    for (const [found, alerts] of [
      ["C-1", 0],
      ["C-2", 1],
    ] as const) {
      const { world, job } = await parked(t);
      const check = await inFlight(world);
      await world.decideJob(job, { kind: "link", externalId: "C-1" });
      assert.deepEqual(await check.answer(found), []);
      assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
      const raised = await world.alerts("late_evidence");
      assert.equal(raised.length, alerts);
      if (alerts === 1) assert.match(raised[0] ?? "", /C-1.*C-2/);
    }
  });

  it("dismiss: a record that is found raises an alert, the job stays cancelled", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "dismiss", withNotes: false });
    assert.deepEqual(await check.answer("C-1"), []);
    assert.equal(world.state(job), "cancelled");
    assert.match((await world.alerts("late_evidence"))[0] ?? "", /cancelled.*C-1/);
  });

  it("recreate that ended unknown again: the earlier look-up's hit closes the new reconciliation", async (t) => {
    const { world, job } = await parked(t);
    const check = await inFlight(world);
    await world.decideJob(job, { kind: "recreate" });
    await world.attempt(job, unknown());
    assert.equal(world.rows("SELECT * FROM reconciliations").length, 2);
    await check.answer("C-1");
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
  });
});

describe("an answer that is cut off", () => {
  for (const point of ["lookup.answered", "resolve.before_commit"] as const) {
    it(`at ${point} is not recorded, and the look-up is due again`, async (t) => {
      let cut = true;
      const world = await makeWorld(t, {
        crash: (passed) => {
          if (cut && passed === point) throw new Error("cut off");
        },
      });
      const job = await world.lead();
      await world.attempt(job, unknown());
      world.now += 15 * SECOND;
      await assert.rejects(world.lookUp(["C-1"]), /cut off/);
      assert.equal(world.state(job), "needs_reconciliation");
      cut = false;
      await world.lookUp(["C-1"]);
      assert.equal(world.state(job), "done");
    });
  }
});

describe("a reconciliation that nobody knows", () => {
  it("is none of ours", async (t) => {
    const { world, job } = await parked(t);
    const stranger: Pick<DueCheck, "reconciliationId" | "jobId"> = { reconciliationId: 999, jobId: job };
    const found: LookUp = { kind: "answered", records: [{ externalId: "X", link: null }] };
    assert.deepEqual(await world.store.recordLookUp(stranger, found, world.settings, T0, T0, 0.5), []);
    assert.equal(world.state(job), "needs_reconciliation");
  });
});
