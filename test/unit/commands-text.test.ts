import assert from "node:assert/strict";
import { PassThrough, Writable } from "node:stream";
import { describe, test } from "node:test";
import { explainFailure } from "../../src/commands/failure.ts";
import { reconciliationsText } from "../../src/commands/reconcile-list.ts";
import { parseSince } from "../../src/commands/since.ts";
import { daemonReport, statusText } from "../../src/commands/status.ts";
import { makeTerminal, type Terminal } from "../../src/commands/terminal.ts";
import { ago, json, span, table, until } from "../../src/commands/text.ts";
import {
  ConfigError,
  EXIT,
  InvariantError,
  LockedError,
  StorageError,
  UsageError,
} from "../../src/domain/errors.ts";
import { asJobId, asRunId } from "../../src/domain/ids.ts";
import type { ReconciliationReport, StatusReport } from "../../src/domain/reports.ts";
import type { RunRow } from "../../src/domain/store.ts";
import { written } from "../written.ts";

const NOW = Date.UTC(2026, 0, 5, 9);
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const at = (ms: number): string => new Date(ms).toISOString();

const TOKEN = `123456789:${"AbCdEfGh-_".repeat(4)}`;
const ESCAPE = "\u001b";

describe("times", () => {
  test("a span is told in the one unit that is enough to judge by", () => {
    const spans = [0, 59 * SECOND, MINUTE, 119 * MINUTE, 2 * HOUR, 47 * HOUR, 2 * DAY, 400 * DAY].map(span);
    assert.deepEqual(spans, ["0 s", "59 s", "1 min", "119 min", "2 h", "47 h", "2 d", "400 d"]);
  });

  test("a clock that was put back makes no negative age, and what is overdue is due now", () => {
    assert.equal(ago(at(NOW + HOUR), NOW), "0 s ago");
    assert.equal(until(at(NOW - HOUR), NOW), "now");
    assert.equal(until(at(NOW + 8 * MINUTE), NOW), "in 8 min");
  });

  test("--since takes spans, dates and times", () => {
    assert.equal(parseSince("90s", NOW), NOW - 90 * SECOND);
    assert.equal(parseSince("7d", NOW), NOW - 7 * DAY);
    assert.equal(parseSince(" 2 w ", NOW), NOW - 14 * DAY);
    assert.equal(parseSince("2026-01-02", NOW), new Date(2026, 0, 2).getTime());
    assert.equal(parseSince("2026-01-02T03:04", NOW), new Date(2026, 0, 2, 3, 4).getTime());
    assert.equal(parseSince("2026-01-02T03:04:05Z", NOW), Date.UTC(2026, 0, 2, 3, 4, 5));
    assert.equal(parseSince("2026-01-02T03:04+02:00", NOW), Date.UTC(2026, 0, 2, 1, 4));
  });

  for (const text of [
    "",
    "2",
    "h",
    "-2h",
    "2y",
    "soon",
    "2026-02-30",
    "2026-13-01",
    "2026-01-02T25:00",
    "1/2/2026",
  ]) {
    test(`--since refuses "${text}"`, () => assert.throws(() => parseSince(text, NOW), UsageError));
  }
});

test("a table's columns line up, whatever is coloured in them", () => {
  const red = `${ESCAPE}[31mred${ESCAPE}[39m`;
  assert.deepEqual(
    table([
      ["a", red, "x"],
      ["bbbb", "c"],
      ["", "dddd", "y"],
    ]),
    [`a     ${red}   x`, "bbbb  c", "      dddd  y"],
  );
});

test("JSON escapes what a terminal would obey, and stays the same value", () => {
  const value = { text: "a\u009b31mb\u007f" };
  const text = json(value);
  assert.ok(!/[\u007f-\u009f]/.test(text));
  assert.deepEqual(JSON.parse(text), value);
});

// ---- the terminal -------------------------------------------------------------------------------------------------

/** What a stream showed until the mark came; newer Node versions send it in several pieces. */
function shownUntil(stream: PassThrough, mark: string): Promise<string> {
  let shown = "";
  return new Promise((resolve) => {
    stream.on("data", (chunk: Buffer) => {
      shown += String(chunk);
      if (shown.includes(mark)) resolve(shown);
    });
  });
}

