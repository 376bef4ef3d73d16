/**
 * What the poller does in the situations of which others reported losses, doubles and deafness (reference
 * `telegram-cases.md`, sections A, C and D), on the real store and the Telegram stand-in.
 */
import assert from "node:assert/strict";
import { lookup as resolveName } from "node:dns";
import { type TestContext, test } from "node:test";
import { Agent, buildConnector } from "undici";
import { FIRST_ID, PERSON, PollerWorld, TestClock } from "./poller-world.ts";

const CONFLICT = {
  kind: "error",
  code: 409,
  description:
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
  method: "getUpdates",
} as const;

async function running(
  t: TestContext,
  options: Parameters<typeof PollerWorld.start>[1] = {},
): Promise<PollerWorld> {
  const world = await PollerWorld.start(t, options);
  world.run();
  await world.until(() => world.poller.status().state === "polling");
  await world.bot.whenWaiting();
  return world;
}

/** The wait that the poller announced after each failure. */
function waits(world: PollerWorld): number[] {
  return world.log.of("poller.failed").map(({ wait_ms }) => Number(wait_ms));
}

test("TR-01: after Telegram numbers lower, the new ids are confirmed and make one lead each", async (t) => {
  const world = await running(t, { bot: { firstUpdateId: 727_334_707 } });
  await world.bot.whenConfirmed(world.say("before"));
  world.bot.renumber(117_314_199);
  await world.bot.whenConfirmed(world.say("after"));
  await world.bot.whenConfirmed(world.say("and on"));
  assert.deepEqual(world.offsets().slice(-2), [117_314_200, 117_314_201]);
  assert.equal((await world.leads()).length, 3);
  assert.deepEqual(world.alerts, [], "a new numbering is no gap");
});

test("TR-03: an offset far above another server's ids still leads to the update and to its own next offset", async (t) => {
  const world = await running(t, { bot: { firstUpdateId: 935_483_237 } });
  await world.bot.whenConfirmed(world.say("on the first server"));
  assert.equal(world.offsets().at(-1), 935_483_238);
  world.bot.renumber(911_978_041);
  await world.bot.whenConfirmed(world.say("on the second server"));
  assert.equal(world.offsets().at(-1), 911_978_042);
  assert.equal((await world.leads()).length, 2);
});

test("TR-09: stopping after a commit sends no further call, and the next process makes no second lead", async (t) => {
  const world = await PollerWorld.start(t, {
    poller: { onAccepted: () => void world.poller.stop() },
  });
  const id = world.say("the last one before the stop");
  world.run();
  await world.ended();
  assert.deepEqual(world.offsets(), [undefined], "no call to confirm");
  assert.equal(world.bot.pending, 1, "Telegram still holds it");

  await world.restart();
  await world.ended();
  assert.equal((await world.leads()).length, 1);
  assert.equal((await world.store.status("", 0)).updates.duplicates, 1);
  assert.equal(world.bot.updates.find(({ updateId }) => updateId === id)?.timesFetched, 2);
});

test("TR-10: a last poll that hangs does not hold up the stop, and what it fetched comes again", async (t) => {
  const world = await running(t);
  world.bot.fault({ kind: "apply-then-hang", method: "getUpdates" });
  const id = world.say("first");
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.fault === "apply-then-hang");
  await world.stop();
  assert.equal(world.poller.status().state, "stopped");
  await world.restart();
  await world.bot.whenConfirmed(world.say("second"));
  assert.equal((await world.leads()).length, 2);
  assert.equal(world.bot.updates.find(({ updateId }) => updateId === id)?.fate, "confirmed");
});

test("TR-11: no call leaves while a page is being stored, and none confirms a page whose commit failed", async (t) => {
  const world = await running(t);
  const before = world.bot.polls.length;
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const arrived = new Promise<void>((resolve) => {
    world.beforeAccept = () => {
      resolve();
      return held;
    };
  });
  const id = world.say("slow disk");
  await arrived;
  await world.clock.run(40_000);
  assert.equal(world.bot.polls.length, before, "nothing is sent while the commit is under way");

  world.failingCommits = 1;
  release();
  await world.bot.whenConfirmed(id);
  const after = world.offsets().slice(before);
  assert.deepEqual(after, [undefined, id + 1], "after the failed commit the offset is the one of before");
  assert.equal((await world.leads()).length, 1);
});

