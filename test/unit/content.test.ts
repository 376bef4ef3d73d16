import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { contentOf, isOwnContact, messageLink, toE164 } from "../../src/domain/content.ts";
import type { TelegramMessage } from "../../src/domain/update.ts";

const PERSON = { id: 7001, is_bot: false, first_name: "Test", last_name: "Person" };

function message(members: Record<string, unknown>): TelegramMessage {
  return {
    message_id: 9,
    date: 1_767_600_000,
    chat: { id: 7001, type: "private" },
    from: PERSON,
    ...members,
  };
}
const textOf = (members: Record<string, unknown>): string | undefined => contentOf(message(members))?.text;

describe("what a message says", () => {
  const cases: [string, Record<string, unknown>, string][] = [
    ["a text", { text: "Hello" }, "Hello"],
    ["a text with line breaks", { text: "Hello\nthere" }, "Hello\nthere"],
    ["an empty text", { text: "" }, "[empty message]"],
    ["a photo", { photo: [{}] }, "[photo]"],
    ["a photo with a caption", { photo: [{}], caption: "my roof" }, "[photo] my roof"],
    ["a voice message", { voice: { duration: 3 } }, "[voice]"],
    ["a video note", { video_note: {} }, "[video note]"],
    [
      "a document with a name",
      { document: { file_name: "plan.pdf" }, caption: "here" },
      "[document] plan.pdf here",
    ],
    ["an animation, which also carries a document", { animation: {}, document: {} }, "[animation]"],
    ["a sticker", { sticker: { emoji: "👍" } }, "[sticker] 👍"],
    ["a location", { location: { latitude: 1.5, longitude: -2 } }, "[location] 1.5, -2"],
    [
      "a venue, which also carries a location",
      { venue: { title: "Café", address: "Street 1" }, location: {} },
      "[venue] Café, Street 1",
    ],
    ["a dice", { dice: { emoji: "🎲", value: 4 } }, "[dice] 🎲 4"],
    ["a poll", { poll: { question: "When?" } }, "[poll] When?"],
    ["something that nobody knows yet", { brand_new: {} }, "[message]"],
    ["something that nobody knows yet with a caption", { brand_new: {}, caption: "look" }, "[message] look"],
    ["a media member of another shape", { photo: null, document: 17 }, "[photo]"],
  ];
  for (const [name, members, expected] of cases) {
    it(`${name}: ${expected.replaceAll("\n", " ")}`, () => assert.equal(textOf(members), expected));
  }

  it("is never empty, whatever the members hold", () => {
    const members = fc.record(
      {
        text: fc.constantFrom("", " ", "x"),
        caption: fc.constantFrom("", "x"),
        photo: fc.jsonValue(),
        document: fc.jsonValue(),
        dice: fc.jsonValue(),
        poll: fc.jsonValue(),
        venue: fc.jsonValue(),
        forward_origin: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(members, (some) => {
        const content = contentOf(message(some));
        assert.ok(content !== null && content.text.length > 0);
      }),
    );
  });

  it("is nothing for what Telegram itself writes", () => {
    for (const kind of ["new_chat_members", "pinned_message", "left_chat_member", "forum_topic_created"]) {
      assert.equal(contentOf(message({ [kind]: {} })), null, kind);
    }
  });

  it("TR-67: a file too large to fetch is described and never linked", () => {
    const document = { file_id: "F", file_name: "film.zip", file_size: 60 * 1024 * 1024 };
    assert.equal(textOf({ document }), "[document] film.zip");
  });

  it("keeps what was written exactly: NUL and lone surrogates are the renderer's work", () => {
    assert.equal(textOf({ text: "a\u0000b\ud800c" }), "a\u0000b\ud800c");
  });
});

describe("a shared contact", () => {
  const contact = { phone_number: "12025550142", first_name: "Test", last_name: "Person" };

  it("TR-54: is the sender's own number only when Telegram's user_id matches", () => {
    const own = message({ contact: { ...contact, user_id: 7001 } });
    assert.equal(isOwnContact(own), true);
    assert.deepEqual(contentOf(own), { kind: "phone", text: "[phone] +12025550142" });
  });

  it("TR-54: is somebody else's with another user_id or without one, and then named", () => {
    for (const user of [{}, { user_id: 7002 }]) {
      const foreign = message({ contact: { ...contact, ...user } });
      assert.equal(isOwnContact(foreign), false);
      assert.deepEqual(contentOf(foreign), {
        kind: "contact",
        text: "[contact] Test Person +12025550142",
      });
    }
  });

  it("is nobody's own where the message has no sender", () => {
    assert.equal(isOwnContact(message({ from: undefined, contact })), false);
  });
});

describe("a phone number", () => {
  it("TR-54: becomes E.164 with and without plus, spaces, dashes and brackets", () => {
    for (const given of ["+12025550142", "12025550142", "+1 (202) 555-0142", "1-202-555-0142"]) {
      assert.equal(toE164(given), "+12025550142", given);
    }
  });

  it("is left as it was given where it can't be read", () => {
    for (const given of ["", "+", "911", "not a number", "0049", "++", "1".repeat(40)]) {
      assert.equal(toE164(given), null, given);
    }
    assert.equal(
      textOf({ contact: { phone_number: "ask me", user_id: 7001, first_name: "Test" } }),
      "[phone] ask me",
    );
  });

  it("never throws", () => {
    fc.assert(fc.property(fc.string(), (given) => void toE164(given)));
  });
});

describe("a forwarded message", () => {
  const origins: [string, unknown, string][] = [
    [
      "a user",
      { type: "user", sender_user: { first_name: "Other", last_name: "One" } },
      "[forwarded from Other One] Hi",
    ],
    [
      "a hidden user",
      { type: "hidden_user", sender_user_name: "Hidden One" },
      "[forwarded from Hidden One] Hi",
    ],
    ["a chat", { type: "chat", sender_chat: { title: "A group" } }, "[forwarded from A group] Hi"],
    ["a channel", { type: "channel", chat: { title: "News" } }, "[forwarded from News] Hi"],
    ["a kind that nobody knows yet", { type: "never_seen" }, "[forwarded] Hi"],
  ];
  for (const [name, forward_origin, expected] of origins) {
    it(`TR-88: says that it came from ${name}`, () => {
      assert.equal(textOf({ text: "Hi", forward_origin }), expected);
    });
  }
});

describe("the link of a message", () => {
  it("exists in public and private supergroups, never in a private chat", () => {
    const linkIn = (chat: TelegramMessage["chat"]): string | null => messageLink({ ...message({}), chat });
    assert.equal(linkIn({ id: -1001234, type: "supergroup", username: "agroup" }), "https://t.me/agroup/9");
    assert.equal(linkIn({ id: -1001234, type: "supergroup" }), "https://t.me/c/1234/9");
    assert.equal(linkIn({ id: -1234, type: "group" }), null);
    assert.equal(linkIn({ id: 7001, type: "private", username: "testperson" }), null);
  });
});