function screen(options: { tty?: boolean; env?: NodeJS.ProcessEnv } = {}) {
  const tty = options.tty ?? false;
  const stream = () => Object.assign(new PassThrough(), { isTTY: tty });
  const streams = { stdin: stream(), stdout: stream(), stderr: stream() };
  const terminal = makeTerminal(streams, options.env ?? {});
  return { terminal, ...streams, out: () => written(streams.stdout), err: () => written(streams.stderr) };
}

describe("nothing printed holds what must not leak (P5)", () => {
  test("bot tokens, phone numbers and hidden secrets are replaced, on both streams", () => {
    const { terminal, out, err } = screen();
    terminal.hide(["hunter2"]);
    const text = `a ${TOKEN} b +12025550101 c hunter2 d`;
    terminal.out(text);
    terminal.err(text);
    assert.equal(out(), "a [secret] b [phone] c [secret] d\n");
    assert.equal(err(), "a [secret] b [phone] c [secret] d\n");
  });

  test("control characters of a destination's answer do not reach the screen, our colours do", () => {
    const { terminal, out } = screen();
    terminal.out(`a${ESCAPE}[2Jb${ESCAPE}]0;title\u0007c\u009b1md\r\n${ESCAPE}[31me${ESCAPE}[39m`);
    assert.equal(out(), `a[2Jb]0;titlec1md\n${ESCAPE}[31me${ESCAPE}[39m\n`);
  });

  test("an unforeseen error shows its kind, not its message, which may quote a customer", () => {
    const { terminal, err } = screen();
    const code = explainFailure(new SyntaxError('Unexpected token in "call me at home"'), {
      terminal,
      env: {},
    });
    const text = err();
    assert.equal(code, EXIT.bug);
    assert.match(text, /this is a bug of leadonce \(SyntaxError\)/);
    assert.doesNotMatch(text, /call me|at Object|\.ts:/);
  });

  test("LEADONCE_DEBUG=1 adds the stack and its causes, still without secrets", () => {
    const { terminal, err } = screen();
    const error = new StorageError("no", null, new Error(`cause with ${TOKEN}`));
    explainFailure(error, { terminal, env: { LEADONCE_DEBUG: "1" } });
    const text = err();
    assert.match(text, /commands-text\.test\.ts/);
    assert.match(text, /caused by Error: cause with \[secret\]/);
  });
});

test("each error ends in its exit code, with the sentence and the next step", () => {
  const errors: [unknown, number, RegExp][] = [
    [new UsageError("wrong", "do this"), 64, /leadonce: wrong\n {2}do this/],
    [new StorageError("no disk", "buy one"), 74, /leadonce: no disk\n {2}buy one/],
    [new LockedError("held", "wait"), 75, /leadonce: held/],
    [
      new ConfigError("two problems:", [
        { path: "a.b", value: '"x"', message: "is wrong", hint: "write y" },
        { path: "c", value: null, message: "is missing", hint: null },
      ]),
      78,
      /two problems:[\s\S]*a\.b[\s\S]*is wrong[\s\S]*write y[\s\S]*c[\s\S]*is missing/,
    ],
    [new InvariantError("two leases"), 70, /bug of leadonce \(two leases\)/],
    ["thrown text", 70, /bug of leadonce \(string\)/],
  ];
  for (const [error, code, text] of errors) {
    const { terminal, err } = screen();
    assert.equal(explainFailure(error, { terminal, env: {} }), code);
    assert.match(err(), text);
  }
});

describe("colours", () => {
  const coloured = (options: Parameters<typeof screen>[0]): boolean =>
    screen(options).terminal.style("red", "x") !== "x";

  test("are used on a terminal only", () => {
    assert.equal(coloured({ tty: true }), true);
    assert.equal(coloured({ tty: false }), false);
  });
  test("are left out with NO_COLOR, and where the terminal is dumb", () => {
    assert.equal(coloured({ tty: true, env: { NO_COLOR: "1" } }), false);
    assert.equal(coloured({ tty: true, env: { TERM: "dumb" } }), false);
  });
});

