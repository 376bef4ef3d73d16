/** P1, P2: the daemon ends in order, restarts again and again, and never runs twice on one database. */
import assert from "node:assert/strict";
import { readdirSync, statSync, symlinkSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { exampleToken } from "../../src/stand-ins/telegram/index.ts";
import { BOT_ID, person, TOKEN, world } from "./world.ts";

const IN_ORDER = { code: 0, signal: null };

test("SIGTERM under load ends in order, whatever hangs, and nothing is lost or doubled after it (TR-08)", async (t) => {
  const patient = { concurrency: 2, timeout: "60s", lease: "80s" };
  const w = await world(t, { safety: "search", config: { crm: { sales: patient } } });
  // What is under way has to be cut off, and counts as unknown.
  const hanging = w.crm.fault({ on: "create", kind: "apply-then-hang", nth: 3 });
  const daemon = await w.started();
  w.say(40);
  await hanging.whenTaken();
  assert.ok(w.crm.requests.length < 40, "it is stopped in the middle");
  assert.deepEqual(await daemon.stop(), IN_ORDER);
  assert.equal(daemon.of("run.stopped").length, 1);
  assert.equal(daemon.of("run.cut_off").length, 0);
  assert.equal((await w.status()).jobs.leased, 0, "everything in hand was settled or given back");

  await w.settled(await w.started());
  assert.equal((await w.leads()).length, 40);
  assert.equal(w.crm.leads.length, 40);
  assert.equal(new Set(w.crm.leads.map(({ external_ref }) => external_ref)).size, 40);
});

test("an idle daemon ends at once by SIGTERM, SIGINT and SIGHUP, while a poll waits", async (t) => {
  const w = await world(t);
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    const daemon = await w.started();
    await w.bot.whenWaiting();
    daemon.kill(signal);
    assert.deepEqual(await daemon.ended(), IN_ORDER);
  }
});

test("twenty restarts over updates that are never confirmed make ten leads and ten records (TR-06, TR-07)", async (t) => {
  const w = await world(t);
  w.say(9);
  w.bot.say({ from: person(10), text: "/restart the server" });
  w.bot.say({ from: person(10), text: "please restart the server" });
  for (let n = 1; n <= 20; n += 1) {
    // Dies after the commit, before the poll that would confirm it.
    const daemon = w.start({ LEADONCE_CRASH_AT: "poll.before_next" });
    assert.equal((await daemon.ended()).signal, "SIGKILL");
  }
  assert.equal(w.bot.pending, 11);
  await w.settled(await w.started());
  assert.equal((await w.leads()).length, 10);
  assert.equal(w.crm.leads.length, 10);
  const { updates } = await w.status();
  assert.deepEqual(updates, { accepted: 10, ignored: 1, quarantined: 0, duplicates: 11 * 20 });
});

test("messages that came while nothing ran are not dropped at the start (TR-18)", async (t) => {
  const w = await world(t);
  await (await w.started()).stop();
  w.say(3);
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 3);
});

test("a second start on the same database names the first and exits with 75, Telegram reachable or not", async (t) => {
  const w = await world(t);
  const first = await w.started();
  const elsewhere = join(w.folder, "elsewhere");
  symlinkSync(join(w.folder, "data"), elsewhere);
  for (const path of ["data/leadonce.db", join(elsewhere, "leadonce.db")]) {
    w.configure({ storage: { path } });
    for (const api_root of [w.telegram.root, "http://127.0.0.1:9"]) {
      w.configure({ telegram: { api_root } });
      const second = w.start();
      assert.deepEqual(await second.ended(), { code: 75, signal: null });
      assert.match(second.output, new RegExp(`process ${first.pid} on ${hostname()}`));
    }
  }
  w.say(1);
  await w.settled(first);
  assert.equal(w.crm.leads.length, 1);
});

test("after kill -9 the next start takes over at once, whatever lease the last one held", async (t) => {
  const w = await world(t);
  const held = w.crm.fault({ on: "create", kind: "land-late" });
  const first = await w.started();
  w.say(1);
  await held.whenTaken();
  first.kill("SIGKILL");
  await first.ended();
  held.release();
  const second = w.start();
  // The lease of 18 s is not waited for: nobody but a dead process can hold it.
  await second.line("job.rescued");
  await w.settled(second);
  assert.equal(w.crm.leads.length, 1);
  assert.equal((await w.jobs())[0]?.external_id, w.crm.leads[0]?.id);
});

test("a crash of ours with several requests under way is not held against the CRM", async (t) => {
  const w = await world(t);
  const held = w.crm.fault({ on: "create", kind: "apply-then-hang", times: 3 });
  const first = await w.started();
  w.say(3);
  await w.crm.waitFor(() => held.requests.length === 3);
  first.kill("SIGKILL");
  await first.ended();
  const second = await w.started();
  await w.settled(second);
  assert.equal(w.crm.leads.length, 3);
  assert.deepEqual(second.of("destination.probed"), [], "it was not taken for dead");
});

test("another bot's token on the same database is refused before anything happens (TR-04)", async (t) => {
  const w = await world(t);
  await (await w.started()).stop();
  const other = exampleToken(BOT_ID + 1);
  const bot = w.telegram.addBot({ token: other, username: "another_test_bot", firstUpdateId: 5 });
  bot.say({ from: person(1), text: "to the other bot" });
  w.env = { ...w.env, TELEGRAM_BOT_TOKEN: other };
  const refused = w.start();
  assert.deepEqual(await refused.ended(), { code: 78, signal: null });
  assert.match(
    refused.output,
    /belongs to bot 7001 \(@leadonce_test_bot\), but the token is that of bot 7002/,
  );
  assert.deepEqual(bot.requests, []);

  w.env = { ...w.env, TELEGRAM_BOT_TOKEN: TOKEN };
  w.say(1);
  await w.settled(await w.started());
  assert.equal(w.crm.leads.length, 1);
});

test("a new token of the same bot goes on where the old one ended", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  await daemon.stop();
  const renewed = `${BOT_ID}:another-secret-of-the-very-same-bot`;
  w.telegram.replaceToken(TOKEN, renewed);
  const bot = w.telegram.bot(renewed);
  w.env = { ...w.env, TELEGRAM_BOT_TOKEN: renewed };
  const update = bot.say({ from: person(2), text: "hello again" });
  const next = await w.started();
  await bot.whenConfirmed(update);
  await next.until(() => next.of("job.settled").length === 1, "the job");
  assert.equal(w.crm.leads.length, 2);
});

test("Telegram that calls the bot by another id than its token ends the daemon, which leaves nothing running", async (t) => {
  const w = await world(t);
  w.bot.fault({
    method: "getMe",
    kind: "result",
    json: '{"id":7009,"is_bot":true,"first_name":"x","username":"x_bot"}',
  });
  const daemon = w.start();
  assert.deepEqual(await daemon.ended(), { code: 78, signal: null });
  assert.match(daemon.output, /token begins with 7001, but Telegram calls its bot 7009/);
  await w.settled(await w.started());
});

test("the database and every file beside it are readable by their owner alone (P5)", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);
  const folder = join(w.folder, "data");
  assert.equal(mode(folder), "700");
  const files = readdirSync(folder);
  assert.ok(files.includes("leadonce.db-wal"), files.join(" "));
  for (const file of files) assert.equal(mode(join(folder, file)), "600", file);
});
