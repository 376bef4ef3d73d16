import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asBotId, asDestinationKey, asEventKey, asOperationId, LEDGER } from "../../src/domain/ids.ts";
import { decide, wants } from "../../src/domain/intake.ts";
import type { Facts, Plan, PlannedOperation } from "../../src/domain/operation.ts";
import type { ActionSettings, IntakeSettings } from "../../src/domain/settings.ts";
import { parseUpdate } from "../../src/domain/update.ts";

const BOT = asBotId(4242);
const SALES = asDestinationKey("sales");
const NOW = 1_767_600_005_000;

const ACTION: ActionSettings = {
  name: "enquiry",
  key: "enquiry",
  kind: "lead",
  when: { update: ["message"], chat: "private" },
  repeat: { rule: "each" },
  to: [SALES, LEDGER],
};

function settings(overrides: Partial<ActionSettings> = {}): IntakeSettings {
  return {
    bot: { id: BOT, username: "TestEnquiryBot" },
    actions: [{ ...ACTION, ...overrides }],
    destinations: [
      { key: SALES, kind: "http" },
      { key: LEDGER, kind: "ledger" },
    ],
  };
}

const NO_FACTS: Facts = { contact: null, takenMessages: new Map(), knownBusinessKeys: new Set() };

type Members = Record<string, unknown>;

function update(members: Members = {}, kind = "message"): ReturnType<typeof parseUpdate> {
  return parseUpdate({
    update_id: 1,
    [kind]: {
      message_id: 9,
      date: 1_767_600_000,
      chat: { id: 7001, type: "private" },
      from: {
        id: 7001,
        is_bot: false,
        first_name: "Test",
        last_name: "Person",
        username: "testperson",
        language_code: "de",
      },
      text: "Hello",
      ...members,
    },
  });
}

function planFor(members: Members = {}, config = settings(), facts = NO_FACTS, kind = "message"): Plan {
  return decide(update(members, kind), facts, NOW, config);
}

function only(plan: Plan): PlannedOperation {
  const [operation, ...others] = plan.operations;
  assert.ok(operation !== undefined && others.length === 0, `not one operation: ${plan.reason}`);
  return operation;
}

const reasonOf = (members: Members, config = settings(), kind = "message"): string | null => {
  const plan = planFor(members, config, NO_FACTS, kind);
  assert.equal(plan.state, "ignored");
  assert.deepEqual(plan.operations, []);
  return plan.reason;
};

describe("a private message", () => {
  it("is one lead with a job at every destination of the action", () => {
    const plan = planFor();
    assert.deepEqual([plan.state, plan.reason], ["accepted", null]);
    const lead = only(plan);
    assert.equal(lead.kind, "lead");
    assert.equal(lead.action, "enquiry");
    assert.equal(lead.businessKey, "lead:4242:7001:9");
    assert.deepEqual(lead.messages, ["4242:7001:9"]);
    assert.deepEqual(
      lead.jobs.map(({ destination, step, state, runAtMs, follows, externalId }) => ({
        destination,
        step,
        state,
        runAtMs,
        follows,
        externalId,
      })),
      [
        { destination: SALES, step: "lead", state: "pending", runAtMs: NOW, follows: null, externalId: null },
        // Being stored is the ledger's effect.
        {
          destination: LEDGER,
          step: "lead",
          state: "done",
          runAtMs: NOW,
          follows: null,
          externalId: lead.code,
        },
      ],
    );
  });

  it("carries what was said, by whom, when and where", () => {
    assert.deepEqual(only(planFor()).input, {
      messages: [
        {
          ref: "4242:7001:9",
          messageId: 9,
          kind: "text",
          text: "Hello",
          date: 1_767_600_000,
          link: null,
        },
      ],
      contact: {
        userId: 7001,
        firstName: "Test",
        lastName: "Person",
        username: "testperson",
        language: "de",
        phone: null,
      },
      source: { first: null, last: null },
    });
  });

  it("is the same operation at every redelivery, whatever the clock says (P2)", () => {
    const first = only(decide(update(), NO_FACTS, NOW, settings()));
    const second = only(decide(update(), NO_FACTS, NOW + 86_400_000, settings()));
    assert.deepEqual([second.id, second.code, second.businessKey], [first.id, first.code, first.businessKey]);
    assert.deepEqual(second.input, first.input);
  });

  it("brings along the phone and the sources that are known of the person", () => {
    const facts: Facts = {
      ...NO_FACTS,
      contact: { phone: "+12025550142", source: { first: "ad-1", last: "ad-2" } },
    };
    const { input } = only(planFor({}, settings(), facts));
    assert.equal(input.contact.phone, "+12025550142");
    assert.deepEqual(input.source, { first: "ad-1", last: "ad-2" });
  });

  it("TR-27: makes nothing when its message fed an operation under another update id", () => {
    const taken = { operationId: asOperationId("x"), eventKey: asEventKey("tg:4242:1:00000000") };
    const { messages } = only(planFor());
    const facts: Facts = {
      ...NO_FACTS,
      takenMessages: new Map(messages.map((message) => [message, taken])),
    };
    const plan = planFor({}, settings(), facts);
    assert.deepEqual([plan.state, plan.reason, plan.operations], ["ignored", "same_message", []]);
  });

  it("makes nothing when its business key is known", () => {
    const facts: Facts = { ...NO_FACTS, knownBusinessKeys: new Set([only(planFor()).businessKey]) };
    assert.equal(planFor({}, settings(), facts).reason, "known_operation");
  });
});