test("TR-13: a page that can't be stored is not confirmed, is told of, and is stored by itself later", async (t) => {
  const world = await running(t);
  world.failingCommits = 3;
  const stored = world.log.next("poller.page_stored");
  const id = world.say("the disk is full");
  await world.until(() => world.alerts.length > 0);
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["storage"],
  );
  assert.match(world.alerts[0]?.message ?? "", /disk is full.*wait at Telegram.*Free some space/);
  await stored;
  await world.bot.whenConfirmed(id);
  assert.deepEqual(world.recovered, ["storage"]);
  assert.equal((await world.leads()).length, 1);
  assert.ok(world.reports.some(({ state }) => state === "storage"));
});

test("TR-13, TR-14: a bug while storing ends the poller loudly, and the page is not confirmed", async (t) => {
  const world = await running(t);
  world.beforeAccept = async () => {
    throw new TypeError("a bug");
  };
  world.say("hello");
  await assert.rejects(world.ended(), { name: "TypeError", message: "a bug" });
  assert.deepEqual(new Set(world.offsets()), new Set([undefined]));
  assert.equal(world.bot.pending, 1);
});

test("TR-18: what people wrote while nothing ran makes its leads at the start", async (t) => {
  const world = await PollerWorld.start(t);
  world.say("one");
  world.say("two");
  const last = world.say("three");
  world.run();
  await world.bot.whenConfirmed(last);
  assert.equal((await world.leads()).length, 3);
  assert.deepEqual(new Set(world.bot.updates.map(({ fate }) => fate)), new Set(["confirmed"]));
  assert.ok(world.bot.requests.every(({ method }) => method !== "deleteWebhook"));
});

test("TR-20: no offset is ever negative or taken from an element without a valid id", async (t) => {
  const world = await running(t);
  await world.bot.whenConfirmed(world.say("good"));
  await world.bot.whenWaiting();
  world.bot.fault({
    kind: "result",
    json: '[{"update_id":-7,"message":{}},{"update_id":2147483647},{"update_id":"12"},{"update_id":1.5},null]',
    method: "getUpdates",
  });
  const failed = world.log.next("poller.failed");
  // Ends the waiting poll, so that the next one meets the fault.
  world.bot.renumber(world.bot.tail);
  assert.match(String((await failed).message), /no element with a valid update_id/);
  await world.bot.whenConfirmed(world.say("good again"));
  assert.deepEqual([...new Set(world.offsets())], [undefined, FIRST_ID + 1, FIRST_ID + 2]);
  assert.ok(world.bot.updates.every(({ fate }) => fate === "confirmed"));
});

test("TR-36: polling goes on after a 409", async (t) => {
  const world = await running(t);
  world.bot.fault(CONFLICT);
  await world.bot.whenConfirmed(world.say("one"));
  await world.bot.whenConfirmed(world.say("two"));
  assert.equal((await world.leads()).length, 2);
  assert.equal(world.log.of("poller.failed")[0]?.state, "conflict");
});

test("TR-37: the overlap of a restart is waited out with 5 to 30 s between tries, without an alarm", async (t) => {
  const world = await PollerWorld.start(t);
  const old = world.bot.rivalPoll({ timeout: 50 });
  await world.bot.whenWaiting();
  world.run();
  assert.equal((await old).status, 409, "the newer poll wins");
  for (let retry = 1; retry <= 2; retry += 1) {
    await world.bot.whenWaiting();
    const evicted = world.log.next("poller.failed");
    const again = world.bot.rivalPoll({ timeout: 50 });
    // Telegram holds back the second 409 within 3 s.
    world.telegram.advance(3_000);
    assert.equal((await evicted).state, "conflict");
    assert.equal((await again).status, 409);
    world.telegram.advance(3_000);
  }
  const afterConflict = world.bot.polls.filter((_, index, all) => all[index - 1]?.status === 409);
  for (const { parameters } of afterConflict) {
    assert.equal(parameters.timeout, "50", "a call that does not wait meets no rival");
  }
  await world.bot.whenConfirmed(world.say("hello"));
  assert.equal((await world.leads()).length, 1);
  assert.deepEqual(world.alerts, []);
  assert.ok(
    waits(world).every((ms) => ms >= 5_000 && ms <= 30_000),
    String(waits(world)),
  );
});

