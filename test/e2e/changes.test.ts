/** P2, P3, P4: what people change between two starts, or beside a running daemon, is heard and breaks no promise. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "../../src/store/connect.ts";
import { crmTable } from "./crm-config.ts";
import { person, type World, world } from "./world.ts";

function posts(w: World): number {
  return w.crm.requests.filter(({ kind }) => kind === "create").length;
}

/** A daemon that dies while its first request is under way: what became of it is unknown. */
async function diesWithARequest(w: World): Promise<void> {
  const hanging = w.crm.fault({ on: "create", kind: "apply-then-hang" });
  const daemon = await w.started();
  w.say(1);
  await hanging.whenTaken();
  daemon.kill("SIGKILL");
  await daemon.ended();
}

test("an unknown outcome is judged by the class that is configured now: none sends nothing again", async (t) => {
  const w = await world(t, { safety: "external-id" });
  await diesWithARequest(w);
  w.configure({ crm: { sales: { safety: "none" } } });
  await w.settled(await w.started());
  const [job] = await w.jobs();
  assert.equal(job?.state, "needs_reconciliation");
  assert.equal(posts(w), 1);
});

test("an unknown outcome stays unknown when the class changes while the repeat waits", async (t) => {
  const w = await world(t, { safety: "external-id", config: { crm: { sales: { unknown_wait: "1h" } } } });
  w.crm.fault({ on: "create", kind: "apply-then-drop" });
  const daemon = await w.started();
  w.say(1);
  await daemon.line("job.settled");
  await daemon.stop();
  w.configure({ crm: { sales: { safety: "none" } } });
  const db = connect(w.database);
  db.prepare("UPDATE jobs SET run_at_ms = 0 WHERE destination = 'sales'").run();
  db.close();
  await w.settled(await w.started());
  const [job] = await w.jobs();
  assert.deepEqual([job?.state, job?.reason], ["needs_reconciliation", "class_forbids_repeat"]);
  assert.equal(posts(w), 1);
});

test("jobs of a destination that the configuration lost stay, are told of, and go on when it is back", async (t) => {
  const w = await world(t, { crms: { sales: "search", other: "none" } });
  const first = await w.started();
  assert.equal((await w.run("pause", "sales")).code, 0);
  w.say(2);
  await w.crms.get("other")?.whenCreated(2);
  await first.stop();

  const [sales, other] = [w.crms.get("sales"), w.crms.get("other")];
  assert.ok(sales && other);
  w.configure({ crm: { sales: null } });
  const second = await w.started();
  const { destinations, alerts } = await w.status();
  assert.equal(destinations.find(({ name }) => name === "sales")?.state, "unconfigured");
  const told = alerts.find(({ kind, subject }) => kind === "unconfigured" && subject === "sales");
  assert.match(told?.message ?? "", /2 jobs/);
  await second.stop();

  w.configure({ crm: { sales: crmTable(sales.url, "search") } });
  const third = await w.started();
  assert.equal((await w.run("resume", "sales")).code, 0);
  await w.settled(third);
  assert.equal(sales.leads.length, 2);
  assert.equal(other.leads.length, 2);
  assert.deepEqual((await w.status()).alerts, []);
});

test("two people who decide at the same moment make one repeat", async (t) => {
  const w = await world(t, { safety: "none" });
  w.crm.fault({ on: "create", kind: "drop" });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const [job] = await w.jobs();
  const decide = () => w.run("reconcile", "recreate", String(job?.job_id));
  const sent = daemon.next("job.settled");
  const codes = (await Promise.all([decide(), decide(), decide()])).map(({ code }) => code);
  assert.equal(codes.filter((code) => code === 0).length, 1, codes.join(", "));
  await sent;
  await w.settled(daemon);
  assert.equal(posts(w), 2);
  assert.equal(w.crm.leads.length, 1);
});

test("an update that a wrong rule ignored is decided again beside the running daemon, once", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  const chat = { id: -1_001_234_567_890, type: "supergroup", title: "Test Group" } as const;
  const update = w.bot.say({ from: person(1), text: "in a group", chat });
  await w.bot.whenConfirmed(update);
  const [ignored] = (await w.trace(update.update_id)).updates;
  assert.deepEqual([ignored?.state, ignored?.reason], ["ignored", "no_action"]);
  w.configure({ actions: [{ name: "enquiry", kind: "lead", repeat: "each", when: { chat: "supergroup" } }] });
  const sent = daemon.next("job.settled");
  for (let n = 1; n <= 2; n += 1) await w.run("retry", "--update", ignored?.event_key ?? "");
  await sent;
  await w.settled(daemon);
  assert.equal(w.crm.leads.length, 1);
  assert.equal((await w.leads()).length, 1);
});

test("a lease that ran out is not taken back from the executor that still waits for the answer", async (t) => {
  const w = await world(t, { safety: "search" });
  const slow = w.crm.fault({ on: "create", kind: "slow" });
  const daemon = await w.started();
  w.say(1);
  await slow.whenTaken();
  // As after a sleep of the machine: the deadline has passed while the request is under way. Another process's write wakes
  // the daemon, which takes a second job and so has looked at all leases.
  const db = connect(w.database);
  db.prepare("UPDATE leases SET expires_at_ms = 1").run();
  db.close();
  w.bot.say({ from: person(2), text: "the second" });
  await daemon.line("job.settled");
  assert.deepEqual(daemon.of("job.rescued"), []);
  slow.release();
  await w.settled(daemon);
  const states = (await w.jobs()).map(({ state }) => state);
  assert.deepEqual(states, ["done", "done"]);
  assert.equal(posts(w), 2);
});

test("what Telegram dropped while nothing ran is told, with the number that is missing and the time (TR-56)", async (t) => {
  const w = await world(t);
  const before = await w.started();
  w.say(1);
  await w.settled(before);
  await before.stop();
  const gone = [2, 3].map((n) => w.bot.say({ from: person(n), text: "too late" }).update_id);
  w.bot.say({ from: person(4), text: "in time" });
  w.bot.expire(...gone);
  const db = connect(w.database);
  db.prepare("UPDATE bots SET last_completed_at_ms = last_completed_at_ms - 100000000").run();
  db.close();

  const after = await w.started();
  await w.settled(after);
  const alerts = new Map((await w.status()).alerts.map(({ kind, message }) => [kind, message]));
  assert.match(alerts.get("gap") ?? "", /^2 updates/);
  assert.match(alerts.get("absence") ?? "", /28 hours/);
  assert.equal(w.crm.leads.length, 2);
});
