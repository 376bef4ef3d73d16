import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DETAIL_CHARS, type KnownValues, maskedDetail } from "../../src/crm/mask.ts";

function known(over: Partial<KnownValues>): KnownValues {
  return { secrets: [], phones: [], names: [], texts: [], ...over };
}

describe("a detail", () => {
  it("keeps the first 500 characters of what was said", () => {
    assert.equal(maskedDetail("x".repeat(2000), known({})), "x".repeat(DETAIL_CHARS));
    assert.equal(maskedDetail("no such field: stage", known({})), "no such field: stage");
  });

  it("shows no phone number, however the CRM writes it", () => {
    for (const written of ["+12025550123", "12025550123", "(202) 555-0123", "2025550123", "202-555-01-23"]) {
      const detail = maskedDetail(`phone ${written} is taken`, known({ phones: ["+12025550123"] }));
      assert.equal(detail.replace(/\(?\[phone\]/, "[phone]"), "phone [phone] is taken", written);
    }
  });

  it("shows no international number that it does not know, but leaves other numbers alone", () => {
    for (const written of ["+12025550123", "+1 202 555 0123", "+1 (202) 555-0123"])
      assert.equal(
        maskedDetail(`${written} is taken`, known({ texts: ["my number is 202.555.0123"] })),
        "[phone] is taken",
      );
    assert.equal(
      maskedDetail("record 12025550123, 3 + 4, +30 days", known({})),
      "record 12025550123, 3 + 4, +30 days",
    );
  });

  it("shows no name, not even one of two letters, but leaves words alone that only contain it", () => {
    const values = known({ names: ["Test Person", "Test", "王伟", "An"] });
    assert.equal(
      maskedDetail("TEST PERSON, test, 王伟 and An: another answer", values),
      "[name], [name], [name] and [name]: another answer",
    );
  });

  it("shows no message text, whole, cut or escaped", () => {
    const values = known({ texts: ['Hello there,\nmy "new" address is 5 Elm Street'] });
    const said = [
      '{"value":"Hello there,\\nmy \\"new\\" address is 5 Elm Street"}',
      'too long: Hello there, my "new" addr…',
      "near 'address is 5 Elm Street'",
    ];
    for (const one of said) {
      const detail = maskedDetail(one, values);
      assert.match(detail, /\[text\]/);
      assert.doesNotMatch(detail, /Hello|new|Elm/, one);
    }
  });

  it("shows no text that the CRM spells in \\u escapes", () => {
    const text = "Добрый день, два билета";
    const escaped = [...text].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
    assert.equal(maskedDetail(`{"m":"${escaped}"}`, known({ texts: [text] })), '{"m":"[text]"}');
  });

  it("shows no secret, nor a piece of one, nor one that the cut would split", () => {
    const values = known({ secrets: ["s3cr3t-token-value", "abc"] });
    assert.equal(maskedDetail("Bearer s3cr3t-token-value", values), "Bearer [secret]");
    assert.equal(maskedDetail("token s3cr3t-tok… is wrong", values), "token [secret]… is wrong");
    const split = maskedDetail(`${"x".repeat(DETAIL_CHARS - 4)}.s3cr3t-token-value`, values);
    assert.doesNotMatch(split, /s3c/);
  });

  it("masks what looks like a pattern literally", () => {
    assert.equal(maskedDetail("a name: C++ (x) [y]", known({ names: ["C++ (x) [y]"] })), "a name: [name]");
  });
});
