/** The commands as programs and people meet them: a process of their own, a real database, exit codes, both outputs. */

import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, type TestContext, test } from "node:test";
import { z } from "zod";
import { decideCommand } from "../../src/commands/decide.ts";
import { makeTerminal } from "../../src/commands/terminal.ts";
import { JOB_STATES } from "../../src/domain/jobs.ts";
import { openStore } from "../../src/store/index.ts";
import {
  actionSettings,
  LEDGER_SETTINGS,
  messageUpdate,
  refused,
  T0,
  type World,
} from "../store/fixtures.ts";
import { written } from "../written.ts";
import {
  assertNothingLeaks,
  execute,
  leadonce,
  leadonceInto,
  leadWithNotes,
  type Morning,
  makeMorning,
  type Output,
  PHONE,
  tempFolder,
  writeConfig,
} from "./commands-world.ts";

// ---- the JSON shapes of design §9; more keys may be added ------------------------------------------------------------

const time = z.iso.datetime();
const count = z.int().min(0);
const jobState = z.enum(JOB_STATES);
const operationState = z.enum(["open", "failed", "cancelled", "completed"]);

const statusShape = z.looseObject({
  version: z.string(),
  bot: z.looseObject({ id: z.int().nullable(), username: z.string().nullable() }),
  poller: z.looseObject({
    state: z.string(),
    next_offset: z.int().nullable(),
    last_completed_at: time.nullable(),
    last_error: z.string().nullable(),
  }),
  updates: z.looseObject({ accepted: count, ignored: count, quarantined: count, duplicates: count }),
  jobs: z.looseObject(Object.fromEntries(JOB_STATES.map((state) => [state, count]))),
  oldest_pending_age_s: count.nullable(),
  destinations: z.array(
    z.looseObject({
      name: z.string(),
      state: z.enum(["active", "paused", "unconfigured"]),
      reason: z.string().nullable(),
    }),
  ),
  reconciliations_open: count,
});
const leadsShape = z.array(
  z.looseObject({
    operation_id: z.uuid(),
    code: z.string(),
    business_key: z.string(),
    action: z.string(),
    state: operationState,
    created_at: time,
    event_keys: z.array(z.string().startsWith("tg:")).min(1),
    destinations: z.array(
      z.looseObject({
        name: z.string(),
        state: jobState,
        external_id: z.string().nullable(),
        link: z.string().nullable(),
      }),
    ),
  }),
);
const jobShape = z.looseObject({
  job_id: count,
  operation_id: z.uuid(),
  destination: z.string(),
  step: z.string(),
  state: jobState,
  attempts: count,
  run_at: time,
  reason: z.string().nullable(),
  external_id: z.string().nullable(),
});
const reconciliationShape = z.looseObject({
  job_id: count,
  operation_id: z.uuid(),
  destination: z.string(),
  reason: z.string(),
  opened_at: time,
  checks: count,
  next_check_at: time.nullable(),
  evidence: z.array(z.looseObject({ at: time })),
});
const traceShape = z.looseObject({
  updates: z.array(z.looseObject({ event_key: z.string() })),
  operations: z.array(z.looseObject({ operation_id: z.uuid() })),
  jobs: z.array(jobShape),
  attempts: z.array(
    z.looseObject({
      job_id: count,
      n: count,
      sent_at: time.nullable(),
      ended_at: time.nullable(),
      outcome: z.string().nullable(),
      status: z.int().nullable(),
    }),
  ),
  reconciliations: z.array(reconciliationShape),
  operator_actions: z.array(z.looseObject({ at: time, who: z.string() })),
});
const decisionsShape = z.looseObject({
  applied: z.array(z.looseObject({ job_id: count, state: jobState })),
  refused: z.array(z.looseObject({ job_id: count, state: jobState.nullable(), why: z.string() })),
});

function parsed<Schema extends z.ZodType>(schema: Schema, { out, err, code }: Output): z.infer<Schema> {
  assert.notEqual(out, "", `no output (exit ${code}): ${err}`);
  return schema.parse(JSON.parse(out));
}

function actions(world: World): Record<string, unknown>[] {
  return world.rows(
    "SELECT who, action, job_id, subject, why, detail FROM operator_actions ORDER BY action_id",
  );
}

// ---- reads ----------------------------------------------------------------------------------------------------------

