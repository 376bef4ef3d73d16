/** What people and Telegram really send, each kind as it was reported, through `accept` into the tables. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LEDGER } from "../../src/domain/ids.ts";

import {
  actionSettings,
  BOT,
  HOUR,
  type Json,
  makeWorld,
  messageUpdate,
  SALES,
  T0,
  type World,
} from "./fixtures.ts";

/** State and reason of each update of a page. */
async function verdicts(world: World, ...elements: unknown[]): Promise<string[]> {
  const { updates } = await world.accept(...elements);
  return updates.map(({ state, reason }) => (reason === null ? state : `${state}: ${reason}`));
}

const inputOf = (world: World): Json => JSON.parse(String(world.row("SELECT input FROM operations").input));

const anyChat = {
  actions: [
    actionSettings({ when: { update: ["message", "channel_post", "business_message"], chat: "any" } }),
  ],
};

describe("kinds of updates", () => {
  it("TR-17: unknown kinds and entity types are stored and never block the others", async (t) => {
    const world = await makeWorld(t);
    const entities = [{ type: "never_seen", offset: 0, length: 1 }];
    assert.deepEqual(
      await verdicts(
        world,
        { update_id: 1, brand_new: { anything: [1, 2] } },
        messageUpdate({ updateId: 2, message: { text: "Hi", entities, brand_new: {} } }),
        { update_id: 3 },
      ),
      ["ignored: unknown_kind", "accepted", "ignored: unknown_kind"],
    );
    assert.deepEqual(
      world.rows("SELECT kind, body FROM updates WHERE reason = 'unknown_kind' ORDER BY update_id"),
      [
        { kind: "brand_new", body: '{"update_id":1,"brand_new":{"anything":[1,2]}}' },
        { kind: "empty", body: '{"update_id":3}' },
      ],
    );
  });

  it("TR-22: a tap that comes again under another id makes nothing, both times", async (t) => {
    const world = await makeWorld(t);
    const tap = (updateId: number, id: string): Json => ({
      update_id: updateId,
      callback_query: { id, from: { id: 7001, is_bot: false, first_name: "Test" }, data: "d" },
    });
    assert.deepEqual(await verdicts(world, tap(1, "X"), tap(2, "Y")), [
      "ignored: tap_not_taken",
      "ignored: tap_not_taken",
    ]);
    assert.deepEqual(world.rows("SELECT * FROM jobs"), []);
    assert.deepEqual(world.row("SELECT user_id, chat_id FROM updates WHERE update_id = 1"), {
      user_id: 7001,
      chat_id: null,
    });
  });

  it("TR-34: an edit whose original was never seen crashes nothing and makes nothing", async (t) => {
    const world = await makeWorld(t);
    const edit = messageUpdate({
      updateId: 1,
      kind: "edited_message",
      message: { text: "new", edit_date: 1 },
    });
    assert.deepEqual(await verdicts(world, edit), ["ignored: edits_not_taken"]);
    assert.equal(world.row("SELECT body FROM updates").body, JSON.stringify(edit));
  });

  it("service messages, channel copies, other bots and the bot's own membership make nothing", async (t) => {
    const world = await makeWorld(t, { intake: anyChat });
    assert.deepEqual(
      await verdicts(
        world,
        messageUpdate({ updateId: 1, message: { new_chat_members: [] } }),
        messageUpdate({ updateId: 2, message: { text: "x", is_automatic_forward: true } }),
        messageUpdate({ updateId: 3, from: { is_bot: true } }),
        {
          update_id: 4,
          my_chat_member: { from: { id: 7001 }, chat: { id: 7001, type: "private" }, date: 1 },
        },
      ),
      ["ignored: service_message", "ignored: channel_copy", "ignored: from_bot", "ignored: bot_membership"],
    );
    assert.deepEqual(world.row("SELECT chat_id, user_id FROM updates WHERE update_id = 4"), {
      chat_id: 7001,
      user_id: 7001,
    });
  });

  it("a message in a chat that no action takes is ignored with its body, so that it can be decided again", async (t) => {
    const world = await makeWorld(t);
    const inGroup = messageUpdate({ updateId: 1, chat: { id: -1001, type: "supergroup" } });
    assert.deepEqual(await verdicts(world, inGroup), ["ignored: no_action"]);
    assert.equal(world.row("SELECT body FROM updates").body, JSON.stringify(inGroup));
  });
});

