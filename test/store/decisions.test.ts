/** What a person may decide in each state of a job, what follows from it, and that it is on record (design §4). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asJobId, type JobId } from "../../src/domain/ids.ts";
import { JOB_STATES, type JobState } from "../../src/domain/jobs.ts";
import type { Decision } from "../../src/domain/store.ts";
import { openStore } from "../../src/store/index.ts";
import {
  confirmed,
  makeWorld,
  notApplied,
  OPERATOR,
  refused,
  stepSettings,
  unknown,
  type World,
} from "./fixtures.ts";

const DECISIONS: Decision[] = [
  { kind: "retry" },
  { kind: "recreate" },
  { kind: "link", externalId: "C-1" },
  { kind: "dismiss", withNotes: false },
];

/** Where each decision leads from each state; absent: it does not apply. */
const TABLE: Record<JobState, Partial<Record<Decision["kind"], JobState>>> = {
  blocked: { dismiss: "cancelled" },
  pending: { dismiss: "cancelled" },
  leased: {},
  done: {},
  failed: { retry: "pending", link: "done", dismiss: "cancelled" },
  needs_reconciliation: { recreate: "pending", link: "done", dismiss: "cancelled" },
  cancelled: {},
};

/** A job in that state, reached by the ways of the store. */
async function jobIn(world: World, state: JobState): Promise<JobId> {
  const job = await world.lead();
  switch (state) {
    case "blocked":
      return world.note(job);
    case "pending":
      return job;
    case "leased":
      await world.claimJob(job);
      return job;
    case "done":
      await world.attempt(job, confirmed("C-0"));
      return job;
    case "failed":
      await world.attempt(job, refused());
      return job;
    case "needs_reconciliation":
      await world.attempt(job, unknown());
      return job;
    case "cancelled":
      await world.decideJob(job, { kind: "dismiss", withNotes: false });
      return job;
  }
}

describe("every decision in every state", () => {
  for (const state of JOB_STATES) {
    for (const decision of DECISIONS) {
      const to = TABLE[state][decision.kind];
      it(`${decision.kind} a ${state} job: ${to ?? "not applicable, and nothing is written"}`, async (t) => {
        const world = await makeWorld(t);
        const job = await jobIn(world, state);
        assert.equal(world.state(job), state);
        const [before, actions] = [world.job(job), world.rows("SELECT * FROM operator_actions").length];
        const decided = await world.decideJob(job, decision);
        const records = world.rows("SELECT * FROM operator_actions").slice(actions);
        if (to === undefined) {
          assert.equal(decided.kind, "not_applicable");
          assert.ok(decided.kind === "not_applicable" && decided.state === state && decided.why.length > 10);
          assert.deepEqual(world.job(job), before);
          assert.deepEqual(records, []);
          return;
        }
        assert.ok(decided.kind === "applied");
        assert.deepEqual(
          decided.transitions.map(({ jobId, from, to }) => [jobId, from, to]),
          [[job, state, to]],
        );
        assert.equal(world.state(job), to);
        assert.equal(world.job(job).reason, `operator_${decision.kind}`);
        assert.equal(world.job(job).external_id, decision.kind === "link" ? "C-1" : null);
        assert.deepEqual(
          records.map(({ at_ms, who, action, job_id, why, detail }) => [
            at_ms,
            who,
            action,
            job_id,
            why,
            detail,
          ]),
          [[world.now, "tester", decision.kind, job, "because", decision.kind === "link" ? "C-1" : null]],
        );
      });
    }
  }

  it("about a job that does not exist says so", async (t) => {
    const world = await makeWorld(t);
    assert.deepEqual(await world.decideJob(asJobId(99), { kind: "retry" }), { kind: "no_such_job" });
    assert.deepEqual(world.rows("SELECT * FROM operator_actions"), []);
  });

  it("without a reason is recorded without one", async (t) => {
    const world = await makeWorld(t);
    const job = await jobIn(world, "failed");
    await world.store.decideJob(job, { kind: "retry" }, { who: "tester", why: null }, world.now);
    assert.equal(world.row("SELECT why FROM operator_actions").why, null);
  });

  it("made by a command over a connection of its own is seen by the daemon's", async (t) => {
    const world = await makeWorld(t);
    const job = await jobIn(world, "failed");
    const command = openStore(world.path, { mode: "write", nowMs: world.now });
    const before = world.store.dataVersion();
    await command.decideJob(job, { kind: "retry" }, OPERATOR, world.now);
    command.close();
    assert.notEqual(world.store.dataVersion(), before);
    assert.equal((await world.claim()).length, 1);
  });
});

describe("an alert", () => {
  it("about a failed or parked job is cleared by whatever is decided", async (t) => {
    for (const [state, decision] of [
      ["failed", { kind: "retry" }],
      ["failed", { kind: "link", externalId: "C-1" }],
      ["failed", { kind: "dismiss", withNotes: false }],
      ["needs_reconciliation", { kind: "recreate" }],
      ["needs_reconciliation", { kind: "link", externalId: "C-1" }],
      ["needs_reconciliation", { kind: "dismiss", withNotes: false }],
    ] as const) {
      const world = await makeWorld(t, { lead: { safety: "none" } });
      const job = await jobIn(world, state);
      assert.equal((await world.alerts(state)).length, 1);
      await world.decideJob(job, decision);
      assert.deepEqual(await world.alerts(state), []);
    }
  });
});

