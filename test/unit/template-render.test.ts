import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { StepContext } from "../../src/domain/connector.ts";
import type { BodyValue, HttpDestinationSettings, HttpStepSettings } from "../../src/domain/http-settings.ts";
import {
  connector,
  contact,
  context,
  message,
  noteStep,
  RecordingDispatcher,
  SECRET_MARK,
  send,
  settings,
  step,
  storedBody,
  TOKEN,
} from "../contract/http-connector-settings.ts";

function bodyOf(body: BodyValue, of?: StepContext, over: Partial<HttpStepSettings> = {}): unknown {
  return JSON.parse(storedBody(connector({ steps: { lead: step({ body, ...over }) } }), of) ?? "");
}

function textOf(source: string, of: StepContext = context()): unknown {
  return (bodyOf({ value: source }, of, { sendEmpty: true }) as { value: unknown }).value;
}

async function sent(
  over: Partial<HttpDestinationSettings>,
  of: StepContext = context(),
  secrets: Record<string, string> = { token: TOKEN },
) {
  const dispatcher = new RecordingDispatcher();
  await send(connector(over, { dispatcher, secrets }), of);
  return dispatcher.last;
}

function unrenderable(over: Partial<HttpDestinationSettings>, of: StepContext = context()) {
  const dispatcher = new RecordingDispatcher();
  const prepared = connector(over, { dispatcher }).prepare(of, undefined);
  assert.equal(prepared.kind, "unrenderable");
  assert.equal(dispatcher.requests.length, 0);
  return prepared.kind === "unrenderable" ? prepared : assert.fail();
}

describe("variables", () => {
  it("tell everything that design §8 names", () => {
    const of = context({
      lead: { id: "L-1", link: "https://crm.example/leads/L-1" },
      contactRecordId: "C-1",
    });
    const told = {
      "{{ operation.id }}": of.operation.id,
      "{{ operation.key }}": of.operation.key,
      "{{ operation.code }}": of.operation.code,
      "{{ operation.created_at }}": "2026-12-01T00:00:01Z",
      "{{ contact.id }}": 42,
      "{{ contact.name }}": "Test Person",
      "{{ contact.first_name }}": "Test",
      "{{ contact.last_name }}": "Person",
      "{{ contact.username }}": "test_person",
      "{{ contact.phone }}": "+12025550123",
      "{{ contact.language }}": "en",
      "{{ contact.link }}": "https://t.me/test_person",
      "{{ contact.record_id }}": "C-1",
      "{{ message.text }}": "Two tickets for Friday, please",
      "{{ message.kind }}": "text",
      "{{ message.date }}": "2026-12-01T00:00:00Z",
      "{{ message.ref }}": "7:42:1",
      "{{ message.link }}": null,
      "{{ source.first }}": "spring-ad",
      "{{ source.last }}": null,
      "{{ action }}": "enquiry",
      "{{ bot.id }}": 7,
      "{{ bot.username }}": "test_bot",
    };
    for (const [source, value] of Object.entries(told)) assert.deepEqual(textOf(source, of), value, source);
  });

  it("call a contact by name, else by username, else by id", () => {
    const named = (firstName: string | null, lastName: string | null, username: string | null) =>
      textOf("{{ contact.name }}", context({ contact: contact({ firstName, lastName, username }) }));
    assert.equal(named("Test", "Person", "test_person"), "Test Person");
    assert.equal(named("Test", null, null), "Test");
    assert.equal(named(null, "Person", null), "Person");
    assert.equal(named("  ", null, "test_person"), "test_person");
    assert.equal(named(null, null, null), "42");
  });

  it("link a contact without a username by id", () => {
    assert.equal(
      textOf("{{ contact.link }}", context({ contact: contact({ username: null }) })),
      "tg://user?id=42",
    );
  });

  it("join the texts of several messages in order and take the rest from the first", () => {
    const messages = [
      message({ text: "first", kind: "photo", ref: "7:42:1" }),
      message({ text: "second", kind: "text", ref: "7:42:2", date: 1_796_083_260 }),
    ];
    const of = context({ messages });
    assert.equal(textOf("{{ message.text }}", of), "first\nsecond");
    assert.equal(
      textOf("{{ message.kind }} {{ message.ref }} {{ message.date }}", of),
      "photo 7:42:1 2026-12-01T00:00:00Z",
    );
  });

  it("are null, not missing, where there is no message", () => {
    assert.equal(textOf("{{ message.text }}", context({ messages: [] })), null);
    assert.equal(textOf("{{ message.date | default: 'never' }}", context({ messages: [] })), "never");
  });
});

