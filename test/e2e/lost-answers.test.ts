/** P2, P3: the CRM's answer gets lost, or comes when nobody waits any more. What follows depends on the safety class. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CrmStandIn, Fault } from "../../src/stand-ins/crm/index.ts";
import type { Daemon } from "./daemon.ts";
import { type World, world } from "./world.ts";

/** Each is carried out, and its answer never arrives. */
const LOSSES: readonly Fault[] = [
  { on: "create", kind: "apply-then-drop" },
  { on: "create", kind: "apply-then-hang" },
  { on: "create", kind: "apply-then-cut" },
  { on: "create", kind: "answer", status: 500, body: "<h1>Oops</h1>", applied: true },
  { on: "create", kind: "answer", status: 201, body: { status: "ok, but no id" }, applied: true },
];

/** One request after the other, and quick to lose patience. */
const HASTY = { concurrency: 1, timeout: "400ms" };

function posts(crm: CrmStandIn): number {
  return crm.requests.filter(({ kind }) => kind === "create").length;
}

/** Every second message meets one of the losses, so that the destination is not taken for dead. */
async function sayThroughLosses(w: World): Promise<Daemon> {
  for (const [index, loss] of LOSSES.entries()) w.crm.fault({ ...loss, nth: 2 * index + 1 });
  const daemon = await w.started();
  w.say(2 * LOSSES.length);
  await w.settled(daemon);
  return daemon;
}

async function assertEachArrivedOnce(w: World, messages: number): Promise<void> {
  const jobs = await w.jobs();
  assert.equal(jobs.length, messages);
  assert.deepEqual(new Set(jobs.map(({ state }) => state)), new Set(["done"]));
  assert.equal(w.crm.leads.length, messages);
  for (const { operation_id, external_id } of jobs) {
    const records = w.crm.leads.filter(({ external_ref }) => external_ref === operation_id);
    assert.deepEqual(
      records.map(({ id }) => id),
      [external_id],
    );
  }
}

for (const safety of ["idempotency-key", "external-id"] as const) {
  test(`lost answers are repeated into exactly one lead where the CRM deduplicates by ${safety}`, async (t) => {
    const w = await world(t, { safety, config: { crm: { sales: HASTY } } });
    await sayThroughLosses(w);
    await assertEachArrivedOnce(w, 2 * LOSSES.length);
    assert.ok(posts(w.crm) > 2 * LOSSES.length, "the losses were repeated");
  });

  test(`a request that lands after its time-out makes no second lead with ${safety}, even unchecked`, async (t) => {
    const patient = { ...HASTY, concurrency: 4, unknown_wait: "2s" };
    const w = await world(t, { safety, config: { crm: { sales: patient } } });
    // Between the time-out and the end of the wait. The blind one doesn't look for a twin: only the wait saves us.
    const blind = w.crm.fault({ on: "create", kind: "land-late", ms: 900, blind: true });
    const late = w.crm.fault({ on: "create", kind: "land-late", ms: 900 });
    const daemon = await w.started();
    w.say(2);
    await Promise.all([blind.whenFinished(), late.whenFinished()]);
    await w.settled(daemon);
    await assertEachArrivedOnce(w, 2);
  });
}

test("with search nothing is sent twice: every lost answer is found by the look-up", async (t) => {
  const w = await world(t, { safety: "search", config: { crm: { sales: HASTY } } });
  await sayThroughLosses(w);
  await assertEachArrivedOnce(w, 2 * LOSSES.length);
  assert.equal(posts(w.crm), 2 * LOSSES.length);
  const [job] = await w.jobs();
  const { reconciliations } = await w.trace(job?.operation_id ?? "");
  assert.equal(reconciliations[0]?.resolution, "found");
});

test("with search a record that lands late is found by a later look-up", async (t) => {
  const checks = { checks: ["100ms", "1s", "2s"] };
  const w = await world(t, { safety: "search", config: { crm: { sales: { ...HASTY, reconcile: checks } } } });
  const late = w.crm.fault({ on: "create", kind: "land-late" });
  const daemon = await w.started();
  w.say(1);
  await late.whenClientGone();
  const first = await daemon.line("reconciliation.checked");
  assert.equal(first.found, 0);
  late.release();
  await w.settled(daemon);
  await assertEachArrivedOnce(w, 1);
  assert.equal(posts(w.crm), 1);
});

test("with search a lagging index is waited for, and a record shown twice under one id counts once", async (t) => {
  const checks = { checks: ["100ms", "1s", "2s"] };
  const w = await world(t, {
    safety: "search",
    crm: { searchLagMs: Number.POSITIVE_INFINITY },
    config: { crm: { sales: { reconcile: checks } } },
  });
  w.crm.fault({ on: "create", kind: "apply-then-drop" });
  w.crm.fault({ on: "find", kind: "duplicate", as: "same-id", times: 3 });
  const daemon = await w.started();
  w.say(1);
  assert.equal((await daemon.line("reconciliation.checked")).found, 0);
  w.crm.index();
  await w.settled(daemon);
  await assertEachArrivedOnce(w, 1);
  assert.equal(posts(w.crm), 1);
});