describe("the reads print the shapes that other programs rely on", () => {
  test("status", async (t) => {
    const { run } = await makeMorning(t);
    const output = await run("status", "--json");
    const status = parsed(statusShape, output);
    assert.equal(output.code, 0);
    assert.deepEqual(status.bot, { id: 4242, username: "TestEnquiryBot" });
    assert.deepEqual(
      { ...status.jobs },
      { blocked: 0, pending: 1, leased: 0, done: 1, failed: 1, needs_reconciliation: 2, cancelled: 0 },
    );
    assert.deepEqual(status.updates, { accepted: 5, ignored: 1, quarantined: 1, duplicates: 0 });
    assert.equal(status.reconciliations_open, 2);
  });

  test("leads, jobs, reconcile list and trace", async (t) => {
    const { run, jobs } = await makeMorning(t);
    const leads = parsed(leadsShape, await run("leads", "--json"));
    assert.deepEqual(
      leads.map(({ state }) => state),
      ["completed", "failed", "open", "open", "open"],
    );
    assert.equal(leads[0]?.destinations[0]?.link, "https://crm.example/leads/4711");
    assert.deepEqual(parsed(leadsShape, await run("leads", "--json", "--since", "1s")), []);

    const failed = parsed(z.array(jobShape), await run("jobs", "--state", "failed", "--json"));
    assert.deepEqual(
      failed.map(({ job_id }) => job_id),
      [jobs.refused],
    );
    assert.equal(parsed(z.array(jobShape), await run("jobs", "--destination", "ledger", "--json")).length, 0);

    const open = parsed(z.array(reconciliationShape), await run("reconcile", "list", "--json"));
    assert.deepEqual(
      open.map(({ job_id, reason }) => [job_id, reason]),
      [
        [jobs.foundTwice, "found_twice"],
        [jobs.unknown, "unknown_outcome"],
      ],
    );

    const trace = parsed(traceShape, await run("trace", "4711", "--json"));
    assert.deepEqual(
      trace.attempts.map(({ outcome, status }) => [outcome, status]),
      [["confirmed", 201]],
    );
    assert.equal(trace.operations[0]?.operation_id, leads[0]?.operation_id);
  });

  test("trace takes whatever a person has in hand, and answers with the same way", async (t) => {
    const { run } = await makeMorning(t);
    const [lead] = parsed(leadsShape, await run("leads", "--json"));
    const [eventKey = ""] = lead?.event_keys ?? [];
    const [, , updateId = ""] = eventKey.split(":");
    const keys = [updateId, eventKey, lead?.operation_id, lead?.code?.toLowerCase(), "@Test_Person"];
    for (const key of keys) {
      const trace = parsed(traceShape, await run("trace", String(key), "--json"));
      assert.deepEqual(
        trace.operations.map(({ operation_id }) => operation_id),
        [lead?.operation_id],
        String(key),
      );
    }
    const byPhone = await run("trace", PHONE, "--json");
    assert.equal(parsed(traceShape, byPhone).operations.length, 1);
    assertNothingLeaks(byPhone);
  });

  test("trace of something unknown is empty, exits 1, and does not repeat what was asked", async (t) => {
    const { run } = await makeMorning(t);
    const unknownPhone = PHONE.replace("0101", "0199");
    const output = await run("trace", unknownPhone);
    assert.equal(output.code, 1);
    assert.equal(output.out, "");
    assert.match(output.err, /Nothing stored matches[\s\S]*leadonce leads --since 2d/);
    assert.ok(!output.err.includes(unknownPhone.slice(1)));
    const json = await run("trace", unknownPhone, "--json");
    assert.equal(json.code, 1);
    assert.deepEqual(parsed(traceShape, json).jobs, []);
  });
});

