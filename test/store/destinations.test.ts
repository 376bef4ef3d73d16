/** Pause and probe in the database (design §6): what the rules of `domain/health` do to rows, alerts and time. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asDestinationKey } from "../../src/domain/ids.ts";
import type { Probe } from "../../src/domain/outcome.ts";
import type { DestinationSettings } from "../../src/domain/settings.ts";
import {
  confirmed,
  destinationSettings,
  HOUR,
  LEDGER_SETTINGS,
  MINUTE,
  makeWorld,
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

const good: Probe = { kind: "good", status: 200, detail: null };
const bad: Probe = { kind: "bad", status: 503, detail: null };

const rowOf = (world: World): Record<string, unknown> =>
  world.row("SELECT * FROM destinations WHERE destination = 'sales'");
const healthOf = async (world: World) =>
  (await world.store.destinations()).find(({ key }) => key === SALES)?.health ?? assert.fail();
const probe = (world: World, seen: Probe) =>
  world.store.recordProbe(SALES, seen, destinationSettings(), world.now, 0.5);
const configure = (world: World, ...destinations: DestinationSettings[]) =>
  world.store.configureDestinations([...destinations, LEDGER_SETTINGS], world.now);

/** One more person's job at sales ends like this. */
async function another(world: World, outcome: Parameters<World["attempt"]>[1]): Promise<void> {
  const { n } = world.row("SELECT count(*) AS n FROM contacts");
  await world.attempt(await world.lead({ userId: 8_000 + Number(n) }), outcome);
}

describe("a destination pauses", () => {
  it("after unauthorised, with one alert that says how to go on", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    const { state, reason, next_probe_at_ms } = rowOf(world);
    assert.deepEqual([state, reason, next_probe_at_ms], ["paused", "unauthorised", T0 + SECOND]);
    const alerts = await world.alerts("paused");
    assert.equal(alerts.length, 1);
    assert.match(alerts[0] ?? "", /sales is paused.*leadonce resume sales/);
    await probe(world, bad);
    assert.equal((await world.store.openAlerts())[0]?.times, 1, "a probe is no news");
  });

  it("after the same failure of two people's jobs, not after one job's second", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, notApplied(503));
    await world.attempt(job, notApplied(503));
    assert.equal(rowOf(world).state, "active");
    await another(world, unknown(500));
    assert.equal(rowOf(world).reason, "same_failure");
  });

  it("after five people's jobs were refused, and a success in between starts the count anew", async (t) => {
    const world = await makeWorld(t);
    for (let n = 0; n < 4; n += 1) await another(world, refused());
    await another(world, confirmed("C-1"));
    for (let n = 0; n < 4; n += 1) await another(world, refused());
    assert.equal(rowOf(world).state, "active");
    await another(world, refused());
    assert.equal(rowOf(world).reason, "refused_in_a_row");
  });

  it("and the count survives a restart", async (t) => {
    const world = await makeWorld(t);
    for (let n = 0; n < 4; n += 1) await another(world, refused());
    world.reopen();
    await configure(world, destinationSettings());
    await another(world, refused());
    assert.equal(rowOf(world).reason, "refused_in_a_row");
  });

  it("and an outcome that changes nothing about its health writes nothing", async (t) => {
    const world = await makeWorld(t);
    await another(world, confirmed("C-1"));
    const before = rowOf(world);
    await another(world, confirmed("C-2"));
    assert.deepEqual(rowOf(world), before);
  });
});

describe("a destination goes on", () => {
  it("when its trial is confirmed: the alert is cleared and the time of the pause is added up", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    world.now = T0 + HOUR;
    await probe(world, good);
    const [trial] = await world.claim();
    await world.begin(trial ?? assert.fail());
    world.now += MINUTE;
    await world.settle(trial ?? assert.fail(), 2, confirmed("C-1"));
    const { state, total_paused_ms, paused_since_ms, failure_signature, refused_jobs } = rowOf(world);
    assert.deepEqual(
      [state, total_paused_ms, paused_since_ms, failure_signature, refused_jobs],
      ["active", HOUR + MINUTE, null, null, "[]"],
    );
    assert.deepEqual(await world.alerts("paused"), []);
    await world.store.pause(SALES, OPERATOR, world.now);
    await world.store.resume(SALES, OPERATOR, world.now + SECOND);
    assert.equal(rowOf(world).total_paused_ms, HOUR + MINUTE + SECOND);
  });

  it("when its configuration or a secret has changed", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    await configure(world, destinationSettings({ fingerprint: "two" }));
    assert.deepEqual([rowOf(world).state, rowOf(world).fingerprint], ["active", "two"]);
    assert.deepEqual(await world.alerts("paused"), []);
  });

  it("when it was renamed and changed at once: the alert under the old name goes too", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    await configure(world, destinationSettings({ name: "crm", fingerprint: "two" }));
    assert.equal(rowOf(world).state, "active");
    assert.deepEqual(await world.alerts("paused"), []);
  });

  it("not at a restart with the same configuration: it is probed at once", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    await probe(world, good);
    world.now += MINUTE;
    await configure(world, destinationSettings());
    const { state, trialReady, pausedSinceMs, probes } = await healthOf(world);
    assert.deepEqual([state, trialReady, pausedSinceMs, probes], ["paused", false, T0, 0]);
    assert.deepEqual(await world.store.dueProbes(world.now), [SALES]);
  });

  it("by a person's resume, which is recorded", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    await world.store.resume(SALES, OPERATOR, T0 + 1);
    assert.equal(rowOf(world).state, "active");
    assert.deepEqual(world.row("SELECT who, action, subject, why, job_id FROM operator_actions"), {
      who: "tester",
      action: "resume",
      subject: "sales",
      why: "because",
      job_id: null,
    });
  });
});

