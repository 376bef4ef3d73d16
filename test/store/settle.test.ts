/** Settling: what becomes of a job after each outcome (design §4, §6), and of answers that come too late (§3.5). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asLeaseToken, type JobId } from "../../src/domain/ids.ts";
import type { Outcome, OutcomeKind } from "../../src/domain/outcome.ts";
import { SAFETY_CLASSES, type SafetyClass } from "../../src/domain/settings.ts";
import type { ClaimedJob } from "../../src/domain/store.ts";
import {
  already,
  confirmed,
  DAY,
  HOUR,
  MINUTE,
  makeWorld,
  notApplied,
  OPERATOR,
  refused,
  SALES,
  SECOND,
  stepSettings,
  unauthorised,
  unknown,
  type World,
} from "./fixtures.ts";

const OUTCOME: Record<OutcomeKind, Outcome> = {
  confirmed: confirmed("C-1"),
  already: already("C-1"),
  refused: refused(),
  not_applied: notApplied(),
  unauthorised: unauthorised(),
  unknown: unknown(),
};

type History = "at first" | "after an unknown" | "after an unknown and give_up_after" | "after give_up_after";

/** Claims and begins; null where beginning parked the job. */
async function begun(world: World, job: JobId): Promise<{ claimed: ClaimedJob; n: number }> {
  const claimed = await world.claimJob(job);
  const result = await world.begin(claimed);
  assert.ok(result.kind === "begun", JSON.stringify(result));
  return { claimed, n: result.n };
}

/** A job under way with that past, under the class given: earlier attempts ran under one that allows repeats. */
async function underWay(world: World, past: History, safety: SafetyClass) {
  const job = await world.lead();
  world.steps = { lead: stepSettings({ safety: "external-id" }) };
  if (past.startsWith("after an unknown")) await world.attempt(job, unknown());
  else if (past !== "at first") await world.attempt(job, notApplied());
  if (past.endsWith("give_up_after")) world.now += 7 * DAY;
  const { claimed, n } = await begun(world, job);
  world.steps = { lead: stepSettings({ safety }) };
  return { job, claimed, n };
}

const PARKED = "needs_reconciliation";

/** From the design; the classes in its order: idempotency-key, external-id, search, none. */
function expected(outcome: OutcomeKind, past: History, safety: SafetyClass): [string, string | null] {
  const stuck = past.startsWith("after an unknown");
  const gaveUp = past.endsWith("give_up_after");
  switch (outcome) {
    case "confirmed":
    case "already":
      return ["done", null];
    case "refused":
      return stuck ? [PARKED, "refused_after_unknown"] : ["failed", "refused"];
    case "not_applied":
      if (!gaveUp) return ["pending", "not_applied"];
      return stuck ? [PARKED, "gave_up_after_unknown"] : ["failed", "gave_up"];
    case "unauthorised":
      return ["pending", "unauthorised"];
    case "unknown":
      if (safety === "search" || safety === "none") return [PARKED, "unknown_outcome"];
      if (gaveUp) return [PARKED, "gave_up_after_unknown"];
      return ["pending", "repeat_unknown"];
  }
}

const HISTORIES: History[] = [
  "at first",
  "after an unknown",
  "after an unknown and give_up_after",
  "after give_up_after",
];