describe("a body", () => {
  it("nests as TOML does and keeps the types of TOML and of lone values", () => {
    const body = {
      fields: { name: "{{ contact.name }}", id: "{{ contact.id }}", text: "no. {{ contact.id }}" },
      tags: ["telegram", "{{ source.first }}"],
      pipeline: 3,
      rate: 0.5,
      urgent: true,
    };
    assert.deepEqual(bodyOf(body), {
      fields: { name: "Test Person", id: 42, text: "no. 42" },
      tags: ["telegram", "spring-ad"],
      pipeline: 3,
      rate: 0.5,
      urgent: true,
    });
  });

  it("leaves out members that render to nothing, and tables and lists that lose everything by it", () => {
    const of = context({ contact: contact({ phone: null, lastName: "" }) });
    const body = {
      phone: "{{ contact.phone }}",
      last: "{{ contact.last_name }}",
      phones: [{ value: "{{ contact.phone }}" }],
      conditional: "{% if contact.phone %}has one{% endif %}",
      kept: { a: "x", b: "{{ contact.phone }}" },
      untouched: [],
    };
    assert.deepEqual(bodyOf(body, of), { kept: { a: "x" }, untouched: [] });
  });

  it("keeps them with send_empty", () => {
    const of = context({ contact: contact({ phone: null, lastName: "" }) });
    const body = {
      phone: "{{ contact.phone }}",
      last: "{{ contact.last_name }}",
      list: ["{{ contact.phone }}"],
    };
    assert.deepEqual(bodyOf(body, of, { sendEmpty: true }), { phone: null, last: "", list: [null] });
  });

  it("is an empty object when everything in it renders to nothing", () => {
    assert.deepEqual(bodyOf({ link: "{{ message.link }}" }), {});
  });

  it("carries what the customer wrote, letter by letter", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1 }), (text) => {
        assert.equal(
          textOf("{{ message.text }}", context({ messages: [message({ text })] })),
          text.replaceAll("\0", ""),
        );
      }),
    );
    for (const text of [
      "👩‍👩‍👧 🇺🇦",
      "שלום עולם",
      "\u202Eabc",
      "a\r\n\tb",
      '"\\/',
      "{{ secrets.token }}",
      "{% if %}",
    ]) {
      assert.equal(textOf("{{ message.text }}", context({ messages: [message({ text })] })), text);
    }
  });

  it("carries no NUL and no lone surrogate, not even one made by a filter", () => {
    const text = "a\u0000b\ud800c\udc00d";
    const of = context({ messages: [message({ text })] });
    assert.equal(textOf("{{ message.text }}", of), "ab\uFFFDc\uFFFDd");
    const cut = context({ messages: [message({ text: "abc😀" })] });
    assert.equal(textOf("{{ message.text | split: '' | last }}", cut), "\uFFFD");
    assert.equal(textOf("{{ message.text | url_encode }}", of), "ab%EF%BF%BDc%EF%BF%BDd");
  });

  it("as a form is URL-encoded, nested members in brackets", async () => {
    const form = {
      "fields[TITLE]": "{{ contact.name }} & Co",
      phones: [{ value: "{{ contact.phone }}" }],
      none: "{{ message.link }}",
      n: 1,
    };
    const { body, headers } = await sent({ steps: { lead: step({ body: null, form }) } });
    assert.equal(headers["content-type"], "application/x-www-form-urlencoded");
    assert.deepEqual(
      [...new URLSearchParams(body ?? "")],
      [
        ["fields[TITLE]", "Test Person & Co"],
        ["phones[0][value]", "+12025550123"],
        ["n", "1"],
      ],
    );
  });

  it("given as text is sent as it stands: JSON if it is JSON, else plain text, unless a header says otherwise", async () => {
    const json = '{"name": {{ contact.name | json }} }';
    const asJson = await sent({ steps: { lead: step({ body: json }) } });
    assert.equal(asJson.body, '{"name": "Test Person" }');
    assert.equal(asJson.headers["content-type"], "application/json");
    const xml = "<lead>{{ contact.name | escape }}</lead>";
    const asText = await sent({ steps: { lead: step({ body: xml }) } });
    assert.equal(asText.body, "<lead>Test Person</lead>");
    assert.equal(asText.headers["content-type"], "text/plain; charset=utf-8");
    const own = { "Content-Type": "application/xml" };
    const asXml = await sent({ steps: { lead: step({ body: xml, headers: own }) } });
    assert.equal(asXml.headers["content-type"], "application/xml");
  });

  it("that is stored is sent again byte for byte, whatever the input has become", async () => {
    const dispatcher = new RecordingDispatcher();
    const made = connector({}, { dispatcher });
    const stored = storedBody(made);
    const edited = context({ messages: [message({ text: "changed" })] });
    const again = made.prepare(edited, stored);
    assert.equal(again.kind, "ready");
    if (again.kind !== "ready") return;
    assert.equal(again.body, stored);
    await again.send(new AbortController().signal);
    assert.equal(dispatcher.last.body, stored);
  });

  it("is not sent where none is configured", async () => {
    const { body, headers } = await sent({ steps: { lead: step({ body: null }) } });
    assert.equal(body, null);
    assert.equal(headers["content-type"], undefined);
  });
});

