/** `leadonce try` as a process: what it shows, that it writes nothing, and what `--send` proves about a CRM (P2, P3, P5). */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, type TestContext, test } from "node:test";
import { makeTerminal } from "../../src/commands/terminal.ts";
import type { Rehearsal, RehearsedJob, RehearsedOperation } from "../../src/commands/try/rehearsal.ts";
import type { TestReport } from "../../src/commands/try/send.ts";
import { tryCommand } from "../../src/commands/try.ts";
import { answers, type SafetyClass } from "../../src/stand-ins/crm/index.ts";
import { CRM_TOKEN, crmTable } from "./crm-config.ts";
import type { Finished } from "./daemon.ts";
import { person, TOKEN, type World, world } from "./world.ts";

const PHONE = "+12025550101";

type Tried = Finished & { rehearsal: Rehearsal & { sent?: TestReport[] } };

async function attempt(w: World, ...argv: string[]): Promise<Tried> {
  const ended = await w.run("try", "--json", ...argv);
  assertNoSecret(ended);
  return { ...ended, rehearsal: ended.json() };
}

async function attemptWith(w: World, update: unknown, ...argv: string[]): Promise<Tried> {
  writeFileSync(join(w.folder, "update.json"), JSON.stringify(update));
  return attempt(w, "--update", "update.json", ...argv);
}

/** Makes its record at `sales`. */
async function sendTest(w: World): Promise<Finished & { report: TestReport }> {
  const ended = await attempt(w, "--send", "--destination", "sales");
  const [report] = ended.rehearsal.sent ?? [];
  assert.ok(report !== undefined, "a report of what was sent");
  return { ...ended, report };
}

function assertNoSecret({ stdout, stderr }: Finished): void {
  for (const secret of [TOKEN, TOKEN.slice(TOKEN.indexOf(":") + 1), CRM_TOKEN]) {
    assert.ok(!stdout.includes(secret) && !stderr.includes(secret), "a secret is shown");
  }
}

function operationOf({ rehearsal }: Tried): RehearsedOperation {
  const [operation] = rehearsal.operations;
  assert.ok(operation !== undefined, `an operation: ${rehearsal.reason}`);
  return operation;
}

function salesOf(tried: Tried): RehearsedJob {
  const job = operationOf(tried).jobs.find(({ destination }) => destination === "sales");
  assert.ok(job !== undefined, "a job at sales");
  return job;
}

function bodyOf(tried: Tried): Record<string, unknown> {
  const body: unknown = JSON.parse(salesOf(tried).request?.body ?? "null");
  assert.ok(typeof body === "object" && body !== null);
  return { ...body };
}

const FROM = { id: 5_550_001, is_bot: false, first_name: "Test", last_name: "Person" };
const CHAT = { id: 5_550_001, type: "private", first_name: "Test" };

/** An update as Telegram sends it, with what the message is made of. */
function messageUpdate(fields: Record<string, unknown>): Record<string, unknown> {
  return {
    update_id: 71,
    message: { message_id: 12, from: FROM, chat: CHAT, date: 1_790_000_000, ...fields },
  };
}

function filesOf(folder: string): string[] {
  const hash = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  return readdirSync(folder).map((name) => `${name} ${hash(name)}`);
}