describe("business chats", () => {
  const inBusiness = (updateId: number, message: Json = {}, from: Json = {}): Json =>
    messageUpdate({
      updateId,
      kind: "business_message",
      from,
      message: { text: "private words", business_connection_id: "BC1", ...message },
    });

  it("that no action takes: the owner's private chats are not kept", async (t) => {
    const world = await makeWorld(t);
    assert.deepEqual(
      await verdicts(
        world,
        inBusiness(1),
        messageUpdate({ updateId: 2, kind: "edited_business_message", text: "private words" }),
        {
          update_id: 3,
          deleted_business_messages: { chat: { id: 1, type: "private", first_name: "private words" } },
        },
      ),
      ["ignored: no_action", "ignored: edits_not_taken", "ignored: unknown_kind"],
    );
    const bodies = world.rows("SELECT body FROM updates").map(({ body }) => body);
    assert.deepEqual(bodies, [null, null, null]);
  });

  it("that was quarantined and turns out to be nobody's business is not kept either", async (t) => {
    const world = await makeWorld(t);
    const intake = world.decide;
    world.decide = { wants: intake.wants, decide: () => assert.fail("a bug") };
    const { updates } = await world.accept(inBusiness(1));
    assert.equal(updates[0]?.state, "quarantined");
    assert.notEqual(
      world.row("SELECT body FROM updates").body,
      null,
      "until it is decided it must not be lost",
    );
    await world.store.redecide("quarantined", intake, T0);
    assert.deepEqual(world.row("SELECT state, body FROM updates"), { state: "ignored", body: null });
  });

  it("TR-69: only the customer's words make a lead, and neither the owner's nor a bot's echo are kept", async (t) => {
    const world = await makeWorld(t, { intake: anyChat });
    assert.deepEqual(
      await verdicts(
        world,
        inBusiness(1),
        inBusiness(2, {}, { id: 7500 }),
        inBusiness(3, { sender_business_bot: { id: BOT, is_bot: true, first_name: "Bot" } }, { id: 7500 }),
      ),
      ["accepted", "ignored: business_owner", "ignored: business_bot"],
    );
    assert.deepEqual(
      world.rows("SELECT body IS NULL AS gone FROM updates ORDER BY update_id").map(({ gone }) => gone),
      [0, 1, 1],
    );
    assert.deepEqual(
      world.rows("SELECT user_id FROM contacts").map(({ user_id }) => user_id),
      [7001],
    );
  });

  it("do not collide with the bot's own private chat with the same person", async (t) => {
    const world = await makeWorld(t, { intake: anyChat });
    assert.deepEqual(
      await verdicts(world, inBusiness(1, { message_id: 9 }), messageUpdate({ updateId: 2, messageId: 9 })),
      ["accepted", "accepted"],
    );
    const identities = world.rows("SELECT message_identity AS m FROM operation_updates ORDER BY m");
    assert.deepEqual(
      identities.map(({ m }) => m),
      ["4242:7001:9", "BC1:4242:7001:9"],
    );
  });
});

describe("commands", () => {
  it("TR-77, TR-78: /start makes no lead; its payload is the source of the first real message", async (t) => {
    const world = await makeWorld(t);
    const say = (updateId: number, text: string): Json => messageUpdate({ updateId, text });
    assert.deepEqual(
      await verdicts(
        world,
        say(1, "/start"),
        say(2, "/start code-1"),
        say(3, "/start a b"),
        say(4, "/start code-2"),
      ),
      Array(4).fill("ignored: command"),
    );
    assert.deepEqual(world.rows("SELECT * FROM jobs"), []);
    assert.deepEqual(world.row("SELECT source_first, source_last FROM contacts"), {
      source_first: "code-1",
      source_last: "code-2",
    });
    await world.accept(say(5, "Hello"));
    assert.deepEqual(inputOf(world).source, { first: "code-1", last: "code-2" });
    assert.equal(world.rows("SELECT * FROM contacts").length, 1);
    const typed = world.row("SELECT body FROM updates WHERE update_id = 3").body;
    assert.match(String(typed), /\/start a b/);
  });

  it("for another bot change nothing about the person", async (t) => {
    const world = await makeWorld(t);
    assert.deepEqual(await verdicts(world, messageUpdate({ updateId: 1, text: "/start@OtherBot x" })), [
      "ignored: command_for_other_bot",
    ]);
    assert.deepEqual(world.rows("SELECT * FROM contacts"), []);
  });
});

