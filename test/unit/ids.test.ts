import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  asBotId,
  asBusinessKey,
  eventKey,
  hash8,
  idempotencyKey,
  leadKey,
  messageIdentity,
  operationCode,
  operationId,
} from "../../src/domain/ids.ts";

const BOT = asBotId(4242);
const ref = { botId: BOT, chatId: 7001, messageId: 9, businessConnectionId: null };

describe("event key", () => {
  it("names the bot, the update's number and the first 8 hex of the hash of its bytes", () => {
    assert.equal(eventKey(BOT, 17, "{}"), "tg:4242:17:44136fa3");
  });

  it("says none where an element has no valid number", () => {
    assert.equal(eventKey(BOT, null, "{}"), "tg:4242:none:44136fa3");
  });

  it("keeps number zero apart from no number", () => {
    assert.notEqual(eventKey(BOT, 0, "{}"), eventKey(BOT, null, "{}"));
  });

  it("differs when the same number comes with other content", () => {
    assert.notEqual(eventKey(BOT, 17, '{"a":1}'), eventKey(BOT, 17, '{"a":2}'));
  });
});

describe("message identity", () => {
  it("is bot, chat and message", () => {
    assert.equal(messageIdentity(ref), "4242:7001:9");
  });

  it("has the business connection in front, so that it can't collide with the bot's own private chat", () => {
    assert.equal(messageIdentity({ ...ref, businessConnectionId: "BC1" }), "BC1:4242:7001:9");
    assert.notEqual(messageIdentity({ ...ref, businessConnectionId: "BC1" }), messageIdentity(ref));
  });
});

describe("operation id", () => {
  it("is the same for ever: changing it would give every lead a new identity in every CRM", () => {
    const key = leadKey(ref);
    assert.equal(key, "lead:4242:7001:9");
    assert.equal(operationId(key), "eaa492e7-b00f-57d0-8f55-49b9a9e56d1f");
    assert.equal(operationCode(operationId(key)), "XAJ9-5SXG-1XYG");
  });

  it("keeps two chats, two messages and two connections apart", () => {
    const keys = [
      leadKey(ref),
      leadKey({ ...ref, chatId: 7002 }),
      leadKey({ ...ref, messageId: 10 }),
      leadKey({ ...ref, businessConnectionId: "BC1" }),
      leadKey({ ...ref, botId: asBotId(4243) }),
    ];
    assert.equal(new Set(keys.map(operationId)).size, keys.length);
  });
});

describe("operation code", () => {
  it("is twelve base32 characters in groups of four, without the letters that people mix up", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const code = operationCode(operationId(asBusinessKey(text)));
        assert.match(code, /^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}$/);
      }),
    );
  });

  it("depends on every one of the id's first bits but not on the version digit", () => {
    const base = "00000000-0000-5000-8000-000000000000";
    // The `as` inside `operationId` is for computed ids; here the bits themselves are the subject.
    const codeOf = (id: string): string => operationCode(id as ReturnType<typeof operationId>);
    assert.equal(codeOf(base), "0000-0000-0000");
    assert.equal(codeOf("00000000-0000-4000-8000-000000000000"), codeOf(base));
    assert.equal(codeOf("00000000-0000-5001-8000-000000000000"), "0000-0000-0001");
    assert.equal(codeOf("80000000-0000-5000-8000-000000000000"), "G000-0000-0000");
  });
});

describe("idempotency key", () => {
  const id = operationId(leadKey(ref));

  it("is the operation id itself at first", () => {
    assert.equal(idempotencyKey(id, 1), id);
  });

  it("gets a number after each retry by an operator", () => {
    assert.equal(idempotencyKey(id, 2), `${id}-2`);
    assert.equal(idempotencyKey(id, 3), `${id}-3`);
  });
});

describe("hash8", () => {
  it("hashes the UTF-8 bytes", () => {
    assert.equal(hash8("é"), "4a99557e");
  });
});