describe("a rehearsal", () => {
  test("shows who takes the update, its keys and each request, and does nothing else", async (t) => {
    const w = await world(t, { safety: "idempotency-key" });
    const tried = await attempt(w);
    assert.equal(tried.code, 0, tried.stderr);
    const { state, update } = tried.rehearsal;
    assert.equal(state, "accepted");
    assert.match(update.event_key, /^tg:7001:1:[0-9a-f]{8}$/);
    const operation = operationOf(tried);
    assert.equal(operation.action, "enquiry");
    assert.equal(operation.business_key, "lead:7001:1001:1");
    assert.deepEqual(operation.messages, ["7001:1001:1"]);
    assert.match(operation.code, /^\w{4}-\w{4}-\w{4}$/);
    assert.deepEqual(
      operation.jobs.map(({ destination, step, state: standing }) => [destination, step, standing]),
      [
        ["sales", "lead", "pending"],
        ["ledger", "lead", "done"],
      ],
    );
    const { request } = salesOf(tried);
    assert.equal(`${request?.method} ${request?.url}`, `POST ${w.crm.url}/leads`);
    assert.equal(request?.headers.authorization, "Bearer [secret]");
    assert.equal(request?.headers["idempotency-key"], operation.operation_id);
    assert.equal(bodyOf(tried).external_ref, operation.operation_id);
    assert.equal(w.crm.requests.length + w.telegram.requests.length, 0);
    assert.ok(!existsSync(w.database), "no database is made");
  });

  test("gives an update the same identities as the daemon", async (t) => {
    const w = await world(t, { safety: "search" });
    const update = w.bot.say({ from: person(1), text: "hello" });
    const tried = operationOf(await attemptWith(w, update));
    const daemon = await w.started();
    await w.settled(daemon);
    await daemon.stop();
    const [lead] = await w.leads();
    assert.equal(tried.operation_id, lead?.operation_id);
    assert.equal(tried.code, lead?.code);
    assert.equal(tried.business_key, lead?.business_key);
    const again = await attemptWith(w, update);
    assert.deepEqual(lead?.event_keys, [again.rehearsal.update.event_key]);
  });

  test("knows the bot's name from the database, and leaves the database as it was", async (t) => {
    const lead = { body: { external_ref: "{{ operation.id }}", bot: "{{ bot.username }}" } };
    const w = await world(t, { safety: "search", config: { crm: { sales: { lead } } } });
    await (await w.started()).stop();
    await attempt(w);
    const before = filesOf(join(w.folder, "data"));
    assert.equal(bodyOf(await attempt(w)).bot, "leadonce_test_bot");
    assert.deepEqual(filesOf(join(w.folder, "data")), before);
  });

  test("shows people what they ask to see: their own update's phone and text, and no secret", async (t) => {
    const w = await world(t, { safety: "search" });
    const contact = { phone_number: PHONE, first_name: "Test", user_id: FROM.id };
    writeFileSync(join(w.folder, "update.json"), JSON.stringify(messageUpdate({ contact })));
    const ended = await w.run("try", "--update", "update.json");
    assert.equal(ended.code, 0, ended.stderr);
    assertNoSecret(ended);
    assert.match(ended.stdout, /"phone": "\+12025550101"/);
    assert.match(ended.stdout, /"text": "\[phone\] \+12025550101"/);
    assert.match(ended.stdout, /^ {2}authorization: Bearer \[secret\]$/m);
    assert.match(ended.stdout, /^lead at ledger: stored with the message, nothing is sent$/m);
  });

  test("hides secrets in bodies, in queries and in addresses that are secret as a whole", async (t) => {
    const w = await world(t, {
      safety: "search",
      config: {
        crm: {
          sales: {
            base_url: "env:CRM_ADDRESS",
            lead: {
              url: "leads?token={{ secrets.token }}",
              body: { external_ref: "{{ operation.id }}", auth: "{{ secrets.token }}" },
            },
          },
        },
      },
    });
    const address = "HTTPS://CRM.example/rest/1/hidden-hook-77/";
    w.env = { ...w.env, CRM_ADDRESS: address };
    const tried = await attempt(w);
    assert.equal(bodyOf(tried).auth, "[secret]");
    assert.match(salesOf(tried).request?.url ?? "", /token=\[secret\]$/);
    assert.ok(!tried.stdout.includes("hidden-hook-77"), "the address is shown");
    const people = await w.run("try");
    assertNoSecret(people);
    assert.ok(!people.stdout.includes("hidden-hook-77"), "the address is shown");
  });

  test("shows one destination where one is named, and knows only those that exist", async (t) => {
    const w = await world(t, { crms: { sales: "search", support: "none" } });
    const tried = await attempt(w, "--destination", "support");
    assert.deepEqual(
      operationOf(tried).jobs.map(({ destination }) => destination),
      ["support"],
    );
    const unknown = await w.run("try", "--destination", "nowhere");
    assert.equal(unknown.code, 64);
    assert.match(unknown.stderr, /sales, support, ledger/);
  });

  test("tells the template that can't be rendered, and exits 1", async (t) => {
    const lead = { url: "leads/by-ref/{{ contact.phone }}" };
    const w = await world(t, { safety: "search", config: { crm: { sales: { lead } } } });
    const tried = await attempt(w);
    assert.equal(tried.code, 1);
    assert.equal(salesOf(tried).problem?.template, "crm.sales.lead.url");
    const people = await w.run("try", "--send");
    assert.equal(people.code, 1);
    assert.match(people.stdout, /^ {2}crm\.sales\.lead\.url$/m);
    assert.equal(w.crm.requests.length, 0);
  });

  test("prints nothing that a terminal would obey, whatever a customer wrote", async (t) => {
    const lead = { body: "{{ operation.id }} {{ message.text }}" };
    const w = await world(t, { safety: "none", config: { crm: { sales: { lead } } } });
    const text = "one\u001b]0;title\u0007\u009b31m two";
    writeFileSync(join(w.folder, "update.json"), JSON.stringify(messageUpdate({ text })));
    const { stdout } = await w.run("try", "--update", "update.json");
    assert.match(stdout, /one\]0;title31m two/);
    assert.doesNotMatch(stdout, /[^\P{Cc}\n]/u);
  });

  test("needs the secrets, and names the one that is missing", async (t) => {
    const w = await world(t, { safety: "search" });
    w.env = { TELEGRAM_BOT_TOKEN: TOKEN };
    const { code, stderr } = await w.run("try");
    assert.equal(code, 78);
    assert.match(stderr, /CRM_TOKEN/);
  });

  test("takes its sample from where the first action listens", async (t) => {
    const actions = [{ name: "groups", kind: "lead", when: { chat: "supergroup" } }];
    const w = await world(t, { safety: "search", config: { actions } });
    assert.equal(operationOf(await attempt(w)).action, "groups");
  });
});

