/** The CRM stand-in keeps what the other tests build on: what it creates, what it answers, and what it does wrong. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { after, afterEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent, Client, request as send } from "undici";
import { answers, type CrmOptions, type CrmStandIn, startCrmStandIn } from "../../src/stand-ins/crm/index.ts";

const lead = { external_ref: "op-1", name: "Test Person", phone: "+12025550101", text: "Hello" };

const agent = new Agent();
after(() => agent.close());

const running: CrmStandIn[] = [];
afterEach(async () => {
  for (const crm of running.splice(0)) await crm.close();
});

async function start(options: Partial<CrmOptions> = {}): Promise<CrmStandIn> {
  const crm = await startCrmStandIn({ safety: "search", ...options });
  running.push(crm);
  return crm;
}

interface Sent {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

interface Got {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  /** The parsed body; undefined where it is not JSON. */
  body: unknown;
}

/** One request; objects are sent as JSON, strings as they are. */
async function call(crm: CrmStandIn, path: string, sent: Sent = {}): Promise<Got> {
  const { body, headers = {}, signal } = sent;
  const method = sent.method ?? (body === undefined ? "GET" : "POST");
  const answer = await send(crm.url + path, {
    dispatcher: agent,
    // undici's type lists the methods; the tests name only those.
    method: method as "GET",
    headers: { "content-type": "application/json", ...headers },
    body: body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, headers: answer.headers, text, body: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const createLead = (crm: CrmStandIn, sent: Sent = {}) => call(crm, "/leads", { body: lead, ...sent });
const findLead = (crm: CrmStandIn, ref = lead.external_ref) => call(crm, `/leads?external_ref=${ref}`);
const withKey = (key: string) => ({ "idempotency-key": key });

/** The client gives up on the request as soon as `moment` has come; resolves when it has. */
async function giveUpAfter(moment: Promise<unknown>, client: (signal: AbortSignal) => Promise<unknown>) {
  const control = new AbortController();
  const result = assert.rejects(client(control.signal), { name: "AbortError" });
  await moment;
  control.abort();
  await result;
}

describe("a CRM that works", () => {
  test("a create answers 201 with the id and a Location, and the record and the log tell of it", async () => {
    const crm = await start();
    const made = await createLead(crm, { headers: { "x-trace": "t" } });
    assert.equal(made.status, 201);
    assert.deepEqual(made.body, { id: "L-1" });
    assert.equal(made.headers.location, "/api/leads/L-1");
    const [record] = crm.leads;
    assert.deepEqual(
      { ...record, createdAt: 0 },
      {
        id: "L-1",
        external_ref: "op-1",
        body: lead,
        createdAt: 0,
        requestNumber: 1,
      },
    );
    const [logged] = crm.requests;
    assert.deepEqual(
      { ...logged, headers: logged?.headers["x-trace"] },
      {
        number: 1,
        connection: 1,
        kind: "create",
        method: "POST",
        path: "/api/leads",
        query: {},
        headers: "t",
        body: JSON.stringify(lead),
        fault: null,
        effect: "created",
        recordId: "L-1",
        answer: "sent",
        status: 201,
      },
    );
  });

  test("a URL-encoded form makes the same record as JSON", async () => {
    const crm = await start();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const made = await createLead(crm, { body: new URLSearchParams(lead).toString(), headers });
    assert.equal(made.status, 201);
    assert.deepEqual(crm.leads[0]?.body, lead);
    assert.equal(crm.leads[0]?.external_ref, "op-1");
  });

  test("a lead is found by its reference or any other member, read by its id, and changed", async () => {
    const crm = await start();
    await createLead(crm);
    await createLead(crm, { body: { ...lead, external_ref: "op-2", phone: "+12025550102" } });
    assert.deepEqual((await findLead(crm)).body, { items: [{ ...lead, id: "L-1" }] });
    assert.deepEqual((await findLead(crm, "op-none")).body, { items: [] });
    const byPhone = await call(crm, "/leads?phone=%2B12025550102");
    assert.deepEqual(byPhone.body, {
      items: [{ ...lead, external_ref: "op-2", phone: "+12025550102", id: "L-2" }],
    });
    const changed = await call(crm, "/leads/L-1", { method: "PATCH", body: { phone: "+12025550103" } });
    assert.equal(changed.status, 200);
    assert.deepEqual((await call(crm, "/leads/L-1")).body, { ...lead, phone: "+12025550103", id: "L-1" });
    assert.equal((await call(crm, "/leads/L-9")).status, 404);
    assert.equal((await call(crm, "/leads/L-9", { method: "PATCH", body: {} })).status, 404);
    assert.equal(crm.requests.at(-2)?.effect, "refused");
  });

  test("notes belong to their lead and need a text", async () => {
    const crm = await start();
    await createLead(crm);
    await createLead(crm);
    assert.deepEqual((await call(crm, "/leads/L-1/notes", { body: { text: "first" } })).body, { id: "N-1" });
    assert.deepEqual((await call(crm, "/leads/L-2/notes", { body: { text: "other" } })).body, { id: "N-2" });
    const listed = await call(crm, "/leads/L-1/notes");
    assert.deepEqual(listed.body, {
      items: [{ id: "N-1", text: "first", lead_id: "L-1", external_ref: null }],
    });
    assert.equal((await call(crm, "/leads/L-9/notes", { body: { text: "lost" } })).status, 404);
    assert.equal((await call(crm, "/leads/L-9/notes")).status, 404);
    assert.equal((await call(crm, "/leads/L-1/notes", { body: { words: "none" } })).status, 422);
    assert.equal(crm.notes.length, 2);
  });

  test("contacts are kept apart from leads", async () => {
    const crm = await start();
    assert.deepEqual((await call(crm, "/contacts", { body: lead })).body, { id: "C-1" });
    assert.equal(crm.contacts.length, 1);
    assert.equal(crm.leads.length, 0);
    const found = await call(crm, "/contacts?phone=%2B12025550101");
    assert.deepEqual(found.body, { items: [{ ...lead, id: "C-1" }] });
    assert.equal((await call(crm, "/contacts/C-1")).status, 200);
    assert.deepEqual(
      crm.requests.map(({ kind }) => kind),
      ["contact", "find-contacts", "read"],
    );
  });

  test("what is no request of this API is refused, and nothing is created", async () => {
    const crm = await start();
    assert.equal((await createLead(crm, { body: "{" })).status, 400);
    assert.equal((await createLead(crm, { body: "[]" })).status, 400);
    assert.equal((await createLead(crm, { headers: { "content-type": "text/plain" } })).status, 415);
    assert.equal((await call(crm, "/leads", { method: "DELETE" })).status, 405);
    assert.equal((await call(crm, "/nowhere")).status, 404);
    assert.equal((await call(crm, "/../")).status, 404);
    assert.ok(crm.requests.every(({ effect }) => effect === "refused"));
    assert.equal(crm.leads.length, 0);
  });

  test("with a token set every path asks for it, and a new one counts at once", async () => {
    const crm = await start({ token: "crm-test-token" });
    const good = { authorization: "Bearer crm-test-token" };
    for (const headers of [{}, { authorization: "Bearer other" }, { authorization: "crm-test-token" }]) {
      const answer = await createLead(crm, { headers });
      assert.equal(answer.status, 401);
      assert.deepEqual(Object.keys(answer.body ?? {}), ["error"]);
    }
    assert.equal((await call(crm, "/me")).status, 401);
    assert.equal(crm.leads.length, 0);
    assert.ok(crm.requests.every(({ effect }) => effect === "unauthorised"));
    assert.equal((await call(crm, "/me", { headers: good })).status, 200);
    crm.setToken("new-token");
    assert.equal((await createLead(crm, { headers: good })).status, 401);
    assert.equal((await createLead(crm, { headers: { authorization: "Bearer new-token" } })).status, 201);
    crm.setToken(null);
    assert.equal((await createLead(crm)).status, 201);
    assert.ok(!JSON.stringify(crm.requests).includes("token"), "the log must not show the token");
    assert.equal(crm.requests[0]?.headers.authorization, undefined);
    assert.equal(crm.requests[1]?.headers.authorization, "***");
  });
});

describe("class idempotency-key", () => {
  const safety = "idempotency-key";

  test("the same key with the same body gets the stored answer and makes nothing", async () => {
    const crm = await start({ safety });
    const first = await createLead(crm, { headers: withKey("k1") });
    const again = await createLead(crm, { headers: withKey("k1") });
    assert.equal(first.headers["idempotent-replayed"], undefined);
    assert.equal(again.status, 201);
    assert.equal(again.text, first.text);
    assert.equal(again.headers.location, first.headers.location);
    assert.equal(again.headers["idempotent-replayed"], "true");
    assert.equal(crm.leads.length, 1);
    assert.equal(crm.requests[1]?.effect, "replayed");
    assert.equal(crm.requests[1]?.recordId, "L-1");
  });

  test("the same key with another body is refused with 422", async () => {
    const crm = await start({ safety });
    await createLead(crm, { headers: withKey("k1") });
    assert.equal(
      (await createLead(crm, { body: { ...lead, text: "Bye" }, headers: withKey("k1") })).status,
      422,
    );
    assert.equal(crm.leads.length, 1);
  });

  test("another key, and no key at all, make another lead", async () => {
    const crm = await start({ safety });
    for (const headers of [withKey("k1"), withKey("k2"), {}, {}]) await createLead(crm, { headers });
    assert.equal(crm.leads.length, 4);
  });

  test("a key is honoured until keyValidForMs have passed and makes a second lead from then on", async () => {
    let nowMs = 1_000;
    const crm = await start({ safety, keyValidForMs: 100, now: () => nowMs });
    await createLead(crm, { headers: withKey("k1") });
    nowMs += 99;
    await createLead(crm, { headers: withKey("k1") });
    assert.equal(crm.leads.length, 1);
    nowMs += 1;
    await createLead(crm, { headers: withKey("k1") });
    assert.equal(crm.leads.length, 2);
    await createLead(crm, { headers: withKey("k1") });
    assert.equal(crm.leads.length, 2);
    assert.deepEqual(
      crm.leads.map(({ createdAt }) => createdAt),
      [1_000, 1_100],
    );
  });

  test("a refusal is not kept: the same key works once the cause is mended", async () => {
    const crm = await start({ safety, token: "t1" });
    assert.equal((await createLead(crm, { headers: withKey("k1") })).status, 401);
    crm.setToken(null);
    assert.equal((await createLead(crm, { body: "{", headers: withKey("k1") })).status, 400);
    assert.equal((await createLead(crm, { headers: withKey("k1") })).status, 201);
  });

  test("notes are replayed too, each path with keys of its own", async () => {
    const crm = await start({ safety });
    await createLead(crm, { headers: withKey("k1") });
    const note = { body: { text: "more" }, headers: withKey("k1") };
    assert.equal((await call(crm, "/leads/L-1/notes", note)).status, 201);
    assert.equal((await call(crm, "/leads/L-1/notes", note)).headers["idempotent-replayed"], "true");
    assert.equal(crm.notes.length, 1);
  });
});

describe("class external-id", () => {
  const safety = "external-id";

  test("a POST with a known reference answers 409 and names the existing record", async () => {
    const crm = await start({ safety });
    await createLead(crm);
    const again = await createLead(crm, { body: { ...lead, text: "Bye" } });
    assert.equal(again.status, 409);
    assert.deepEqual(again.body, {
      error: { code: "already_exists", message: "external_ref is taken." },
      existing: { id: "L-1", external_ref: "op-1" },
    });
    assert.equal(crm.leads.length, 1);
    assert.deepEqual(crm.leads[0]?.body, lead);
    assert.equal(crm.requests[1]?.effect, "conflict");
    assert.equal(crm.requests[1]?.recordId, "L-1");
  });

  test("a PUT by reference creates with 201, then answers 200 with the same id", async () => {
    const crm = await start({ safety });
    const put = (body: unknown) => call(crm, "/leads/by-ref/op%2F1", { method: "PUT", body });
    const first = await put({ name: "Test Person" });
    assert.equal(first.status, 201);
    assert.equal(first.headers.location, "/api/leads/L-1");
    const again = await put({ text: "more" });
    assert.equal(again.status, 200);
    assert.deepEqual(again.body, first.body);
    assert.equal(crm.leads.length, 1);
    assert.equal(crm.leads[0]?.external_ref, "op/1");
    assert.deepEqual(crm.leads[0]?.body, { name: "Test Person", text: "more", external_ref: "op/1" });
    assert.deepEqual(
      crm.requests.map(({ effect }) => effect),
      ["created", "updated"],
    );
    assert.equal((await call(crm, "/leads/by-ref/op%2F1")).status, 200);
    assert.equal((await call(crm, "/leads/by-ref/op-2")).status, 404);
  });

  test("eight racing creates with one reference make one lead", async () => {
    const crm = await start({ safety });
    const all = await Promise.all(Array.from({ length: 8 }, () => createLead(crm)));
    assert.deepEqual(all.map(({ status }) => status).sort(), [201, 409, 409, 409, 409, 409, 409, 409]);
    assert.equal(crm.leads.length, 1);
  });

  test("creates without a reference don't collide", async () => {
    const crm = await start({ safety });
    await createLead(crm, { body: { name: "Test Person" } });
    await createLead(crm, { body: { name: "Test Person" } });
    assert.equal(crm.leads.length, 2);
  });
});

describe("classes search and none", () => {
  for (const safety of ["search", "none"] as const) {
    test(`${safety}: every POST makes a new record, whatever key it carries, and there is no upsert`, async () => {
      const crm = await start({ safety });
      for (let round = 0; round < 2; round += 1) await createLead(crm, { headers: withKey("k1") });
      assert.equal(crm.leads.length, 2);
      assert.equal((await call(crm, "/leads/by-ref/op-1", { method: "PUT", body: lead })).status, 404);
      assert.equal(crm.leads.length, 2);
    });
  }

  test("search finds both records", async () => {
    const crm = await start({ safety: "search" });
    await createLead(crm);
    await createLead(crm);
    assert.deepEqual((await findLead(crm)).body, {
      items: [
        { ...lead, id: "L-1" },
        { ...lead, id: "L-2" },
      ],
    });
  });

  test("none has no search: the filter answers 404, the id is still read", async () => {
    const crm = await start({ safety: "none" });
    await createLead(crm);
    assert.equal((await findLead(crm)).status, 404);
    assert.equal((await call(crm, "/leads/L-1")).status, 200);
  });
});

describe("faults on the way", () => {
  test("drop: the connection ends before the body is read, and nothing is created", async () => {
    const crm = await start();
    crm.fault({ on: "create", kind: "drop" });
    await assert.rejects(createLead(crm));
    assert.equal(crm.leads.length, 0);
    const [logged] = crm.requests;
    assert.deepEqual(
      [logged?.effect, logged?.answer, logged?.status, logged?.body, logged?.fault],
      ["none", "dropped", null, "", "drop"],
    );
    assert.equal((await createLead(crm)).status, 201);
  });

  test("apply-then-drop: the lead is there, the answer is not", async () => {
    const crm = await start();
    crm.fault({ on: "create", kind: "apply-then-drop" });
    await assert.rejects(createLead(crm));
    assert.equal(crm.leads.length, 1);
    assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.answer], ["created", "dropped"]);
  });

  test("apply-then-hang: the lead is there at once, and the client waits until it gives up", async () => {
    const crm = await start();
    const fault = crm.fault({ on: "create", kind: "apply-then-hang" });
    await giveUpAfter(crm.whenCreated(1), (signal) => createLead(crm, { signal }));
    const logged = await fault.whenClientGone();
    assert.deepEqual([logged.effect, logged.answer], ["created", "client-gone"]);
  });

  test("apply-then-hang: no release answers it, only the end of the stand-in", async () => {
    const crm = await start();
    const fault = crm.fault({ on: "create", kind: "apply-then-hang" });
    const client = assert.rejects(createLead(crm));
    await fault.whenTaken();
    crm.release();
    assert.equal((await call(crm, "/me")).status, 200);
    assert.equal(crm.requests[0]?.answer, "pending");
    await crm.close();
    await client;
    assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.answer], ["created", "dropped"]);
  });

  test("apply-then-cut: headers and half of the JSON, then the end", async () => {
    const crm = await start();
    crm.fault({ on: "create", kind: "apply-then-cut" });
    const answer = await send(`${crm.url}/leads`, {
      dispatcher: agent,
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(lead),
    });
    assert.equal(answer.statusCode, 201);
    const whole = JSON.stringify({ id: "L-1" });
    assert.equal(answer.headers["content-length"], String(whole.length));
    let received = "";
    await assert.rejects(async () => {
      for await (const chunk of answer.body) received += chunk;
    });
    assert.equal(received, whole.slice(0, whole.length >> 1));
    assert.equal(crm.leads.length, 1);
    assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.answer], ["created", "cut"]);
  });

  test("slow: done at once, answered on release", async () => {
    const crm = await start();
    const fault = crm.fault({ on: "create", kind: "slow" });
    const client = createLead(crm);
    await fault.whenTaken();
    assert.equal(crm.leads.length, 1);
    assert.equal(crm.requests[0]?.answer, "pending");
    fault.release();
    assert.equal((await client).status, 201);
  });

  test("slow with ms: answered without anybody's help", async () => {
    const crm = await start();
    crm.fault({ on: "create", kind: "slow", ms: 1 });
    assert.equal((await createLead(crm)).status, 201);
    assert.equal(crm.requests[0]?.fault, "slow");
  });

  test("land-late: the client gives up, sees nothing, and the lead comes to be afterwards", async () => {
    const crm = await start();
    const fault = crm.fault({ on: "create", kind: "land-late" });
    await giveUpAfter(fault.whenTaken(), (signal) => createLead(crm, { signal }));
    const logged = await fault.whenClientGone();
    assert.equal(logged.effect, "pending");
    assert.deepEqual((await findLead(crm)).body, { items: [] });
    fault.release();
    assert.equal(crm.leads.length, 1);
    assert.deepEqual([logged.effect, logged.answer], ["created", "client-gone"]);
    assert.equal(await fault.whenFinished(), logged);
  });

  test("land-late with ms: lands without anybody's help, and a client that waited has its answer", async () => {
    const crm = await start();
    crm.fault({ on: "create", kind: "land-late", ms: 1 });
    assert.equal((await createLead(crm)).status, 201);
    assert.equal(crm.leads.length, 1);
  });

  test("land-late respects the class when it lands; blind, it makes the second lead of a check before the write", async () => {
    for (const blind of [false, true]) {
      for (const safety of ["idempotency-key", "external-id"] as const) {
        const crm = await start({ safety });
        const fault = crm.fault({ on: "create", kind: "land-late", blind });
        const late = createLead(crm, { headers: withKey("k1") });
        await fault.whenTaken();
        assert.equal((await createLead(crm, { headers: withKey("k1") })).status, 201);
        crm.release();
        await late;
        assert.equal(crm.leads.length, blind ? 2 : 1, `${safety}, blind: ${blind}`);
      }
    }
  });

  test("a handle releases only what its own fault holds", async () => {
    const crm = await start();
    const held = crm.fault({ on: "create", kind: "land-late" });
    const other = crm.fault({ on: "note", kind: "land-late" });
    const first = createLead(crm);
    await held.whenTaken();
    other.release();
    await call(crm, "/me");
    assert.equal(crm.leads.length, 0);
    held.release();
    await first;
    assert.equal(crm.leads.length, 1);
  });
});

