/** The connector against the CRM stand-in: what it says of each answer, and what really came to be in the CRM. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { HttpDestinationSettings, HttpStepSettings } from "../../src/domain/http-settings.ts";
import type { Outcome } from "../../src/domain/outcome.ts";
import {
  answers,
  type CrmStandIn,
  type SafetyClass,
  startCrmStandIn,
} from "../../src/stand-ins/crm/index.ts";
import {
  connector,
  contact,
  context,
  find,
  message,
  never,
  noteStep,
  send,
  step,
  storedBody,
  TOKEN,
} from "./http-connector-settings.ts";

let crm: CrmStandIn;
let made: ReturnType<typeof connector>;

async function start(
  safety: SafetyClass,
  lead: Partial<HttpStepSettings> = {},
  over: Partial<HttpDestinationSettings> = {},
): Promise<void> {
  crm = await startCrmStandIn({ safety, token: TOKEN });
  const steps = { lead: step({ safety, find: find(), ...lead }), note: noteStep(), ...over.steps };
  made = connector({ baseUrl: crm.url, ...over, steps });
}

afterEach(async () => {
  await made.close();
  await crm.close();
});

const creates = () => crm.requests.filter(({ kind }) => kind === "create").length;

describe("a create", () => {
  beforeEach(() => start("search"));

  it("that breaks our own code while it is made costs that one job, and is never sent", () => {
    const prepared = made.prepare(context({ messages: [message({ date: 9e12 })] }), undefined);
    assert.equal(prepared.kind, "unrenderable");
    assert.equal(creates(), 0);
  });

  it("makes one record, with the customer's words as they are, and tells its id and link", async () => {
    const of = context({ messages: [message({ text: '😀 "שלום"\n\u0000\ud800!' })] });
    assert.deepEqual(await send(made, of), {
      kind: "confirmed",
      status: 201,
      detail: null,
      externalId: "L-1",
      link: "https://crm.example/leads/L-1",
    });
    const [lead] = crm.leads;
    assert.equal(lead?.body.text, '😀 "שלום"\n\uFFFD!');
    assert.equal(lead?.external_ref, of.operation.id);
    assert.equal(lead?.body.phone, "+12025550123");
  });

  it("reads the id from the Location header where the configuration says so", async () => {
    await made.close();
    made = connector({ baseUrl: crm.url, steps: { lead: step({ id: "header:Location" }) } });
    const outcome = await send(made);
    assert.equal(outcome.kind === "confirmed" && outcome.externalId, "L-1");
  });

  it("a note goes to its lead and carries the operation's code", async () => {
    await send(made);
    const note = context({ step: "note", lead: { id: "L-1", link: null } });
    assert.equal((await send(made, note)).kind, "confirmed");
    assert.match(String(crm.notes[0]?.body.text), new RegExp(`${note.operation.code}\\]$`));
  });
});

describe("an answer that is not the true one", () => {
  const table: [string, ReturnType<typeof answers.status>, Outcome["kind"]][] = [
    ["a page of a captive portal", answers.htmlPage, "unknown"],
    ["success without an id", answers.withoutId, "unknown"],
    ["success with null", answers.nullBody, "unknown"],
    ["a redirect", answers.redirect(), "unknown"],
    ["an internal error", answers.internalError, "unknown"],
    ["a bad gateway", answers.badGateway, "unknown"],
    ["unavailable", answers.unavailable, "unknown"],
    ["a time-out of a server in between", answers.status(408), "unknown"],
    ["a refusal", answers.status(422, { error: "stage is missing" }), "refused"],
    ["a conflict about somebody else's phone", answers.phoneTaken, "refused"],
    ["not found", answers.status(404), "refused"],
    ["too large", answers.status(413), "refused"],
    ["unauthorised", answers.status(401), "unauthorised"],
    ["too many requests", answers.tooManyRequests(3), "not_applied"],
  ];
  for (const [name, answer, kind] of table) {
    it(`${name} is ${kind}, and the request is sent once`, async () => {
      await start("search");
      crm.fault({ on: "create", ...answer });
      const outcome = await send(made);
      assert.equal(outcome.kind, kind, JSON.stringify(outcome));
      assert.equal(outcome.status, answer.status);
      assert.equal(crm.requests.length, 1);
      if (outcome.kind === "not_applied") assert.equal(outcome.retryAfterMs, 3000);
    });
  }

  it("Retry-After as a date is counted from now", async () => {
    const now = Date.UTC(2026, 11, 1);
    await start("search");
    await made.close();
    made = connector({ baseUrl: crm.url }, { now: () => now });
    crm.fault({ on: "create", ...answers.tooManyRequests(new Date(now + 90_000)) });
    const outcome = await send(made);
    assert.equal(outcome.kind === "not_applied" && outcome.retryAfterMs, 90_000);
  });

  it("a refusal that quotes the customer and the token is kept without them", async () => {
    await start("search");
    const quoted = {
      got: { phone: "+1 202-555-0123", name: "Test Person", text: "Two tickets for Friday" },
      token: TOKEN,
    };
    crm.fault({ on: "create", ...answers.status(422, { error: "stage is missing", ...quoted }) });
    const { detail } = await send(made);
    assert.match(detail ?? "", /stage is missing/);
    assert.doesNotMatch(detail ?? "", /555|Test|Person|tickets|s3cr3t/);
  });
});

describe("what is told of an answer", () => {
  it("shows no secret in the spelling that a header or a URL gives it", async () => {
    await start("search");
    await made.close();
    const secrets = { token: TOKEN, user: "an operator", pass: "a pass/word" };
    const headers = {
      Authorization: "Bearer {{ secrets.token }}",
      "X-Login": "Basic {{ secrets.user | append: ':' | append: secrets.pass | base64_encode }}",
    };
    made = connector({ baseUrl: crm.url, headers, secretNames: Object.keys(secrets) }, { secrets });
    const login = Buffer.from("an operator:a pass/word").toString("base64");
    const said = `login ${login}, url ?p=${encodeURIComponent(secrets.pass)}, header Bearer ${TOKEN}`;
    crm.fault({ on: "create", ...answers.status(422, said) });
    const { detail } = await send(made);
    assert.equal(detail, "HTTP 422: login [secret], url ?p=[secret], header Bearer [secret]");
  });

  it("a link that can't be made is left out, and the record is confirmed all the same", async () => {
    await start("search");
    await made.close();
    const link = "https://crm.example/{{ id }}{{ message.text | where_exp: 'x', message.text }}";
    made = connector({ baseUrl: crm.url, steps: { lead: step({ link }) } });
    const outcome = await send(made, context({ messages: [message({ text: "x +++" })] }));
    assert.deepEqual([outcome.kind, outcome.kind === "confirmed" && outcome.link], ["confirmed", null]);
  });
});

describe("an answer that is lost", () => {
  for (const kind of ["apply-then-drop", "apply-then-cut", "drop"] as const) {
    it(`${kind}: unknown, and the look-up tells what became of it`, async () => {
      await start("search");
      crm.fault({ on: "create", kind });
      assert.equal((await send(made)).kind, "unknown");
      assert.equal(creates(), 1);
      const looked = await made.find(context(), never());
      const applied = kind !== "drop";
      const record = { externalId: "L-1", link: "https://crm.example/leads/L-1" };
      assert.deepEqual(looked, { kind: "answered", records: applied ? [record] : [] });
    });
  }

  it("apply-then-hang: unknown at the deadline", async () => {
    await start("search", {}, { timeoutMs: 200 });
    crm.fault({ on: "create", kind: "apply-then-hang" });
    assert.equal((await send(made)).kind, "unknown");
    assert.equal(crm.leads.length, 1);
  });

  it("is repeated under idempotency-key with the same body and makes no second record", async () => {
    const headers = { "Idempotency-Key": "{{ operation.key }}" };
    await start("idempotency-key", { headers });
    crm.fault({ on: "create", kind: "apply-then-drop" });
    const prepared = made.prepare(context(), undefined);
    assert.equal(prepared.kind, "ready");
    if (prepared.kind !== "ready") return;
    assert.equal((await prepared.send(never())).kind, "unknown");
    const edited = context({ messages: [message({ text: "edited since" })] });
    const again = made.prepare(edited, prepared.body);
    assert.equal(again.kind, "ready");
    if (again.kind !== "ready") return;
    assert.equal((await again.send(never())).kind, "confirmed");
    assert.equal(crm.leads.length, 1);
    assert.equal(crm.requests[0]?.headers["idempotency-key"], context().operation.key);
  });

  it("is repeated under external-id and found to be there already, by the conflict itself", async () => {
    const exists = { status: 409, body: null, id: "/existing/id", match: "/existing/external_ref" };
    await start("external-id", { exists, find: null });
    crm.fault({ on: "create", kind: "apply-then-drop" });
    assert.equal((await send(made)).kind, "unknown");
    assert.deepEqual(await send(made), {
      kind: "already",
      status: 409,
      detail: null,
      externalId: "L-1",
      link: "https://crm.example/leads/L-1",
    });
    assert.equal(crm.leads.length, 1);
  });

  it("is confirmed by an upsert, with our own reference as the id", async () => {
    await start("external-id", {
      method: "PUT",
      url: "leads/by-ref/{{ operation.id }}",
      id: "reference",
      find: find({ url: "leads/by-ref/{{ operation.id }}", items: null, id: "reference" }),
    });
    assert.deepEqual(await made.find(context(), never()), { kind: "answered", records: [] });
    crm.fault({ on: "create", kind: "apply-then-drop" });
    assert.equal((await send(made)).kind, "unknown");
    const outcome = await send(made);
    assert.equal(outcome.kind === "confirmed" && outcome.externalId, context().operation.id);
    assert.equal(crm.leads.length, 1);
    const found = await made.find(context(), never());
    assert.equal(found.kind === "answered" && found.records.length, 1);
  });
});

describe("a conflict that does not prove whose record it is", () => {
  const exists = { status: 409, body: null, id: null, match: null };
  beforeEach(() => start("external-id", { exists }));

  it("is ours when the look-up returns it", async () => {
    await send(made);
    const outcome = await send(made);
    assert.equal(outcome.kind === "already" && outcome.externalId, "L-1");
  });

  it("is refused when the look-up does not return it", async () => {
    crm.fault({ on: "create", ...answers.phoneTaken });
    assert.equal((await send(made)).kind, "refused");
  });

  it("is unknown when the look-up is not answered", async () => {
    await send(made);
    crm.fault({ on: "find", ...answers.unavailable });
    assert.equal((await send(made)).kind, "unknown");
  });

  it("is unknown when the look-up returns two", async () => {
    await send(made);
    crm.fault({ on: "find", kind: "duplicate", as: "other-id" });
    const outcome = await send(made);
    assert.equal(outcome.kind, "unknown");
    assert.match(outcome.detail ?? "", /L-1, L-1-copy/);
  });
});

describe("a 403", () => {
  const forbidden = answers.status(403, { error: "no right to set stage" });

  it("is about the job while the probe is good", async () => {
    await start("search", {}, { probe: "me" });
    crm.fault({ on: "create", ...forbidden });
    const outcome = await send(made);
    assert.equal(outcome.kind, "refused");
    assert.match(outcome.detail ?? "", /no right/);
    assert.deepEqual(
      crm.requests.map(({ kind }) => kind),
      ["create", "probe"],
    );
  });

  it("is about the credentials when the probe is refused too", async () => {
    await start("search", {}, { probe: "me" });
    crm.fault({ on: "create", ...forbidden });
    crm.fault({ on: "probe", ...answers.status(401) });
    assert.equal((await send(made)).kind, "unauthorised");
  });

  it("was not applied when the probe tells nothing", async () => {
    await start("search", {}, { probe: "me" });
    crm.fault({ on: "create", ...forbidden });
    crm.fault({ on: "probe", ...answers.unavailable });
    assert.equal((await send(made)).kind, "not_applied");
  });
});

describe("a look-up", () => {
  beforeEach(() => start("search"));

  it("finds each record once, and copies as what they are", async () => {
    await send(made);
    crm.fault({ on: "find", kind: "duplicate", as: "same-id" });
    const once = await made.find(context(), never());
    assert.equal(once.kind === "answered" && once.records.length, 1);
    crm.fault({ on: "find", kind: "duplicate", as: "other-id" });
    const twice = await made.find(context(), never());
    assert.equal(twice.kind === "answered" && twice.records.length, 2);
  });

  it("is answered with nothing while the index lags: the caller may not take that for proof", async () => {
    crm.fault({ on: "create", kind: "search-lag" });
    await send(made);
    assert.deepEqual(await made.find(context(), never()), { kind: "answered", records: [] });
  });

  it("is not answered by errors, pages, redirects and lost answers", async () => {
    for (const answer of [
      answers.internalError,
      answers.htmlPage,
      answers.redirect(),
      answers.status(401),
      answers.withoutId,
    ]) {
      crm.fault({ on: "find", ...answer });
      const looked = await made.find(context(), never());
      assert.equal(looked.kind, "not_answered");
      assert.equal(looked.kind === "not_answered" && looked.status, answer.status);
    }
    crm.fault({ on: "find", kind: "drop" });
    assert.equal((await made.find(context(), never())).kind, "not_answered");
    await crm.goDown();
    assert.equal((await made.find(context(), never())).kind, "not_answered");
  });

  it("finds a note by the code in its text", async () => {
    await made.close();
    const steps = {
      lead: step(),
      note: noteStep({ find: find({ url: "leads/{{ lead.id }}/notes", match: "/text" }) }),
    };
    made = connector({ baseUrl: crm.url, steps });
    await send(made);
    const note = context({ step: "note", lead: { id: "L-1", link: null } });
    await send(made, note);
    const found = await made.find(note, never());
    assert.deepEqual(found, { kind: "answered", records: [{ externalId: "N-1", link: null }] });
    assert.equal((await made.find(context({ step: "note" }), never())).kind, "not_answered");
  });

  it("is not answered where none is configured", async () => {
    const note = context({ step: "note", lead: { id: "L-1", link: null } });
    const looked = await made.find(note, never());
    assert.deepEqual(looked, { kind: "not_answered", status: null, detail: "no look-up is configured" });
  });
});

describe("a probe", () => {
  it("asks the configured address", async () => {
    await start("search", {}, { probe: "me" });
    assert.equal((await made.probe(never())).kind, "good");
    assert.deepEqual(
      crm.requests.map(({ path }) => path),
      ["/api/me"],
    );
  });

  it("else looks up a record that can't exist", async () => {
    await start("search");
    await send(made);
    assert.equal((await made.probe(never())).kind, "good");
    const [, probe] = crm.requests;
    assert.equal(probe?.kind, "find");
    assert.equal(probe?.query.external_ref, "00000000-0000-0000-0000-000000000000");
  });

  it("else asks the origin of the create's address", async () => {
    await start("search", { find: null });
    assert.equal((await made.probe(never())).kind, "good");
    assert.deepEqual(
      crm.requests.map(({ method, path }) => `${method} ${path}`),
      ["GET /"],
    );
  });

  it("never makes a record, and goes where it can when a look-up needs what is not there", async () => {
    const note = noteStep({ find: find({ url: "leads/{{ lead.id }}/notes", match: "/text" }) });
    await start("search", { find: null }, { steps: { note } });
    assert.equal((await made.probe(never())).kind, "good");
    assert.equal(crm.leads.length + crm.notes.length, 0);
  });

  it("is refused with a wrong token, and bad when the CRM is down or busy", async () => {
    await start("search");
    crm.setToken("another");
    assert.equal((await made.probe(never())).kind, "refused");
    crm.setToken(TOKEN);
    crm.fault({ on: "find", ...answers.tooManyRequests(1) });
    assert.equal((await made.probe(never())).kind, "bad");
    await crm.goDown();
    assert.equal((await made.probe(never())).kind, "bad");
  });
});

describe("contact.match", () => {
  const match = find({ url: "contacts?phone={{ contact.phone | url_encode }}", match: null });
  const contactStep = step({ url: "contacts", match, link: null });
  const person = context({ step: "contact", messages: [] });
  beforeEach(() => start("search", {}, { steps: { contact: contactStep } }));

  it("creates the person where there is none, and links the only one where there is", async () => {
    const first = await send(made, person);
    assert.equal(first.kind === "confirmed" && first.externalId, "C-1");
    const second = await send(made, person);
    assert.equal(second.kind === "confirmed" && second.externalId, "C-1");
    assert.equal(crm.contacts.length, 1);
  });

  it("creates a new one where several would do", async () => {
    await send(made, person);
    crm.fault({ on: "find-contacts", kind: "duplicate", as: "other-id" });
    const outcome = await send(made, person);
    assert.equal(outcome.kind === "confirmed" && outcome.externalId, "C-2");
  });

  it("does not search for an empty phone", async () => {
    const nameless = context({ step: "contact", messages: [], contact: contact({ phone: null }) });
    await send(made, nameless);
    assert.deepEqual(
      crm.requests.map(({ kind }) => kind),
      ["contact"],
    );
  });

  it("creates nothing when the search is not answered", async () => {
    crm.fault({ on: "find-contacts", ...answers.unavailable });
    assert.equal((await send(made, person)).kind, "not_applied");
    crm.setToken("another");
    assert.equal((await send(made, person)).kind, "unauthorised");
    assert.equal(crm.contacts.length, 0);
  });
});

describe("secrets and templates on the wire", () => {
  it("the token reaches the CRM, and the stored body is what is sent", async () => {
    await start("search");
    assert.equal((await send(made)).kind, "confirmed");
    assert.equal(crm.requests[0]?.body, storedBody(made));
  });
});