describe("updates of all kinds", () => {
  const cases = [
    ["a command is ignored", messageUpdate({ text: "/start from_site" }), "ignored", "command"],
    [
      "a bot's membership is ignored",
      { update_id: 7, my_chat_member: { from: FROM, chat: CHAT, date: 1 } },
      "ignored",
      "bot_membership",
    ],
    ["a kind that nobody knows is ignored", { update_id: 7, chat_boost: {} }, "ignored", "unknown_kind"],
    [
      "a message in a group is ignored, and the actions are named",
      messageUpdate({ text: "hello", chat: { id: -100, type: "group", title: "Test" } }),
      "ignored",
      "no_action",
    ],
    [
      "a malformed update would be kept",
      { update_id: 7, message: { text: "the words of a customer" } },
      "quarantined",
      "malformed: unexpected shape at message.message_id, message.date, message.chat",
    ],
    ["an element that is no update at all would be kept", "words", "quarantined", "malformed: not an object"],
  ] as const;
  test("each is told as the daemon would take it", async (t) => {
    const w = await world(t, { safety: "search" });
    for (const [name, update, state, reason] of cases) {
      await t.test(name, async () => {
        const tried = await attemptWith(w, update);
        assert.deepEqual([tried.rehearsal.state, tried.rehearsal.reason], [state, reason]);
        assert.deepEqual(tried.rehearsal.operations, []);
        assert.equal(tried.code, state === "quarantined" ? 1 : 0);
        assert.ok((tried.rehearsal.why ?? "").length > 10, "the reason is told in words");
        assert.ok(!tried.stdout.includes("customer"), "the words of a malformed update are shown");
      });
    }
  });

  test("a photo and another person's contact become text, and only one's own number a phone", async (t) => {
    const w = await world(t, { safety: "search" });
    const photo = await attemptWith(w, messageUpdate({ photo: [{ file_id: "x" }], caption: "the door" }));
    assert.deepEqual([bodyOf(photo).kind, bodyOf(photo).text], ["photo", "[photo] the door"]);
    const friend = { phone_number: PHONE, first_name: "Test", user_id: 4 };
    const foreign = await attemptWith(w, messageUpdate({ contact: friend }));
    assert.deepEqual([bodyOf(foreign).kind, bodyOf(foreign).phone], ["contact", undefined]);
  });

  test("a whole answer of getUpdates with one element is taken too", async (t) => {
    const w = await world(t, { safety: "search" });
    const update = messageUpdate({ text: "hello" });
    const alone = await attemptWith(w, update);
    const answered = await attemptWith(w, { ok: true, result: [update] });
    assert.deepEqual(answered.rehearsal.update, alone.rehearsal.update);
  });

  test("a file that holds no single update is refused without a word of it", async (t) => {
    const w = await world(t, { safety: "search" });
    const two = [messageUpdate({ text: "one" }), messageUpdate({ text: "two" })];
    for (const text of [JSON.stringify({ ok: true, result: two }), "[]", "please call +12025550101"]) {
      writeFileSync(join(w.folder, "update.json"), text);
      const { code, stdout, stderr } = await w.run("try", "--update", "update.json");
      assert.equal(code, 64);
      assert.equal(stdout, "");
      assert.ok(!stderr.includes("call"), "it quotes the file");
    }
    assert.equal((await w.run("try", "--update", "nowhere.json")).code, 64);
  });
});