describe("the outcome of an attempt", () => {
  for (const outcome of Object.keys(OUTCOME) as OutcomeKind[]) {
    for (const past of HISTORIES) {
      it(`${outcome} ${past} leads where the design says, under each class`, async (t) => {
        for (const safety of SAFETY_CLASSES) {
          const world = await makeWorld(t);
          const { job, claimed, n } = await underWay(world, past, safety);
          const transitions = await world.settle(claimed, n, OUTCOME[outcome]);
          const [state, reason] = expected(outcome, past, safety);
          const row = world.job(job);
          assert.deepEqual([row.state, row.reason], [state, reason], safety);
          assert.deepEqual(
            transitions.map(({ from, to, late }) => [from, to, late]),
            [["leased", state, false]],
          );
          assert.equal(row.external_id, state === "done" ? "C-1" : null);
          // An attempt that our credentials spoiled is not counted.
          assert.equal(row.attempts, outcome === "unauthorised" ? n - 1 : n, safety);
          const attempt = world.row("SELECT * FROM attempts WHERE n = ?", n);
          assert.deepEqual([attempt.outcome, attempt.ended_at_ms], [outcome, world.now]);
          assert.equal(attempt.sent_at_ms === null, outcome === "not_applied");
          if (state === "pending" && outcome === "unknown") {
            assert.ok(Number(row.run_at_ms) >= world.now + 30 * SECOND, "a repeat waits unknown_wait");
          }
        }
      });
    }
  }

  it("keeps status, detail, id and link on the attempt, and the detail of a refusal on the job", async (t) => {
    const world = await makeWorld(t);
    const one = await begun(world, await world.lead());
    await world.settle(one.claimed, one.n, confirmed("C-9", "https://crm.example/C-9"));
    assert.deepEqual(world.row("SELECT status, external_id, link FROM attempts"), {
      status: 201,
      external_id: "C-9",
      link: "https://crm.example/C-9",
    });
    assert.equal(world.job(one.claimed.jobId).link, "https://crm.example/C-9");
    const two = await begun(world, await world.lead());
    await world.settle(two.claimed, two.n, refused());
    assert.equal(world.job(two.claimed.jobId).detail, "bad field");
    assert.match((await world.alerts("failed"))[0] ?? "", /leadonce retry 2/);
  });

  it("cut off before its commit leaves the job leased, and can be written again", async (t) => {
    let cut = true;
    const world = await makeWorld(t, {
      crash: (point) => {
        if (cut && point === "settle.before_commit") throw new Error("cut off");
      },
    });
    const { claimed, n } = await begun(world, await world.lead());
    await assert.rejects(world.settle(claimed, n, confirmed("C-1")), /cut off/);
    assert.equal(world.state(claimed.jobId), "leased");
    assert.equal(world.row("SELECT outcome FROM attempts").outcome, null);
    cut = false;
    await world.settle(claimed, n, confirmed("C-1"));
    assert.equal(world.state(claimed.jobId), "done");
  });

  it("several at once share one commit, each with its own transition", async (t) => {
    const world = await makeWorld(t);
    const one = await begun(world, await world.lead({ userId: 7001 }));
    const two = await begun(world, await world.lead({ userId: 7002 }));
    const transitions = await world.store.settle(
      [
        { jobId: one.claimed.jobId, token: one.claimed.token, n: 1, outcome: confirmed("C-1") },
        { jobId: two.claimed.jobId, token: two.claimed.token, n: 1, outcome: refused() },
      ],
      world.settings,
      world.now,
      () => 0.5,
    );
    assert.deepEqual(
      transitions.map(({ jobId, to }) => [jobId, to]),
      [
        [one.claimed.jobId, "done"],
        [two.claimed.jobId, "failed"],
      ],
    );
  });

  it("done lets the notes that follow go", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const [first, second] = [await world.note(lead), await world.note(lead)];
    world.now += MINUTE;
    const transitions = await world.attempt(lead, confirmed("C-1"));
    assert.deepEqual(
      transitions.map(({ jobId, from, to }) => [jobId, from, to]),
      [
        [lead, "leased", "done"],
        [first, "blocked", "pending"],
        [second, "blocked", "pending"],
      ],
    );
    assert.equal(world.job(first).run_at_ms, world.now);
    await world.attempt(first, confirmed("N-1"));
    await world.attempt(second, confirmed("N-2"));
  });

  it("refused, parked or pending keeps the notes that follow where they are", async (t) => {
    for (const outcome of [refused(), unknown(), notApplied()]) {
      const world = await makeWorld(t);
      const lead = await world.lead();
      const note = await world.note(lead);
      await world.attempt(lead, outcome);
      assert.equal(world.state(note), "blocked");
    }
  });
});