test("with search a look-up that is not answered proves nothing and uses up no check", async (t) => {
  const w = await world(t, { safety: "search" });
  w.crm.fault({ on: "create", kind: "apply-then-drop" });
  w.crm.fault({ on: "find", kind: "answer", status: 500, body: { items: [] } });
  w.crm.fault({ on: "find", kind: "answer", status: 200, body: "no list at all" });
  w.crm.fault({ on: "find", kind: "drop" });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  await assertEachArrivedOnce(w, 1);
  const [job] = await w.jobs();
  const { reconciliations } = await w.trace(job?.operation_id ?? "");
  assert.equal(reconciliations[0]?.checks, 1);
});

test("with search two records for one lead wait for a person, who sees both", async (t) => {
  const w = await world(t, { safety: "search" });
  w.crm.fault({ on: "create", kind: "apply-then-drop" });
  w.crm.fault({ on: "find", kind: "duplicate", as: "other-id", times: 10 });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const [job] = await w.jobs();
  assert.equal(job?.state, "needs_reconciliation");
  const [open] = await w.reconciliations();
  assert.equal(open?.reason, "found_twice");
  assert.deepEqual(open?.evidence.at(-1)?.found, ["L-1", "L-1-copy"]);
  const { alerts } = await w.status();
  assert.match(alerts[0]?.message ?? "", /L-1, L-1-copy/);
  assert.equal(posts(w.crm), 1);
});

test("with search a record that was never found waits for a person, and is not sent again", async (t) => {
  const w = await world(t, { safety: "search" });
  w.crm.fault({ on: "create", kind: "drop" });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const [job] = await w.jobs();
  assert.equal(job?.state, "needs_reconciliation");
  assert.equal(posts(w.crm), 1);
  const [open] = await w.reconciliations();
  assert.equal(open?.checks, 2);
  assert.deepEqual(
    (await w.status()).alerts.map(({ kind }) => kind),
    ["needs_reconciliation"],
  );
});

test("with assume_absent_after a record that stays unfound is sent once more", async (t) => {
  const reconcile = { checks: ["100ms"], assume_absent_after: "1s" };
  const w = await world(t, { safety: "search", config: { crm: { sales: { ...HASTY, reconcile } } } });
  w.crm.fault({ on: "create", kind: "drop" });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  await assertEachArrivedOnce(w, 1);
  assert.equal(posts(w.crm), 2);
});

test("with none a person decides at once, and the running daemon carries it out", async (t) => {
  const w = await world(t, { safety: "none", config: { crm: { sales: HASTY } } });
  w.env = { ...w.env, LEADONCE_OPERATOR: "the operator" };
  // 1, 3 and 5 are lost: one is in the CRM, two are not. 2 and 4 keep the destination going.
  w.crm.fault({ on: "create", kind: "apply-then-drop" });
  w.crm.fault({ on: "create", kind: "drop", nth: 3 });
  w.crm.fault({ on: "create", kind: "drop", nth: 5 });
  const daemon = await w.started();
  w.say(6);
  await w.settled(daemon);
  assert.equal(posts(w.crm), 6);
  const [linked, recreated, dismissed] = await w.reconciliations();
  assert.ok(linked && recreated && dismissed);
  assert.equal((await w.status()).reconciliations_open, 3);

  const { job_id: link } = linked;
  const record = w.crm.leads.find(({ external_ref }) => external_ref === linked.operation_id);
  const decide = async (...argv: string[]): Promise<void> => {
    const { code, stderr } = await w.run("reconcile", ...argv);
    assert.equal(code, 0, stderr);
  };
  await decide("link", String(link), record?.id ?? "");
  await decide("dismiss", String(dismissed.job_id), "--why", "the customer rang");
  const sentAgain = daemon.next("job.settled");
  await decide("recreate", String(recreated.job_id));
  assert.equal((await sentAgain).job, recreated.job_id);

  const states = new Map((await w.jobs()).map(({ job_id, state }) => [job_id, state]));
  assert.equal(states.get(link), "done");
  assert.equal(states.get(recreated.job_id), "done");
  assert.equal(states.get(dismissed.job_id), "cancelled");
  assert.equal(w.crm.leads.length, 5, "each but the dismissed one, once");
  assert.equal(posts(w.crm), 7);
  const { operator_actions } = await w.trace(dismissed.operation_id);
  assert.deepEqual(
    operator_actions.map(({ who, action, why }) => ({ who, action, why })),
    [{ who: "the operator", action: "dismiss", why: "the customer rang" }],
  );
  assert.deepEqual((await w.status()).alerts, []);
});