describe("secrets", () => {
  const secret = 'quote " backslash \\ newline \n & = % 😀';

  it("in a body are stored as placeholders and sent as they are, in every kind of body", async () => {
    const template = "Token {{ secrets.token }}!";
    const kinds: { over: Partial<HttpStepSettings>; read: (body: string) => string | null }[] = [
      { over: { body: { auth: template } }, read: (body) => JSON.parse(body).auth },
      {
        over: { body: null, form: { auth: template } },
        read: (body) => new URLSearchParams(body).get("auth"),
      },
      { over: { body: `{"auth":"${template}"}` }, read: (body) => JSON.parse(body).auth },
      { over: { body: `auth: ${template}` }, read: (body) => body.slice("auth: ".length) },
    ];
    for (const { over, read } of kinds) {
      const destination = { headers: {}, steps: { lead: step(over) } };
      const { body } = await sent(destination, context(), { token: secret });
      assert.equal(read(body ?? ""), `Token ${secret}!`);
      const stored = storedBody(connector(destination, { secrets: { token: secret } }));
      assert.ok(stored?.includes(SECRET_MARK));
      assert.ok(!stored?.includes("backslash"));
    }
  });

  it("can't be asked for by a customer, not even by one who knows the mark", async () => {
    const hex = Buffer.from("token").toString("hex");
    const text = `{{ secrets.token }} ${SECRET_MARK}x${hex}x and \u0000${SECRET_MARK}x${hex}x`;
    const of = context({
      messages: [message({ text })],
      contact: contact({ firstName: `${SECRET_MARK}x${hex}x` }),
    });
    const { body } = await sent({}, of);
    assert.ok(body?.includes("{{ secrets.token }}"));
    assert.ok(!body?.includes(TOKEN));
  });

  it("that the configuration lost make a stored body unrenderable", () => {
    const lead = step({ body: { auth: "{{ secrets.token }}" } });
    const stored = storedBody(connector({ steps: { lead } }));
    const later = connector({ headers: {}, secretNames: [], steps: { lead: step() } }, { secrets: {} });
    const prepared = later.prepare(context(), stored);
    assert.equal(prepared.kind, "unrenderable");
    if (prepared.kind === "unrenderable") assert.match(prepared.message, /"token"/);
  });

  it("are masked in a preview", () => {
    const made = connector({
      steps: {
        lead: step({
          url: "leads?key={{ secrets.token }}",
          body: { auth: "{{ secrets.token }}", name: "{{ contact.name }}" },
        }),
      },
    });
    const { method, url, headers, body } = made.preview(context());
    assert.equal(method, "POST");
    assert.equal(url, "http://127.0.0.1:9/api/leads?key=[secret]");
    assert.equal(headers.authorization, "Bearer [secret]");
    assert.equal(body, '{"auth":"[secret]","name":"Test Person"}');
  });
});

