/** `leadonce demo` as scripts and people start it: its balance, its plain lines, and that nothing of it is left. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { before, type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Balance, fates, isEven, verdict } from "../../src/commands/demo/balance.ts";

const CLI = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), "dist/cli.js");

interface Demo {
  child: ChildProcess;
  /** Where it keeps its files, and nobody else does. */
  folder: string;
  ended: Promise<Ending>;
  /** Resolves as soon as this text is printed. */
  printed(text: string): Promise<void>;
}

interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
  out: string;
  err: string;
}

/** Without a terminal, in a process group of its own, so that whatever it leaves behind can be seen and ended. */
function startDemo(t: TestContext, ...options: string[]): Demo {
  const folder = mkdtempSync(join(tmpdir(), "leadonce-test-demo-"));
  const { PATH, HOME } = process.env;
  // What a user may have set for a daemon of his own must not reach the demo's.
  const own = { LEADONCE_CONFIG: "/nonexistent/service.conf", LEADONCE_CRASH_AT: "accept.committed" };
  const child = spawn(process.execPath, [CLI, "demo", ...options], {
    cwd: folder,
    env: { PATH, HOME, TMPDIR: folder, TELEGRAM_BOT_TOKEN: "1:not-for-the-demo", ...own },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
    child.emit("printed");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk.toString();
  });
  const ended = new Promise<Ending>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, out, err }));
  });
  t.after(() => {
    endGroup(child);
    rmSync(folder, { recursive: true, force: true });
  });
  const printed = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (out.includes(text)) resolve();
      };
      child.on("printed", look);
      child.on("close", () => reject(new Error(`the demo ended without "${text}":\n${out}${err}`)));
      look();
    });
  return { child, folder, ended, printed };
}

function endGroup({ pid }: ChildProcess): void {
  if (pid !== undefined && groupLives(pid)) process.kill(-pid, "SIGKILL");
}

function groupLives(pid: number): boolean {
  try {
    return process.kill(-pid, 0);
  } catch {
    return false;
  }
}

function assertNothingIsLeft({ child, folder }: Demo): void {
  assert.ok(child.pid !== undefined && !groupLives(child.pid), "a process is left");
  assert.deepEqual(readdirSync(folder), [], "files are left");
}

before(() => assert.ok(existsSync(CLI), "the demo is tested as it is shipped: npm run build first"));

test("the demo's morning ends with nothing lost and nothing doubled, and leaves nothing behind", async (t) => {
  const demo = startDemo(t);
  const { code, out, err } = await demo.ended;
  assert.equal(err, "");
  assert.equal(code, 0, out);
  assertNothingIsLeft(demo);

  const lines = out.trimEnd().split("\n");
  assert.match(lines.at(-1) ?? "", /^8 messages · 8 leads in the CRM · lost 0 · double 0$/);
  const counted = (what: string): string[] => {
    const row = lines.find((line) => line.startsWith(`  ${what}`)) ?? "";
    return row.match(/\d+/g)?.slice(0, 2) ?? [];
  };
  assert.deepEqual(counted("messages from customers"), ["8", "8"]);
  // One came again under another id, one again after the crash.
  assert.deepEqual(counted("deliveries by Telegram"), ["10", "10"]);
  assert.deepEqual(counted("records in the CRM"), ["8", "8"]);
  assert.deepEqual(counted("still waiting"), ["0", "0"]);

  // In this order, whatever stands between.
  const story = [
    /Telegram .*same message once more .*known: no second lead/,
    /CRM .*its answer never arrives .*unknown: not sent again/,
    /leadonce .*its own reference: L-4 .*done/,
    /leadonce .*killed \(SIGKILL\)/,
    /leadonce .*starts again/,
    /Telegram .*message again .*known: no second lead/,
    /leadonce .*its own reference: L-5 .*done/,
    /leadonce .*wait for a person/,
    /\$ leadonce reconcile list/,
    /\$ leadonce reconcile link \d+ L-7/,
    /\$ leadonce reconcile recreate \d+/,
    /CRM .*creates L-8 .*done/,
  ];
  let from = 0;
  for (const event of story) {
    const at = lines.findIndex((line, index) => index >= from && event.test(line));
    assert.notEqual(at, -1, `no ${event} after line ${from}:\n${out}`);
    from = at + 1;
  }

  // Without a terminal: plain lines, that fit a hundred columns.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  assert.doesNotMatch(out, /[\u0000-\u0009\u000b-\u001f\u007f]/);
  for (const line of lines) assert.ok(line.length <= 100, `${line.length} columns: ${line}`);
});

test("with --json the demo prints its balance alone", async (t) => {
  const { code, out } = await startDemo(t, "--json").ended;
  const balance: Balance = JSON.parse(out);
  assert.equal(code, 0);
  assert.ok(isEven(balance));
  assert.equal(balance.messages, 8);
});

for (const [signal, moment] of [
  ["SIGINT", "Customers write"],
  ["SIGINT", "killed (SIGKILL)"],
  ["SIGTERM", "$ leadonce reconcile list"],
] as const) {
  test(`${signal} at "${moment}" ends the demo by that signal, with nothing left behind`, async (t) => {
    const demo = startDemo(t);
    await demo.printed(moment);
    demo.child.kill(signal);
    const ending = await demo.ended;
    assert.deepEqual([ending.code, ending.signal], [null, signal]);
    assert.doesNotMatch(ending.err, /bug/);
    assertNothingIsLeft(demo);
  });
}

test("a message without a record is lost, one with two is double, and either makes the balance uneven", () => {
  const records = ["a", "b", "b"].map((text) => ({ body: { text } }));
  const { lost, double } = fates(["a", "b", "c"], records);
  assert.deepEqual({ lost, double }, { lost: 1, double: 1 });

  const even: Balance = { rows: [], messages: 3, leads: 3, lost: 0, double: 0 };
  assert.ok(isEven(even));
  assert.ok(!isEven({ ...even, lost }));
  assert.ok(!isEven({ ...even, double }));
  assert.ok(!isEven({ ...even, rows: [{ what: "records", outside: 4, inside: 3, as: "leads" }] }));
  assert.equal(verdict({ ...even, lost }), "3 messages · 3 leads in the CRM · lost 1 · double 0");
});