describe("TR-50: an outcome that is unknown", () => {
  it("sticks: refused after it is not a failure, however many attempts lie between", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    for (const outcome of [unknown(), notApplied(), notApplied(503), unauthorised()]) {
      await world.attempt(job, outcome);
      await world.store.resume(SALES, OPERATOR, world.now);
    }
    await world.attempt(job, refused());
    assert.deepEqual(
      [world.job(job).state, world.job(job).reason],
      ["needs_reconciliation", "refused_after_unknown"],
    );
    assert.equal(world.job(job).attempts, 4);
  });

  it("under search or none is never sent again by itself", async (t) => {
    for (const safety of ["search", "none"] as const) {
      const world = await makeWorld(t, { lead: { safety } });
      const job = await world.lead();
      await world.attempt(job, unknown());
      world.now += 400 * DAY;
      assert.deepEqual(await world.claim(), []);
      assert.equal(world.state(job), "needs_reconciliation");
      assert.equal((await world.alerts("needs_reconciliation")).length, safety === "none" ? 1 : 0);
    }
  });

  it("under idempotency-key waits for a person once the key would be too old for a repeat", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key", keyValidForMs: MINUTE } });
    const job = await world.lead();
    await world.attempt(job, unknown());
    assert.equal(world.state(job), "pending");
    await world.attempt(job, unknown());
    assert.equal(world.job(job).reason, "key_expired");
  });

  it("accepted: done without an id, never sent twice", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "none", onUnknown: "accept" } });
    const job = await world.lead();
    await world.attempt(job, unknown());
    assert.deepEqual([world.job(job).state, world.job(job).external_id], ["done", null]);
    assert.equal(world.row("SELECT outcome FROM attempts").outcome, "unknown");
  });

  it("to be repeated is closed: what follows is judged as if it were the first", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "none", onUnknown: "repeat" } });
    const job = await world.lead();
    await world.attempt(job, unknown());
    assert.deepEqual([world.job(job).state, world.job(job).closed_through_n], ["pending", 1]);
    await world.attempt(job, refused());
    assert.deepEqual([world.job(job).state, world.job(job).reason], ["failed", "refused"]);
  });

  it("repeated again and again comes at a growing distance, not every unknown_wait", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "none", onUnknown: "repeat" } });
    const job = await world.lead();
    for (let n = 0; n < 12; n += 1) await world.attempt(job, unknown());
    assert.ok(Number(world.job(job).run_at_ms) - world.now >= 10 * MINUTE);
  });

  it("gives the time of the attempt that may have left to the look-ups", async (t) => {
    const world = await makeWorld(t);
    const { claimed, n } = await begun(world, await world.lead());
    const sentAt = world.now;
    world.now += 20 * SECOND;
    await world.settle(claimed, n, unknown());
    const row = world.row("SELECT unknown_at_ms, opened_at_ms, next_check_at_ms FROM reconciliations");
    assert.deepEqual(row, {
      unknown_at_ms: sentAt,
      opened_at_ms: world.now,
      // The schedule's 15 s have passed while the answer was waited for.
      next_check_at_ms: world.now,
    });
  });
});

describe("give_up_after", () => {
  it("counts from the first attempt that counts, without the time that the destination was paused", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, notApplied());
    await world.store.pause(SALES, OPERATOR, world.now);
    world.now += 10 * DAY;
    await world.store.resume(SALES, OPERATOR, world.now);
    await world.attempt(job, notApplied());
    assert.equal(world.state(job), "pending", "ten days were a pause");
    world.now += 7 * DAY;
    await world.attempt(job, notApplied());
    assert.equal(world.job(job).reason, "gave_up");
  });

  it("does not count a pause that lasts still, when a trial runs in it", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, notApplied());
    world.write(
      "UPDATE destinations SET state = 'paused', reason = 'same_failure', paused_since_ms = ?, trial_ready = 1",
      world.now,
    );
    world.now += 10 * DAY;
    await world.attempt(job, notApplied());
    assert.equal(world.state(job), "pending");
  });

  it("counts anew after a person's retry", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    await world.attempt(job, notApplied());
    world.now += 8 * DAY;
    await world.attempt(job, notApplied());
    assert.equal(world.job(job).reason, "gave_up");
    await world.decideJob(job, { kind: "retry" });
    await world.attempt(job, notApplied());
    assert.equal(world.state(job), "pending");
  });
});

