/** Leases whose holder died (design §3): what was not begun goes back, what was begun is unknown. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asLeaseToken } from "../../src/domain/ids.ts";
import { SAFETY_CLASSES } from "../../src/domain/settings.ts";
import type { LeaseRef, Transition } from "../../src/domain/store.ts";
import {
  confirmed,
  DAY,
  destinationSettings,
  MINUTE,
  makeWorld,
  notApplied,
  SALES,
  T0,
  unauthorised,
  type World,
} from "./fixtures.ts";

/** As at start, when the lock is held: every lease is a dead process's. */
async function rescueAll(world: World): Promise<Transition[]> {
  return rescue(world, await world.store.staleLeases(Number.POSITIVE_INFINITY));
}
const rescue = (world: World, leases: readonly LeaseRef[]): Promise<Transition[]> =>
  world.store.rescue(leases, world.settings, world.now, () => 0.5);

const healthOf = async (world: World) =>
  (await world.store.destinations()).find(({ key }) => key === SALES)?.health ?? assert.fail();

describe("a lease", () => {
  it("is stale when it has run out, and at start whatever its deadline says", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    const lease = [{ jobId: job, token: claimed.token, destination: SALES }];
    assert.deepEqual(await world.store.staleLeases(T0 + MINUTE - 1), []);
    assert.deepEqual(await world.store.staleLeases(T0 + MINUTE), lease);
    assert.deepEqual(await world.store.staleLeases(Number.POSITIVE_INFINITY), lease);
  });
});

describe("a rescue", () => {
  it("of a job that was not begun gives it back at once, and counts nothing", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.claimJob(job);
    const [transition] = await rescueAll(world);
    assert.deepEqual(
      [transition?.from, transition?.to, transition?.reason],
      ["leased", "pending", "given_back"],
    );
    assert.deepEqual([world.job(job).attempts, world.job(job).run_at_ms], [0, world.now]);
    assert.deepEqual(world.rows("SELECT * FROM attempts"), []);
    await world.attempt(job, confirmed("C-1"));
  });

  for (const safety of SAFETY_CLASSES) {
    const to = safety === "search" || safety === "none" ? "needs_reconciliation" : "pending";
    it(`of a job that was begun makes the attempt unknown: ${to} under ${safety}`, async (t) => {
      const world = await makeWorld(t, { lead: { safety } });
      const job = await world.lead();
      await world.begin(await world.claimJob(job));
      const sentAt = world.now;
      world.now += DAY / 2;
      const [transition] = await rescueAll(world);
      assert.equal(transition?.to, to);
      assert.equal(world.state(job), to);
      const attempt = world.row("SELECT outcome, status, sent_at_ms, ended_at_ms FROM attempts");
      assert.deepEqual(attempt, {
        outcome: "unknown",
        status: null,
        sent_at_ms: sentAt,
        ended_at_ms: world.now,
      });
      if (to === "needs_reconciliation")
        assert.equal(world.row("SELECT unknown_at_ms FROM reconciliations").unknown_at_ms, sentAt);
    });
  }

  it("of a repeat under a class that forbids it by now waits for a person", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    await world.begin(await world.claimJob(job));
    world.steps = null;
    await rescueAll(world);
    assert.equal(world.state(job), "needs_reconciliation");
  });

  it("of a job whose earlier attempt was confirmed meanwhile finds that success", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    const first = await world.claimJob(job);
    await world.begin(first);
    await rescueAll(world);
    await world.begin(await world.claimJob(job));
    await world.settle(first, 1, confirmed("C-1"));
    await rescueAll(world);
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
  });

  it("with a token that does not match touches nothing", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    assert.deepEqual(await rescue(world, [{ jobId: job, token: asLeaseToken("made up") }]), []);
    assert.equal(world.state(job), "leased");
    await rescue(world, [claimed]);
    await world.claimJob(job);
    assert.deepEqual(await rescue(world, [claimed]), [], "a second rescue of the same lease");
    assert.equal(world.state(job), "leased");
  });

  it("keeps every later job of the person behind the one that is tried again", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const first = await world.lead();
    await world.lead();
    await world.begin(await world.claimJob(first));
    await rescueAll(world);
    assert.deepEqual(await world.claim(), []);
  });
});

describe("the health of a destination", () => {
  it("does not suffer from our own death: two lost attempts are no failure of the CRM", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    await world.lead({ userId: 7001 });
    await world.lead({ userId: 7002 });
    for (const claimed of await world.claim()) await world.begin(claimed);
    await rescueAll(world);
    assert.equal((await healthOf(world)).state, "active");
    assert.deepEqual(await world.alerts("paused"), []);
    // One real failure of a third job is still only one.
    await world.attempt(await world.lead({ userId: 7003 }), notApplied(null));
    assert.equal((await healthOf(world)).state, "active");
  });

  it("a trial that was lost in a crash does not leave the destination paused for ever", async (t) => {
    for (const how of ["claimed", "begun"] as const) {
      const world = await makeWorld(t, { lead: { safety: "search" } });
      await world.attempt(await world.lead({ userId: 7001 }), unauthorised());
      await world.lead({ userId: 7002 });
      const good = { kind: "good", status: 200, detail: null } as const;
      await world.store.recordProbe(SALES, good, destinationSettings(), world.now, 0.5);
      const [trial] = await world.claim();
      assert.ok(trial?.trial === true);
      if (how === "begun") await world.begin(trial);
      // While the daemon runs on: no new configuration helps.
      world.now += 2 * MINUTE;
      await rescue(world, await world.store.staleLeases(world.now));
      const { state, trialReady, nextProbeAtMs } = await healthOf(world);
      assert.equal(state, "paused");
      assert.ok(how === "claimed" ? trialReady : nextProbeAtMs !== null, how);
      if (nextProbeAtMs !== null) world.now = nextProbeAtMs;
      for (const key of await world.store.dueProbes(world.now))
        await world.store.recordProbe(key, good, destinationSettings(), world.now, 0.5);
      const [next] = await world.claim();
      assert.ok(next !== undefined && next.jobId !== trial.jobId, how);
    }
  });
});
