/** `leadonce check` as a process: what it finds, what it says to do, and that it changes nothing (P1, P4, P5). */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { z } from "zod";
import { checkClock } from "../../src/commands/check/clock.ts";
import type { CheckResult } from "../../src/commands/check/result.ts";
import { spaceResult } from "../../src/commands/check/storage.ts";
import { answers } from "../../src/stand-ins/crm/index.ts";
import { exampleToken } from "../../src/stand-ins/telegram/index.ts";
import { connect } from "../../src/store/connect.ts";
import { CRM_TOKEN } from "./crm-config.ts";
import { type Finished, finished } from "./daemon.ts";
import { TOKEN, type World, world } from "./world.ts";

const shape = z.array(
  z.strictObject({
    check: z.string().min(1),
    state: z.enum(["ok", "warning", "problem", "skipped"]),
    message: z.string().min(1),
    hint: z.string().min(1).nullable(),
  }),
);

interface Checked extends Finished {
  results: CheckResult[];
}

async function check(w: World, ...argv: string[]): Promise<Checked> {
  const ended = await w.run("check", "--json", ...argv);
  assertNoSecret(ended);
  const results = shape.parse(ended.json());
  for (const { state, hint, check: name } of results) {
    assert.equal(hint !== null, state === "warning" || state === "problem", `${name} has its next step`);
  }
  return { ...ended, results };
}

function assertNoSecret({ stdout, stderr }: Finished): void {
  for (const secret of [TOKEN, TOKEN.slice(TOKEN.indexOf(":") + 1), CRM_TOKEN]) {
    assert.ok(!stdout.includes(secret) && !stderr.includes(secret), "a secret is shown");
  }
}

function resultOf({ results }: Checked, name: string): CheckResult {
  const found = results.find((result) => result.check === name);
  assert.ok(
    found !== undefined,
    `there is no check ${name}: ${results.map((result) => result.check).join(", ")}`,
  );
  return found;
}

/** All checks that are neither ok nor skipped. */
function found({ results }: Checked): [string, string][] {
  return results
    .filter(({ state }) => state === "problem" || state === "warning")
    .map(({ check: name, state }) => [name, state]);
}

function created({ crm }: World): string[] {
  return crm.requests.filter(({ method }) => method !== "GET").map(({ method, path }) => `${method} ${path}`);
}

/** Every file of the folder, with its mode and content. */
function filesOf(folder: string): string[] {
  return readdirSync(folder).map((name) => {
    const path = join(folder, name);
    const content = createHash("sha256").update(readFileSync(path)).digest("hex");
    return `${name} ${(statSync(path).mode & 0o777).toString(8)} ${content}`;
  });
}

/** Its daemon has run once, and one lead is stored. */
async function worldWithDatabase(t: TestContext): Promise<World> {
  const w = await world(t, { safety: "search" });
  const daemon = await w.started();
  w.say(1);
  await w.settled(daemon);
  await daemon.stop();
  return w;
}

describe("a healthy set-up", () => {
  test("everything is ok, exit 0, and nothing is made, polled or created", async (t) => {
    const w = await world(t, { safety: "search" });
    const checked = await check(w);
    assert.equal(checked.code, 0, checked.stderr);
    assert.deepEqual(new Set(checked.results.map(({ state }) => state)), new Set(["ok"]));
    for (const name of [
      "configuration",
      "secrets",
      "telegram",
      "telegram.webhook",
      "crm.sales",
      "crm.sales.lead.find",
    ]) {
      assert.equal(resultOf(checked, name).state, "ok");
    }
    assert.deepEqual(readdirSync(w.folder), ["service.conf"]);
    assert.deepEqual(created(w), []);
    const asked = new Set(w.telegram.requests.map(({ method }) => method).filter((method) => method !== ""));
    assert.deepEqual(asked, new Set(["getMe", "getWebhookInfo"]));
  });

  test("people get a table with a line for each check and the next command", async (t) => {
    const w = await world(t, { safety: "search" });
    const { stdout, code } = await w.run("check");
    assert.equal(code, 0);
    assert.match(stdout, /^telegram +ok +@leadonce_test_bot, id 7001$/m);
    assert.match(stdout, /^crm\.sales\.lead\.safety +ok +search: .*looked up after 100ms, 300ms/m);
    assert.match(stdout, /^all is well.*leadonce try$/m);
    assert.ok(!stdout.includes("\u001b"), "no colours outside of a terminal");
  });

  test("offline nobody is asked, and it says so", async (t) => {
    const w = await world(t, { safety: "search" });
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 0);
    assert.match(resultOf(checked, "telegram").message, /--offline/);
    assert.equal(resultOf(checked, "crm.sales").state, "skipped");
    assert.equal(resultOf(checked, "crm.sales.lead.safety").state, "ok");
    assert.equal(w.telegram.requests.length + w.crm.requests.length, 0);
  });

  test("without a CRM it says that leads stay in the ledger", async (t) => {
    const w = await world(t, { crms: {} });
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.match(resultOf(checked, "configuration").message, /ledger/);
  });
});