describe("a question", () => {
  for (const [answer, yes] of [
    ["y", true],
    ["YES", true],
    ["n", false],
    ["", false],
    ["yesterday", false],
  ] as const) {
    test(`answered with "${answer}" means ${yes ? "yes" : "no"}, and is asked beside the output`, async () => {
      const { terminal, stdin, stderr, out } = screen({ tty: true });
      const asked = shownUntil(stderr, "[y/N]");
      const answered = terminal.confirm("Retry 5 jobs?");
      assert.match(await asked, /Retry 5 jobs\? \[y\/N\]/);
      stdin.write(`${answer}\n`);
      assert.equal(await answered, yes);
      assert.equal(out(), "");
    });
  }

  test("that ends without an answer means no", async () => {
    const { terminal, stdin } = screen({ tty: true });
    const answered = terminal.confirm("Retry 5 jobs?");
    stdin.end();
    assert.equal(await answered, false);
  });

  test("can't be asked where nobody sits at a terminal", async () => {
    assert.equal(await screen({ tty: false }).terminal.confirm("Retry 5 jobs?"), null);
  });
});

test("a reader that has left is no error, and what is under way goes on", async () => {
  const gone = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error("gone"), { code: "EPIPE" })),
  });
  const { stdin, stderr } = screen();
  const terminal = makeTerminal({ stdin, stdout: gone, stderr }, {});
  // `once` of node:events would take the error for its own.
  const closed = new Promise((resolve) => gone.once("close", resolve));
  terminal.out("one");
  await closed;
  terminal.out("two");
});

// ---- status and reconcile list, as people read them ----------------------------------------------------------------

const PLAIN: Pick<Terminal, "style"> = { style: (_format, text) => text };

function statusReport(overrides: Partial<StatusReport> = {}): StatusReport {
  return {
    version: "0.1.0",
    bot: { id: 4242, username: "TestEnquiryBot" },
    poller: { state: "polling", next_offset: 11, last_completed_at: at(NOW - 5 * SECOND), last_error: null },
    updates: { accepted: 3, ignored: 1, quarantined: 0, duplicates: 2 },
    jobs: { blocked: 0, pending: 0, leased: 0, done: 3, failed: 0, needs_reconciliation: 0, cancelled: 0 },
    oldest_pending_age_s: null,
    destinations: [{ name: "sales", state: "active", reason: null }],
    reconciliations_open: 0,
    alerts: [],
    ...overrides,
  };
}

const RUN: RunRow = {
  runId: asRunId("run-1"),
  version: "0.1.0",
  configHash: "0",
  pid: 77,
  host: "box",
  startedAtMs: NOW - DAY,
  heartbeatAtMs: NOW - 30 * SECOND,
  endedAtMs: null,
};

function status(report: Partial<StatusReport> = {}, run: RunRow | null = RUN): string[] {
  const full = statusReport(report);
  return statusText(full, daemonReport(run, full.poller.last_completed_at, NOW), NOW, PLAIN);
}

const alert = (message: string) => ({
  kind: "failed",
  subject: "7",
  message,
  since: at(NOW - HOUR),
  times: 1,
});

describe("the headline of status", () => {
  const jobs = statusReport().jobs;
  test("says that everything is done", () => assert.equal(status()[0], "everything is done"));
  test("says how many matters wait for a person", () => {
    assert.equal(status({ alerts: [alert("one")] })[0], "1 matter waits for you");
    assert.equal(status({ alerts: [alert("one"), alert("two")] })[0], "2 matters wait for you");
  });
  test("counts a daemon that is not running as one of them", () => {
    assert.equal(status({}, { ...RUN, endedAtMs: NOW - HOUR })[0], "1 matter waits for you");
  });
  test("tells work that goes on by itself from work that waits", () => {
    assert.match(
      status({ jobs: { ...jobs, pending: 2 } })[0] ?? "",
      /^2 jobs under way, nothing waits for you/,
    );
  });
});