test("TR-40: a second consumer is shouted about after a minute, while polling goes on", async (t) => {
  const world = await running(t);
  await world.bot.whenConfirmed(world.say("before"));
  await world.bot.whenWaiting();
  const stolen = world.bot.fault({ ...CONFLICT, times: Number.POSITIVE_INFINITY });
  const alarm = world.until(() => world.alerts.some(({ kind }) => kind === "conflict"));
  world.bot.renumber(world.bot.tail);
  await alarm;
  assert.ok(world.clock.monotonic() >= 60_000, "not for the overlap of a restart");
  assert.match(world.alerts[0]?.message ?? "", /same token/);
  assert.equal(world.log.lines.filter(({ level }) => level === "error").length, 1);
  assert.equal((await world.store.status("", 0)).poller.state, "conflict");
  assert.ok(waits(world).every((ms) => ms >= 5_000 && ms <= 30_000));

  // The other one takes an update and leaves.
  const lost = world.say("answered elsewhere");
  await world.bot.rivalPoll({});
  await world.bot.rivalPoll({ offset: lost + 1 });
  stolen.remove();
  await world.bot.whenConfirmed(world.say("for us"));
  assert.equal(world.alerts.at(-1)?.kind, "gap");
  assert.match(world.alerts.at(-1)?.message ?? "", /^1 update .*another program/);

  assert.deepEqual(world.recovered, [], "a won round is no peace yet");
  for (let n = 1; n <= 3; n += 1) {
    await world.bot.whenWaiting();
    world.clock.advance(50_000);
    await world.bot.whenConfirmed(world.say(`quiet ${n}`));
  }
  assert.deepEqual(world.recovered, ["conflict"]);
});

test("TR-41: a webhook that another tool sets during a poll is named by its host, and polling resumes without it", async (t) => {
  const world = await running(t);
  world.bot.setWebhook("https://tool.example:8443/hook/secret-path");
  await world.clock.whenSleeping((ms) => ms === 45_000);
  assert.equal(world.poller.status().state, "webhook");
  const alert = world.alerts[0];
  assert.equal(alert?.kind, "webhook");
  assert.match(alert?.message ?? "", /webhook at tool\.example .*take_over_webhook/);
  assert.doesNotMatch(JSON.stringify([world.alerts, world.log.lines, world.reports]), /secret-path/);
  const polls = world.bot.polls.length;

  world.clock.advance(45_000);
  await world.clock.whenSleeping((ms) => ms === 45_000);
  assert.equal(world.bot.polls.length, polls, "while it stands only getWebhookInfo is asked");
  world.bot.deleteWebhook();
  world.clock.advance(45_000);
  await world.bot.whenConfirmed(world.say("back"));
  assert.deepEqual(world.recovered, ["webhook"]);
  assert.equal((await world.leads()).length, 1);
});

test("TR-42: a webhook set before the start is waited for, and nothing of the queue is touched", async (t) => {
  const world = await PollerWorld.start(t);
  world.say("before");
  world.bot.setWebhook("https://tool.example/hook");
  world.run();
  await world.clock.whenSleeping((ms) => ms === 45_000);
  assert.equal(world.alerts[0]?.kind, "webhook");
  assert.ok(world.bot.requests.every(({ method }) => method !== "deleteWebhook"));
  assert.ok(world.bot.updates.every(({ fate }) => fate !== "dropped"));
  await world.stop();
});