describe("a decision about what may exist", () => {
  it("closes the unknowns before it: what follows is judged anew, and give_up_after counts from there", async (t) => {
    const world = await makeWorld(t);
    const job = await jobIn(world, "needs_reconciliation");
    await world.decideJob(job, { kind: "recreate" });
    assert.equal(world.job(job).closed_through_n, 1);
    world.now += 400 * 24 * 3_600_000;
    await world.attempt(job, notApplied());
    assert.equal(world.state(job), "pending");
    await world.attempt(job, refused());
    assert.deepEqual([world.state(job), world.job(job).reason], ["failed", "refused"]);
  });

  it("resolves its reconciliation; a new unknown opens another", async (t) => {
    const world = await makeWorld(t);
    const job = await jobIn(world, "needs_reconciliation");
    await world.decideJob(job, { kind: "recreate" });
    await world.attempt(job, unknown());
    assert.deepEqual(
      world
        .rows("SELECT resolution FROM reconciliations ORDER BY reconciliation_id")
        .map(({ resolution }) => resolution),
      ["operator_recreate", null],
    );
  });
});

describe("notes that follow a lead", () => {
  const states = (world: World, jobs: readonly JobId[]): unknown[] => jobs.map((job) => world.state(job));

  it("go when the lead is linked", async (t) => {
    const world = await makeWorld(t);
    const lead = await jobIn(world, "failed");
    const notes = [await world.note(lead), await world.note(lead)];
    const decided = await world.decideJob(lead, { kind: "link", externalId: "C-1" });
    assert.ok(decided.kind === "applied");
    assert.equal(decided.following, 2);
    assert.deepEqual(states(world, notes), ["pending", "pending"]);
  });

  it("wait as failed when the lead is dismissed: a customer's words never vanish silently", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const notes = [await world.note(lead), await world.note(lead)];
    const decided = await world.decideJob(lead, { kind: "dismiss", withNotes: false });
    assert.ok(decided.kind === "applied");
    assert.deepEqual([decided.following, decided.transitions.length], [2, 3]);
    assert.deepEqual(states(world, notes), ["failed", "failed"]);
    for (const note of notes) assert.equal(world.job(note).reason, "lead_dismissed");
    assert.equal((await world.alerts("failed")).length, 2);
    assert.equal(
      world.row("SELECT state FROM v_operations WHERE operation_id = ?", String(world.job(lead).operation_id))
        .state,
      "cancelled",
    );
  });

  it("are dismissed with the lead when that is what was asked", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const notes = [await world.note(lead), await world.note(lead)];
    await world.decideJob(lead, { kind: "dismiss", withNotes: true });
    assert.deepEqual(states(world, notes), ["cancelled", "cancelled"]);
    assert.deepEqual(await world.store.openAlerts(), []);
  });

  it("that follow a note that is dismissed with them go too, to any depth", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const note = await world.note(lead);
    const deeper = await world.note(lead);
    world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", note, deeper);
    await world.decideJob(lead, { kind: "dismiss", withNotes: true });
    assert.deepEqual(states(world, [note, deeper]), ["cancelled", "cancelled"]);
  });

  it("that were sent already stay as they are", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    await world.attempt(lead, confirmed("C-1"));
    const note = await world.note(lead);
    await world.attempt(note, refused());
    assert.equal((await world.decideJob(lead, { kind: "dismiss", withNotes: true })).kind, "not_applicable");
    assert.equal(world.state(note), "failed");
  });

  it("can be linked to a record that holds the words, but not sent to a lead that was dismissed", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const note = await world.note(lead);
    await world.decideJob(lead, { kind: "dismiss", withNotes: false });
    const refusedRetry = await world.decideJob(note, { kind: "retry" });
    assert.ok(refusedRetry.kind === "not_applicable");
    assert.match(refusedRetry.why, /dismissed/);
    assert.equal(world.job(note).key_number, 1);
    assert.equal((await world.decideJob(note, { kind: "link", externalId: "N-1" })).kind, "applied");
  });

  it("sent again wait behind a lead that is not done, and go with it", async (t) => {
    // A note is failed beside an open lead only by hand or after a restored backup.
    for (const kind of ["retry", "recreate"] as const) {
      const world = await makeWorld(t);
      world.steps = { lead: stepSettings(), note: stepSettings({ safety: "none" }) };
      const lead = await world.lead();
      await world.attempt(lead, confirmed("C-1"));
      const note = await world.note(lead);
      await world.attempt(note, kind === "retry" ? refused() : unknown());
      const other = await world.lead({ userId: 7009 });
      world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", other, note);
      await world.decideJob(note, { kind });
      assert.equal(world.state(note), "blocked", kind);
      await world.attempt(other, confirmed("C-2"));
      assert.equal(world.state(note), "pending", kind);
      await world.attempt(note, confirmed("N-1"));
    }
  });

  it("are not recreated behind a lead that was dismissed: they would wait for ever", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    await world.attempt(lead, confirmed("C-1"));
    const note = await world.note(lead);
    await world.attempt(note, unknown());
    const other = await world.lead({ userId: 7009 });
    await world.decideJob(other, { kind: "dismiss", withNotes: false });
    world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", other, note);
    assert.equal((await world.decideJob(note, { kind: "recreate" })).kind, "not_applicable");
    assert.equal(world.state(note), "needs_reconciliation");
  });
});

describe("a pause and a resume", () => {
  it("are on record with who and why", async (t) => {
    const world = await makeWorld(t);
    const [first] = await world.store.destinations();
    assert.ok(first !== undefined);
    await world.store.pause(first.key, OPERATOR, world.now);
    await world.store.resume(first.key, OPERATOR, world.now + 1);
    assert.deepEqual(
      world.rows("SELECT action, subject, who, why FROM operator_actions ORDER BY action_id"),
      ["pause", "resume"].map((action) => ({ action, subject: first.name, who: "tester", why: "because" })),
    );
  });
});
