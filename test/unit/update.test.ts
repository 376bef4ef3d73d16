import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { asBotId } from "../../src/domain/ids.ts";
import {
  commandOf,
  kindOf,
  MalformedUpdateError,
  messageRef,
  parseUpdate,
  senderOf,
  type TelegramMessage,
  updateIdOf,
  updateKind,
} from "../../src/domain/update.ts";

const PERSON = { id: 7001, is_bot: false, first_name: "Test" };
const CHAT = { id: 7001, type: "private" };

function message(members: Record<string, unknown> = {}): TelegramMessage {
  const { content } = parseUpdate({
    update_id: 1,
    message: { message_id: 9, date: 1_767_600_000, chat: CHAT, from: PERSON, ...members },
  });
  assert.ok("message" in content);
  return content.message;
}

describe("the number of an update", () => {
  it("is any whole number that fits Telegram's signed 32 bits", () => {
    for (const id of [0, 1, 1_999_999_999]) assert.equal(updateIdOf({ update_id: id }), id);
  });

  it("is none where it is missing, negative, a fraction, a text, or so large that the next offset would wrap", () => {
    const bad = [undefined, null, -1, 1.5, "17", Number.NaN, 2 ** 31 - 1, 2 ** 31, 2 ** 53];
    for (const id of bad) assert.equal(updateIdOf({ update_id: id }), null, String(id));
  });

  it("is none where the element is no object", () => {
    for (const element of [null, undefined, 17, "17", [], [17]]) assert.equal(updateIdOf(element), null);
  });
});

describe("parsing an update", () => {
  it("TR-17: takes an entity type, a chat type, a member and a whole kind that nobody has seen before", () => {
    const update = parseUpdate({
      update_id: 1,
      message: {
        message_id: 9,
        date: 1_767_600_000,
        chat: { id: 5, type: "never_seen", brand_new: true },
        from: { ...PERSON, brand_new: {} },
        text: "Hello",
        entities: [{ type: "never_seen", offset: 0, length: 5 }],
        brand_new: [1],
      },
    });
    assert.equal(updateKind(update), "message");
    const unknown = parseUpdate({ update_id: 2, brand_new: { anything: true } });
    assert.deepEqual(unknown, { updateId: 2, content: { kind: "unknown", name: "brand_new" } });
  });

  it("calls an update without content empty", () => {
    assert.equal(updateKind(parseUpdate({ update_id: 3 })), "empty");
  });

  it("refuses an element that is no object, or has no valid number", () => {
    for (const element of [null, 17, "x", [], {}, { update_id: -1, message: {} }]) {
      assert.throws(() => parseUpdate(element), MalformedUpdateError);
    }
  });

  it("says where a message has another shape, and never what stands there (P5)", () => {
    const update = {
      update_id: 4,
      message: {
        message_id: 9,
        date: "a secret date",
        chat: { id: "secret words", type: "private" },
        from: PERSON,
        text: { secret: "secret words" },
      },
    };
    assert.throws(
      () => parseUpdate(update),
      (error) => {
        assert.ok(error instanceof MalformedUpdateError);
        for (const path of ["message.date", "message.chat.id", "message.text"]) {
          assert.ok(error.message.includes(path), error.message);
        }
        assert.doesNotMatch(error.message, /secret/);
        return true;
      },
    );
  });

  it("refuses a date that no calendar has: it would break whatever writes it later", () => {
    for (const date of [-1, 9e12, 1.5]) {
      assert.throws(
        () => parseUpdate({ update_id: 5, message: { message_id: 9, date, chat: CHAT } }),
        MalformedUpdateError,
      );
    }
  });

  it("finds the message in each of the six kinds that carry one", () => {
    const kinds = [
      "message",
      "edited_message",
      "channel_post",
      "edited_channel_post",
      "business_message",
      "edited_business_message",
    ];
    for (const kind of kinds) {
      const { content } = parseUpdate({
        update_id: 1,
        [kind]: { message_id: 9, date: 1_767_600_000, chat: CHAT },
      });
      assert.equal(content.kind, kind);
      assert.ok("message" in content);
    }
  });

  it("never throws anything but MalformedUpdateError, whatever comes", () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom("message", "callback_query", "my_chat_member"),
        (value, kind) => {
          try {
            parseUpdate({ update_id: 1, [kind]: value });
          } catch (error) {
            assert.ok(error instanceof MalformedUpdateError);
          }
        },
      ),
    );
  });
});

describe("the kind of an element", () => {
  it("is told also of one that can't be parsed", () => {
    assert.equal(kindOf({ update_id: 1, message: 17 }), "message");
    assert.equal(kindOf({ brand_new: {}, business_message: {}, update_id: 1 }), "business_message");
    assert.equal(kindOf({ update_id: 1, brand_new: {} }), "brand_new");
    assert.equal(kindOf({ update_id: 1 }), "empty");
    for (const element of [null, 17, "x", []]) assert.equal(kindOf(element), "malformed");
  });
});

describe("the sender of a message", () => {
  it("is who stands in from", () => {
    assert.equal(senderOf(message())?.userId, 7001);
  });

  it("TR-73: is nobody for an anonymous admin, whose from is one service account for everybody", () => {
    const anonymous = message({
      from: { id: 1087968824, is_bot: true, first_name: "Group" },
      sender_chat: { id: -1001, type: "supergroup", title: "A group" },
    });
    assert.equal(senderOf(anonymous), null);
  });

  it("is nobody for a channel post", () => {
    assert.equal(senderOf(message({ from: undefined })), null);
  });
});

describe("the reference of a message", () => {
  it("carries the business connection where there is one", () => {
    const ref = { botId: asBotId(4242), chatId: 7001, messageId: 9 };
    assert.deepEqual(messageRef(ref.botId, message()), { ...ref, businessConnectionId: null });
    assert.deepEqual(messageRef(ref.botId, message({ business_connection_id: "BC1" })), {
      ...ref,
      businessConnectionId: "BC1",
    });
  });
});

describe("a command", () => {
  const cases: [string, ReturnType<typeof commandOf>][] = [
    ["/start", { name: "start", addressee: null, rest: "" }],
    ["/start abc-_9", { name: "start", addressee: null, rest: "abc-_9" }],
    ["/START@TestBot  abc ", { name: "start", addressee: "testbot", rest: "abc" }],
    ["/help\nplease", { name: "help", addressee: null, rest: "please" }],
    ["/start a b", { name: "start", addressee: null, rest: "a b" }],
    ["/", null],
    ["/etc/passwd is what I mean", null],
    ["/start.", null],
    ["hello /start", null],
    [" /start", null],
    ["", null],
  ];
  for (const [text, expected] of cases) {
    it(`${JSON.stringify(text)} is ${expected === null ? "no command" : `the command ${expected.name}`}`, () => {
      assert.deepEqual(commandOf(message({ text })), expected);
    });
  }

  it("is only read from a text, not from a caption", () => {
    assert.equal(commandOf(message({ caption: "/start", photo: [] })), null);
  });
});