test("TR-42: take_over_webhook removes the webhook without dropping what waits", async (t) => {
  const world = await PollerWorld.start(t, { poller: { takeOverWebhook: true } });
  world.bot.setWebhook("https://tool.example/hook");
  world.say("one");
  const last = world.say("two");
  world.run();
  await world.bot.whenConfirmed(last);
  const removal = world.bot.requests.find(({ method }) => method === "deleteWebhook");
  assert.deepEqual(removal?.parameters, {});
  assert.equal(world.bot.webhookUrl, "");
  assert.equal((await world.leads()).length, 2);
  assert.deepEqual(world.alerts, []);
});

test("TR-43: a DNS failure is retried with growing waits of at most a minute, and ends by itself", async (t) => {
  let failures = 12;
  const world = await PollerWorld.start(t, {
    dispatcher: () =>
      new Agent({
        connect: {
          lookup: (name, options, done) => {
            failures -= 1;
            if (failures >= 0) done(Object.assign(new Error("no DNS"), { code: "EAI_AGAIN" }), []);
            else resolveName(name === "localhost" ? "127.0.0.1" : name, options, done);
          },
        },
      }),
    apiHost: "localhost",
  });
  world.run();
  await world.bot.whenConfirmed(world.say("after the outage"));
  assert.equal(waits(world).length, 12);
  assert.ok(waits(world).every((ms) => ms >= 500 && ms <= 60_000));
  assert.deepEqual(waits(world).slice(0, 4), [750, 1_500, 3_000, 6_000]);
  assert.match(String(world.log.of("poller.failed")[0]?.message), /DNS does not answer \(EAI_AGAIN\)/);
  assert.deepEqual(world.recovered, ["unreachable"], "the outage was told, and its end");
  assert.equal((await world.leads()).length, 1);
});

test("TR-44: a poll whose line goes dead ends by its deadline and is sent again on a new connection", async (t) => {
  const world = await running(t);
  world.bot.fault({ kind: "black-hole", method: "getUpdates" });
  const id = world.say("one");
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.fault === "black-hole");
  world.clock.advance(65_000);
  await world.bot.whenConfirmed(id);
  const dead = world.bot.polls.findIndex(({ fault }) => fault === "black-hole");
  assert.notEqual(world.bot.polls[dead + 1]?.connection, world.bot.polls[dead]?.connection);
  assert.equal(world.bot.polls[dead + 1]?.parameters.offset, String(id + 1));
  assert.match(String(world.log.of("poller.failed")[0]?.message), /did not answer in time/);
});

test("TR-46: polls that are never answered are cut, told of after two of them, and given new connections", async (t) => {
  const world = await running(t);
  const hole = world.bot.fault({ kind: "black-hole", method: "getUpdates", times: Number.POSITIVE_INFINITY });
  world.bot.renumber(world.bot.tail);
  const told = world.until(() => world.alerts.some(({ kind }) => kind === "unreachable"));
  const id = world.say("is anybody there?");
  let asked = 0;
  while (world.alerts.length === 0) {
    const next = asked;
    await world.telegram.waitFor(
      () => world.bot.polls.filter(({ fault }) => fault !== undefined).length > next,
    );
    asked += 1;
    await world.clock.run(66_000, 5_000);
  }
  await told;
  assert.ok(world.clock.monotonic() > 130_000);
  hole.remove();
  await world.clock.run(66_000, 5_000);
  await world.bot.whenConfirmed(id);
  assert.deepEqual(world.recovered, ["unreachable"]);
  assert.equal((await world.leads()).length, 1);
});

test("TR-46: a call that outlives even its own deadline is cut by the watchdog, and told of", async (t) => {
  const world = await running(t, { clientClock: new TestClock() });
  world.bot.fault({ kind: "black-hole", method: "getUpdates" });
  const id = world.say("hello");
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.fault === "black-hole");
  await world.clock.run(140_000, 5_000);
  await world.bot.whenConfirmed(id);
  await world.until(() => world.recovered.length > 0);
  assert.equal(world.log.of("poller.stalled").length, 1);
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["unreachable"],
  );
  assert.deepEqual(world.recovered, ["unreachable"]);
  assert.ok(world.reports.some(({ state, lastError }) => state === "retrying" && lastError !== null));
});