describe("the configuration", () => {
  test("mistakes in the file, templates too, are told with their places, and end with 78", async (t) => {
    const w = await world(t, {
      safety: "search",
      config: { crm: { sales: { timeout: "soon", lead: { body: { name: "{{ contact.nam }}" } } } } },
    });
    const checked = await check(w);
    assert.equal(checked.code, 78);
    assert.equal(resultOf(checked, "crm.sales.timeout").state, "problem");
    const people = await w.run("check");
    assert.equal(people.code, 78);
    assert.match(people.stderr, /crm\.sales\.timeout/);

    w.configure({ crm: { sales: { timeout: "8s" } } });
    const template = await check(w);
    assert.match(resultOf(template, "crm.sales.lead.body.name").hint ?? "", /contact\.name/);
  });

  test("a missing secret is named, the database is looked at all the same, and nobody is asked", async (t) => {
    const w = await world(t);
    w.env = { TELEGRAM_BOT_TOKEN: TOKEN };
    const checked = await check(w);
    assert.equal(checked.code, 78);
    assert.match(resultOf(checked, "crm.sales.secrets.token").message, /CRM_TOKEN/);
    assert.equal(resultOf(checked, "storage.folder").state, "ok");
    assert.equal(w.telegram.requests.length + w.crm.requests.length, 0);
  });

  test("where nothing is set up it says how to begin", async (t) => {
    const w = await world(t);
    rmSync(w.config);
    const surroundings = { folder: w.folder, env: {} };
    const people = await finished(["check"], surroundings);
    assert.equal(people.code, 78);
    assert.match(people.stderr, /BotFather/);
    const programs = await finished(["check", "--json"], surroundings);
    assert.equal(programs.code, 78);
    assert.equal(shape.parse(programs.json())[0]?.state, "problem");
  });
});

describe("the database", () => {
  test("one that is ready is ok, and is left as it was", async (t) => {
    const w = await worldWithDatabase(t);
    await check(w);
    const before = filesOf(join(w.folder, "data"));
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.match(resultOf(checked, "storage.path").message, /synchronous=FULL/);
    assert.equal(resultOf(checked, "storage.schema").state, "ok");
    assert.match(resultOf(checked, "storage.folder").message, /writable, private and on a local disk/);
    assert.match(resultOf(checked, "daemon").message, /stopped/);
    assert.deepEqual(filesOf(join(w.folder, "data")), before);
  });

  test("beside a running daemon it sees it and takes nothing away from it", async (t) => {
    const w = await world(t, { safety: "search" });
    const daemon = await w.started();
    const checked = await check(w);
    assert.equal(checked.code, 0, checked.stdout);
    assert.match(resultOf(checked, "daemon").message, new RegExp(`process ${daemon.pid} `));
    w.say(1);
    await w.settled(daemon);
    assert.equal(w.crm.leads.length, 1);
    assert.deepEqual(
      daemon.lines.filter(({ event }) => event.includes("conflict")),
      [],
    );
  });

  test("files that others may read are a problem, and their mode is left to the person", async (t) => {
    const w = await worldWithDatabase(t);
    chmodSync(w.database, 0o644);
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 1);
    assert.deepEqual(found(checked), [["storage.path", "problem"]]);
    assert.match(resultOf(checked, "storage.path").hint ?? "", /^chmod 600 .*leadonce\.db/);
    assert.equal(statSync(w.database).mode & 0o777, 0o644);
  });

  test("a folder into which others may look is a warning", async (t) => {
    const w = await worldWithDatabase(t);
    chmodSync(join(w.folder, "data"), 0o755);
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 0);
    assert.deepEqual(found(checked), [["storage.folder", "warning"]]);
    assert.equal(statSync(join(w.folder, "data")).mode & 0o777, 0o755);
  });

  test("a path below a file is a problem", async (t) => {
    const w = await world(t);
    writeFileSync(join(w.folder, "data"), "");
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 1);
    assert.equal(resultOf(checked, "storage.folder").state, "problem");
  });

  test("a file that is no database is a problem", async (t) => {
    const w = await world(t);
    mkdirSync(join(w.folder, "data"), { mode: 0o700 });
    writeFileSync(w.database, "no database at all ".repeat(100), { mode: 0o600 });
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "storage.path").message, /not a leadonce database/);
  });

  test("a database of a newer version is a problem", async (t) => {
    const w = await worldWithDatabase(t);
    const db = connect(w.database);
    db.exec("INSERT INTO migrations (number, name, checksum, applied_at_ms) VALUES (999, 'later', 'x', 0)");
    db.close();
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "storage.path").message, /newer leadonce/);
  });

  test("the token of another bot than the database's is a problem", async (t) => {
    const w = await worldWithDatabase(t);
    w.env = { ...w.env, TELEGRAM_BOT_TOKEN: exampleToken(9009) };
    const checked = await check(w, "--offline");
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "telegram.token").message, /bot 9009.*bot 7001 \(@leadonce_test_bot\)/);
  });

  test("little space is a warning, none a problem", () => {
    const states = [10, 300, 5_000].map((mib) => spaceResult("/data", mib * 1024 * 1024).state);
    assert.deepEqual(states, ["problem", "warning", "ok"]);
  });
});