describe("URLs and headers", () => {
  const joined: [string | null, string, string][] = [
    ["https://crm.example/api", "leads", "https://crm.example/api/leads"],
    ["https://crm.example/api/", "/leads", "https://crm.example/api/leads"],
    ["https://crm.example/api//", "leads/", "https://crm.example/api/leads/"],
    ["https://crm.example/api", "?method=add", "https://crm.example/api?method=add"],
    ["https://crm.example/api", "https://other.example/x", "https://other.example/x"],
    [null, "https://other.example/x", "https://other.example/x"],
    ["https://crm.example/rest/{{ secrets.token }}", "add", `https://crm.example/rest/${TOKEN}/add`],
    [
      "https://crm.example",
      "leads?q={{ message.text | url_encode }}",
      "https://crm.example/leads?q=Two+tickets+for+Friday%2C+please",
    ],
    ["https://crm.example", "leads?link={{ message.link }}", "https://crm.example/leads?link="],
  ];
  for (const [baseUrl, url, whole] of joined) {
    it(`${baseUrl ?? "no base URL"} and ${url}`, async () => {
      assert.equal((await sent({ baseUrl, steps: { lead: step({ url }) } })).url, whole);
    });
  }

  it("an empty value in the path is unrenderable, with the place and without any value", () => {
    const { template, message: said } = unrenderable(
      { steps: { note: noteStep() } },
      context({ step: "note" }),
    );
    assert.equal(template, "crm.sales.note.url");
    assert.match(said, /lead\.id/);
  });

  it("a filter that fails is unrenderable", () => {
    const lead = step({
      body: { x: "{{ source.last | default: message.text | where_exp: 'x', message.text }}" },
    });
    const made = settings({ steps: { lead } });
    assert.equal(
      unrenderable({ steps: made.steps }, context({ messages: [message({ text: "x +++" })] })).template,
      "crm.sales.lead.body.x",
    );
  });

  it("a step that is not configured is unrenderable", () => {
    assert.equal(unrenderable({}, context({ step: "note" })).template, "crm.sales.note");
  });

  it("a step's header replaces the destination's of the same name, and one without a value is left out", async () => {
    const { headers } = await sent({
      headers: {
        Authorization: "Bearer {{ secrets.token }}",
        "X-Source": "all",
        "X-Off": "on",
        "X-Link": "{{ message.link }}",
      },
      steps: {
        lead: step({
          headers: { "x-source": "lead", "x-off": "", "Idempotency-Key": "{{ operation.key }}" },
        }),
      },
    });
    assert.equal(headers.authorization, `Bearer ${TOKEN}`);
    assert.equal(headers["x-source"], "lead");
    assert.equal(headers["idempotency-key"], context().operation.key);
    assert.ok(!("x-link" in headers) && !("x-off" in headers));
  });

  it("a header can't be split or broken by what a customer wrote", () => {
    const lead = step({ headers: { "X-Text": "{{ message.text }}" } });
    for (const text of ["a\r\nX-Evil: 1", "привет"]) {
      const { template } = unrenderable({ steps: { lead } }, context({ messages: [message({ text })] }));
      assert.equal(template, "crm.sales.lead.headers.X-Text");
    }
  });
});