test("TR-47: after the machine slept, the dead poll is replaced at the next tick, on a new connection", async (t) => {
  const world = await running(t);
  world.bot.fault({ kind: "black-hole", method: "getUpdates" });
  const first = world.say("before the sleep");
  await world.telegram.waitFor(() => world.bot.polls.at(-1)?.fault === "black-hole");
  world.clock.stepWall(5 * 60_000);
  world.clock.advance(5_000);
  await world.bot.whenConfirmed(first);
  assert.equal(world.log.of("poller.resumed").length, 1);
  assert.deepEqual(world.log.of("poller.failed"), []);
  assert.equal(new Set(world.bot.polls.slice(-2).map(({ connection }) => connection)).size, 2);
});

test("TR-47: a wait after a failure does not outlast the sleep of the machine", async (t) => {
  const world = await running(t);
  world.holdWaits();
  world.bot.fault({ kind: "unauthorized", method: "getUpdates" });
  const failed = world.log.next("poller.failed");
  const id = world.say("hello");
  const { wait_ms } = await failed;
  await world.clock.whenSleeping((ms) => ms === wait_ms);
  world.clock.stepWall(60 * 60_000);
  world.clock.advance(5_000);
  await world.bot.whenConfirmed(id);
  assert.ok(world.clock.monotonic() < Number(wait_ms));
  const refused = world.bot.requests.findIndex(({ fault }) => fault === "unauthorized");
  const before = world.bot.requests.slice(0, refused + 1).map(({ connection }) => connection);
  const after = world.bot.requests[refused + 1]?.connection ?? 0;
  assert.ok(!before.includes(after), "an idle connection may be dead too");
});

test("TR-48: a step of the wall clock by two hours is no stall and loses nothing", async (t) => {
  const world = await running(t);
  for (const step of [-2, 2, -2]) {
    await world.bot.whenWaiting();
    world.clock.stepWall(step * 3_600_000);
    world.clock.advance(5_000);
    // Of the poll that was cut, Telegram knows nothing; with the next one it answers the old.
    await world.bot.whenConfirmed(world.say(`step of ${step} h`));
  }
  assert.equal((await world.leads()).length, 3);
  assert.deepEqual(world.alerts, []);
  assert.deepEqual(world.log.of("poller.stalled"), []);
  assert.equal(world.log.of("poller.resumed").length, 1, "only a step forward looks like a sleep");
  assert.equal(world.poller.status().lastCompletedMonotonicMs, world.clock.monotonic());
});