describe("faults in what is said", () => {
  const plain = [400, 401, 403, 404, 405, 413, 422, 500, 503];
  for (const code of plain) {
    test(`${code} with a body of one's choice, and nothing is created`, async () => {
      const crm = await start();
      crm.fault({ on: "create", ...answers.status(code, { why: "told to" }) });
      const answer = await createLead(crm);
      assert.equal(answer.status, code);
      assert.deepEqual(answer.body, { why: "told to" });
      assert.match(String(answer.headers["content-type"]), /^application\/json/);
      assert.equal(crm.leads.length, 0);
      assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.status], ["none", code]);
    });
  }

  test("500 after the lead was created", async () => {
    const crm = await start();
    crm.fault({ on: "create", ...answers.internalError, applied: true });
    assert.equal((await createLead(crm)).status, 500);
    assert.equal(crm.leads.length, 1);
    assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.status], ["created", 500]);
  });

  test("429 says when to come back: in seconds, as a date, in words, or not at all", async () => {
    const crm = await start();
    const date = new Date(Date.UTC(2030, 0, 2, 3, 4, 5));
    for (const retryAfter of [7, date, "in a while", undefined]) {
      crm.fault({ on: "create", ...answers.tooManyRequests(retryAfter) });
    }
    const said: unknown[] = [];
    for (let round = 0; round < 4; round += 1) {
      const answer = await createLead(crm);
      assert.equal(answer.status, 429);
      said.push(answer.headers["retry-after"]);
    }
    assert.deepEqual(said, ["7", "Wed, 02 Jan 2030 03:04:05 GMT", "in a while", undefined]);
    assert.equal(crm.leads.length, 0);
  });

  test("a foreign conflict names a record that is not ours", async () => {
    const crm = await start({ safety: "external-id" });
    crm.fault({ on: "create", ...answers.phoneTaken });
    const answer = await createLead(crm);
    assert.equal(answer.status, 409);
    assert.match(answer.text, /phone_taken/);
    assert.ok(!answer.text.includes(lead.external_ref));
  });

  test("502 and 200 come as HTML, 503 as text", async () => {
    const crm = await start();
    const expected = [
      [answers.badGateway, 502, "text/html"],
      [answers.htmlPage, 200, "text/html"],
      [answers.unavailable, 503, "text/plain"],
    ] as const;
    for (const [fault, code, type] of expected) {
      crm.fault({ on: "create", ...fault });
      const answer = await createLead(crm);
      assert.equal(answer.status, code);
      assert.equal(answer.body, undefined);
      assert.ok(String(answer.headers["content-type"]).startsWith(type));
    }
    assert.equal(crm.leads.length, 0);
  });

  test("302 points to where nothing is", async () => {
    const crm = await start();
    crm.fault({ on: "create", ...answers.redirect() });
    const answer = await createLead(crm);
    assert.equal(answer.status, 302);
    assert.equal(answer.headers.location, "/api/moved");
    assert.equal((await call(crm, "/moved")).status, 404);
    assert.equal(crm.requests[1]?.kind, "other");
  });

  test("200 without an id, 200 with null, and 204 without a body", async () => {
    const crm = await start();
    crm.fault({ on: "create", ...answers.withoutId, applied: true });
    crm.fault({ on: "create", ...answers.nullBody });
    crm.fault({ on: "create", ...answers.status(204) });
    const texts: unknown[] = [];
    for (let round = 0; round < 3; round += 1) texts.push((await createLead(crm)).text);
    assert.deepEqual(texts, ['{"ok":true}', "null", ""]);
    assert.equal(crm.leads.length, 1);
  });
});