describe("a pause by a person", () => {
  it("is ended neither by a success nor by another configuration nor by a restart", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    await world.begin(claimed);
    await world.store.pause(SALES, OPERATOR, T0);
    await world.settle(claimed, 1, confirmed("C-1"));
    assert.equal(rowOf(world).state, "paused");
    await configure(world, destinationSettings({ fingerprint: "two" }));
    assert.deepEqual([rowOf(world).state, rowOf(world).reason], ["paused", "operator"]);
    assert.equal(rowOf(world).next_probe_at_ms, null);
    assert.deepEqual(await world.store.dueProbes(T0 + HOUR), []);
    assert.equal((await world.alerts("paused")).length, 1);
  });

  it("paused once more with another reason, the alert says the newer one", async (t) => {
    const world = await makeWorld(t);
    await world.store.pause(SALES, { who: "tester", why: "first reason" }, T0);
    await world.store.pause(SALES, { who: "tester", why: "second reason" }, T0 + 1);
    const alerts = await world.alerts("paused");
    assert.equal(alerts.length, 1);
    assert.match(alerts[0] ?? "", /second reason/);
  });

  it("says why in the alert, or that it was by hand", async (t) => {
    const world = await makeWorld(t);
    await world.store.pause(SALES, { who: "tester", why: null }, T0);
    assert.match((await world.alerts("paused"))[0] ?? "", /paused by hand/);
  });

  it("of a pause that lasts already takes it over without losing its beginning", async (t) => {
    const world = await makeWorld(t);
    await another(world, unauthorised());
    await world.store.pause(SALES, OPERATOR, T0 + HOUR);
    await world.store.resume(SALES, OPERATOR, T0 + 2 * HOUR);
    assert.equal(rowOf(world).total_paused_ms, 2 * HOUR);
  });

  it("across a clock that was set back counts nothing rather than a negative time", async (t) => {
    const world = await makeWorld(t);
    await world.store.pause(SALES, OPERATOR, T0);
    await world.store.resume(SALES, OPERATOR, T0 - HOUR);
    assert.equal(rowOf(world).total_paused_ms, 0);
  });
});

describe("a destination that the configuration no longer names", () => {
  it("keeps its jobs as they are, is not probed, and one alert says so while jobs wait", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await configure(world);
    assert.equal(world.state(job), "pending");
    assert.match((await world.alerts("unconfigured"))[0] ?? "", /1 jobs belong to "sales"/);
    assert.deepEqual(await world.store.dueProbes(T0 + HOUR), []);
    const sales = (await world.store.destinations()).find(({ key }) => key === SALES);
    assert.equal(sales?.configured, false);
    const { destinations } = await world.store.status("1", T0);
    assert.deepEqual(
      destinations.map(({ name, state }) => [name, state]),
      [
        ["ledger", "active"],
        ["sales", "unconfigured"],
      ],
    );
  });

  it("is heard of no more when it is back, or when its last job was decided", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await configure(world);
    await configure(world, destinationSettings());
    assert.deepEqual(await world.alerts("unconfigured"), []);
    await configure(world);
    assert.equal((await world.alerts("unconfigured")).length, 1);
    await world.decideJob(job, { kind: "dismiss", withNotes: false });
    await configure(world);
    assert.deepEqual(await world.alerts("unconfigured"), []);
  });

  it("says nothing where all its jobs are done", async (t) => {
    const world = await makeWorld(t);
    await another(world, confirmed("C-1"));
    await configure(world);
    assert.deepEqual(await world.alerts("unconfigured"), []);
    const { destinations } = await world.store.status("1", T0);
    assert.deepEqual(
      destinations.map(({ name }) => name),
      ["ledger"],
    );
  });
});

describe("a destination that nobody entered", () => {
  const nobody = asDestinationKey("nobody");
  it("can't be paused, resumed or probed: that is a bug of the caller", async (t) => {
    const world = await makeWorld(t);
    await assert.rejects(world.store.pause(nobody, OPERATOR, T0), /not entered/);
    await assert.rejects(world.store.resume(nobody, OPERATOR, T0), /not entered/);
    await assert.rejects(
      world.store.recordProbe(nobody, good, destinationSettings(), T0, 0.5),
      /not entered/,
    );
  });
});
