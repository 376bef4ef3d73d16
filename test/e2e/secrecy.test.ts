/** P5: secrets, phone numbers and messages are planted where they could slip out, and looked for in all that is written. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { connect } from "../../src/store/connect.ts";
import { person, type World, world } from "./world.ts";

const TELEGRAM_SECRET = "PlantedTelegramSecret_0123456789";
const TOKEN = `7001000001:${TELEGRAM_SECRET}`;
const CRM_SECRET = "planted crm/secret+9";
const PHONE = "12025550123";
const WORDS = "the blue planted door";

/** As they are, and as addresses and JSON write them. */
const SECRETS = [
  TELEGRAM_SECRET,
  CRM_SECRET,
  encodeURIComponent(CRM_SECRET),
  CRM_SECRET.replaceAll("/", "\\/"),
];
const PERSONAL = [PHONE, "202 555 0123", "555-0123", WORDS, "planted door"];

function assertHolds(text: string, forbidden: readonly string[], where: string): void {
  for (const value of forbidden) {
    assert.ok(!text.includes(value), `${where} holds "${value}":\n${text.slice(0, 4000)}`);
  }
}

/** The secret in each place that a configuration has for it. */
const LEAD = {
  url: "leads?access={{ secrets.token | url_encode }}",
  body: { access: "{{ secrets.token }}" },
  headers: { "X-Access": "{{ secrets.token | url_encode }}" },
};

async function plantedWorld(t: Parameters<typeof world>[0]): Promise<World> {
  const w = await world(t, {
    safety: "search",
    token: TOKEN,
    crm: { token: CRM_SECRET },
    config: { crm: { sales: { concurrency: 1, lead: LEAD } } },
  });
  w.env = { ...w.env, CRM_TOKEN: CRM_SECRET, LEADONCE_DEBUG: "1" };
  return w;
}

/** What a careless CRM and a careless front end say. */
const ECHO = `Bad ${CRM_SECRET} for +${PHONE} (+1 202 555 0123): "${WORDS}", see /?access=${encodeURIComponent(CRM_SECRET)}`;

