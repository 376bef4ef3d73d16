import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Invocation } from "../../src/commands/invocation.ts";
import { parse } from "../../src/commands/parse.ts";
import { EXIT, UsageError } from "../../src/domain/errors.ts";
import { asJobId } from "../../src/domain/ids.ts";

const NOW = Date.UTC(2026, 0, 5, 9);
const PLAIN = { config: null, json: false };

const parsed = (line: string): Invocation => parse(line.split(" ").filter(Boolean), NOW);

/** What is wrong with the line, in our words. */
function mistake(...argv: string[]): UsageError {
  try {
    parse(argv, NOW);
  } catch (error) {
    assert.ok(error instanceof UsageError, `not a usage error: ${String(error)}`);
    return error;
  }
  return assert.fail(`"${argv.join(" ")}" was understood`);
}

describe("a command line becomes a plain value", () => {
  const lines: [string, Invocation][] = [
    ["run", { command: "run", options: PLAIN }],
    ["demo", { command: "demo", options: PLAIN }],
    ["check --offline", { command: "check", options: { ...PLAIN, offline: true } }],
    [
      "try --update u.json --destination sales --send",
      { command: "try", options: { ...PLAIN, update: "u.json", destination: "sales", send: true } },
    ],
    ["status", { command: "status", options: PLAIN }],
    ["leads", { command: "leads", options: { ...PLAIN, sinceMs: null } }],
    ["leads --since 2h", { command: "leads", options: { ...PLAIN, sinceMs: NOW - 7_200_000 } }],
    ["jobs", { command: "jobs", options: { ...PLAIN, state: null, destination: null } }],
    [
      "jobs --state failed --destination sales",
      { command: "jobs", options: { ...PLAIN, state: "failed", destination: "sales" } },
    ],
    ["trace @someone", { command: "trace", options: { ...PLAIN, anything: "@someone" } }],
    ["trace -1001234567890", { command: "trace", options: { ...PLAIN, anything: "-1001234567890" } }],
    ["reconcile list", { command: "reconcile list", options: PLAIN }],
    ["pause sales", { command: "pause", options: { ...PLAIN, name: "sales", why: null } }],
    ["resume sales --why fixed", { command: "resume", options: { ...PLAIN, name: "sales", why: "fixed" } }],
    ["retry --update tg:1:2:3", { command: "retry update", options: { ...PLAIN, update: "tg:1:2:3" } }],
  ];
  for (const [line, invocation] of lines) {
    test(line, () => assert.deepEqual(parsed(line), invocation));
  }

  const jobs = (...numbers: number[]) => ({ kind: "jobs" as const, jobs: numbers.map(asJobId) });
  const decisions: [string, Invocation][] = [
    ["retry 7 8 7", decide({ kind: "retry" }, jobs(7, 8), null)],
    ["retry 7 --why mended", decide({ kind: "retry" }, jobs(7), "mended")],
    ["link 7 4711", decide({ kind: "link", externalId: "4711" }, jobs(7), null)],
    ["reconcile link 7 4711 --why found", decide({ kind: "link", externalId: "4711" }, jobs(7), "found")],
    ["reconcile recreate 7", decide({ kind: "recreate" }, jobs(7), null)],
    ["dismiss 7 --why spam", decide({ kind: "dismiss", withNotes: false }, jobs(7), "spam")],
    [
      "reconcile dismiss 7 --why spam --with-notes",
      decide({ kind: "dismiss", withNotes: true }, jobs(7), "spam"),
    ],
    ["retry --all", decide({ kind: "retry" }, all("failed"), null)],
    [
      "reconcile recreate --all --destination sales --yes",
      decide({ kind: "recreate" }, { ...all("needs_reconciliation"), destination: "sales", yes: true }, null),
    ],
    [
      "reconcile dismiss --all --why spam",
      decide({ kind: "dismiss", withNotes: false }, all("needs_reconciliation"), "spam"),
    ],
  ];
  for (const [line, invocation] of decisions) {
    test(line, () => assert.deepEqual(parsed(line), invocation));
  }
});

type Decide = Extract<Invocation, { command: "decide" }>["options"];

function decide(decision: Decide["decision"], chosen: Decide["chosen"], why: string | null): Invocation {
  return { command: "decide", options: { ...PLAIN, decision, chosen, why } };
}

function all(state: "failed" | "needs_reconciliation") {
  return { kind: "all" as const, state, destination: null, yes: false };
}

test("--config and --json are understood before and after the command, also after a command of two words", () => {
  const options = { config: "a.conf", json: true };
  for (const line of [
    "--config a.conf --json status",
    "status --config a.conf --json",
    "--json status --config=a.conf",
  ]) {
    assert.deepEqual(parsed(line), { command: "status", options }, line);
  }
  for (const line of ["--json --config a.conf reconcile list", "reconcile list --json --config a.conf"]) {
    assert.deepEqual(parsed(line), { command: "reconcile list", options }, line);
  }
});

