/**
 * The stand-in keeps the rules of the real server's update queue, as they stand in the server's source. P1 and P2 rest on
 * them, so everything that is tested against the stand-in rests on this file.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { FIRST_ID, failureOf, idsOf, PERSON, resultOf, START, startStill } from "./telegram-client.ts";

const EMPTY_PAGE = '{"ok":true,"result":[]}';

describe("the update queue", () => {
  it("two calls with the same offset return identical bytes", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.say({ from: PERSON, text: "Grüße 👋" });
    bot.say({ from: PERSON, text: "second" });
    const first = await ask("getUpdates");
    telegram.advance(1000);
    const second = await ask("getUpdates");
    assert.equal(idsOf(first).length, 2);
    assert.equal(second.text, first.text);
  });

  it("an offset of n + 1 removes the updates up to n and no other", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(3);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: FIRST_ID + 2 })), [FIRST_ID + 2]);
    assert.deepEqual(
      bot.updates.map((update) => update.fate),
      ["confirmed", "confirmed", "held"],
    );
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID + 2]);
  });

  it("an offset of 0 and a fetch alone remove nothing", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(3);
    for (const parameters of [{}, { offset: 0 }, { offset: 1 }, { offset: FIRST_ID }]) {
      assert.equal(idsOf(await ask("getUpdates", parameters)).length, 3);
      telegram.advance(1000);
    }
    assert.equal(bot.pending, 3);
  });

  it("an offset of -1 removes all but the last update", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(3);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: -1 })), [FIRST_ID + 2]);
    assert.equal(bot.pending, 1);
    assert.deepEqual(
      bot.updates.map((update) => update.fate),
      ["swallowed", "swallowed", "held"],
    );
  });

  it("an offset above 2^31 - 1 wraps around and is destructive", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(3);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 4_294_967_295 })), [FIRST_ID + 2]);
    assert.equal(bot.pending, 1);
  });

  it("an offset more than 10 above the tail is ignored: the page starts at the head, nothing is removed", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(3);
    assert.equal(idsOf(await ask("getUpdates", { offset: bot.tail + 11 })).length, 3);
    assert.equal(bot.pending, 3);
  });

  it("a long poll with an offset 5 above the tail swallows the next 5 updates and answers []", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const answer = ask("getUpdates", { offset: bot.tail + 5, timeout: 50 });
    await bot.whenWaiting();
    bot.fill(5);
    telegram.advance(1);
    assert.equal((await answer).text, EMPTY_PAGE);
    assert.deepEqual(new Set(bot.updates.map((update) => update.fate)), new Set(["swallowed"]));
    bot.say({ from: PERSON, text: "the sixth" });
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID + 5]);
  });

  it("a limit of 0 counts as 1, one of 1000 as 100", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(101);
    assert.equal(idsOf(await ask("getUpdates", { limit: 0 })).length, 1);
    assert.equal(idsOf(await ask("getUpdates", { limit: 1000, offset: 1 })).length, 100);
    assert.equal(idsOf(await ask("getUpdates", { offset: 2 })).length, 100);
  });

  it("a timeout of 60 counts as 50", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const answer = ask("getUpdates", { timeout: 60 });
    await bot.whenWaiting();
    telegram.advance(49_999);
    assert.equal(bot.polls[0]?.status, undefined);
    telegram.advance(1);
    assert.equal((await answer).text, EMPTY_PAGE);
  });

  it("a page ends below 4 MiB, and the next one goes on from there", async (t) => {
    const { bot, ask } = await startStill(t);
    for (let n = 0; n < 10; n += 1) bot.say({ from: PERSON, text: "x".repeat(500_000) });
    const page = await ask("getUpdates");
    assert.equal(idsOf(page).length, 8);
    assert.ok(page.text.length < 1 << 22);
    assert.equal(idsOf(await ask("getUpdates", { offset: FIRST_ID + 8 })).length, 2);
  });

  it("updates that come together wake the waiting call once", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const answer = ask("getUpdates", { timeout: 30 });
    await bot.whenWaiting();
    bot.fill(3);
    telegram.advance(0);
    assert.equal(bot.polls[0]?.status, undefined);
    telegram.advance(1);
    assert.equal(idsOf(await answer).length, 3);
  });
});

describe("two clients with one token", () => {
  it("the older waiting call gets 409, the newer one goes on", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const older = ask("getUpdates", { timeout: 10 });
    await bot.whenWaiting();
    const newer = ask("getUpdates", { timeout: 30 });
    assert.deepEqual(failureOf(await older), {
      ok: false,
      error_code: 409,
      description:
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    });
    telegram.advance(10_000);
    bot.say({ from: PERSON, text: "hello" });
    telegram.advance(1);
    assert.deepEqual(idsOf(await newer), [FIRST_ID]);
  });

  it("a newer call that finds updates, or does not wait, evicts nobody", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const older = ask("getUpdates", { timeout: 30 });
    await bot.whenWaiting();
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 1, timeout: 0 })), []);
    bot.say({ from: PERSON, text: "hello" });
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 2, timeout: 30 })), [FIRST_ID]);
    assert.equal(bot.polls[0]?.status, undefined);
    telegram.advance(1);
    assert.deepEqual(idsOf(await older), [FIRST_ID]);
  });

  it("a second 409 within 3 s comes 3 s late", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.setWebhook("https://example.com/hook");
    assert.equal((await ask("getUpdates")).status, 409);
    const polled = bot.whenPolled();
    const late = ask("getUpdates");
    await polled;
    telegram.advance(2999);
    assert.equal(bot.polls[1]?.status, undefined);
    telegram.advance(1);
    assert.equal((await late).status, 409);
    assert.equal((await ask("getUpdates")).status, 409);
  });

  it("the same offset with timeout 0 twice in 3 s: the second call waits 3 s", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    assert.equal((await ask("getUpdates", { offset: 7 })).text, EMPTY_PAGE);
    telegram.advance(2900);
    const second = ask("getUpdates", { offset: 7 });
    await bot.whenWaiting();
    telegram.advance(2999);
    assert.equal(bot.polls[1]?.status, undefined);
    telegram.advance(1);
    assert.equal((await second).text, EMPTY_PAGE);
    telegram.advance(3000);
    assert.equal((await ask("getUpdates", { offset: 7 })).text, EMPTY_PAGE);
  });

  it("the same offset within 0.5 s returns one update", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(3);
    assert.equal(idsOf(await ask("getUpdates")).length, 3);
    telegram.advance(499);
    assert.equal(idsOf(await ask("getUpdates")).length, 1);
    telegram.advance(500);
    assert.equal(idsOf(await ask("getUpdates")).length, 3);
  });
});

describe("allowed_updates", () => {
  const reaction = { message_reaction: { date: START / 1000 } };
  const poll = { poll: { id: "1" } };

  it("an absent list keeps the filter, an empty one brings the default back", async (t) => {
    const { bot, ask } = await startStill(t);
    await ask("getUpdates", { allowed_updates: ["MESSAGE", "message_reaction", "no_such_kind"] });
    await ask("getUpdates", { offset: 1 });
    assert.equal(bot.push(poll), undefined);
    assert.ok(bot.push(reaction));
    bot.say({ from: PERSON, text: "hello" });
    for (const ignored of ["", "message", '["poll",1]', '{"a":1}']) {
      await ask("getUpdates", { allowed_updates: ignored, offset: bot.polls.length + 1 });
    }
    assert.equal(bot.push(poll), undefined);
    await ask("getUpdates", { offset: 20, allowed_updates: [] });
    assert.ok(bot.push(poll));
    assert.equal(bot.push(reaction), undefined);
  });

  it("the filter acts when an update is made: what is queued still arrives, what was excluded is gone", async (t) => {
    const { bot, ask } = await startStill(t);
    assert.ok(bot.push(poll));
    assert.deepEqual(idsOf(await ask("getUpdates", { allowed_updates: ["message"] })), [FIRST_ID]);
    assert.equal(bot.push(poll), undefined);
    assert.deepEqual(bot.refused, [{ kind: "poll", reason: "type not allowed" }]);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 1, allowed_updates: ["poll"] })), [FIRST_ID]);
  });

  it("a kind that is newer than the server reaches a bot with the default list only", async (t) => {
    const { bot, ask } = await startStill(t);
    assert.ok(bot.push({ kind_of_tomorrow: {} }));
    await ask("getUpdates", { allowed_updates: ["message", "kind_of_tomorrow"] });
    assert.equal(bot.push({ kind_of_tomorrow: {} }), undefined);
  });

  it("getWebhookInfo shows the list while it is not the default, and how much is pending", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(2);
    const plain = { url: "", has_custom_certificate: false, pending_update_count: 2 };
    assert.deepEqual(resultOf(await ask("getWebhookInfo")), plain);
    await ask("getUpdates", { allowed_updates: ["message", "poll"] });
    assert.deepEqual(resultOf(await ask("getWebhookInfo")), {
      ...plain,
      allowed_updates: ["message", "poll"],
    });
  });
});

describe("retention", () => {
  it("a callback query is gone after 151 s", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.tap({ from: PERSON, data: "yes", message: 3 });
    telegram.advance(150_000);
    assert.equal(idsOf(await ask("getUpdates")).length, 1);
    telegram.advance(1000);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 1 })), []);
    assert.equal(bot.updates[0]?.fate, "expired");
  });

  it("a message is gone 24 h after its date, not after its arrival", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.say({ from: PERSON, text: "late", date: START / 1000 - 86_000 });
    telegram.advance(400_000);
    assert.equal(idsOf(await ask("getUpdates")).length, 1);
    telegram.advance(1000);
    assert.deepEqual(idsOf(await ask("getUpdates", { offset: 1 })), []);
  });

  it("a message that is 24 h old when it arrives is never queued, an edit counts from its edit date", async (t) => {
    const { telegram, bot } = await startStill(t);
    const update = bot.say({ from: PERSON, text: "first" });
    telegram.advance(86_400_000);
    assert.equal(bot.push({ message: update.message }), undefined);
    assert.deepEqual(bot.refused, [{ kind: "message", reason: "too old" }]);
    assert.ok(bot.edit(update, { text: "changed" }));
  });

  it("the 100,001st update is refused, and the old ones stay", async (t) => {
    const { bot, ask } = await startStill(t);
    assert.equal(bot.fill(100_001), 100_000);
    assert.deepEqual(bot.refused, [{ kind: "message", reason: "queue full" }]);
    assert.equal(bot.pending, 100_000);
    assert.equal(idsOf(await ask("getUpdates"))[0], FIRST_ID);
  });

  it("what would make the queue larger than 128 MiB is refused", async (t) => {
    const { bot } = await startStill(t);
    const largest = Buffer.alloc(512 * 1024, " ");
    for (let n = 0; n < 256; n += 1) assert.ok(bot.pushRaw(largest));
    assert.equal(bot.push({ poll: { id: "1" } }), undefined);
    assert.deepEqual(bot.refused, [{ kind: "poll", reason: "queue full" }]);
  });

  it("what ran out unfetched is not taken for confirmed, what was fetched in time is", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.tap({ from: PERSON, data: "first", message: 3 });
    bot.tap({ from: PERSON, data: "second", message: 3 });
    await ask("getUpdates", { limit: 1 });
    telegram.advance(151_000);
    await ask("getUpdates", { offset: FIRST_ID + 2 });
    assert.deepEqual(
      bot.updates.map((update) => update.fate),
      ["confirmed", "expired"],
    );
  });

  it("an update of more than 512 KiB is refused", async (t) => {
    const { bot } = await startStill(t);
    assert.throws(() => bot.say({ from: PERSON, text: "x".repeat(524_288) }), /too big/);
  });
});

describe("the webhook", () => {
  it("setting one ends the waiting call with 409, and the next poll is refused", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const waiting = ask("getUpdates", { timeout: 30 });
    await bot.whenWaiting();
    const set = await ask("setWebhook", { url: "https://example.com/hook" });
    assert.deepEqual(JSON.parse(set.text), { ok: true, result: true, description: "Webhook was set" });
    assert.equal(failureOf(await waiting).description, "Conflict: terminated by setWebhook request");
    telegram.advance(3000);
    assert.equal(
      failureOf(await ask("getUpdates", { allowed_updates: ["poll"] })).description,
      "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
    );
    assert.deepEqual(resultOf(await ask("getWebhookInfo")), {
      url: "https://example.com/hook",
      has_custom_certificate: false,
      pending_update_count: 0,
      max_connections: 40,
    });
  });

  it("what comes while one is set waits for the poller that deletes it", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.setWebhook("https://example.com/hook");
    bot.say({ from: PERSON, text: "hello" });
    assert.match((await ask("deleteWebhook")).text, /"description":"Webhook was deleted"/);
    assert.match((await ask("deleteWebhook")).text, /"description":"Webhook is already deleted"/);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID]);
  });

  it("drop_pending_updates empties the queue even when no webhook was set", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(2);
    await ask("deleteWebhook", { drop_pending_updates: true });
    assert.equal(bot.pending, 0);
    assert.deepEqual(
      bot.updates.map((update) => update.fate),
      ["dropped", "dropped"],
    );
  });

  it("a second setWebhook within a second gets 429, one during the verification ends the first with 409", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.webhookVerificationMs = 5000;
    const older = ask("setWebhook", { url: "https://example.com/first" });
    await telegram.waitFor(() => bot.requests.length === 1);
    assert.deepEqual(failureOf(await ask("setWebhook", { url: "https://example.com/second" })).parameters, {
      retry_after: 1,
    });
    telegram.advance(1000);
    assert.equal((await ask("getUpdates")).status, 409);
    telegram.advance(3000);
    const newer = ask("setWebhook", { url: "https://example.com/second" });
    assert.equal(failureOf(await older).description, "Conflict: terminated by other setWebhook");
    telegram.advance(5000);
    assert.equal((await newer).status, 200);
    assert.equal(bot.webhookUrl, "https://example.com/second");
  });

  it("an address without HTTPS or a malformed secret is refused", async (t) => {
    const { telegram, ask } = await startStill(t);
    for (const parameters of [
      { url: "http://example.com/hook" },
      { url: "https://example.com:8444/hook" },
      { url: "https://example.com/hook", secret_token: "not allowed" },
    ]) {
      assert.equal((await ask("setWebhook", parameters)).status, 400);
      telegram.advance(1000);
    }
  });
});

describe("restarts and numbering", () => {
  it("a dead client's waiting call loses no update", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const client = new AbortController();
    const dead = ask("getUpdates", { timeout: 30 }, client.signal);
    await bot.whenWaiting();
    client.abort();
    await assert.rejects(dead);
    await telegram.waitFor(() => bot.polls[0]?.end === "abandoned");
    bot.say({ from: PERSON, text: "hello" });
    telegram.advance(1);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID]);
  });

  it("a lone restarted client gets no 409 for itself", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const client = new AbortController();
    const dead = ask("getUpdates", { timeout: 30 }, client.signal);
    await bot.whenWaiting();
    client.abort();
    await assert.rejects(dead);
    const polled = bot.whenPolled();
    const restarted = ask("getUpdates", { timeout: 30 });
    await polled;
    bot.say({ from: PERSON, text: "hello" });
    telegram.advance(1);
    assert.deepEqual(idsOf(await restarted), [FIRST_ID]);
  });

  it("ids are consecutive, and a restart of the server keeps them and what is unconfirmed", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(3);
    await ask("getUpdates", { offset: FIRST_ID + 2, allowed_updates: ["message"] });
    const root = telegram.root;
    await telegram.restart();
    assert.equal(telegram.root, root);
    bot.say({ from: PERSON, text: "after" });
    assert.equal(bot.push({ poll: { id: "1" } }), undefined);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID + 2, FIRST_ID + 3]);
  });

  it("a numbering that starts again below the old offset still delivers", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(1);
    await ask("getUpdates");
    const waiting = ask("getUpdates", { offset: FIRST_ID + 1, timeout: 30 });
    await bot.whenWaiting();
    bot.renumber(3_000_000);
    assert.equal((await waiting).text, EMPTY_PAGE);
    const stale = ask("getUpdates", { offset: FIRST_ID + 1, timeout: 30 });
    await bot.whenWaiting();
    bot.say({ from: PERSON, text: "hello" });
    telegram.advance(1);
    assert.deepEqual(idsOf(await stale), [3_000_000]);
    await ask("getUpdates", { offset: 3_000_001 });
    await bot.whenConfirmed(3_000_000);
  });

  it("an update that is unconfirmed when the numbering changes comes again under another id", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.say({ from: PERSON, text: "hello" });
    const before = await ask("getUpdates");
    bot.renumber(90_000_000);
    const after = await ask("getUpdates", { offset: 1 });
    assert.equal(after.text, before.text.replace(String(FIRST_ID), "90000000"));
    await assert.rejects(bot.whenConfirmed(FIRST_ID), /renumbered/);
  });

  it("after the id 1,999,999,998 the queue is purged and the numbering starts somewhere else", async (t) => {
    const { bot } = await startStill(t, { firstUpdateId: 1_999_999_998 });
    bot.fill(2);
    assert.equal(bot.updates[0]?.updateId, 1_999_999_998);
    assert.equal(bot.updates[0]?.fate, "dropped");
    assert.ok(bot.tail > 2_000_001 && bot.tail <= 1_000_000_000);
  });
});

describe("what people do", () => {
  const fetched = z.object({ result: z.array(z.looseObject({})) });

  it("a message, an edit and a tap arrive as the server shapes them", async (t) => {
    const { bot, ask } = await startStill(t);
    const said = bot.say({ from: PERSON, text: "/start site" });
    const edited = bot.edit(said, { text: "changed" });
    const tapped = bot.tap({ from: PERSON, data: "yes", message: 1 });
    const updates = fetched.parse(JSON.parse((await ask("getUpdates")).text)).result;
    assert.deepEqual(updates, [said, edited, tapped]);
    assert.deepEqual(updates[0], {
      update_id: FIRST_ID,
      message: {
        message_id: 1,
        from: { is_bot: false, ...PERSON },
        chat: { ...PERSON, type: "private" },
        date: START / 1000,
        text: "/start site",
        entities: [{ offset: 0, length: 6, type: "bot_command" }],
      },
    });
  });

  it("the same content can come under two ids, and an id can be skipped", async (t) => {
    const { bot, ask } = await startStill(t);
    const update = bot.say({ from: PERSON, text: "hello" });
    const again = bot.repeat(update);
    assert.deepEqual(again, { ...update, update_id: FIRST_ID + 1 });
    bot.push({ update_id: FIRST_ID + 50, message: update.message });
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID, FIRST_ID + 1, FIRST_ID + 50]);
  });

  it("raw elements go out as they are, and are confirmed like any other", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.pushRaw("null");
    bot.pushRaw((updateId) => `{"update_id":${updateId},"n":9007199254740993}`);
    bot.say({ from: PERSON, text: "hello" });
    const page = await ask("getUpdates");
    assert.match(
      page.text,
      /"result":\[null,\{"update_id":40000002,"n":9007199254740993\},\{"update_id":40000003,/,
    );
    await ask("getUpdates", { offset: FIRST_ID + 3 });
    assert.equal(bot.pending, 0);
  });

  it("callback data that is not UTF-8 makes a body that is not UTF-8", async (t) => {
    const { telegram, bot } = await startStill(t);
    const raw = Buffer.from('{"update_id":40000001,"callback_query":{"data":"\xff\xfe"}}', "latin1");
    bot.pushRaw(raw);
    const response = await fetch(`${telegram.root}/bot7001:stand-in-token-that-opens-nothing/getUpdates`);
    assert.ok(Buffer.from(await response.arrayBuffer()).includes(raw));
  });
});