test("no log line, command, view or error holds a token, a secret, a phone number or a message", async (t) => {
  const w = await plantedWorld(t);
  const customer = { ...person(1), username: "test_person" };
  const say = (n: number) => w.bot.say({ from: { ...person(n), username: "test_person" }, text: WORDS });
  w.bot.say({
    from: customer,
    contact: { phone_number: PHONE, first_name: "Test", user_id: customer.id },
  });
  say(1);
  for (const n of [2, 3, 4, 5, 6]) say(n);
  w.bot.pushRaw((id) => `{"update_id":${id},"message":{"text":"${WORDS}","phone":"+${PHONE}"}}`);
  w.bot.pushRaw((id) => `{"update_id":${id},"message":"${WORDS}"}`);
  w.bot.pushRaw((id) => `{"update_id":${id},"brand_new":{"text":"${WORDS} +${PHONE}"}}`);
  // Nothing that the other side says may be passed on as it stands.
  w.crm.fault({ on: "create", nth: 1, kind: "answer", status: 422, body: { error: ECHO } });
  w.crm.fault({ on: "create", nth: 3, kind: "answer", status: 500, body: ECHO, applied: true });
  w.crm.fault({ on: "create", nth: 4, kind: "answer", status: 409, body: { error: ECHO } });
  w.crm.fault({
    on: "create",
    nth: 5,
    kind: "answer",
    status: 302,
    headers: { Location: `/?${ECHO.slice(4, 24)}` },
  });
  w.crm.fault({ on: "create", nth: 6, kind: "drop" });
  w.crm.fault({ on: "find", kind: "answer", status: 400, body: { error: ECHO } });
  w.bot.fault({ method: "getUpdates", kind: "redirect", status: 302, location: `/bot${TOKEN}/getUpdates` });
  const description = `Bad Request: /bot${TOKEN}/getMe`;
  w.bot.fault({ method: "getMe", kind: "error", code: 400, description });

  const daemon = await w.started();
  await w.settled(daemon);
  const everything = [...SECRETS, ...PERSONAL];
  const states = new Set((await w.jobs()).map(({ state }) => state));
  assert.deepEqual(
    states,
    new Set(["failed", "done", "needs_reconciliation"]),
    "all kinds of ends are there",
  );

  const [job] = await w.jobs();
  const asked = [
    ["status"],
    ["status", "--json"],
    ["leads"],
    ["jobs"],
    ["jobs", "--json"],
    ["reconcile", "list"],
    ["reconcile", "list", "--json"],
    ["trace", job?.operation_id ?? ""],
    ["trace", `+${PHONE}`, "--json"],
    ["check"],
    ["pause", "sales"],
    ["retry", String(job?.job_id)],
    ["link", "999", "L-1"],
  ];
  for (const command of asked) {
    const { stdout, stderr } = await w.run(...command);
    assert.ok(stdout !== "" || stderr !== "");
    assertHolds(stdout + stderr, everything, command.join(" ").replace(PHONE, "PHONE"));
  }
  await daemon.stop();
  assertHolds(daemon.output, everything, "the log");

  const db = connect(w.database, { readonly: true });
  w.atEnd(() => db.close());
  const views = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").pluck().all();
  assert.ok(views.length > 0);
  for (const view of views) {
    assertHolds(JSON.stringify(db.prepare(`SELECT * FROM ${view}`).all()), everything, `view ${view}`);
  }
  const alerts = JSON.stringify(db.prepare("SELECT * FROM alerts").all());
  assertHolds(alerts, everything, "alerts");
  // Messages are kept in the database, which is what it is for; secrets are not.
  const data = dirname(w.database);
  for (const file of readdirSync(data)) {
    assertHolds(readFileSync(join(data, file), "latin1"), [TELEGRAM_SECRET, CRM_SECRET], file);
  }
});

test("a start that goes wrong shows neither the token nor what was pasted with it (TR-70)", async (t) => {
  const w = await plantedWorld(t);
  const pasted = `Use this token to access the HTTP API: ${TOKEN}`;
  const mistakes: { env?: NodeJS.ProcessEnv; config?: Parameters<World["configure"]>[0] }[] = [
    { env: { TELEGRAM_BOT_TOKEN: pasted } },
    { env: { TELEGRAM_BOT_TOKEN: `${TOKEN} ` } },
    { env: { TELEGRAM_BOT_TOKEN: `bot${TOKEN}` } },
    { env: { TELEGRAM_BOT_TOKEN: TOKEN.replace(":", " ") } },
    { env: { CRM_TOKEN: "" } },
    { config: { telegram: { token: pasted } } },
    { config: { telegram: { token: "env:TELEGRAM_BOT_TOKEN", api_root: `htp:/${TOKEN}` } } },
    { config: { telegram: { api_root: `https://127.0.0.1:x/bot${TOKEN}` } } },
  ];
  for (const { env, config } of mistakes) {
    if (config !== undefined) w.configure(config);
    const refused = w.start(env);
    assert.equal((await refused.ended()).code, 78, refused.output);
    assertHolds(refused.output, SECRETS, "the refusal");
  }
  assert.deepEqual(w.bot.requests, []);
});

test("Telegram that can't be reached, or answers nonsense, is named without the token", async (t) => {
  const w = await plantedWorld(t);
  const nowhere = ["http://127.0.0.1:9", "https://127.0.0.1:9", `${w.telegram.root}/not-here`];
  for (const api_root of nowhere) {
    w.configure({ telegram: { api_root } });
    const daemon = w.start();
    await daemon.line("poller.failed");
    await daemon.stop();
    assertHolds(daemon.output, SECRETS, `the log with ${api_root}`);
    assertHolds((await w.run("status")).stdout, SECRETS, "status");
  }
});