describe("the bot", () => {
  test("a token that Telegram refuses is a problem with the way to the current one", async (t) => {
    const w = await world(t);
    w.telegram.replaceToken(TOKEN, exampleToken(7002));
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.deepEqual(found(checked), [["telegram", "problem"]]);
    assert.match(resultOf(checked, "telegram").hint ?? "", /BotFather/);
  });

  test("a Telegram that can't be reached is a problem, and the CRM is checked all the same", async (t) => {
    const w = await world(t);
    await w.telegram.stop();
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "telegram").message, /ECONNREFUSED/);
    assert.equal(resultOf(checked, "crm.sales").state, "ok");
  });

  test("another tool's webhook is a problem that names its host alone", async (t) => {
    const w = await world(t);
    w.bot.setWebhook("https://hooks.example/secret-path-8841");
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "telegram.webhook").message, /hooks\.example/);
    assert.ok(!checked.stdout.includes("secret-path-8841"));
    assert.equal(w.bot.webhookUrl, "https://hooks.example/secret-path-8841");
  });

  test("a webhook that leadonce takes over is a warning", async (t) => {
    const w = await world(t, { config: { telegram: { take_over_webhook: true } } });
    w.bot.setWebhook("https://hooks.example/bot");
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.deepEqual(found(checked), [["telegram.webhook", "warning"]]);
    assert.notEqual(w.bot.webhookUrl, "", "check removes nothing");
  });

  test("updates that wait are counted and stay, and a large backlog is a warning", async (t) => {
    const w = await world(t);
    w.say(3);
    assert.match(resultOf(await check(w), "telegram.pending").message, /3$/);
    assert.equal(w.bot.pending, 3);
    w.bot.fill(5_000);
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.deepEqual(found(checked), [["telegram.pending", "warning"]]);
  });

  test("an action for groups meets the privacy mode as a warning", async (t) => {
    const actions = [{ name: "groups", kind: "lead", when: { chat: "supergroup" } }];
    const w = await world(t, { config: { actions } });
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.deepEqual(found(checked), [["telegram.privacy", "warning"]]);
  });

  test("a clock that differs from Telegram's is a warning, one that does not is ok", async (t) => {
    const server = createServer((_, response) => response.end());
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    // A server that listens on TCP has an AddressInfo; the string is for pipes.
    const apiRoot = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const at = async (aheadMs: number) => {
      const [result] = await checkClock({ apiRoot, proxy: null }, { now: () => Date.now() + aheadMs });
      return `${result?.state}: ${result?.message}`;
    };
    assert.match(await at(0), /^ok/);
    assert.match(await at(10 * 60_000), /^warning: .*ahead of/);
    assert.match(await at(-10 * 60_000), /^warning: .*behind/);
  });
});