describe("who may settle", () => {
  it("nobody with a token that never began the attempt: a bug, and nothing is written", async (t) => {
    const world = await makeWorld(t);
    const { claimed, n } = await begun(world, await world.lead());
    const stranger = { ...claimed, token: asLeaseToken("made up") };
    await assert.rejects(world.settle(stranger, n, confirmed("X")), /InvariantError|no attempt/);
    await assert.rejects(world.settle(claimed, n + 1, confirmed("X")), /no attempt/);
    assert.equal(world.state(claimed.jobId), "leased");
    assert.equal(world.row("SELECT outcome FROM attempts").outcome, null);
  });

  it("a second finish changes nothing, whatever it says", async (t) => {
    const world = await makeWorld(t);
    const { claimed, n } = await begun(world, await world.lead());
    await world.settle(claimed, n, confirmed("C-1"));
    const before = [world.job(claimed.jobId), world.rows("SELECT * FROM attempts")];
    world.now += SECOND;
    for (const outcome of [confirmed("C-1"), confirmed("C-2"), unknown(), refused(), notApplied()]) {
      await world.settle(claimed, n, outcome);
      assert.deepEqual([world.job(claimed.jobId), world.rows("SELECT * FROM attempts")], before);
    }
  });
});

describe("an answer that comes after its lease was lost", () => {
  /** An attempt under way whose lease was taken back; under `search` the job is then parked. */
  async function lost(world: World): Promise<{ job: JobId; claimed: ClaimedJob }> {
    const job = await world.lead();
    const { claimed } = await begun(world, job);
    await world.store.rescue([claimed], world.settings, world.now, () => 0.5);
    return { job, claimed };
  }

  it("a success closes the reconciliation and saves the record", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "none" } });
    const { job, claimed } = await lost(world);
    const note = await world.note(job);
    assert.equal(world.state(job), "needs_reconciliation");
    const transitions = await world.settle(claimed, 1, confirmed("C-1"));
    assert.deepEqual(
      transitions.map(({ jobId, from, to, late }) => [jobId, from, to, late]),
      [
        [job, "needs_reconciliation", "done", true],
        [note, "blocked", "pending", true],
      ],
    );
    assert.equal(world.job(job).external_id, "C-1");
    assert.deepEqual(world.row("SELECT resolution, next_check_at_ms FROM reconciliations"), {
      resolution: "late_evidence",
      next_check_at_ms: null,
    });
    assert.deepEqual(await world.alerts("needs_reconciliation"), []);
  });

  it("a success withdraws a repeat that waits", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const { job, claimed } = await lost(world);
    assert.equal(world.state(job), "pending");
    await world.settle(claimed, 1, already("C-1"));
    assert.equal(world.state(job), "done");
    world.now += HOUR;
    assert.deepEqual(await world.claim(), []);
  });

  it("a success mends a job that failed meanwhile, and its alert", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const { job, claimed } = await lost(world);
    // As after an answer that proved the first attempt refused: the repeat is refused too.
    await world.settle(claimed, 1, refused());
    await world.attempt(job, refused());
    assert.equal(world.state(job), "failed");
    await world.settle(claimed, 1, confirmed("C-1"));
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
    assert.deepEqual(await world.alerts("failed"), []);
  });

  it("a success on a job that is done with another record raises an alert that names both", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const { job, claimed } = await lost(world);
    await world.decideJob(job, { kind: "link", externalId: "C-1" });
    await world.settle(claimed, 1, confirmed("C-2"));
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
    const [alert] = await world.alerts("late_evidence");
    assert.match(alert ?? "", /C-1.*C-2/);
    assert.equal(world.row("SELECT external_id FROM attempts").external_id, "C-2");
  });

  it("an alert about a late success is closed by dismissing the job, which stays as it is and says who looked", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const { job, claimed } = await lost(world);
    await world.decideJob(job, { kind: "link", externalId: "C-1" });
    await world.settle(claimed, 1, confirmed("C-2"));
    const dismiss = { kind: "dismiss", withNotes: false } as const;
    assert.equal((await world.decideJob(job, dismiss)).kind, "applied");
    assert.deepEqual(await world.alerts("late_evidence"), []);
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
    assert.equal((await world.decideJob(job, dismiss)).kind, "not_applicable");
    assert.deepEqual(
      world.rows("SELECT action FROM operator_actions ORDER BY action_id").map(({ action }) => action),
      ["link", "acknowledge"],
    );
  });

  it("a success that names the record that is known alarms nobody", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const { job, claimed } = await lost(world);
    await world.decideJob(job, { kind: "link", externalId: "C-1" });
    await world.settle(claimed, 1, confirmed("C-1"));
    assert.deepEqual(await world.alerts("late_evidence"), []);
  });

  it("a success on a cancelled job raises an alert, also without an id", async (t) => {
    for (const externalId of ["C-2", null]) {
      const world = await makeWorld(t, { lead: { safety: "search" } });
      const { job, claimed } = await lost(world);
      await world.decideJob(job, { kind: "dismiss", withNotes: false });
      await world.settle(claimed, 1, confirmed(externalId));
      assert.equal(world.state(job), "cancelled");
      assert.match((await world.alerts("late_evidence"))[0] ?? "", /cancelled.*(C-2|without an id)/);
    }
  });

  it("a success while the repeat is under way: the record stands, whatever the repeat says", async (t) => {
    for (const outcome of [confirmed("C-1"), refused(), unknown(), notApplied(), unauthorised()]) {
      const world = await makeWorld(t, { lead: { safety: "external-id" } });
      const { job, claimed } = await lost(world);
      const second = await begun(world, job);
      const [late] = await world.settle(claimed, 1, confirmed("C-1"));
      assert.deepEqual([late?.from, late?.to, late?.late], ["leased", "leased", true]);
      const [settled] = await world.settle(second.claimed, second.n, outcome);
      assert.deepEqual([settled?.to, settled?.externalId], ["done", "C-1"], outcome.kind);
      assert.deepEqual(await world.alerts("late_evidence"), []);
    }
  });

  it("a success while the repeat is under way, which then makes another record: an alert names both", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const { job, claimed } = await lost(world);
    const second = await begun(world, job);
    await world.settle(claimed, 1, confirmed("C-1"));
    await world.settle(second.claimed, second.n, confirmed("C-2"));
    assert.deepEqual([world.state(job), world.job(job).external_id], ["done", "C-1"]);
    assert.match((await world.alerts("late_evidence"))[0] ?? "", /is done.*C-1.*C-2/);
  });

  it("anything but a success stands on the attempt and leaves the job alone", async (t) => {
    for (const outcome of [refused(), notApplied(), unknown(502), unauthorised()]) {
      const world = await makeWorld(t, { lead: { safety: "search" } });
      const { job, claimed } = await lost(world);
      const before = world.job(job);
      const [transition] = await world.settle(claimed, 1, outcome);
      assert.deepEqual(
        [transition?.from, transition?.to, transition?.late],
        [before.state, before.state, true],
      );
      assert.deepEqual(world.job(job), before);
      assert.equal(world.row("SELECT outcome FROM attempts").outcome, outcome.kind);
    }
  });

  it("a success on a note that a person sent again and that waits for its lead: it will not be sent", async (t) => {
    // The lead goes back to pending only after a restored backup; here it is put there by hand.
    const world = await makeWorld(t);
    const lead = await world.lead();
    await world.attempt(lead, confirmed("C-1"));
    const note = await world.note(lead);
    const { claimed } = await begun(world, note);
    await world.store.rescue([claimed], world.settings, world.now, () => 0.5);
    const other = await world.lead({ userId: 7009 });
    world.write("UPDATE jobs SET follows_job_id = ? WHERE job_id = ?", other, note);
    await world.decideJob(note, { kind: "recreate" });
    assert.equal(world.state(note), "blocked");
    await world.settle(claimed, 1, confirmed("N-1"));
    assert.equal(world.state(note), "blocked");
    await world.attempt(other, confirmed("C-2"));
    const begunAgain = await world.begin(await world.claimJob(note));
    assert.deepEqual(begunAgain.kind === "stopped" && begunAgain.to, "done");
    assert.equal(world.job(note).external_id, "N-1");
  });
});