describe("the facts that a decision asks for", () => {
  it("are the person, the message and the business key of what may become a lead", () => {
    assert.deepEqual(wants(update(), settings()), {
      contact: 7001,
      messages: ["4242:7001:9"],
      businessKeys: ["lead:4242:7001:9"],
    });
  });

  it("are the person alone where no action takes the message", () => {
    assert.deepEqual(wants(update({ chat: { id: -5, type: "group" } }), settings()), {
      contact: 7001,
      messages: [],
      businessKeys: [],
    });
  });

  it("are none for what is no message", () => {
    const tap = parseUpdate({ update_id: 1, callback_query: { id: "1", from: { id: 7001 } } });
    assert.deepEqual(wants(tap, settings()), { contact: null, messages: [], businessKeys: [] });
  });
});

describe("which action takes a message", () => {
  it("is the first whose chat and update kind match", () => {
    const group = { chat: { id: -1001, type: "supergroup", title: "A group" } };
    assert.equal(reasonOf(group), "no_action");
    assert.equal(
      only(planFor(group, settings({ when: { update: ["message"], chat: "any" } }))).action,
      "enquiry",
    );
    const config = settings();
    const second = { ...ACTION, name: "second" };
    assert.equal(only(planFor({}, { ...config, actions: [...config.actions, second] })).action, "enquiry");
  });
});

describe("what makes no lead", () => {
  it("TR-22: a tap, an edit, a membership and an unknown kind, each with its reason", () => {
    const reason = (element: Members): string | null =>
      decide(parseUpdate({ update_id: 1, ...element }), NO_FACTS, NOW, settings()).reason;
    const from = { id: 7001 };
    assert.equal(reason({ callback_query: { id: "1", from, data: "x" } }), "tap_not_taken");
    assert.equal(reason({ my_chat_member: { from, chat: { id: 7001, type: "private" } } }), "bot_membership");
    assert.equal(reason({ brand_new: {} }), "unknown_kind");
    assert.equal(reasonOf({}, settings(), "edited_message"), "edits_not_taken");
  });

  it("what Telegram itself writes", () => {
    assert.equal(reasonOf({ text: undefined, pinned_message: {} }), "service_message");
  });

  it("what another bot writes", () => {
    assert.equal(reasonOf({ from: { id: 5, is_bot: true, first_name: "Bot" } }), "from_bot");
  });

  it("the copy of a channel's post in its discussion group", () => {
    const copy = { is_automatic_forward: true, sender_chat: { id: -1002, type: "channel", title: "News" } };
    assert.equal(reasonOf(copy, settings({ when: { update: ["message"], chat: "any" } })), "channel_copy");
  });
});

