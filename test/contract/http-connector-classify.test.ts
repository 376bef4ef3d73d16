/** The table of design §6, answer by answer, without a network. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type ClassifyRules,
  classify,
  idFrom,
  readFound,
  readProbe,
  retryAfterMs,
} from "../../src/crm/classify.ts";
import type { Exchange } from "../../src/crm/http-client.ts";
import { asId, atPointer, parseJson } from "../../src/crm/pointer.ts";
import { context, find } from "./http-connector-settings.ts";

const { operation } = context();
const reference = { step: "lead", id: operation.id, code: operation.code } as const;
const NOW = Date.UTC(2026, 11, 1);

function answered(status: number, body: unknown = "", headers: Record<string, string> = {}): Exchange {
  return { kind: "answered", status, headers, body: typeof body === "string" ? body : JSON.stringify(body) };
}

function verdict(exchange: Exchange, over: Partial<ClassifyRules> = {}, step: "lead" | "note" = "lead") {
  const rules = { id: "/id", exists: null, outcomes: [], canFind: false, ...over };
  return classify(exchange, rules, { ...reference, step }, NOW);
}

function word(exchange: Exchange, over: Partial<ClassifyRules> = {}, step: "lead" | "note" = "lead"): string {
  const found = verdict(exchange, over, step);
  if (found.kind === "settled") return found.outcome.kind;
  return found.kind === "recorded" ? `${found.as} ${found.externalId}` : found.kind;
}

describe("the general rules", () => {
  const table: [number, string][] = [
    ...[400, 402, 404, 405, 406, 409, 410, 412, 413, 415, 417, 422, 423, 431, 451].map(
      (status): [number, string] => [status, "refused"],
    ),
    [401, "unauthorised"],
    [403, "ask_probe"],
    [408, "unknown"],
    [429, "not_applied"],
    ...[300, 301, 302, 303, 304, 307, 308, 500, 501, 502, 503, 504, 520, 529, 599].map(
      (status): [number, string] => [status, "unknown"],
    ),
  ];
  for (const [status, outcome] of table) {
    it(`${status} is ${outcome}, even with an id in the answer`, () => {
      assert.equal(word(answered(status, { id: "L-1" })), outcome);
    });
  }

  it("a request that never left is not_applied, one that may have left is unknown", () => {
    const failed = { kind: "failed", status: null, reason: "reset" } as const;
    assert.equal(word({ ...failed, left: false }), "not_applied");
    assert.equal(word({ ...failed, left: true }), "unknown");
    assert.equal(word({ ...failed, left: true, status: 201 }), "unknown");
  });

  it("2xx is confirmed only with an id", () => {
    assert.equal(word(answered(201, { id: "L-1" })), "confirmed L-1");
    assert.equal(word(answered(200, { id: 17 })), "confirmed 17");
    const without = [
      "",
      "null",
      "{}",
      "<html>",
      '{"id":',
      { id: null },
      { id: "" },
      { id: {} },
      { id: [1] },
      { id: true },
    ];
    for (const body of without) assert.equal(word(answered(200, body)), "unknown", JSON.stringify(body));
    assert.equal(word(answered(204)), "unknown");
  });

  it("2xx confirms by itself where the id is our own", () => {
    assert.equal(word(answered(204), { id: "reference" }), `confirmed ${operation.id}`);
    assert.equal(word(answered(500), { id: "reference" }), "unknown");
  });
});

describe("ids", () => {
  const read = (rule: string, body: unknown, headers = {}) =>
    idFrom(rule, headers, typeof body === "string" ? body : JSON.stringify(body), reference);

  it("by JSON Pointer, also with escapes, list indexes and the whole answer", () => {
    assert.equal(read("/data/0/id", { data: [{ id: "a" }] }), "a");
    assert.equal(read("/a~1b/m~0n", { "a/b": { "m~n": 5 } }), "5");
    assert.equal(read("", "2"), "2");
    assert.equal(read("", '"abc"'), "abc");
    assert.equal(read("", { id: 1 }), null);
    assert.equal(read("/id", "plain text"), null);
    assert.equal(read("/constructor/name", {}), null);
  });

  it("keep all digits of long numbers", () => {
    assert.equal(
      read("/id", '{"id":12345678901234567890,"x":0.12345678901234567890,"s":"12345678901234567890"}'),
      "12345678901234567890",
    );
    assert.equal(read("/x", '{"x":-0.5e3}'), "-500");
  });

  it("from a header's last path segment", () => {
    const id = (location: string) => read("header:Location", "", { location });
    assert.equal(id("/api/leads/L-1"), "L-1");
    assert.equal(id("https://crm.example/leads/L-1/?x=/y#z"), "L-1");
    assert.equal(id("leads(0a1b)"), "leads(0a1b)");
    assert.equal(id("/leads/a%20b"), "a b");
    assert.equal(id("/leads/100%"), "100%");
    assert.equal(id("https://crm.example"), null);
    assert.equal(read("header:Location", ""), null);
  });

  it("are nothing but texts and numbers", () => {
    for (const value of [null, undefined, "", "  ", {}, [], true, Number.NaN])
      assert.equal(asId(value), null);
    assert.equal(atPointer({ a: null }, "/a/b"), undefined);
    assert.deepEqual(parseJson("\uFEFF1"), { readable: true, value: 1 });
  });

  it("that are no JSON are told from it at once, also a megabyte of stray quotes and a long number", () => {
    // Looked through for numbers first, this would hold the whole daemon up for a quarter of an hour.
    const garbled = `"${'\\"'.repeat(500_000)} 1234567890123456`;
    assert.deepEqual(parseJson(garbled), { readable: false });
  });
});

describe("the configured outcomes", () => {
  const outcomes: ClassifyRules["outcomes"] = [
    { status: 503, body: "QUERY_LIMIT", outcome: "not_applied" },
    { status: 503, body: null, outcome: "refused" },
    { status: 200, body: '"error"', outcome: "refused" },
    { status: 417, body: null, outcome: "already" },
    { status: 500, body: "made", outcome: "confirmed" },
    { status: 403, body: "LIMIT", outcome: "not_applied" },
    { status: 400, body: "token", outcome: "unauthorised" },
    { status: 404, body: null, outcome: "unknown" },
  ];

  it("go before the general rules, the first match wins", () => {
    assert.equal(word(answered(503, "QUERY_LIMIT_EXCEEDED"), { outcomes }), "not_applied");
    assert.equal(word(answered(503, "down"), { outcomes }), "refused");
    assert.equal(word(answered(200, { error: ["UserError"], id: 1 }), { outcomes }), "refused");
    assert.equal(word(answered(403, "API LIMIT"), { outcomes }), "not_applied");
    assert.equal(word(answered(400, "bad token"), { outcomes }), "unauthorised");
    assert.equal(word(answered(404), { outcomes }), "unknown");
    assert.equal(word(answered(500, "down"), { outcomes }), "unknown");
  });

  it("confirmed still needs an id, and already still needs a proof", () => {
    assert.equal(word(answered(500, { made: 1, id: "L-1" }), { outcomes }), "confirmed L-1");
    assert.equal(word(answered(500, { made: 1 }), { outcomes }), "unknown");
    assert.equal(word(answered(417), { outcomes }), "refused");
    assert.equal(word(answered(417), { outcomes, canFind: true }), "ask_look_up");
  });
});

describe("a conflict", () => {
  const exists = { status: 409, body: "taken", id: "/existing/id", match: "/existing/ref" };
  const conflict = (existing: unknown) => answered(409, { taken: true, existing });

  it("that names our reference is already there", () => {
    assert.equal(word(conflict({ id: 9, ref: operation.id }), { exists }), "already 9");
  });

  it("that names another record is refused, even where a look-up could be asked", () => {
    assert.equal(word(conflict({ id: 9, ref: "other" }), { exists, canFind: true }), "refused");
    assert.equal(word(conflict({ id: 9, ref: `${operation.id}-2` }), { exists, canFind: true }), "refused");
  });

  it("that names nothing is left to the look-up, and refused where there is none", () => {
    assert.equal(word(answered(409, "taken"), { exists, canFind: true }), "ask_look_up");
    assert.equal(word(answered(409, "taken"), { exists }), "refused");
    const withoutMatch = { ...exists, match: null };
    assert.equal(word(conflict({ id: 9 }), { exists: withoutMatch, canFind: true }), "ask_look_up");
    assert.equal(word(conflict({ id: 9 }), { exists: withoutMatch }), "refused");
  });

  it("that proves it without the id asks for the id where it can", () => {
    assert.equal(word(conflict({ ref: operation.id }), { exists, canFind: true }), "ask_look_up");
    assert.equal(word(conflict({ ref: operation.id }), { exists }), "already null");
  });

  it("with another text is no such conflict", () => {
    assert.equal(word(answered(409, { existing: { id: 9, ref: operation.id } }), { exists }), "refused");
  });

  it("about a note is proved by the code in its text", () => {
    const note = conflict({ id: 9, ref: `Two tickets [${operation.code}]` });
    assert.equal(word(note, { exists }, "note"), "already 9");
    assert.equal(word(conflict({ id: 9, ref: operation.id }), { exists }, "note"), "refused");
  });
});

describe("Retry-After", () => {
  const after = (value: string) => retryAfterMs({ "retry-after": value }, NOW);

  it("is read in seconds and as a date", () => {
    assert.equal(after("2"), 2000);
    assert.equal(after(" 0.5 "), 500);
    assert.equal(after("Tue, 01 Dec 2026 00:00:30 GMT"), 30_000);
    assert.equal(after("0"), 0);
  });

  it("is ignored where it makes no sense", () => {
    const silly = [
      "",
      "soon",
      "-5",
      "1e9",
      "99999999999",
      "NaN",
      "Tue, 01 Dec 2020 00:00:30 GMT",

      "2026-12-02",
    ];
    for (const value of silly) assert.equal(after(value), null, value);
    assert.equal(retryAfterMs({}, NOW), null);
  });
});

describe("a look-up", () => {
  const read = (exchange: Exchange, over = {}, step: "lead" | "note" = "lead") =>
    readFound(exchange, find(over), { ...reference, step });
  const ours = { id: "L-1", external_ref: operation.id };

  it("counts hits that match, each id once", () => {
    const items = [ours, { id: "L-2", external_ref: "other" }, ours, { ...ours, id: "L-3" }];
    assert.deepEqual(read(answered(200, { items })), { kind: "answered", ids: ["L-1", "L-3"] });
    assert.deepEqual(read(answered(200, { items: [] })), { kind: "answered", ids: [] });
    assert.deepEqual(read(answered(200, { items: [{ id: 5 }] }), { match: null }), {
      kind: "answered",
      ids: ["5"],
    });
  });

  it("finds a note by the code in its text", () => {
    const items = [
      { id: 1, text: `x [${operation.code}]` },
      { id: 2, text: "x" },
    ];
    assert.deepEqual(read(answered(200, { items }), { match: "/text" }, "note"), {
      kind: "answered",
      ids: ["1"],
    });
  });

  it("of one record is answered by the record or by a status in none", () => {
    const one = { items: null };
    assert.deepEqual(read(answered(200, ours), one), { kind: "answered", ids: ["L-1"] });
    assert.deepEqual(read(answered(404), one), { kind: "answered", ids: [] });
    assert.equal(read(answered(410), one).kind, "not_answered");
    assert.deepEqual(read(answered(410), { ...one, none: [404, 410] }), { kind: "answered", ids: [] });
    assert.deepEqual(read(answered(204), { ...one, id: "reference", none: [204] }), {
      kind: "answered",
      ids: [],
    });
  });

  it("is not answered by anything else: that is no proof of absence", () => {
    const nothing: Exchange[] = [
      answered(404),
      answered(500, { items: [] }),
      answered(302, { items: [] }),
      answered(401, { items: [] }),
      answered(200, "<html>"),
      answered(200, { error: "x" }),
      answered(200, { items: null }),
      answered(200, { items: { 0: ours } }),
      answered(200, ""),
      answered(200, { items: [{ external_ref: operation.id }] }),
      { kind: "failed", left: false, status: null, reason: "refused" },
    ];
    for (const exchange of nothing)
      assert.equal(read(exchange).kind, "not_answered", JSON.stringify(exchange));
    assert.equal(read(answered(200, "null"), { items: null, match: null }).kind, "not_answered");
  });
});

describe("a probe", () => {
  it("is good below 500, but for 401, 403 and 429", () => {
    const kinds = {
      200: "good",
      302: "good",
      400: "good",
      404: "good",
      405: "good",
      401: "refused",
      403: "refused",
      429: "bad",
      500: "bad",
      503: "bad",
    };
    for (const [status, kind] of Object.entries(kinds)) {
      assert.equal(readProbe(answered(Number(status))).kind, kind, status);
    }
    assert.equal(readProbe({ kind: "failed", left: false, status: null, reason: "x" }).kind, "bad");
  });
});