describe("what can't be understood is a usage error that names the way on", () => {
  const mistakes: [string[], RegExp, RegExp][] = [
    [["stats"], /unknown command/, /Did you mean status\?.*leadonce --help/],
    [["status", "--jsn"], /unknown option/, /--json.*leadonce status --help/],
    [["status", "extra"], /too many arguments/, /leadonce status --help/],
    [["link", "7"], /missing required argument 'id'/, /leadonce link --help/],
    [["link", "7", "  "], /record's id is empty/, /leadonce link 7 4711/],
    [["jobs", "--state", "done-ish"], /Allowed choices are blocked, pending/, /leadonce jobs --help/],
    [["retry"], /say which jobs/, /leadonce jobs --state failed/],
    [["reconcile", "recreate"], /say which jobs/, /leadonce reconcile list/],
    [["retry", "seven"], /named by its number/, /leadonce jobs/],
    [["retry", "0"], /named by its number/, /leadonce jobs/],
    [["retry", "7", "--destination", "sales"], /--destination narrows --all/, /--all/],
    [["retry", "7", "--update", "tg:1:2:3"], /--update stands alone/, /one command each/],
    [["dismiss", "7"], /say why/, /leadonce dismiss 7 --why/],
    [["dismiss", "7", "--why", "  "], /say why/, /leadonce dismiss 7 --why/],
    [["reconcile", "dismiss", "7"], /say why/, /leadonce reconcile dismiss 7 --why/],
    [["leads", "--since", "yesterday"], /--since takes/, /--since 2h/],
  ];
  for (const [argv, message, hint] of mistakes) {
    test(`leadonce ${argv.join(" ")}`, () => {
      const error = mistake(...argv);
      assert.match(error.message, message);
      assert.match(error.hint ?? "", hint);
      assert.equal(error.exitCode, EXIT.usage);
    });
  }

  test("leadonce retry 7 --all: never both", () =>
    assert.match(mistake("retry", "7", "--all").message, /not both/));
});

describe("help", () => {
  test("says in one line what leadonce is, shows the usual order, and lists every command", () => {
    const help = printed("--help");
    assert.equal(help.exitCode, EXIT.ok);
    assert.match(help.text, /each message .* a lead\s+in your CRM, exactly once/);
    const order = ["demo", "check", "try", "run", "status", "leads", "trace"];
    const places = order.map((name) => help.text.lastIndexOf(`  leadonce ${name}`));
    assert.ok(places.every((place) => place > 0));
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    for (const name of ["jobs", "reconcile", "retry", "link", "dismiss", "pause", "resume"]) {
      assert.match(help.text, new RegExp(`^  ${name} `, "m"));
    }
  });

  const COMMANDS = [
    ["run"],
    ["demo"],
    ["check"],
    ["try"],
    ["status"],
    ["leads"],
    ["jobs"],
    ["trace"],
    ["reconcile"],
    ["reconcile", "list"],
    ["reconcile", "link"],
    ["reconcile", "recreate"],
    ["reconcile", "dismiss"],
    ["retry"],
    ["link"],
    ["dismiss"],
    ["pause"],
    ["resume"],
  ];
  for (const command of COMMANDS) {
    test(`of ${command.join(" ")} has an example that is understood`, () => {
      const help = printed(...command, "--help");
      assert.equal(help.exitCode, EXIT.ok);
      assert.match(help.text, /--config <path>/);
      const [, section = ""] = help.text.split("Examples:\n");
      const examples = section.split("\n").filter((line) => line.trim() !== "");
      assert.ok(examples.length > 0);
      for (const example of examples) {
        const [program, ...argv] = (example.trim().match(/"[^"]*"|\S+/g) ?? []).map((word) =>
          word.replaceAll('"', ""),
        );
        assert.equal(program, "leadonce");
        assert.notEqual(parse(argv, NOW).command, "print");
      }
    });
  }

  test("without a command is shown too, as a usage error", () => {
    assert.equal(printed().exitCode, EXIT.usage);
    assert.match(printed().text, /Usage: leadonce/);
    assert.equal(printed("reconcile").exitCode, EXIT.usage);
  });

  test("--version prints the version alone", () => {
    assert.match(printed("--version").text, /^\d+\.\d+\.\d+\s*$/);
  });
});

function printed(...argv: string[]): Extract<Invocation, { command: "print" }> {
  const invocation = parse(argv, NOW);
  assert.ok(invocation.command === "print");
  return invocation;
}