describe("faults of the search", () => {
  test("search lag: invisible to the search until index(), known to everything else", async () => {
    const crm = await start({ searchLagMs: Number.POSITIVE_INFINITY });
    await createLead(crm);
    await call(crm, "/leads/L-1/notes", { body: { text: "first" } });
    assert.deepEqual((await findLead(crm)).body, { items: [] });
    assert.deepEqual((await call(crm, "/leads/L-1/notes")).body, { items: [] });
    assert.equal((await call(crm, "/leads/L-1")).status, 200);
    crm.index();
    assert.match((await findLead(crm)).text, /L-1/);
    assert.match((await call(crm, "/leads/L-1/notes")).text, /N-1/);
  });

  test("search lag: visible once the time has passed", async () => {
    let nowMs = 1_000;
    const crm = await start({ searchLagMs: 50, now: () => nowMs });
    await createLead(crm);
    nowMs += 49;
    assert.deepEqual((await findLead(crm)).body, { items: [] });
    nowMs += 1;
    assert.match((await findLead(crm)).text, /L-1/);
  });

  test("search lag of one create alone, for a time or until index()", async () => {
    let nowMs = 1_000;
    const crm = await start({ now: () => nowMs });
    crm.fault({ on: "create", kind: "search-lag" });
    crm.fault({ on: "create", kind: "search-lag", ms: 10 });
    const ids = async () => (await findLead(crm)).text.match(/L-\d/g) ?? [];
    for (let round = 0; round < 3; round += 1) assert.equal((await createLead(crm)).status, 201);
    assert.deepEqual(await ids(), ["L-3"]);
    nowMs += 10;
    assert.deepEqual(await ids(), ["L-2", "L-3"]);
    crm.index();
    assert.deepEqual(await ids(), ["L-1", "L-2", "L-3"]);
  });

  test("search lag does not weaken a unique reference", async () => {
    const crm = await start({ safety: "external-id", searchLagMs: Number.POSITIVE_INFINITY });
    await createLead(crm);
    assert.equal((await createLead(crm)).status, 409);
  });

  test("a duplicate in the search: the same record twice, or a copy under another id", async () => {
    const crm = await start();
    await createLead(crm);
    crm.fault({ on: "find", kind: "duplicate", as: "same-id" });
    crm.fault({ on: "find", kind: "duplicate", as: "other-id" });
    const item = { ...lead, id: "L-1" };
    assert.deepEqual((await findLead(crm)).body, { items: [item, item] });
    assert.deepEqual((await findLead(crm)).body, { items: [item, { ...item, id: "L-1-copy" }] });
    assert.deepEqual((await findLead(crm)).body, { items: [item] });
    assert.equal(crm.leads.length, 1);
  });

  test("a search that fails is no search that found nothing", async () => {
    const crm = await start();
    await createLead(crm);
    crm.fault({ on: "find", ...answers.badGateway });
    crm.fault({ on: "find", ...answers.foundNothing });
    crm.fault({ on: "find", kind: "apply-then-cut" });
    assert.equal((await findLead(crm)).status, 502);
    assert.deepEqual((await findLead(crm)).body, { items: [] });
    await assert.rejects(findLead(crm));
  });
});