describe("a CRM", () => {
  test("refused credentials are a problem, and a token that the CRM quotes is not shown", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.fault({ on: "probe", ...answers.status(401, { error: `no such token: ${CRM_TOKEN}` }) });
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "crm.sales").message, /refuses the credentials: .*no such token/);
    assert.match(resultOf(checked, "crm.sales").hint ?? "", /crm\.sales\.secrets/);
    assert.equal(resultOf(checked, "crm.sales.lead.find").state, "skipped");
  });

  test("a CRM that is down, or in trouble, is a problem", async (t) => {
    const w = await world(t);
    w.crm.fault({ on: "probe", ...answers.unavailable });
    assert.match(resultOf(await check(w), "crm.sales").message, /in trouble: .*503/);
    await w.crm.goDown();
    const down = await check(w);
    assert.equal(down.code, 1);
    assert.match(resultOf(down, "crm.sales").message, /can't be reached/);
    assert.deepEqual(created(w), []);
  });

  test("a probe at a wrong address is a warning", async (t) => {
    const w = await world(t, { config: { crm: { sales: { probe: "nowhere" } } } });
    const checked = await check(w);
    assert.equal(checked.code, 0);
    assert.deepEqual(found(checked), [["crm.sales", "warning"]]);
  });

  test("credentials that can't be tried without a record are a warning, not a guess", async (t) => {
    const w = await world(t);
    const text = readFileSync(w.config, "utf8");
    writeFileSync(w.config, text.replace(/^probe = .*$/m, ""));
    const checked = await check(w);
    assert.deepEqual(found(checked), [["crm.sales", "warning"]]);
    assert.deepEqual(created(w), []);
  });

  test("a look-up that is not answered as configured is a problem", async (t) => {
    const w = await world(t, {
      safety: "search",
      config: { crm: { sales: { lead: { find: { items: "/hits" } } } } },
    });
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "crm.sales.lead.find").message, /there is no list at "\/hits"/);
  });

  test("a look-up that finds something for an impossible reference is a problem", async (t) => {
    const w = await world(t, { safety: "search" });
    w.crm.fault({ on: "find", ...answers.status(200, { items: [{ id: "L-7" }, { id: "L-8" }] }) });
    const checked = await check(w);
    assert.equal(checked.code, 1);
    assert.match(resultOf(checked, "crm.sales.lead.find").message, /any record would be taken for ours/);
  });
});

describe("the safety class", () => {
  const key = "{{ operation.key }}";
  const cases = [
    {
      name: "none means that a lost answer always needs a person",
      safety: "none",
      lead: {},
      warnings: ["crm.sales.lead.safety"],
    },
    {
      name: "a key that search makes no use of",
      safety: "search",
      lead: { headers: { "Idempotency-Key": key } },
      warnings: ["crm.sales.lead.headers.Idempotency-Key"],
    },
    {
      name: "a fixed value in a header for keys",
      safety: "external-id",
      lead: { headers: { "X-Idempotency-Key": "{{ operation.id }}" } },
      warnings: ["crm.sales.lead.headers.X-Idempotency-Key"],
    },
    {
      name: "external-id without our reference",
      safety: "external-id",
      lead: { body: { external_ref: "{{ message.ref }}", code: "1" } },
      warnings: ["crm.sales.lead"],
    },
    {
      name: "a look-up that none makes no use of",
      safety: "none",
      lead: {
        find: { url: "leads?external_ref={{ operation.id | url_encode }}", items: "/items", id: "/id" },
      },
      warnings: ["crm.sales.lead.find", "crm.sales.lead.safety"],
    },
  ] as const;
  for (const { name, safety, lead, warnings } of cases) {
    test(`warns of ${name}`, async (t) => {
      const w = await world(t, { safety, config: { crm: { sales: { lead } } } });
      const checked = await check(w, "--offline");
      assert.equal(checked.code, 0);
      assert.deepEqual(
        found(checked).sort(),
        warnings.map((warning) => [warning, "warning"]),
      );
    });
  }

  for (const safety of ["idempotency-key", "external-id", "search"] as const) {
    test(`says what ${safety} promises`, async (t) => {
      const w = await world(t, { safety });
      const checked = await check(w, "--offline");
      assert.deepEqual(found(checked), []);
      assert.match(
        resultOf(checked, "crm.sales.lead.safety").message,
        new RegExp(`^${safety}: when an answer is lost`),
      );
    });
  }
});