describe("status tells a daemon that runs from one that does not", () => {
  const state = (run: RunRow | null, lastPoll: string | null = null) =>
    daemonReport(run, lastPoll, NOW).state;
  const silent = { ...RUN, heartbeatAtMs: NOW - 10 * MINUTE };
  test("by its last sign of life", () => {
    assert.equal(state(RUN), "running");
    assert.equal(state(silent), "silent");
    assert.equal(state(silent, at(NOW - MINUTE)), "running");
    assert.equal(state({ ...silent, startedAtMs: NOW }), "running");
  });
  test("by its end, and by its never having started", () => {
    assert.equal(state({ ...RUN, endedAtMs: NOW }), "stopped");
    assert.equal(state(null), "never_started");
  });
  test("and names the command that starts it", () => {
    assert.ok(
      status({}, { ...RUN, endedAtMs: NOW }).some((line) => /start the daemon +leadonce run/.test(line)),
    );
    assert.ok(!status().some((line) => line.includes("leadonce run")));
  });
});

test("status shows the first alerts and says how many more there are", () => {
  const lines = status({ alerts: Array.from({ length: 25 }, (_, n) => alert(`matter ${n}`)) });
  assert.equal(lines.filter((line) => line.startsWith("!")).length, 10);
  assert.ok(lines.some((line) => line.startsWith("… and 15 more")));
});

test("status names what follows: decisions, a paused destination, or the first message", () => {
  const jobs = { ...statusReport().jobs, failed: 1, needs_reconciliation: 1 };
  const lines = status({ jobs, destinations: [{ name: "sales", state: "paused", reason: "HTTP 503" }] }).join(
    "\n",
  );
  assert.match(lines, /leadonce reconcile list/);
  assert.match(lines, /leadonce jobs --state failed/);
  assert.match(lines, /leadonce resume sales/);
  assert.match(lines, /sales {2}paused: HTTP 503/);
  const fresh = status({ updates: { accepted: 0, ignored: 0, quarantined: 0, duplicates: 0 } }).join("\n");
  assert.match(fresh, /https:\/\/t\.me\/TestEnquiryBot/);
});

function unknownJob(overrides: Partial<ReconciliationReport> = {}): ReconciliationReport {
  return {
    job_id: asJobId(7),
    operation_id: "cb2f3a78-f817-5539-add9-2dd9e6bece13",
    destination: "sales",
    reason: "unknown_outcome",
    opened_at: at(NOW - 3 * MINUTE),
    checks: 0,
    next_check_at: null,
    evidence: [],
    code: "SCQK-MY7R-2X9S",
    step: "lead",
    contact: "@test_person",
    ...overrides,
  };
}

describe("reconcile list shows for each job", () => {
  const shown = (overrides: Partial<ReconciliationReport> = {}): string =>
    reconciliationsText([unknownJob(overrides)], NOW, PLAIN).join("\n");

  test("why it is parked, what is safe, whom to compare with and the exact commands", () => {
    const text = shown();
    assert.match(text, /its answer was lost/);
    assert.match(text, /Look in the CRM first/);
    assert.match(text, /@test_person/);
    for (const command of ["link 7 ID", "recreate 7", 'dismiss 7 --why "…"']) {
      assert.ok(text.includes(`leadonce reconcile ${command}`));
    }
  });

  test("whether another look-up comes by itself", () => {
    assert.match(shown({ next_check_at: at(NOW + 8 * MINUTE) }), /due in 8 min/);
    assert.match(shown(), /no automatic look-up is left: it waits for you/);
  });

  test("what the look-ups saw; a record that was found is named in the command, and a second one is not proposed", () => {
    const text = shown({
      reason: "found_twice",
      evidence: [
        { at: at(NOW - 2 * MINUTE), found: null, detail: "not answered: HTTP 503" },
        { at: at(NOW - MINUTE), found: ["A1", "B 2"], detail: null },
      ],
    });
    assert.match(text, /2 min ago: not answered: HTTP 503/);
    assert.match(text, /1 min ago: found A1, B 2/);
    assert.match(text, /leadonce reconcile link 7 A1\n/);
    assert.match(text, /leadonce reconcile link 7 'B 2'\n/);
    assert.doesNotMatch(text, /recreate/);
  });

  test("ids that mean something to a shell as one quoted word", () => {
    const text = shown({ evidence: [{ at: at(NOW), found: ["x'; rm -rf ~"], detail: null }] });
    assert.ok(text.includes(`leadonce reconcile link 7 'x'\\''; rm -rf ~'`));
  });
});