describe("which fault takes which request", () => {
  const statuses = async (crm: CrmStandIn, count: number) => {
    const all: number[] = [];
    for (let round = 0; round < count; round += 1) all.push((await createLead(crm)).status);
    return all;
  };

  test("nth and times count matching requests only", async () => {
    const crm = await start();
    crm.fault({ on: "create", nth: 2, times: 2, ...answers.status(500) });
    await call(crm, "/me");
    await findLead(crm);
    assert.deepEqual(await statuses(crm, 4), [201, 500, 500, 201]);
  });

  test("two faults for the next request take the next two, and nth counts from registration", async () => {
    const crm = await start();
    crm.fault({ on: "create", ...answers.status(500) });
    crm.fault({ on: "create", ...answers.status(502) });
    crm.fault({ on: "create", nth: 4, ...answers.status(503) });
    assert.deepEqual(await statuses(crm, 5), [500, 502, 201, 503, 201]);
  });

  test("each kind of request can be aimed at, and any of them", async () => {
    const crm = await start({ safety: "external-id" });
    await createLead(crm);
    const paths = {
      create: () => call(crm, "/leads/by-ref/op-7", { method: "PUT", body: lead }),
      find: () => findLead(crm),
      read: () => call(crm, "/leads/L-1"),
      update: () => call(crm, "/leads/L-1", { method: "PATCH", body: {} }),
      note: () => call(crm, "/leads/L-1/notes", { body: { text: "more" } }),
      "find-notes": () => call(crm, "/leads/L-1/notes"),
      contact: () => call(crm, "/contacts", { body: lead }),
      "find-contacts": () => call(crm, "/contacts?phone=1"),
      probe: () => call(crm, "/me"),
    } as const;
    for (const [kind, ask] of Object.entries(paths)) {
      // Object.entries forgets the names of the members.
      crm.fault({ on: kind as keyof typeof paths, ...answers.status(418) });
      assert.equal((await ask()).status, 418, kind);
      assert.notEqual((await ask()).status, 418, kind);
      assert.equal(crm.requests.at(-1)?.kind, kind);
    }
    crm.fault({ on: "any", times: 2, ...answers.status(418) });
    assert.equal((await call(crm, "/me")).status, 418);
    assert.equal((await findLead(crm)).status, 418);
  });

  test("a fault that was withdrawn takes nothing more, and calm() ends them all", async () => {
    const crm = await start({ searchLagMs: Number.POSITIVE_INFINITY });
    const fault = crm.fault({ on: "create", times: 9, ...answers.status(500) });
    assert.deepEqual(await statuses(crm, 1), [500]);
    fault.withdraw();
    assert.deepEqual(await statuses(crm, 1), [201]);
    assert.equal(fault.requests.length, 1);
    const held = crm.fault({ on: "create", kind: "land-late" });
    crm.fault({ on: "any", times: Number.POSITIVE_INFINITY, ...answers.status(500) });
    const late = createLead(crm);
    await held.whenTaken();
    crm.calm();
    assert.equal((await late).status, 201);
    assert.match((await findLead(crm)).text, /"L-1".*"L-2"/);
    assert.deepEqual(await statuses(crm, 1), [201]);
  });

  test("a count below one is a mistake", async () => {
    const crm = await start();
    assert.throws(() => crm.fault({ on: "create", nth: 0, kind: "drop" }), RangeError);
    assert.throws(() => crm.fault({ on: "create", times: 0, kind: "drop" }), RangeError);
  });
});

