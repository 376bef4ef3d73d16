/** The poller's own promises, on the real store and the Telegram stand-in. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StorageUnavailableError } from "../../src/domain/errors.ts";
import { asBotId } from "../../src/domain/ids.ts";
import type { Decide } from "../../src/domain/store.ts";
import { BOT_ID, FIRST_ID, PERSON, PollerWorld, TOKEN } from "./poller-world.ts";

const DECIDE_NOTHING: Decide = {
  wants: () => ({ contact: null, messages: [], businessKeys: [] }),
  decide: () => ({ state: "ignored", reason: "no_action", contact: null, operations: [] }),
};

test("the first call of each process leaves the offset out; what comes again is absorbed", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenConfirmed(world.say("one"));
  await world.bot.whenWaiting();
  // Stored, and then the process ends before it could be confirmed.
  world.bot.fault({ kind: "black-hole", method: "getUpdates" });
  world.say("two");
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.fault === "black-hole");
  const before = world.offsets().length;
  await world.restart();
  await world.bot.whenConfirmed(world.say("three"));
  assert.deepEqual([world.offsets()[0], world.offsets()[before]], [undefined, undefined]);
  assert.equal((await world.leads()).length, 3);
  assert.equal((await world.store.status("", 0)).updates.duplicates, 1);
  assert.deepEqual(world.alerts, [], "what comes again is no gap");
});

test("a page is received, committed and only then followed by the next call", async (t) => {
  const world = await PollerWorld.start(t);
  const id = world.say("hello");
  world.run();
  await world.bot.whenConfirmed(id);
  assert.deepEqual(world.points, [
    "poll.received",
    "accept.before_commit",
    "accept.committed",
    "poll.before_next",
  ]);
});

test("a poll asks for a hundred updates and waits at most the 50 s that Telegram takes", async (t) => {
  const world = await PollerWorld.start(t, { poller: { pollTimeoutMs: 90_000 } });
  world.run();
  await world.bot.whenWaiting();
  const { limit, timeout } = world.bot.polls.at(-1)?.parameters ?? {};
  assert.deepEqual([limit, timeout], ["100", "50"]);
});

test("an empty answer that comes early is followed by a pause, and by no write", async (t) => {
  const world = await PollerWorld.start(t);
  world.bot.fault({ kind: "result", json: "[]", method: "getUpdates", times: 20 });
  world.run();
  await world.bot.whenWaiting();
  assert.equal(world.bot.polls.length, 21);
  assert.equal(world.clock.slept.filter((ms) => ms === 250).length, 20);
  assert.deepEqual(world.points, []);
  assert.deepEqual(
    world.reports.map(({ state }) => state),
    ["starting", "polling"],
  );
});

test("while nothing changes the state is written once a minute", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  for (let n = 1; n <= 4; n += 1) {
    world.clock.advance(30_000);
    await world.bot.whenConfirmed(world.say(`message ${n}`));
    await world.bot.whenWaiting();
  }
  assert.deepEqual(
    world.reports.map(({ state, lastCompletedAtMs }) => [
      state,
      (lastCompletedAtMs ?? 0) - world.clock.now(),
    ]),
    [
      ["starting", -world.clock.now()],
      ["polling", -120_250],
      ["polling", -60_000],
      ["polling", 0],
    ],
  );
});

test("a state that can't be written does not end polling and is written later", async (t) => {
  const world = await PollerWorld.start(t);
  world.failingReports = 2;
  world.run();
  await world.bot.whenWaiting();
  await world.bot.whenConfirmed(world.say("hello"));
  assert.equal(world.log.of("poller.not_recorded").length, 2);
  assert.equal((await world.store.status("", 0)).poller.state, "polling");
});

test("an alarm about the disk does not end with a poll that wrote nothing", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  world.holdWaits();
  world.failingCommits = 1;
  const failed = world.log.next("poller.failed");
  const id = world.say("hello");
  const { wait_ms } = await failed;
  await world.clock.whenSleeping((ms) => ms === wait_ms);
  // The update runs out meanwhile, so the next page is empty; the disk is still full.
  world.bot.expire(id);
  world.failingReports = 1;
  const notRecorded = world.log.next("poller.not_recorded");
  world.clock.advance(Number(wait_ms));
  await notRecorded;
  await world.bot.whenWaiting();
  assert.deepEqual(world.recovered, []);
  await world.bot.whenConfirmed(world.say("there is room again"));
  assert.deepEqual(world.recovered, ["storage"]);
});

test("stop() lets the transaction in hand finish and sends nothing after it", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  let release = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    world.beforeAccept = () => {
      resolve();
      return new Promise((done) => {
        release = done;
      });
    };
  });
  world.say("hello");
  await arrived;
  const polls = world.bot.polls.length;
  const stopped = world.poller.stop();
  release();
  await stopped;
  assert.equal((await world.leads()).length, 1);
  assert.equal(world.bot.polls.length, polls);
  assert.equal((await world.store.status("", 0)).poller.state, "stopped");
});

test("stop() ends a wait after a failure at once", async (t) => {
  const world = await PollerWorld.start(t);
  world.holdWaits();
  world.bot.fault({ kind: "unauthorized" });
  const failed = world.log.next("poller.failed");
  world.run();
  const { wait_ms } = await failed;
  await world.clock.whenSleeping((ms) => ms === wait_ms);
  await world.stop();
  await world.ended();
  assert.equal(world.clock.monotonic(), 0);
});

test("stop() ends a poll that waits", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  await world.stop();
  await world.ended();
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.end === "abandoned");
});

test("a start without a network is retried until Telegram can be asked, and is on record meanwhile", async (t) => {
  const world = await PollerWorld.start(t);
  await world.store.bindBot(BOT_ID, "example_bot", world.clock.now());
  await world.telegram.stop();
  world.run();
  await world.until(() => world.log.of("poller.failed").length === 2);
  const { poller } = await world.store.status("", 0);
  assert.equal(poller.state, "retrying");
  assert.match(poller.last_error ?? "", /connection was refused/);
  await world.telegram.start();
  await world.bot.whenConfirmed(world.say("hello"));
  assert.equal(world.poller.status().state, "polling");
  assert.equal(world.poller.status().lastError, null);
});

test("a token that is refused at the start is told of and tried again", async (t) => {
  const world = await PollerWorld.start(t);
  world.bot.fault({ kind: "error", code: 404, description: "Not Found", method: "getMe", times: 2 });
  world.run();
  await world.bot.whenConfirmed(world.say("hello"));
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["unauthorised"],
  );
  assert.deepEqual(world.recovered, ["unauthorised"]);
});

test("a bot that is not the token's ends the poller before it polls", async (t) => {
  const world = await PollerWorld.start(t, { poller: { botId: asBotId(999) } });
  world.run();
  await assert.rejects(world.ended(), /begins with 999.*calls its bot 7001/);
  assert.equal(world.bot.polls.length, 0);
});

test("binding is tried again while the disk is full; any other refusal ends the poller", async (t) => {
  let calls = 0;
  const world = await PollerWorld.start(t, {
    poller: {
      identified: async () => {
        calls += 1;
        if (calls === 1) throw new StorageUnavailableError("can't bind: the disk is full");
        throw new Error("bound to another bot");
      },
    },
  });
  world.run();
  await assert.rejects(world.ended(), /bound to another bot/);
  assert.equal(calls, 2);
  assert.equal(world.bot.polls.length, 0);
});

test("TR-75, TR-85: many waiting updates, and groups behind privacy mode, are told of at the start", async (t) => {
  const world = await PollerWorld.start(t, { poller: { takesGroups: true } });
  world.bot.fault({
    kind: "result",
    json: '{"url":"","has_custom_certificate":false,"pending_update_count":12000}',
    method: "getWebhookInfo",
  });
  world.run();
  await world.bot.whenWaiting();
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["backlog", "group_privacy"],
  );
  assert.match(world.alerts[0]?.message ?? "", /^12000 updates wait/);
  assert.match(world.alerts[1]?.message ?? "", /setprivacy/);
});

test("updates that ran out while nothing ran are counted at the start", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenConfirmed(world.say("one"));
  await world.stop();
  world.bot.expire(world.say("lost"), world.say("lost"), world.say("lost"));
  const next = world.say("fetched");
  await world.restart();
  await world.bot.whenConfirmed(next);
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["gap"],
  );
  assert.match(world.alerts[0]?.message ?? "", /^3 updates of this bot never came here/);
});

test("an absence of more than a day is told of in plain words, a lower numbering after it is no gap", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenConfirmed(world.say("one"));
  await world.stop();
  world.bot.renumber(3_000_001);
  world.clock.stepWall(30 * 3_600_000);
  await world.restart();
  await world.bot.whenConfirmed(world.say("two"));
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["absence"],
  );
  assert.match(world.alerts[0]?.message ?? "", /for 30 hours, since 2026-01-15T09:00:00/);
});

test("TR-38: health is a completed poll: it does not move while polls fail and getMe would succeed", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenConfirmed(world.say("one"));
  const { lastCompletedMonotonicMs } = world.poller.status();
  await world.bot.whenWaiting();
  const outage = world.bot.fault({ kind: "drop", method: "getUpdates", times: Number.POSITIVE_INFINITY });
  world.bot.renumber(world.bot.tail);
  await world.until(() => world.log.of("poller.failed").length === 5);
  // The waiting poll was still answered, at the same moment of the test's clock.
  assert.equal(world.poller.status().lastCompletedMonotonicMs, lastCompletedMonotonicMs);
  assert.ok(world.clock.monotonic() > Number(lastCompletedMonotonicMs));
  outage.remove();
});

test("answers that are no page of updates move nothing and are asked for again", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  const id = world.say("one");
  await world.bot.whenConfirmed(id);
  await world.bot.whenWaiting();
  const bodies = ["null", "{}", "[]", '"text"', '{"ok":true}', '{"ok":true,"result":{}}', "{"];
  bodies.forEach((body, index) => {
    world.bot.fault({ kind: "body", body, method: "getUpdates", nth: index + 1 });
  });
  world.bot.fault({ kind: "cut", bytes: 12, method: "getUpdates", nth: bodies.length + 1 });
  world.bot.renumber(world.bot.tail);
  await world.until(() => world.log.of("poller.failed").length === bodies.length + 1);
  assert.deepEqual(new Set(world.offsets().slice(1)), new Set([id + 1]));
  await world.bot.whenConfirmed(world.say("two"));
  assert.equal((await world.leads()).length, 2);
  assert.equal(world.poller.status().state, "polling");
});

test("an element that is malformed does not keep its neighbours from being stored and confirmed", async (t) => {
  const world = await PollerWorld.start(t);
  world.say("before");
  world.bot.pushRaw('{"update_id":"no number"}');
  world.bot.pushRaw((updateId) => `{"update_id":${updateId},"message":"no message"}`);
  const last = world.say("after");
  world.run();
  await world.bot.whenConfirmed(last);
  assert.equal((await world.leads()).length, 2);
  assert.equal((await world.store.status("", 0)).updates.quarantined, 2);
  assert.equal(world.offsets().at(-1), FIRST_ID + 4);
});

test("after a poll that took too long smaller pages are asked for, then larger ones again", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  const hole = world.bot.fault({ kind: "black-hole", method: "getUpdates", times: 2 });
  const id = world.say("one");
  for (const [index, deadline] of [65_000, 15_000].entries()) {
    await world.telegram.waitFor(() => hole.hits === index + 1);
    await world.clock.whenSleeping((ms) => ms === deadline);
    world.clock.advance(deadline);
  }
  await world.bot.whenConfirmed(id);
  await world.bot.whenConfirmed(world.say("two"));
  const limits = world.bot.polls.map(({ parameters }) => Number(parameters.limit));
  assert.equal(Math.min(...limits), 25);
  assert.equal(limits.at(-1), 100);
});

test("trouble of another kind starts with a short wait again", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  world.bot.fault({ kind: "html", status: 502, method: "getUpdates", times: 3 });
  world.bot.fault({ kind: "unauthorized", method: "getUpdates", nth: 4 });
  world.bot.fault({ kind: "html", status: 502, method: "getUpdates", nth: 5 });
  await world.bot.whenConfirmed(world.say("hello"));
  const waits = world.log.of("poller.failed").map(({ wait_ms }) => wait_ms);
  assert.deepEqual(waits, [750, 1_500, 3_000, 90_000, 750]);
});

test("no token stands in any log line, alert or stored state, whatever fails", async (t) => {
  const world = await PollerWorld.start(t);
  world.run();
  await world.bot.whenWaiting();
  const faults = [
    { kind: "unauthorized" },
    { kind: "redirect", status: 302, location: `https://elsewhere.example/bot${TOKEN}/getUpdates` },
    { kind: "error", code: 400, description: `Bad Request: ${TOKEN}` },
    { kind: "html", status: 504 },
    { kind: "drop", reset: true },
    { kind: "too-many" },
  ] as const;
  faults.forEach((fault, index) => {
    world.bot.fault({ ...fault, method: "getUpdates", nth: index + 1 });
  });
  await world.bot.whenConfirmed(world.bot.say({ from: PERSON, text: "a customer's words" }).update_id);
  assert.equal(world.log.of("poller.failed").length, faults.length);
  const said = JSON.stringify([world.log.lines, world.alerts, world.reports, world.poller.status()]);
  assert.doesNotMatch(said, /stand-in-token|customer's words/);
  assert.match(said, /Bad Request: <token>/);
});

test("what is accepted is handed on after its commit, and every completed poll is told of", async (t) => {
  let completed = 0;
  const world = await PollerWorld.start(t, {
    poller: { identified: async () => DECIDE_NOTHING, onCompleted: () => (completed += 1) },
  });
  await world.store.bindBot(BOT_ID, null, world.clock.now());
  const id = world.say("hello");
  world.run();
  await world.bot.whenConfirmed(id);
  assert.deepEqual(
    world.accepted.map(({ updates }) => updates.map(({ updateId, state }) => [updateId, state])),
    [[[id, "ignored"]]],
  );
  assert.equal(completed, 1);
  assert.equal(world.poller.status().nextOffset, id + 1);
});