describe("the reads work in every condition of the database", () => {
  test("beside a process that has it open, and after that has closed it in order", async (t) => {
    const { run, world } = await makeMorning(t);
    assert.equal((await run("status")).code, 0);
    world.store.close();
    assert.ok(!existsSync(`${world.path}-wal`), "the last one to close it folds the write-ahead log in");
    const output = await run("leads", "--json");
    assert.equal(parsed(leadsShape, output).length, 5);
    world.reopen();
  });

  test("after a crash: what stands in the write-ahead log only is read", async (t) => {
    const { world } = await makeMorning(t);
    const folder = tempFolder(t);
    const path = join(folder, "crashed.db");
    // The files as a power cut would leave them.
    for (const suffix of ["", "-wal"]) copyFileSync(`${world.path}${suffix}`, `${path}${suffix}`);
    const bytes = (): Buffer[] => [path, `${path}-wal`].map((file) => readFileSync(file));
    const before = bytes();
    const output = await leadonce(["leads", "--json", "--config", writeConfig(t, path)]);
    assert.equal(parsed(leadsShape, output).length, 5);
    assert.deepEqual(bytes(), before, "looking at a crashed database changes not a byte of it");
  });

  test("reading writes nothing: no table changes, and neither does the data version", async (t) => {
    const { run, world } = await makeMorning(t);
    const version = world.store.dataVersion();
    for (const argv of [["status"], ["leads"], ["jobs"], ["reconcile", "list"], ["trace", "4711"]]) {
      assert.equal((await run(...argv)).code, 0);
    }
    assert.equal(world.store.dataVersion(), version);
  });

  test("missing: exit 74 with the command that makes it", async (t) => {
    const config = writeConfig(t, join(tempFolder(t), "none.db"));
    for (const argv of [["status"], ["leads", "--json"], ["retry", "1"]]) {
      const output = await leadonce([...argv, "--config", config]);
      assert.equal(output.code, 74);
      assert.equal(output.out, "");
      assert.match(output.err, /there is no database[\s\S]*leadonce run/);
    }
  });

  test("empty or somebody else's: exit 74, and nothing is set up in it", async (t) => {
    const path = join(tempFolder(t), "empty.db");
    writeFileSync(path, "");
    const config = writeConfig(t, path);
    for (const argv of [["status"], ["retry", "1"]]) {
      const output = await leadonce([...argv, "--config", config]);
      assert.equal(output.code, 74, output.err);
      assert.match(output.err, /leadonce run/);
    }
    assert.equal(openedTables(path), 0);
    writeFileSync(path, "this is a letter, not a database. ".repeat(200));
    assert.equal((await leadonce(["status", "--config", config])).code, 74);
  });
});

function openedTables(path: string): number {
  try {
    openStore(path, { mode: "read", nowMs: T0 }).close();
    return 1;
  } catch {
    return 0;
  }
}

// ---- what people see --------------------------------------------------------------------------------------------------