test("TR-51: certificates that are not valid at this machine's time point to its clock, and tries go on", async (t) => {
  let refusals = 2;
  const connect = buildConnector({});
  const world = await PollerWorld.start(t, {
    dispatcher: () =>
      new Agent({
        connect: (options, done) => {
          refusals -= 1;
          const error = Object.assign(new Error("certificate has expired"), { code: "CERT_HAS_EXPIRED" });
          if (refusals >= 0) done(error, null);
          else connect(options, done);
        },
      }),
  });
  world.run();
  await world.bot.whenConfirmed(world.say("hello"));
  const messages = world.log.of("poller.failed").map(({ message }) => String(message));
  assert.equal(messages.length, 2);
  for (const message of messages) assert.match(message, /check this machine's clock \(CERT_HAS_EXPIRED\)/);
  assert.match(world.reports.find(({ state }) => state === "retrying")?.lastError ?? "", /clock/);
});

test("TR-52: an HTML page, with status 502 or 200, is trouble that passes", async (t) => {
  const world = await running(t);
  world.bot.fault({ kind: "html", status: 502, method: "getUpdates" });
  world.bot.fault({ kind: "html", status: 200, method: "getUpdates", nth: 2 });
  await world.bot.whenConfirmed(world.say("hello"));
  assert.equal(world.log.of("poller.failed").length, 2);
  assert.equal((await world.leads()).length, 1);
});

test("TR-53: in an outage the tries become rare, and a success makes them quick again", async (t) => {
  const world = await running(t);
  world.bot.fault({ kind: "html", status: 502, method: "getUpdates", times: 12 });
  const before = world.bot.polls.length;
  const startedMs = world.clock.monotonic();
  await world.bot.whenConfirmed(world.say("after the outage"));
  assert.deepEqual(waits(world).slice(0, 7), [750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000]);
  assert.ok(waits(world).every((ms) => ms <= 60_000));
  assert.equal(waits(world).length, 12);
  assert.equal(world.bot.polls.length - before, 13, "one call per step, then the one that gets through");
  assert.ok(world.clock.monotonic() - startedMs >= 300_000);

  await world.bot.whenWaiting();
  world.bot.fault({ kind: "html", status: 502, method: "getUpdates" });
  await world.bot.whenConfirmed(world.say("again"));
  assert.equal(waits(world).at(-1), 750);
});

test("TR-55: a 429 is waited out as long as Telegram asks, but never longer than a minute", async (t) => {
  const world = await running(t);
  const asked = [5, 5, 5, undefined, "7", -3, 3e6];
  asked.forEach((retry_after, index) => {
    world.bot.fault({ kind: "too-many", method: "getUpdates", nth: index + 1, retry_after });
  });
  await world.bot.whenConfirmed(world.say("hello"));
  assert.deepEqual(waits(world), [5_000, 5_000, 5_000, 6_000, 12_000, 24_000, 60_000]);
  assert.equal((await world.leads()).length, 1);
});

test("TR-71: a token that is refused, with successes in between, is told of and tried every few minutes", async (t) => {
  const world = await running(t);
  const flicker = { kind: "unauthorized", method: "getUpdates" } as const;
  world.bot.fault({ ...flicker, times: 9 });
  world.bot.fault({ ...flicker, nth: 11, times: 9 });
  await world.bot.whenConfirmed(world.say("one"));
  await world.bot.whenConfirmed(world.say("two"));
  assert.equal(waits(world).length, 18);
  assert.ok(waits(world).every((ms) => ms >= 60_000 && ms <= 240_000));
  assert.deepEqual(
    world.alerts.map(({ kind }) => kind),
    ["unauthorised", "unauthorised"],
  );
  assert.match(world.alerts[0]?.message ?? "", /@BotFather.*What is stored goes on/);
  assert.deepEqual(world.recovered, ["unauthorised", "unauthorised"]);
  assert.deepEqual(world.log.of("poller.stalled"), [], "a wait that is intended is no stall");
  assert.equal((await world.leads()).length, 2);
});

test("TR-76: the kinds of update are named on every poll, so that another tool's filter does not last", async (t) => {
  const world = await PollerWorld.start(t, { poller: { updateKinds: ["business_message", "message"] } });
  await world.bot.rivalPoll({ allowed_updates: ["poll"] });
  world.run();
  await world.bot.whenWaiting();
  const tap = world.bot.push({ callback_query: { id: "1", from: PERSON, chat_instance: "1", data: "x" } });
  assert.ok(tap !== undefined);
  await world.bot.whenConfirmed(tap);
  const kinds = ["message", "edited_message", "callback_query", "my_chat_member", "business_message"];
  for (const { parameters } of world.bot.polls) {
    assert.deepEqual(JSON.parse(parameters.allowed_updates ?? ""), kinds);
  }
});

test("TR-86: no offset lies above the last received id + 1, so no update is deleted unseen", async (t) => {
  const world = await running(t);
  await world.bot.whenConfirmed(world.say("one"));
  await world.bot.whenWaiting();
  // An element that shows a higher id than it has: the last id of the page counts, not the highest.
  const shown = world.bot.tail + 5;
  world.bot.pushRaw(JSON.stringify({ update_id: shown, message: "not a message" }));
  world.say("two");
  await world.bot.whenConfirmed(world.say("three"));
  await world.bot.whenWaiting();
  await world.bot.whenConfirmed(world.say("four"));
  assert.ok(
    world.bot.updates.every(({ fate }) => fate !== "swallowed"),
    JSON.stringify(world.offsets()),
  );
});
