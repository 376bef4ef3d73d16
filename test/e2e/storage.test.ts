/** P1, P2, P4: the disk is full, or somebody else holds the database. Nothing is confirmed that isn't stored. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { type TestContext, test } from "node:test";
import { fill, mountSmallDisk, unmount, whyNoSmallDisk } from "./small-disk.ts";
import { person, type World, world } from "./world.ts";

const skip = whyNoSmallDisk();

async function worldOnSmallDisk(t: TestContext): Promise<World> {
  const w = await world(t);
  const data = dirname(w.database);
  assert.ok(mountSmallDisk(data, "3m"));
  w.atEnd(() => unmount(data));
  return w;
}

/** Another process in a transaction of its own, until it is let go. */
async function lockedByAnother(w: World): Promise<() => Promise<void>> {
  const program = `
    import Database from "better-sqlite3";
    const db = new Database(${JSON.stringify(w.database)});
    db.exec("BEGIN EXCLUSIVE");
    console.log("held");
    process.stdin.resume().on("end", () => process.exit());`;
  const holder = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: import.meta.dirname,
    stdio: ["pipe", "pipe", "inherit"],
  });
  w.atEnd(() => void holder.kill("SIGKILL"));
  await once(holder.stdout, "data");
  return async () => {
    holder.stdin.end();
    await once(holder, "exit");
  };
}

test("a full disk stops polling, not the program; with space again everything arrives once", {
  skip,
}, async (t) => {
  const w = await worldOnSmallDisk(t);
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const free = fill(dirname(w.database));
  w.say(3, "while it is full");
  const said = await daemon.line("poller.storage");
  assert.match(said.message, /the disk is full.*wait at Telegram.*Free some disk space/);
  assert.equal(w.bot.pending, 3, "nothing is confirmed that is not stored");
  const shown = await w.run("status");
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /1 accepted/);
  assert.equal((await w.run("leads", "--json")).json<unknown[]>().length, 1);

  const back = daemon.next("poller.polling");
  free();
  await back;
  await w.settled(daemon);
  assert.equal(w.crm.leads.length, 4);
  assert.equal(w.crm.requests.filter(({ kind }) => kind === "create").length, 4);
  assert.equal((await w.leads()).length, 4);
  const { poller, alerts } = await w.status();
  assert.equal(poller.state, "polling");
  assert.deepEqual(alerts, []);
});

test("an answer of the CRM that comes while the disk is full is held, and written later", {
  skip,
}, async (t) => {
  const w = await worldOnSmallDisk(t);
  const slow = w.crm.fault({ on: "create", kind: "slow" });
  const daemon = await w.started();
  w.say(1);
  await slow.whenTaken();
  const free = fill(dirname(w.database));
  slow.release();
  const held = await daemon.line("settle.held");
  assert.equal(held.outcome, "confirmed");
  assert.equal((await w.jobs())[0]?.state, "leased");
  free();
  await w.settled(daemon);
  const [job] = await w.jobs();
  assert.deepEqual([job?.state, job?.external_id], ["done", "L-1"]);
  assert.equal(w.crm.leads.length, 1);
  assert.equal(w.crm.requests.length, 1);
});

test("a job that could not begin while the disk was full begins with the space, not with the end of its lease", {
  skip,
}, async (t) => {
  const w = await worldOnSmallDisk(t);
  w.configure({ crm: { sales: { rate: "1/3s", lease: "10m" } } });
  w.say(2);
  const daemon = await w.started();
  await daemon.line("job.settled");
  await w.bot.whenWaiting();
  // Both were claimed together; the second waits for its turn.
  const free = fill(dirname(w.database));
  await daemon.line("begin.held");
  assert.equal(w.crm.requests.length, 1, "nothing leaves whose attempt is not on disk");
  free();
  await w.settled(daemon);
  assert.equal(w.crm.leads.length, 2);
  assert.equal(w.crm.requests.length, 2);
});

test("a daemon that is killed while the disk is full goes on by the class", { skip }, async (t) => {
  const w = await worldOnSmallDisk(t);
  const slow = w.crm.fault({ on: "create", kind: "slow" });
  const daemon = await w.started();
  w.say(1);
  await slow.whenTaken();
  const free = fill(dirname(w.database));
  slow.release();
  await daemon.line("settle.held");
  daemon.kill("SIGKILL");
  await daemon.ended();
  free();
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 1);
  assert.equal((await w.jobs())[0]?.state, "done");
});

test("SIGTERM while the disk is full ends in order, and the next start knows what is unknown", {
  skip,
}, async (t) => {
  const w = await worldOnSmallDisk(t);
  const slow = w.crm.fault({ on: "create", kind: "slow" });
  const daemon = await w.started();
  w.say(1);
  await slow.whenTaken();
  const free = fill(dirname(w.database));
  slow.release();
  await daemon.line("settle.held");
  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
  free();
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 1);
});

test("no space at the very start is said with the way out, and exits with 74", { skip }, async (t) => {
  const w = await worldOnSmallDisk(t);
  const free = fill(dirname(w.database));
  const daemon = w.start();
  assert.deepEqual(await daemon.ended(), { code: 74, signal: null });
  assert.match(daemon.output, /full/);
  free();
  w.say(1);
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 1);
});

test("a database that another program holds for long stops polling until it is let go", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const letGo = await lockedByAnother(w);
  w.bot.say({ from: person(2), text: "while it is held" });
  const said = await daemon.line("poller.storage");
  assert.match(said.message, /another process holds the file/);
  assert.equal(w.bot.pending, 1);
  assert.equal((await w.run("status")).code, 0);
  await letGo();
  await w.settled(daemon);
  assert.equal(w.crm.leads.length, 2);
});

test("SIGTERM while another program holds the database ends the process all the same", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  const letGo = await lockedByAnother(w);
  w.say(1);
  await daemon.line("poller.storage");
  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
  await letGo();
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 1);
});