describe("people", () => {
  const contact = (updateId: number, members: Json): Json =>
    messageUpdate({ updateId, message: { contact: { first_name: "Test", ...members } } });

  it("TR-54: a number counts as the person's own only when Telegram's ids match, with and without plus", async (t) => {
    const world = await makeWorld(t);
    const phones = (): unknown => world.row("SELECT phone_given, phone_e164 FROM contacts");
    await world.accept(contact(1, { phone_number: "12025550143", user_id: 7002 }));
    await world.accept(contact(2, { phone_number: "+12025550144" }));
    assert.deepEqual(phones(), { phone_given: null, phone_e164: null });
    await world.accept(contact(3, { phone_number: "12025550142", user_id: 7001 }));
    assert.deepEqual(phones(), { phone_given: "12025550142", phone_e164: "+12025550142" });
    await world.accept(contact(4, { phone_number: "+1 202 555 0145", user_id: 7001 }));
    assert.deepEqual(phones(), { phone_given: "+1 202 555 0145", phone_e164: "+12025550145" });
    await world.accept(contact(5, { phone_number: "ask me", user_id: 7001 }));
    assert.deepEqual(phones(), { phone_given: "ask me", phone_e164: null });
    await world.accept(messageUpdate({ updateId: 6 }));
    assert.deepEqual(
      phones(),
      { phone_given: "ask me", phone_e164: null },
      "a plain message leaves it alone",
    );
  });

  it("are one row, with the newest names and the language that was known last", async (t) => {
    const world = await makeWorld(t);
    await world.accept(
      messageUpdate({ updateId: 1, from: { username: "one", language_code: "de" } }),
      messageUpdate({ updateId: 2, from: { username: "two", first_name: "New", last_name: undefined } }),
    );
    assert.deepEqual(world.row("SELECT user_id, username, first_name, last_name, language FROM contacts"), {
      user_id: 7001,
      username: "two",
      first_name: "New",
      last_name: null,
      language: "de",
    });
  });

  it("TR-73: an anonymous admin is nobody: no contact, and no row to be erased by that shared id", async (t) => {
    const world = await makeWorld(t, { intake: anyChat });
    const group = { id: -1001, type: "supergroup", title: "A group" };
    const anonymous = (updateId: number): Json =>
      messageUpdate({
        updateId,
        chat: group,
        from: { id: 1087968824, is_bot: true, first_name: "Group" },
        message: { text: "Hi", sender_chat: group },
      });
    assert.deepEqual(await verdicts(world, anonymous(1), anonymous(2)), ["accepted", "accepted"]);
    assert.deepEqual(world.rows("SELECT * FROM contacts"), []);
    assert.deepEqual(world.rows("SELECT DISTINCT contact_id FROM jobs"), [{ contact_id: null }]);
    assert.deepEqual(world.rows("SELECT DISTINCT user_id FROM updates"), [{ user_id: null }]);
    assert.equal((await world.claim()).length, 2, "nobody's jobs don't hold each other back");
  });

  it("TR-88: a forwarded message belongs to whoever forwarded it", async (t) => {
    const world = await makeWorld(t);
    const origin = { type: "user", sender_user: { id: 7099, first_name: "Other" }, date: 1 };
    await world.accept(messageUpdate({ updateId: 1, message: { text: "Hi", forward_origin: origin } }));
    assert.equal(world.row("SELECT user_id FROM contacts").user_id, 7001);
    assert.match(JSON.stringify(inputOf(world)), /\[forwarded from Other\] Hi/);
  });
});

