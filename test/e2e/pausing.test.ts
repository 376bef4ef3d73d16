/** P2, P4: a CRM that refuses, locks us out, is overloaded or down. It pauses as a whole, says why, and comes back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CrmStandIn } from "../../src/stand-ins/crm/index.ts";
import { CRM_TOKEN } from "./crm-config.ts";
import { type World, world } from "./world.ts";

function created(crm: CrmStandIn): string[] {
  return crm.leads.map(({ body }) => String(body.text)).sort();
}

async function assertAllDone(w: World, texts: readonly string[]): Promise<void> {
  assert.deepEqual(created(w.crm), [...texts].sort());
  assert.deepEqual(new Set((await w.jobs()).map(({ state }) => state)), new Set(["done"]));
  const { destinations, alerts } = await w.status();
  assert.deepEqual(new Set(destinations.map(({ state }) => state)), new Set(["active"]));
  assert.deepEqual(alerts, []);
}

function sales({ destinations }: { destinations: { name: string; state: string; reason: string | null }[] }) {
  return destinations.find(({ name }) => name === "sales");
}

test("a refused lead fails alone, says what the CRM said, and is sent anew by a person's retry", async (t) => {
  const w = await world(t);
  const said = { error: "The pipeline of hello 1 is closed." };
  w.crm.fault({ on: "create", kind: "answer", status: 422, body: said });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  w.bot.say({ from: { id: 5_550_001, first_name: "Test" }, text: "hello 2" });
  await w.settled(daemon);
  const [refused, next] = await w.jobs();
  assert.deepEqual([refused?.state, refused?.reason, next?.state], ["failed", "refused", "done"]);
  assert.match(refused?.detail ?? "", /pipeline/);
  assert.doesNotMatch(refused?.detail ?? "", /hello/, "the customer's words are masked");
  assert.equal((await w.status()).alerts[0]?.kind, "failed");

  const sent = daemon.next("job.settled");
  assert.equal((await w.run("retry", String(refused?.job_id))).code, 0);
  assert.equal((await sent).to, "done");
  await assertAllDone(w, ["hello 1", "hello 2"]);
  const keys = w.crm.requests.flatMap(({ headers }) => headers["idempotency-key"] ?? []);
  assert.equal(keys[2], `${keys[0]}-2`, "a new try of a person is a new request to the CRM");
});

test("a CRM that refuses our token pauses with nothing lost, until the token is mended and the daemon restarted", async (t) => {
  const w = await world(t);
  w.crm.setToken("another token");
  const daemon = await w.started();
  w.say(3);
  await daemon.line("destination.probed");
  const status = await w.status();
  assert.equal(sales(status)?.state, "paused");
  assert.match(sales(status)?.reason ?? "", /401/);
  assert.deepEqual(
    status.alerts.map(({ kind, subject }) => [kind, subject]),
    [["paused", "sales"]],
  );
  const attempts = (await w.jobs()).map(({ state, attempts }) => [state, attempts]);
  assert.deepEqual(new Set(attempts.map(String)), new Set(["pending,0"]), "no job is to blame");
  await daemon.stop();

  w.env = { ...w.env, CRM_TOKEN: "another token" };
  await w.settled(await w.started());
  await assertAllDone(w, ["hello 1", "hello 2", "hello 3"]);
});

test("resume goes on at once when the CRM accepts the token again", async (t) => {
  // No probe comes within the test, so it is the person who makes it go on.
  const w = await world(t, { config: { crm: { sales: { retry: { first: "10m", max: "15m" } } } } });
  w.crm.setToken("another token");
  const daemon = await w.started();
  w.say(2);
  await daemon.until(
    () => daemon.of("job.settled").some(({ outcome }) => outcome === "unauthorised"),
    "a 401",
  );
  w.crm.setToken(CRM_TOKEN);
  assert.equal((await w.run("resume", "sales")).code, 0);
  await w.settled(daemon);
  await assertAllDone(w, ["hello 1", "hello 2"]);
});

test("a destination that a person paused sends nothing until a person resumes it, restarts included", async (t) => {
  const w = await world(t);
  const first = await w.started();
  assert.equal((await w.run("pause", "sales")).code, 0);
  w.say(2);
  await first.line("lead.stored", 2);
  await first.stop();
  const second = await w.started();
  w.bot.say({ from: { id: 5_550_003, first_name: "Test" }, text: "hello 3" });
  await second.line("lead.stored");
  assert.equal(sales(await w.status())?.state, "paused");
  assert.deepEqual(w.crm.requests, []);
  assert.equal((await w.run("resume", "sales")).code, 0);
  await w.settled(second);
  await assertAllDone(w, ["hello 1", "hello 2", "hello 3"]);
});

test("two jobs with 5xx pause the destination; a probe lets one job through, and its success the others", async (t) => {
  const w = await world(t, { config: { crm: { sales: { concurrency: 1 } } } });
  const broken = { on: "create", kind: "answer", status: 503, times: 2 } as const;
  w.crm.fault(broken);
  const tooEarly = w.crm.fault({ on: "probe", kind: "answer", status: 502 });
  const daemon = await w.started();
  w.say(6);
  await w.settled(daemon);
  await assertAllDone(
    w,
    [1, 2, 3, 4, 5, 6].map((n) => `hello ${n}`),
  );
  assert.deepEqual(
    daemon.of("destination.probed").map(({ probe }) => probe),
    ["bad", "good"],
  );
  assert.equal(tooEarly.requests.length, 1);
  const kinds = w.crm.requests.map(({ kind }) => kind);
  const probe = kinds.lastIndexOf("probe");
  assert.equal(
    kinds.slice(0, probe).filter((kind) => kind === "create").length,
    2,
    "nothing is sent meanwhile",
  );
});

test("429 with Retry-After is obeyed, and costs nobody a decision", async (t) => {
  const retry = { first: "100ms", max: "5s" };
  const w = await world(t, { safety: "none", config: { crm: { sales: { retry } } } });
  w.crm.fault({ on: "create", kind: "answer", status: 429, headers: { "Retry-After": "1" } });
  const daemon = await w.started();
  w.say(1);
  await daemon.line("job.settled");
  const [job] = await w.jobs();
  const { attempts } = await w.trace(job?.operation_id ?? "");
  assert.equal(job?.state, "pending");
  assert.equal(attempts[0]?.outcome, "not_applied");
  assert.equal(attempts[0]?.sent_at, null);
  const waitMs = Date.parse(job?.run_at ?? "") - Date.parse(attempts[0]?.ended_at ?? "");
  assert.ok(waitMs >= 1000, `due ${waitMs} ms after the refusal`);
  await w.settled(daemon);
  await assertAllDone(w, ["hello 1"]);
});

for (const safety of ["search", "none"] as const) {
  test(`while a CRM of class ${safety} is down nothing is unknown, and later everything arrives once`, async (t) => {
    const w = await world(t, { safety });
    await w.crm.goDown();
    const daemon = await w.started();
    w.say(4);
    await daemon.line("destination.probed");
    assert.equal(sales(await w.status())?.state, "paused");
    const states = (await w.jobs()).map(({ state }) => state);
    assert.ok(!states.includes("needs_reconciliation"), "a refused connection proves that nothing was sent");
    await w.crm.comeUp();
    await w.settled(daemon);
    await assertAllDone(
      w,
      [1, 2, 3, 4].map((n) => `hello ${n}`),
    );
    assert.equal(w.crm.requests.filter(({ kind }) => kind === "create").length, 4);
  });
}