describe("events, and the end", () => {
  test("waitFor resolves with what was looked for, at once where it is there already", async () => {
    const crm = await start();
    const waiting = crm.waitFor(({ requests }) => requests.find(({ effect }) => effect === "created"));
    await call(crm, "/me");
    await createLead(crm);
    assert.equal((await waiting).number, 2);
    assert.equal((await crm.whenCreated(1)).length, 1);
    const broken = crm.waitFor(() => {
      throw new Error("no such thing");
    });
    await assert.rejects(broken, /no such thing/);
  });

  test("a client that leaves in the middle of its request has made nothing", async () => {
    const crm = await start();
    const socket = connect(Number(new URL(crm.url).port), "127.0.0.1");
    socket.on("error", () => undefined); // A reset is as good as an end here.
    socket.end(
      `POST /api/leads HTTP/1.1\r\nHost: crm\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"name":`,
    );
    const logged = await crm.waitFor(({ requests }) => requests[0]);
    assert.deepEqual([logged.effect, logged.answer, logged.body], ["none", "client-gone", '{"name":']);
    assert.equal(crm.leads.length, 0);
  });

  test("the log tells connections apart", async () => {
    const crm = await start();
    const clients = [new Client(crm.url.replace("/api", "")), new Client(crm.url.replace("/api", ""))];
    for (const client of clients) {
      for (let round = 0; round < 2; round += 1) {
        const answer = await client.request({ method: "GET", path: "/api/me" });
        await answer.body.dump();
      }
      await client.close();
    }
    assert.deepEqual(
      crm.requests.map(({ connection }) => connection),
      [1, 1, 2, 2],
    );
  });

  test("while it is down connections are refused and what was held is lost; afterwards it has its port and records", async () => {
    const crm = await start();
    const { url } = crm;
    await createLead(crm);
    const fault = crm.fault({ on: "create", kind: "land-late" });
    await giveUpAfter(fault.whenTaken(), (signal) => createLead(crm, { signal }));
    await fault.whenClientGone();
    await crm.goDown();
    assert.equal((await fault.whenFinished()).effect, "none");
    await assert.rejects(createLead(crm), { code: "ECONNREFUSED" });
    await crm.comeUp();
    assert.equal(crm.url, url);
    assert.equal((await createLead(crm)).status, 201);
    assert.equal(crm.leads.length, 2);
  });

  test("a port that is taken is an error, not another port", async () => {
    const crm = await start();
    const port = Number(new URL(crm.url).port);
    await assert.rejects(startCrmStandIn({ safety: "none", port }), { code: "EADDRINUSE" });
  });

  test("close ends what is under way, tells whoever waits, and may be repeated", async () => {
    const crm = await start();
    const fault = crm.fault({ on: "create", kind: "land-late" });
    const client = assert.rejects(createLead(crm));
    await fault.whenTaken();
    const waiting = assert.rejects(crm.whenCreated(1), /closed while somebody waited for 1 leads/);
    await crm.close();
    await client;
    await waiting;
    fault.release();
    crm.release();
    await crm.close();
    assert.equal(crm.leads.length, 0);
    assert.deepEqual([crm.requests[0]?.effect, crm.requests[0]?.answer], ["none", "dropped"]);
    await assert.rejects(crm.whenCreated(1), /closed/);
  });

  test("nothing is left after close: the process ends by itself", async () => {
    const module = new URL("../../src/stand-ins/crm/index.ts", import.meta.url).href;
    // One client is in the middle of its request, one hangs, one is held by a timer of an hour, one connection is
    // idle, and one promise is never kept.
    const script = `
      const { startCrmStandIn } = await import(${JSON.stringify(module)});
      const http = await import("node:http");
      const net = await import("node:net");
      const crm = await startCrmStandIn({ safety: "search" });
      const half = "POST /api/leads HTTP/1.1\\r\\nHost: crm\\r\\nContent-Length: 99\\r\\n\\r\\n{";
      const socket = net.connect(Number(new URL(crm.url).port), "127.0.0.1").on("error", () => {});
      await new Promise((resolve) => socket.write(half, resolve));
      const agent = new http.Agent({ keepAlive: true });
      const ask = (method, path) => http.request(crm.url + path, { method, agent }).on("error", () => {}).end();
      ask("GET", "/me").on("response", (answer) => answer.resume());
      await crm.waitFor(({ requests }) => requests.length === 1);
      crm.fault({ on: "create", kind: "apply-then-hang" });
      crm.fault({ on: "create", kind: "land-late", ms: 3600000 });
      ask("POST", "/leads");
      ask("POST", "/leads");
      await crm.waitFor(({ requests }) => requests.length === 3);
      crm.whenCreated(5);
      await crm.close();
      console.log("closed");
    `;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", script], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let printed = "";
    child.stdout.on("data", (chunk) => {
      printed += chunk;
    });
    child.stderr.on("data", (chunk) => {
      printed += chunk;
    });
    const [code] = await once(child, "close");
    assert.equal(printed, "closed\n");
    assert.equal(code, 0);
  });
});