describe("content", () => {
  it("TR-67: a file above 20 MB makes a lead that says so, and nothing is fetched", async (t) => {
    const world = await makeWorld(t);
    const document = {
      file_id: "F",
      file_unique_id: "U",
      file_name: "film.zip",
      file_size: 60 * 1024 * 1024,
    };
    assert.deepEqual(await verdicts(world, messageUpdate({ updateId: 1, message: { document } })), [
      "accepted",
    ]);
    assert.match(JSON.stringify(inputOf(world)), /\[document\] film\.zip/);
  });

  it("TR-81: NUL and lone surrogates are exact in the stored JSON and clean in the columns", async (t) => {
    const world = await makeWorld(t);
    const hostile = "a\u0000b\ud800c";
    const update = messageUpdate({
      updateId: 1,
      text: hostile,
      from: {
        first_name: hostile,
        last_name: "\udc00",
        username: "test\u0000person",
        language_code: "d\u0000e",
      },
    });
    assert.deepEqual(await verdicts(world, update), ["accepted"]);
    const { body } = world.row("SELECT body FROM updates");
    assert.deepEqual(JSON.parse(String(body)), update);
    assert.doesNotMatch(String(body), /[^ -~]/);
    const input = inputOf(world);
    assert.match(JSON.stringify(input.messages), /a\\u0000b\\ud800c/);
    assert.deepEqual(world.row("SELECT first_name, last_name, username, language FROM contacts"), {
      first_name: "ab\ufffdc",
      last_name: "\ufffd",
      username: "testperson",
      language: "de",
    });
    assert.equal((await world.accept(update)).duplicates, 1, "and it is recognised when it comes again");
  });

  it("TR-81: a NUL in a shared number does not cut the column", async (t) => {
    const world = await makeWorld(t);
    const contact = { phone_number: "+1202\u00005550142", user_id: 7001, first_name: "Test" };
    await world.accept(messageUpdate({ updateId: 1, message: { contact } }));
    assert.deepEqual(world.row("SELECT phone_given, phone_e164 FROM contacts"), {
      phone_given: "+12025550142",
      phone_e164: "+12025550142",
    });
  });

  it("of half a megabyte is stored whole", async (t) => {
    const world = await makeWorld(t);
    const update = messageUpdate({
      updateId: 1,
      message: { text: "ü".repeat(4_096), extra: "x".repeat(500_000) },
    });
    assert.deepEqual(await verdicts(world, update), ["accepted"]);
    assert.equal(world.row("SELECT body FROM updates").body, JSON.stringify(update));
  });

  it("keys that mean something to JavaScript are only keys", async (t) => {
    const world = await makeWorld(t);
    const update: unknown = JSON.parse(
      '{"update_id":1,"__proto__":{"message":1},"constructor":2,"message":{"message_id":9,"date":1,"text":"Hi","__proto__":{"text":"no"},"chat":{"id":7001,"type":"private"},"from":{"id":7001,"first_name":"Test"}}}',
    );
    assert.deepEqual(await verdicts(world, update), ["accepted"]);
    assert.equal(world.row("SELECT body FROM updates").body, JSON.stringify(update));
  });
});

describe("the ledger", () => {
  it("is done in the accept transaction, without an attempt, with the code as its id", async (t) => {
    const world = await makeWorld(t, { intake: { actions: [actionSettings({ to: [LEDGER, SALES] })] } });
    await world.accept(messageUpdate({ updateId: 1 }));
    const { code } = world.row("SELECT code FROM operations");
    assert.deepEqual(
      world.rows(
        "SELECT destination, state, external_id, finished_at_ms, attempts FROM jobs ORDER BY job_id",
      ),
      [
        { destination: "ledger", state: "done", external_id: code, finished_at_ms: T0, attempts: 0 },
        { destination: "sales", state: "pending", external_id: null, finished_at_ms: null, attempts: 0 },
      ],
    );
    assert.deepEqual(world.rows("SELECT * FROM attempts"), []);
  });
});

describe("the clock", () => {
  it("TR-48: stepped back two hours loses nothing and makes nothing twice", async (t) => {
    const world = await makeWorld(t);
    const first = await world.lead({ userId: 7001 });
    world.now -= 2 * HOUR;
    const second = await world.lead({ userId: 7002 });
    assert.deepEqual(
      (await world.claim()).map(({ jobId }) => jobId),
      [second],
      "what was stored before the step waits until the clock has caught up",
    );
    world.now += 2 * HOUR;
    assert.deepEqual(
      (await world.claim()).map(({ jobId }) => jobId),
      [first],
    );
    const { oldest_pending_age_s } = await world.store.status("1", T0 - HOUR);
    assert.equal(oldest_pending_age_s, null);
  });
});