describe("--send", () => {
  for (const safety of ["idempotency-key", "external-id", "search", "none"] as const) {
    test(`makes one record marked TEST where ${safety} holds, and says what it saw`, async (t) => {
      const w = await world(t, { safety });
      const { code, report } = await sendTest(w);
      assert.equal(code, 0, report.problems.join());
      assert.deepEqual(report.problems, []);
      assert.deepEqual([report.sent?.outcome, report.sent?.external_id], ["confirmed", "L-1"]);
      assert.match(report.business_key, /^try:7001:[0-9a-f]{16}$/);
      const [record, ...more] = w.crm.leads;
      assert.equal(more.length, 0);
      assert.equal(record?.external_ref, report.operation_id);
      assert.equal(record?.body.name, "TEST leadonce");
      assert.match(String(record?.body.text), /^TEST /);
      assert.equal(record?.body.username, undefined);
      assert.equal(report.found === null, safety !== "search");
      assert.equal(report.repeated !== null, safety === "idempotency-key" || safety === "external-id");
      assert.ok(!existsSync(w.database), "no database is made");
    });
  }

  test("never stands in the way of the real lead of the same update, nor of the next TEST", async (t) => {
    const w = await world(t, { safety: "external-id" });
    const update = w.bot.say({ from: person(1), text: "hello" });
    const ids = [];
    for (let n = 0; n < 2; n += 1) {
      const { rehearsal } = await attemptWith(w, update, "--send");
      ids.push(rehearsal.sent?.[0]?.operation_id);
    }
    const daemon = await w.started();
    await w.settled(daemon);
    assert.equal(w.crm.leads.length, 3);
    assert.equal(new Set([...ids, (await w.leads())[0]?.operation_id]).size, 3);
    // Not by the message's own identity either, which some CRMs are given as the reference.
    assert.equal(new Set(w.crm.leads.map(({ body }) => body.message)).size, 3);
  });

  for (const safety of ["idempotency-key", "external-id"] as const) {
    test(`finds out a CRM that makes a second record although ${safety} is claimed`, async (t) => {
      const w = await world(t, { safety: "search" });
      w.configure({ crm: { sales: { ...crmTable(w.crm.url, safety), lead: claimed(w, safety) } } });
      const { code, report } = await sendTest(w);
      assert.equal(code, 1);
      assert.match(
        report.problems.join(),
        new RegExp(`second record \\(L-1 and L-2\\) although safety = "${safety}"`),
      );
      assert.equal(w.crm.leads.length, 2);
    });
  }

  test("finds a second record by counting where our reference is the id", async (t) => {
    const w = await world(t, { safety: "search" });
    const lead = { ...claimed(w, "external-id"), id: "reference", find: FIND };
    w.configure({ crm: { sales: { safety: "external-id", lead } } });
    const { code, report } = await sendTest(w);
    assert.equal(code, 1);
    assert.match(report.problems.join(), /found 2 records \(L-1, L-2\)/);
  });

  test("claims nothing of a repeat that nobody can judge", async (t) => {
    const w = await world(t, {
      safety: "idempotency-key",
      config: { crm: { sales: { lead: { id: "reference" } } } },
    });
    const { stdout, code } = await w.run("try", "--send");
    assert.equal(code, 0);
    assert.match(stdout, /only a look into the CRM can tell/);
  });

  test("a repeat that names another record is no second one where the CRM says that it exists", async (t) => {
    const w = await world(t, {
      safety: "external-id",
      config: { crm: { sales: { lead: { id: "reference" } } } },
    });
    const { code, report } = await sendTest(w);
    assert.equal(code, 1);
    assert.match(report.problems.join(), /named record \S+, and that to the repeat L-1/);
    assert.equal(w.crm.leads.length, 1);
  });

  test("a conflict that the configuration does not describe is told", async (t) => {
    const w = await world(t, { safety: "external-id" });
    w.configure({ crm: { sales: { lead: { exists: { status: 410, id: "/id", match: "/ref" } } } } });
    const { code, report } = await sendTest(w);
    assert.equal(code, 1);
    assert.match(report.problems.join(), /repeat was refused: .*\[crm\.sales\.lead\] exists/);
    assert.equal(w.crm.leads.length, 1);
  });

  test("waits for a search that lags, and says so where it never finds the record", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.fault({ on: "find", times: 2, ...answers.foundNothing });
    const lagging = await sendTest(w);
    assert.equal(lagging.code, 0, lagging.report.problems.join());
    assert.equal(lagging.report.found?.look_ups, 3);
    w.crm.fault({ on: "create", kind: "search-lag" });
    const blind = await sendTest(w);
    assert.equal(blind.code, 1);
    assert.deepEqual(blind.report.found?.records, []);
    assert.match(blind.report.problems.join(), /did not find it/);
  });

  test("tells a look-up that finds several records, another one, or is not answered", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.fault({ on: "find", kind: "duplicate", as: "other-id" });
    const twice = await w.run("try", "--send", "--destination", "sales");
    assert.match(twice.stdout, /found 2 records \(L-1, L-1-copy\)/);
    assert.match(
      twice.stdout,
      /delete it in the CRM: L-1$/m,
      "a record that others made is not to be deleted",
    );
    w.crm.fault({ on: "find", ...answers.status(200, { items: [{ id: "L-99" }] }) });
    assert.match((await sendTest(w)).report.problems.join(), /named record L-2, and the look-up L-99/);
    w.crm.fault({ on: "find", times: 9, ...answers.internalError });
    const silent = await sendTest(w);
    assert.equal(silent.code, 1);
    assert.match(silent.report.problems.join(), /was not answered: .*500/);
  });

  test("a refusal is told without a secret or the customer's words, and exits 1", async (t) => {
    const w = await world(t, { safety: "search" });
    const said = { error: `bad token ${CRM_TOKEN} for "TEST Hello, this is a sample message."` };
    w.crm.fault({ on: "create", ...answers.status(422, said) });
    const { code, report } = await sendTest(w);
    assert.equal(code, 1);
    assert.equal(report.sent?.outcome, "refused");
    assert.match(report.problems.join(), /bad token \[secret\]/);
    assert.equal(report.found, null);
  });

  test("refused credentials exit 1", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.setToken("another");
    const { code, report } = await sendTest(w);
    assert.deepEqual([code, report.sent?.outcome], [1, "unauthorised"]);
  });

  test("a lost answer is unknown, is never repeated, and the look-up shows what became of it", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.fault({ on: "create", kind: "apply-then-drop" });
    const { code, report } = await sendTest(w);
    assert.deepEqual([code, report.sent?.outcome], [1, "unknown"]);
    assert.match(report.problems.join(), /The record is there \(L-1\)/);
    assert.equal(w.crm.leads.length, 1);
  });

  test("a CRM that can't be reached exits 69, one of several exits 1 when another fails otherwise", async (t) => {
    const w = await world(t, { crms: { sales: "search", support: "none" } });
    await w.crm.goDown();
    const { code, report } = await sendTest(w);
    assert.deepEqual([code, report.unreachable], [69, true]);
    w.crms.get("support")?.fault({ on: "create", ...answers.status(422, {}) });
    assert.equal((await w.run("try", "--send")).code, 1);
  });

  test("sends nothing, and says so, where the update makes no request", async (t) => {
    const w = await world(t, { safety: "search" });
    const command = await attemptWith(w, messageUpdate({ text: "/help" }), "--send");
    assert.equal(command.code, 1);
    assert.match(command.stderr, /Nothing was sent/);
    assert.equal((await attempt(w, "--send", "--destination", "ledger")).code, 1);
    assert.equal(w.crm.requests.length, 0);
  });

  test("on a terminal it asks first, and a no sends nothing", async (t) => {
    const w = await world(t, { safety: "search" });
    assert.equal(await sendFromTerminal(t, w, "n"), 0);
    assert.equal(w.crm.requests.length, 0);
    assert.equal(await sendFromTerminal(t, w, "y"), 0);
    assert.equal(w.crm.leads.length, 1);
  });
});

const FIND = { url: "leads?external_ref={{ operation.id | url_encode }}", items: "/items", id: "/id" };

/** The step as for a CRM of this class, without a look-up. */
function claimed({ crm }: World, safety: SafetyClass): ReturnType<typeof crmTable> {
  const { lead } = crmTable(crm.url, safety);
  assert.ok(typeof lead === "object" && !Array.isArray(lead));
  return lead;
}

async function sendFromTerminal(t: TestContext, w: World, answer: string): Promise<number> {
  const tty = () => Object.assign(new PassThrough(), { isTTY: true });
  const streams = { stdin: tty(), stdout: tty(), stderr: tty() };
  const env = { ...w.env };
  const context = { env, cwd: w.folder, clock: { now: Date.now }, terminal: makeTerminal(streams, env) };
  t.after(() => streams.stdin.destroy());
  streams.stdin.write(`${answer}\n`);
  const options = { config: w.config, json: false, update: null, destination: null, send: true };
  return tryCommand(options, context, new PassThrough().resume());
}
