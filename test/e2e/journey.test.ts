/** P1, P2: the way of a message into a CRM, by each safety class, and into the ledger alone. */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { test } from "node:test";
import type { JobReport, LeadReport, StatusReport, TraceReport } from "../../src/domain/reports.ts";
import { finished } from "./daemon.ts";
import { person, TOKEN, world } from "./world.ts";

for (const safety of ["idempotency-key", "external-id", "search", "none"] as const) {
  test(`a message becomes exactly one lead in a CRM of class ${safety}`, async (t) => {
    const w = await world(t, { safety });
    const daemon = await w.started();
    w.bot.say({ from: person(1), text: "I would like a blue door" });
    await w.settled(daemon);

    const [lead, ...others] = w.crm.leads;
    assert.equal(others.length, 0);
    assert.equal(lead?.body.text, "I would like a blue door");
    assert.equal(lead?.body.name, "Test Person 1");
    const [shown, ...more] = await w.leads();
    assert.equal(more.length, 0);
    assert.equal(shown?.operation_id, lead?.external_ref);
    assert.equal(shown?.state, "completed");
    assert.equal(w.crm.requests.filter(({ kind }) => kind === "create").length, 1);
  });
}

test("every command shows the lead, its record and its way", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  const update = w.bot.say({ from: { ...person(1), username: "test_person" }, text: "a blue door" });
  await w.settled(daemon);
  const [record] = w.crm.leads;
  assert.ok(record !== undefined);
  const json = async <Shape>(...argv: string[]): Promise<Shape> => {
    const result = await w.run(...argv, "--json");
    assert.equal(result.code, 0, result.stderr);
    return result.json<Shape>();
  };

  const [lead] = await json<LeadReport[]>("leads");
  const places = lead?.destinations.map(({ name, state, external_id }) => [name, state, external_id]);
  assert.deepEqual(places?.sort(), [
    ["ledger", "done", lead?.code],
    ["sales", "done", record.id],
  ]);
  const jobs = await json<JobReport[]>("jobs", "--state", "done");
  assert.deepEqual(jobs.map(({ destination, step, attempts }) => [destination, step, attempts]).sort(), [
    ["ledger", "lead", 0],
    ["sales", "lead", 1],
  ]);
  const status = await json<StatusReport>("status");
  assert.equal(status.bot.username, w.bot.username);
  assert.equal(status.poller.state, "polling");
  assert.equal(status.poller.next_offset, update.update_id + 1);
  assert.equal(status.jobs.done, 2);
  assert.deepEqual(status.updates, { accepted: 1, ignored: 0, quarantined: 0, duplicates: 0 });
  assert.deepEqual(status.alerts, []);
  for (const anything of [String(update.update_id), record.id, lead?.code ?? "", "@test_person"]) {
    const trace = await json<TraceReport>("trace", anything);
    assert.deepEqual(
      trace.updates.map(({ update_id }) => update_id),
      [update.update_id],
    );
    assert.deepEqual(
      trace.attempts.map(({ outcome, status }) => [outcome, status]),
      [["confirmed", 201]],
    );
  }
});

test("with nothing but a token, a message is kept in the ledger of the working directory", async (t) => {
  const w = await world(t, { crms: {} });
  rmSync(w.config);
  w.env = { TELEGRAM_BOT_TOKEN: TOKEN, NODE_OPTIONS: `--import=${telegramIsAt(w.telegram.port)}` };
  const daemon = w.start({}, ["run"]);
  await daemon.line("poller.polling");
  w.bot.say({ from: person(1), text: "hello" });
  await w.settled(daemon);
  const shown = await finished(["leads", "--json"], { folder: w.folder, env: {} });
  const [lead, ...more] = shown.json<LeadReport[]>();
  assert.equal(more.length, 0);
  assert.deepEqual(lead?.destinations, [
    { name: "ledger", state: "done", external_id: lead?.code, link: null },
  ]);
});

/** A module that leads every connection to Telegram to the stand-in, and lets nothing else out: there is no `api_root`. */
function telegramIsAt(port: number): string {
  const module = `
    import dns from "node:dns";
    import net from "node:net";
    import tls from "node:tls";
    dns.lookup = (name, options, told) => told(Object.assign(new Error(name), { code: "ENOTFOUND" }));
    tls.connect = ({ host }) => {
      const socket = net.connect(host === "api.telegram.org" ? ${port} : 9, "127.0.0.1");
      socket.once("connect", () => socket.emit("secureConnect"));
      return socket;
    };`;
  return `data:text/javascript,${encodeURIComponent(module)}`;
}

test("the same message under another update id, and a redelivery, make nothing more (TR-24, TR-27)", async (t) => {
  const w = await world(t);
  const update = w.bot.say({ from: person(1), text: "once" });
  // The answer that brings the page is lost after Telegram has made it: the page comes again.
  w.bot.fault({ method: "getUpdates", kind: "cut", bytes: 40 });
  w.bot.repeat(update);
  const daemon = await w.started();
  w.bot.repeat(update);
  await w.settled(daemon);
  assert.equal(w.crm.leads.length, 1);
  assert.equal((await w.leads()).length, 1);
  const { updates } = await w.status();
  assert.equal(updates.accepted, 1);
  assert.equal(updates.ignored, 2);
});