test("what people read", async (t) => {
  const morning = await makeMorning(t);
  const outputs = new Map<string, Output>();
  const lines = [
    "status",
    "leads",
    "jobs",
    "reconcile list",
    "trace @test_person",
    `trace ${PHONE}`,
    "trace 5001",
  ];
  for (const line of lines) {
    const argv = line.split(" ");
    const [text, json] = await Promise.all([morning.run(...argv), morning.run(...argv, "--json")]);
    outputs.set(line, text).set(`${line} --json`, json);
  }

  const shown = (line: string): string => outputs.get(line)?.out ?? assert.fail(`${line} was not run`);

  await t.test("holds no message text and no phone number, as text and as JSON (P5)", () => {
    assert.equal(outputs.size, 2 * lines.length);
    for (const output of outputs.values()) {
      assert.equal(output.code, 0, output.err);
      assertNothingLeaks(output);
    }
  });

  await t.test("is coloured on a terminal only", () => {
    for (const { out } of outputs.values()) assert.ok(!out.includes("\u001b"));
  });

  await t.test("status begins with what waits, and ends with the next commands", () => {
    const text = shown("status");
    assert.match(text, /^\d+ matters wait for you\n/);
    assert.match(text, /Next:\n[\s\S]*leadonce reconcile list[\s\S]*leadonce jobs --state failed/);
  });

  await t.test("leads says who wrote, by username or by number", () => {
    assert.match(shown("leads"), /@test_person/i);
    assert.match(shown("leads"), /tg:\/\/user\?id=7004/);
  });

  await t.test("jobs explains each failure once, with what is safe and the exact next command", () => {
    const { refused: job } = morning.jobs;
    assert.match(shown("jobs"), /1 failed job \(refused\): The destination refused it/);
    assert.match(shown("jobs"), /Nothing was created: retrying can't make a second record/);
    assert.ok(
      shown("jobs").includes(`leadonce retry ${job} · leadonce link ${job} ID · leadonce dismiss ${job}`),
    );
  });

  await t.test("reconcile list names the records that were found and the exact commands", () => {
    const { foundTwice, unknown: job } = morning.jobs;
    const text = shown("reconcile list");
    assert.ok(text.includes(`leadonce reconcile link ${foundTwice} A1`));
    assert.ok(text.includes(`leadonce reconcile link ${foundTwice} A2`));
    assert.ok(text.includes(`leadonce reconcile recreate ${job}`));
    assert.match(text, /tg:\/\/user\?id=7004/);
  });

  await t.test("trace is a time line in time order, one line per event", () => {
    const lines = shown("trace @test_person").split("\n\n")[0]?.split("\n") ?? [];
    const what = [
      "update",
      "lead",
      "job 1 made",
      "job 1 attempt 1 begun",
      "job 1 attempt 1 ended: confirmed",
    ];
    what.forEach((text, index) => {
      assert.ok(lines[index]?.includes(text), `${lines[index]} instead of ${text}`);
    });
    const times = lines.map((line) => line.slice(0, 24));
    assert.deepEqual(times, times.toSorted());
  });

  await t.test("trace of a quarantined update says how to decide it again", () => {
    assert.match(shown("trace 5001"), /quarantined[\s\S]*leadonce retry --update tg:4242:5001:/);
  });
});

test("status needs no token, no secret and no configuration file: it works from any shell in the folder", async (t) => {
  const { world } = await makeMorning(t);
  const folder = tempFolder(t);
  const config = join(folder, "service.conf");
  writeFileSync(config, `[storage]\npath = ${JSON.stringify(world.path)}\n`);
  assert.equal((await leadonce(["status"], { env: { LEADONCE_CONFIG: config } })).code, 0);
  rmSync(config);
  mkdirSync(join(folder, "data"));
  symlinkSync(world.path, join(folder, "data/leadonce.db"));
  const output = await leadonce(["status", "--json"], { cwd: folder });
  assert.equal(parsed(statusShape, output).jobs.done, 1);
});

test("a reader that leaves early (`| head`) is met with silence, not with an error", async (t) => {
  const { world, config } = await makeMorning(t);
  await world.accept(
    ...Array.from({ length: 400 }, (_, n) => messageUpdate({ updateId: 20_000 + n, userId: 9_000 + n })),
  );
  const output = await leadonceInto("head -c 1", ["leads", "--json", "--config", config]);
  assert.deepEqual(output, { code: 0, out: "[", err: "" });
});

// ---- errors -----------------------------------------------------------------------------------------------------------

describe("errors", () => {
  test("of the command line exit 64, with nothing on stdout", async () => {
    for (const argv of [["stats"], ["status", "--nope"], ["link", "7"], []]) {
      const output = await leadonce(argv);
      assert.equal(output.code, 64, argv.join(" "));
      assert.equal(output.out, "");
      assert.match(output.err, /leadonce/);
    }
  });

  test("of the configuration exit 78, all at once", async (t) => {
    const config = join(tempFolder(t), "service.conf");
    writeFileSync(config, '[storage]\npaht = "x"\n[telegramm]\n');
    const output = await leadonce(["status", "--config", config]);
    assert.equal(output.code, 78);
    assert.match(output.err, /paht/);
    assert.match(output.err, /telegramm/);
  });

  test("never show a token that was typed by mistake (P5)", async () => {
    const token = `123456789:${"AbCdEfGh-_".repeat(4)}`;
    const output = await leadonce([token]);
    assert.equal(output.code, 64);
    assert.ok(!output.err.includes(token));
    assert.match(output.err, /\[secret\]/);
  });
});

// ---- decisions --------------------------------------------------------------------------------------------------------

describe("a decision", () => {
  test("is applied, recorded with who and why, and printed in one shape", async (t) => {
    const { world, config, jobs } = await makeMorning(t);
    const as = (who: NodeJS.ProcessEnv, ...argv: string[]): Promise<Output> =>
      leadonce([...argv, "--config", config, "--json"], { env: who });
    const decided: [Output, number, string][] = [
      [
        await as({ LEADONCE_OPERATOR: "ada" }, "retry", String(jobs.refused), "--why", "field mended"),
        jobs.refused,
        "pending",
      ],
      [
        await as({ SUDO_USER: "grace" }, "reconcile", "link", String(jobs.foundTwice), "A1"),
        jobs.foundTwice,
        "done",
      ],
      [await as({}, "reconcile", "recreate", String(jobs.unknown)), jobs.unknown, "pending"],
      [await as({}, "dismiss", String(jobs.pending), "--why", "a test"), jobs.pending, "cancelled"],
    ];
    for (const [output, job, state] of decided) {
      const report = parsed(decisionsShape, output);
      assert.equal(output.code, 0, output.err);
      assert.deepEqual(
        report.applied.map(({ job_id, state }) => [job_id, state]),
        [[job, state]],
      );
      assert.deepEqual(report.refused, []);
      assert.equal(world.state(jobIdIn(report)), state);
    }
    const me = userInfo().username;
    assert.deepEqual(actions(world), [
      { who: "ada", action: "retry", job_id: jobs.refused, subject: null, why: "field mended", detail: null },
      { who: "grace", action: "link", job_id: jobs.foundTwice, subject: null, why: null, detail: "A1" },
      { who: me, action: "recreate", job_id: jobs.unknown, subject: null, why: null, detail: null },
      { who: me, action: "dismiss", job_id: jobs.pending, subject: null, why: "a test", detail: null },
    ]);
    assert.equal(world.job(jobs.foundTwice).external_id, "A1");
  });

  test("that does not apply leaves the job alone: exit 1, the plain reason and the next command", async (t) => {
    const { run, world, jobs } = await makeMorning(t);
    const refusals: [string[], RegExp][] = [
      [["retry", String(jobs.unknown)], /may exist in the CRM already[\s\S]*leadonce reconcile list/],
      [["retry", String(jobs.pending)], /will be sent by itself[\s\S]*leadonce status/],
      [
        ["reconcile", "recreate", String(jobs.refused)],
        /only a job that needs reconciliation[\s\S]*jobs --state failed/,
      ],
      [["link", String(jobs.done), "9"], /it is done, and that is final/],
      [["dismiss", String(jobs.done), "--why", "x"], /it is done, and that is final/],
    ];
    for (const [argv, text] of refusals) {
      const output = await run(...argv);
      assert.equal(output.code, 1, argv.join(" "));
      assert.match(output.out, text);
    }
    const { applied, refused: left } = parsed(
      decisionsShape,
      await run("retry", String(jobs.unknown), "--json"),
    );
    assert.deepEqual([applied.length, left[0]?.state], [0, "needs_reconciliation"]);
    assert.deepEqual(actions(world), []);
  });

  test("about a job that does not exist exits 64 with a hint, and the others are still decided", async (t) => {
    const { run, world, jobs } = await makeMorning(t);
    const output = await run("retry", "999", String(jobs.refused), "--json");
    assert.equal(output.code, 64);
    assert.match(output.err, /there is no job 999[\s\S]*leadonce jobs/);
    const report = parsed(decisionsShape, output);
    assert.deepEqual(
      report.refused.map(({ job_id, state }) => [job_id, state]),
      [[999, null]],
    );
    assert.equal(world.state(jobs.refused), "pending");
  });

  test("about a job that is being sent is refused: it may leave at this moment", async (t) => {
    const { run, world, jobs } = await makeMorning(t);
    await world.claimJob(jobs.pending);
    const output = await run("dismiss", String(jobs.pending), "--why", "x");
    assert.equal(output.code, 1);
    assert.match(output.out, /it is being sent at this moment/);
    assert.equal(world.state(jobs.pending), "leased");
  });
});

function jobIdIn({ applied }: z.infer<typeof decisionsShape>): Morning["jobs"]["done"] {
  // The brand is lost on the way through JSON.
  return applied[0]?.job_id as Morning["jobs"]["done"];
}

describe("dismissing a lead whose customer wrote on", () => {
  test("leaves the notes waiting as failed, says how many, and names the command that dismisses them", async (t) => {
    const { run, world } = await makeMorning(t);
    const { lead, notes } = await leadWithNotes(world, 2);
    const output = await run("dismiss", String(lead), "--why", "spam");
    assert.equal(output.code, 0, output.err);
    assert.match(output.out, /2 notes that followed, waiting as failed/);
    assert.ok(output.out.includes(`leadonce dismiss ${notes.join(" ")} --why`));
    assert.deepEqual(notes.map(world.state), ["failed", "failed"]);
    assertNothingLeaks(output);
  });

  test("with --with-notes dismisses them too", async (t) => {
    const { run, world } = await makeMorning(t);
    const { lead, notes } = await leadWithNotes(world, 2);
    const output = await run("dismiss", String(lead), "--why", "spam", "--with-notes");
    assert.match(output.out, /2 notes that followed: dismissed too/);
    assert.deepEqual(notes.map(world.state), ["cancelled", "cancelled"]);
  });

  test("linking it instead lets the notes go", async (t) => {
    const { run, world } = await makeMorning(t);
    const { lead, notes } = await leadWithNotes(world, 1);
    await world.attempt(lead, refused());
    const output = await run("link", String(lead), "4712");
    assert.match(output.out, /done as record 4712; nothing was sent/);
    assert.match(output.out, /1 note that followed: sent now/);
    assert.deepEqual(notes.map(world.state), ["pending"]);
  });
});

describe("--all", () => {
  async function threeFailed(t: TestContext): Promise<Morning> {
    const morning = await makeMorning(t);
    for (const userId of [7201, 7202]) {
      await morning.world.attempt(await morning.world.lead({ userId }), refused());
    }
    // Four refusals in a row would not pause the destination yet; that is not the subject here.
    return morning;
  }

  test("without a terminal and without --yes exits 64, says how many, and changes nothing", async (t) => {
    const { run, world } = await threeFailed(t);
    const output = await run("retry", "--all");
    assert.equal(output.code, 64);
    assert.match(output.err, /3 jobs \(3 failed\)[\s\S]*nothing was changed[\s\S]*--yes/);
    assert.deepEqual(actions(world), []);
  });

  test("with --yes decides every job that waits for this decision, and no other", async (t) => {
    const { run, world, jobs } = await threeFailed(t);
    const report = parsed(decisionsShape, await run("retry", "--all", "--yes", "--json"));
    assert.equal(report.applied.length, 3);
    assert.equal(world.state(jobs.unknown), "needs_reconciliation");
    const again = await run("retry", "--all");
    assert.equal(again.code, 0);
    assert.match(again.out, /No job waits for that/);
  });

  test("with --destination takes only that destination's jobs, and refuses a name that nobody knows", async (t) => {
    const { run } = await threeFailed(t);
    const none = parsed(
      decisionsShape,
      await run("retry", "--all", "--destination", "ledger", "--yes", "--json"),
    );
    assert.deepEqual(none.applied, []);
    const typo = await run("retry", "--all", "--destination", "slaes", "--yes");
    assert.equal(typo.code, 64);
    assert.match(typo.err, /The database knows: ledger, sales/);
  });

  test("of reconcile dismiss takes what is unknown", async (t) => {
    const { run, world, jobs } = await makeMorning(t);
    await run("reconcile", "dismiss", "--all", "--yes", "--why", "all of it was a test");
    assert.deepEqual([jobs.unknown, jobs.foundTwice].map(world.state), ["cancelled", "cancelled"]);
    assert.equal(world.state(jobs.refused), "failed");
  });

  test("of a destination that is no longer configured dismisses everything that would wait there for ever", async (t) => {
    const { run, world, jobs } = await makeMorning(t);
    await world.store.configureDestinations([LEDGER_SETTINGS], world.now);
    const output = await run(
      "dismiss",
      "--all",
      "--destination",
      "sales",
      "--why",
      "the CRM is gone",
      "--yes",
    );
    assert.equal(output.code, 0, output.out + output.err);
    for (const job of [jobs.refused, jobs.unknown, jobs.foundTwice, jobs.pending]) {
      assert.equal(world.state(job), "cancelled");
    }
    assert.equal(world.state(jobs.done), "done");
  });

  for (const [answer, state] of [
    ["y", "pending"],
    ["n", "failed"],
  ] as const) {
    test(`on a terminal asks first: "${answer}" leaves the jobs ${state}`, async (t) => {
      const { world, config, jobs } = await makeMorning(t);
      const stream = () => Object.assign(new PassThrough(), { isTTY: true });
      const [stdin, stdout, stderr] = [stream(), stream(), stream()];
      const context = {
        env: { NO_COLOR: "1" },
        cwd: tempFolder(t),
        clock: { now: () => world.now },
        terminal: makeTerminal({ stdin, stdout, stderr }, { NO_COLOR: "1" }),
      };
      stdin.write(`${answer}\n`);
      const code = await decideCommand(
        {
          config,
          json: false,
          decision: { kind: "retry" },
          chosen: { kind: "all", state: "failed", destination: null, yes: false },
          why: null,
        },
        context,
      );
      assert.equal(code, 0);
      assert.match(written(stderr), /Retry 1 job \(1 failed\)\? \[y\/N\]/);
      assert.equal(world.state(jobs.refused), state);
    });
  }
});

test("pause and resume stop and start a destination, and record who and why", async (t) => {
  const { run, world } = await makeMorning(t);
  const paused = await run("pause", "sales", "--why", "it is being moved");
  assert.equal(paused.code, 0, paused.err);
  assert.match(paused.out, /sales is paused[\s\S]*1 job waits[\s\S]*leadonce resume sales/);
  assert.deepEqual(await world.claim(), []);
  const status = parsed(statusShape, await run("status", "--json"));
  assert.deepEqual(
    status.destinations.find(({ name }) => name === "sales"),
    { name: "sales", state: "paused", reason: "it is being moved" },
  );
  const resumed = await run("resume", "sales", "--json");
  assert.deepEqual(JSON.parse(resumed.out), { name: "sales", state: "active", reason: null });
  assert.equal((await world.claim()).length, 1);
  assert.deepEqual(
    actions(world).map(({ action, subject, why }) => [action, subject, why]),
    [
      ["pause", "sales", "it is being moved"],
      ["resume", "sales", null],
    ],
  );
});

test("pause refuses a destination that nobody knows, and the ledger, which can't be paused", async (t) => {
  const { run } = await makeMorning(t);
  const unknownName = await run("pause", "slaes");
  assert.equal(unknownName.code, 64);
  assert.match(unknownName.err, /The database knows: ledger, sales/);
  assert.equal((await run("pause", "ledger")).code, 64);
});

describe("retry --update", () => {
  test("decides an ignored update again with the configuration as it is now", async (t) => {
    const { run, world } = await makeMorning(t);
    // It was ignored under a configuration whose action took groups only; the one on disk takes private chats.
    const groups = actionSettings({ when: { update: ["message"], chat: "group" } });
    const { makeIntake } = await import("../../src/domain/intake.ts");
    const { intakeSettings } = await import("../store/fixtures.ts");
    world.decide = makeIntake(intakeSettings({ actions: [groups] }));
    const { updates } = await world.accept(messageUpdate({ updateId: 6000, userId: 7300 }));
    const key = String(updates[0]?.eventKey);
    assert.equal(updates[0]?.state, "ignored");

    const output = await run("retry", "--update", key, "--json");
    assert.equal(output.code, 0, output.err);
    const report = z
      .object({
        applied: z.array(z.looseObject({ event_key: z.string(), operations: z.array(z.looseObject({})) })),
      })
      .parse(JSON.parse(output.out));
    assert.deepEqual(
      report.applied.map(({ event_key, operations }) => [event_key, operations.length]),
      [[key, 1]],
    );
    assert.equal(
      world.rows("SELECT 1 FROM jobs j JOIN operation_updates USING (operation_id) WHERE event_key = ?", key)
        .length,
      1,
    );

    const again = await run("retry", "--update", key);
    assert.equal(again.code, 1);
    assert.match(again.out, /it was accepted, and made what it makes/);
  });

  test("of one that still can't be understood exits 1 and says what is next", async (t) => {
    const { run } = await makeMorning(t);
    const output = await run("retry", "--update", "5001");
    assert.equal(output.code, 1);
    assert.match(output.out, /quarantined again[\s\S]*A newer version decides it again/);
    assertNothingLeaks(output);
  });

  test("of one that nobody knows exits 64", async (t) => {
    const { run } = await makeMorning(t);
    assert.equal((await run("retry", "--update", "tg:1:2:3")).code, 64);
  });
});

// ---- the plain SQLite shell --------------------------------------------------------------------------------------------

const INSPECT = "scripts/inspect.sh";
const hasShell = (await execute("bash", ["-c", "command -v sqlite3"])).code === 0;

describe("scripts/inspect.sh", { skip: hasShell ? false : "there is no sqlite3 shell here" }, () => {
  const inspect = (path: string, ...argv: string[]): Promise<Output> =>
    execute("bash", [INSPECT, "--db", path, ...argv]);

  test("shows the views by name, beside a running process, without texts and phones (P5)", async (t) => {
    const { world, jobs } = await makeMorning(t);
    const shows: [string, RegExp][] = [
      ["status", /jobs failed +1[\s\S]*alerts open/],
      ["pending", new RegExp(`${jobs.pending} +[\\s\\S]*sales`)],
      ["reconciliation", new RegExp(`leadonce reconcile link ${jobs.foundTwice} ID`)],
      ["failed", new RegExp(`leadonce retry ${jobs.refused}`)],
    ];
    for (const [view, text] of shows) {
      const output = await inspect(world.path, view);
      assert.equal(output.code, 0, output.err);
      assert.match(output.out, text);
      assertNothingLeaks(output);
    }
  });

  test("says so where a view is empty", async (t) => {
    const path = join(tempFolder(t), "new.db");
    openStore(path, { mode: "create", nowMs: T0 }).close();
    assert.equal((await inspect(path, "failed")).out, "nothing\n");
  });

  test("traces from any of the keys to the record", async (t) => {
    const { world, jobs } = await makeMorning(t);
    const row = world.row(
      "SELECT event_key, operation_id, code, update_id FROM v_trace WHERE job_id = ?",
      jobs.done,
    );
    for (const key of [...Object.values(row), String(row.code).toLowerCase(), "4711"]) {
      const { out } = await inspect(world.path, "trace", String(key));
      assert.match(out, /external_id = 4711/, String(key));
    }
    assert.equal((await inspect(world.path, "trace", "nobody")).out, "nothing\n");
  });

  test("takes a key as a text and nothing else, whatever is written in it", async (t) => {
    const { world } = await makeMorning(t);
    const folder = tempFolder(t);
    const marker = join(folder, "pwned");
    const attacks = [
      "x' OR 1=1 --",
      "(SELECT event_key FROM updates LIMIT 1)",
      `"; .shell touch ${marker}`,
      `a\n.shell touch ${marker}`,
      `a\\"\n.once ${marker}`,
      `$(touch ${marker})`,
      "'); DELETE FROM operator_actions; --",
    ];
    for (const attack of attacks) {
      const output = await inspect(world.path, "trace", attack);
      assert.equal(output.out, "nothing\n", attack);
    }
    assert.ok(!existsSync(marker));
  });

  test("can't write, run programs or open other files, not even through sql", async (t) => {
    const { world } = await makeMorning(t);
    const folder = tempFolder(t);
    const marker = join(folder, "pwned");
    const before = world.row("SELECT count(*) AS n FROM jobs");
    for (const sql of [
      "DELETE FROM job_bodies; DELETE FROM jobs",
      "PRAGMA journal_mode = DELETE",
      `.shell touch ${marker}`,
      `ATTACH '${marker}' AS x`,
    ]) {
      const output = await inspect(world.path, "sql", sql);
      assert.notEqual(output.code, 0, sql);
      assert.notEqual(output.err, "");
    }
    assert.ok(!existsSync(marker));
    assert.deepEqual(world.row("SELECT count(*) AS n FROM jobs"), before);
    const fine = await inspect(
      world.path,
      "sql",
      "SELECT code FROM v_operations ORDER BY created_at LIMIT 1",
    );
    assert.match(fine.out, /^code\s+-+\s+[0-9A-Z]{4}-/);
  });

  test("finds the database by --db, then by LEADONCE_DB, then at the usual place", async (t) => {
    const { world } = await makeMorning(t);
    const run = (argv: string[], env: NodeJS.ProcessEnv): Promise<Output> =>
      execute("bash", [INSPECT, ...argv], { env });
    assert.equal((await run(["status"], { LEADONCE_DB: world.path })).code, 0);
    assert.equal((await run(["--db", world.path, "status"], { LEADONCE_DB: "/nowhere.db" })).code, 0);
    const missing = await run(["status"], { LEADONCE_DB: "/nowhere.db" });
    assert.equal(missing.code, 74);
    assert.match(missing.err, /there is no database at \/nowhere\.db/);
  });

  test("helps, and refuses what it does not know", async (t) => {
    const { world } = await makeMorning(t);
    const help = await execute("bash", [INSPECT, "--help"]);
    assert.equal(help.code, 0);
    for (const name of ["status", "pending", "reconciliation", "failed", "trace KEY", "sql"]) {
      assert.ok(help.out.includes(name));
    }
    for (const argv of [[], ["nope"], ["trace"], ["trace", ""], ["sql"], ["status", "extra"], ["--nope"]]) {
      const output = await inspect(world.path, ...argv);
      assert.equal(output.code, 64, argv.join(" "));
      assert.match(output.err, /inspect\.sh/);
    }
  });
});

test("scripts/inspect.sh says plainly that the sqlite3 shell is missing", async (t) => {
  const bash = await execute("bash", ["-c", "command -v bash"]);
  const output = await execute(bash.out.trim(), [INSPECT, "--db", "x.db", "status"], {
    env: { PATH: tempFolder(t) },
  });
  assert.equal(output.code, 69);
  assert.match(output.err, /sqlite3 shell is missing[\s\S]*apt install sqlite3/);
});

test("scripts/inspect.sh is part of the package", () => {
  const { files } = z
    .object({ files: z.array(z.string()) })
    .parse(JSON.parse(readFileSync("package.json", "utf8")));
  assert.ok(files.includes(INSPECT));
});