describe("a command", () => {
  it("makes no lead", () => {
    for (const text of ["/start", "/help", "/price please"]) assert.equal(reasonOf({ text }), "command");
  });

  it("for another bot is not ours", () => {
    assert.equal(reasonOf({ text: "/start@OtherBot abc" }), "command_for_other_bot");
    assert.equal(planFor({ text: "/start@OtherBot abc" }).contact, null);
    assert.equal(reasonOf({ text: "/start@testenquirybot" }), "command");
  });

  const payloads: [string, string | undefined][] = [
    ["/start", undefined],
    ["/start abc-_9", "abc-_9"],
    [`/start ${"x".repeat(64)}`, "x".repeat(64)],
    [`/start ${"x".repeat(65)}`, undefined],
    ["/start a b", undefined],
    ["/start a.b", undefined],
  ];
  for (const [text, source] of payloads) {
    it(`TR-77: ${text.slice(0, 20)} (${text.length} characters) gives ${source === undefined ? "no source" : "a source"}`, () => {
      const { contact } = planFor({ text });
      assert.equal(contact?.userId, 7001);
      assert.equal(contact?.source, source);
    });
  }

  it("keeps no source outside a private chat", () => {
    const group = { text: "/start abc", chat: { id: -1001, type: "supergroup" } };
    assert.equal(planFor(group).contact, null);
  });
});

describe("who a message belongs to", () => {
  const anywhere = settings({ when: { update: ["message", "channel_post"], chat: "any" } });

  it("TR-73: an anonymous admin's message is a lead of nobody, shown under the group's name", () => {
    const plan = planFor(
      {
        chat: { id: -1001, type: "supergroup", title: "A group", username: "agroup" },
        from: { id: 1087968824, is_bot: true, first_name: "Group" },
        sender_chat: { id: -1001, type: "supergroup", title: "A group", username: "agroup" },
      },
      anywhere,
    );
    assert.equal(plan.contact, null);
    const { contact } = only(plan).input;
    assert.deepEqual([contact.userId, contact.firstName, contact.username], [null, "A group", "agroup"]);
  });

  it("TR-88: a forwarded message belongs to whoever forwarded it, and says where it came from", () => {
    const { input } = only(
      planFor({ forward_origin: { type: "user", sender_user: { id: 7099, first_name: "Other" } } }),
    );
    assert.equal(input.contact.userId, 7001);
    assert.equal(input.messages[0]?.text, "[forwarded from Other] Hello");
  });

  it("TR-54: a shared number is the person's own only when Telegram's user_id matches", () => {
    const shared = (contact: Members): Plan => planFor({ text: undefined, contact });
    const own = shared({ phone_number: "12025550142", user_id: 7001, first_name: "Test" });
    assert.deepEqual(own.contact?.phone, { given: "12025550142", e164: "+12025550142" });
    assert.equal(only(own).input.contact.phone, "+12025550142");
    for (const user of [{}, { user_id: 7002 }]) {
      const foreign = shared({ phone_number: "+12025550143", first_name: "Other", ...user });
      assert.equal(foreign.contact?.phone, undefined);
      assert.equal(only(foreign).input.contact.phone, null);
    }
  });

  it("a number that can't be read is kept as it was given", () => {
    const plan = planFor({ text: undefined, contact: { phone_number: "ask me", user_id: 7001 } });
    assert.deepEqual(plan.contact?.phone, { given: "ask me", e164: null });
    assert.equal(only(plan).input.contact.phone, "ask me");
  });
});

describe("a business chat", () => {
  const config = settings({ when: { update: ["business_message"], chat: "private" } });
  const inBusiness = (members: Members = {}): Plan =>
    planFor({ business_connection_id: "BC1", ...members }, config, NO_FACTS, "business_message");

  it("TR-69: only what the customer writes makes a lead, not the owner's text nor a bot's echo", () => {
    assert.equal(only(inBusiness()).businessKey, "lead:4242:BC1:7001:9");
    const owner = inBusiness({ from: { id: 7500, is_bot: false, first_name: "Owner" } });
    assert.deepEqual([owner.state, owner.reason, owner.contact], ["ignored", "business_owner", null]);
    const echo = inBusiness({
      from: { id: 7500, is_bot: false, first_name: "Owner" },
      sender_business_bot: { id: BOT, is_bot: true, first_name: "Bot" },
    });
    assert.deepEqual([echo.state, echo.reason, echo.contact], ["ignored", "business_bot", null]);
  });

  it("TR-69: an echo counts as one even where its from is the customer", () => {
    const echo = inBusiness({ sender_business_bot: { id: BOT, is_bot: true, first_name: "Bot" } });
    assert.equal(echo.reason, "business_bot");
  });
});
