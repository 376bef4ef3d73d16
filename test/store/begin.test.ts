/** Beginning an attempt: what is committed before anything may leave (P3), and when nothing may. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asLeaseToken, type JobId, type LeaseToken } from "../../src/domain/ids.ts";
import type { ClaimedJob, Prepare } from "../../src/domain/store.ts";
import {
  already,
  confirmed,
  DAY,
  HOUR,
  MINUTE,
  makeWorld,
  notApplied,
  prepare,
  ready,
  refused,
  SALES,
  SECOND,
  stepSettings,
  T0,
  unknown,
  type World,
} from "./fixtures.ts";

/** Counts how often a body was made anew, and remembers the keys that it was made with. */
function counting(): { prepare: Prepare; rendered: () => number; keys: string[] } {
  const keys: string[] = [];
  let rendered = 0;
  return {
    keys,
    rendered: () => rendered,
    prepare: (_destination, context, storedBody) => {
      keys.push(context.operation.key);
      const prepared = ready(context, storedBody);
      if (storedBody !== undefined || prepared.kind !== "ready") return prepared;
      rendered += 1;
      return { ...prepared, body: `${prepared.body} no ${rendered}` };
    },
  };
}

const attempts = (world: World): unknown[] => world.rows("SELECT * FROM attempts");
const bodyOf = (world: World, job: JobId): unknown =>
  world.row("SELECT body FROM job_bodies WHERE job_id = ?", job).body;

describe("an attempt that begins", () => {
  it("is committed with its body before anything is sent", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead({ text: "Hello" });
    const claimed = await world.claimJob(job);
    world.now += 5 * SECOND;
    let sent = 0;
    const begun = await world.begin(claimed, (_destination, context, storedBody) => ({
      ...ready(context, storedBody),
      send: async () => {
        sent += 1;
        return confirmed("C-1");
      },
    }));
    assert.deepEqual([begun.kind, begun.kind === "begun" && begun.n, sent], ["begun", 1, 0]);
    assert.deepEqual(
      world.row("SELECT n, token, run_id, begun_at_ms, sent_at_ms, ended_at_ms, outcome FROM attempts"),
      {
        n: 1,
        token: claimed.token,
        run_id: "run-1",
        begun_at_ms: world.now,
        sent_at_ms: world.now,
        ended_at_ms: null,
        outcome: null,
      },
    );
    assert.match(String(bodyOf(world, job)), /Hello/);
    assert.equal(world.job(job).attempts, 1);
    assert.ok(begun.kind === "begun");
    assert.deepEqual(await begun.send(new AbortController().signal), confirmed("C-1"));
    assert.equal(sent, 1);
  });

  it("sets the lease's deadline anew: the wait in the queue does not count", async (t) => {
    const world = await makeWorld(t);
    const claimed = await world.claimJob(await world.lead());
    world.now += 50 * SECOND;
    await world.begin(claimed);
    assert.equal(world.row("SELECT expires_at_ms FROM leases").expires_at_ms, world.now + MINUTE);
  });

  it("cut off before its commit leaves nothing, and the token still begins it", async (t) => {
    let cut = true;
    const world = await makeWorld(t, {
      crash: (point) => {
        if (cut && point === "begin.before_commit") throw new Error("cut off");
      },
    });
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    await assert.rejects(world.begin(claimed), /cut off/);
    assert.deepEqual(attempts(world), []);
    assert.deepEqual(world.rows("SELECT * FROM job_bodies"), []);
    assert.equal(world.job(job).attempts, 0);
    cut = false;
    assert.equal((await world.begin(claimed)).kind, "begun");
  });

  it("several at once share one commit, each with its own answer", async (t) => {
    const world = await makeWorld(t);
    const jobs = [await world.lead({ userId: 7001 }), await world.lead({ userId: 7002 })];
    const claimed = await world.claim();
    const leases = claimed.map((lease, n) => ({
      ...lease,
      leaseMs: MINUTE,
      token: n === 0 ? asLeaseToken("not mine") : lease.token,
    }));
    const begun = await world.store.beginAttempt(leases, prepare, world.settings, world.now);
    assert.deepEqual(
      begun.map(({ kind, jobId }) => [kind, jobId]),
      [
        ["lost", jobs[0]],
        ["begun", jobs[1]],
      ],
    );
  });
});

describe("a token that does not match", () => {
  const tokens: [string, (world: World, claimed: ClaimedJob) => Promise<LeaseToken>][] = [
    ["that was never given out", async () => asLeaseToken("made up")],
    [
      "whose lease was given back",
      async (world, claimed) => {
        await world.store.release([claimed], world.now);
        return claimed.token;
      },
    ],
    [
      "whose lease was given to another claim",
      async (world, claimed) => {
        await world.store.release([claimed], world.now);
        await world.claimJob(claimed.jobId);
        return claimed.token;
      },
    ],
    [
      "whose job is done",
      async (world, claimed) => {
        const begun = await world.begin(claimed);
        assert.ok(begun.kind === "begun");
        await world.settle(claimed, begun.n, confirmed("C-1"));
        return claimed.token;
      },
    ],
  ];
  for (const [which, tokenOf] of tokens) {
    it(`${which} begins nothing and writes nothing`, async (t) => {
      const world = await makeWorld(t);
      const claimed = await world.claimJob(await world.lead());
      const token = await tokenOf(world, claimed);
      const before = [attempts(world), world.job(claimed.jobId), world.rows("SELECT * FROM leases")];
      let rendered = false;
      const begun = await world.begin({ ...claimed, token }, (...request) => {
        rendered = true;
        return prepare(...request);
      });
      assert.deepEqual(begun, { kind: "lost", jobId: claimed.jobId });
      assert.equal(rendered, false);
      assert.deepEqual(
        [attempts(world), world.job(claimed.jobId), world.rows("SELECT * FROM leases")],
        before,
      );
    });
  }
});

describe("the body", () => {
  it("is made once and goes out again byte for byte, with the same key", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const job = await world.lead();
    const how = counting();
    for (const outcome of [notApplied(), unknown(), notApplied(503)]) {
      const claimed = await world.claimJob(job);
      const begun = await world.begin(claimed, how.prepare);
      assert.ok(begun.kind === "begun");
      await world.settle(claimed, begun.n, outcome);
    }
    assert.equal(how.rendered(), 1);
    assert.equal(new Set(how.keys).size, 1);
    assert.match(String(bodyOf(world, job)), / no 1$/);
  });

  it("that is stored is not changed by a renderer that makes another one", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    await world.attempt(job, unknown());
    const before = bodyOf(world, job);
    const claimed = await world.claimJob(job);
    const begun = await world.begin(claimed, (_destination, context) => ({
      ...ready(context, undefined),
      kind: "ready",
      body: "another body",
      send: async () => confirmed("C-1"),
    }));
    assert.ok(begun.kind === "begun");
    await world.settle(claimed, begun.n, unknown());
    assert.equal(bodyOf(world, job), before);
  });

  it("that is none is remembered as none", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    const seen: (string | null | undefined)[] = [];
    const none: Prepare = (_destination, _context, storedBody) => {
      seen.push(storedBody);
      return { kind: "ready", body: null, send: async () => confirmed("C-1") };
    };
    for (let n = 0; n < 2; n += 1) {
      const claimed = await world.claimJob(job);
      const begun = await world.begin(claimed, none);
      assert.ok(begun.kind === "begun");
      await world.settle(claimed, begun.n, unknown());
    }
    assert.deepEqual(seen, [undefined, null]);
  });

  it("is rendered from the input as it is when the attempt begins, and that input is kept with it", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead({ text: "first words" });
    const input = String(world.row("SELECT input FROM operations").input);
    world.write("UPDATE operations SET input = ?", input.replace("first words", "edited words"));
    await world.attempt(job, unknown());
    assert.match(String(bodyOf(world, job)), /edited words/);
    world.write("UPDATE operations SET input = ?", input.replace("first words", "later words"));
    const claimed = await world.claimJob(job);
    let seen = "";
    await world.begin(claimed, (destination, context, storedBody) => {
      seen = JSON.stringify(context.input);
      return prepare(destination, context, storedBody);
    });
    assert.match(seen, /edited words/);
    await world.settle(claimed, 2, confirmed("C-1"));
  });

  it("after a person's retry is made anew from the same input, and goes out under the key with -2", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const job = await world.lead({ text: "first words" });
    const how = counting();
    const one = await world.claimJob(job);
    await world.begin(one, how.prepare);
    await world.settle(one, 1, refused());
    const input = String(world.row("SELECT input FROM operations").input);
    world.write("UPDATE operations SET input = ?", input.replace("first words", "later words"));
    await world.decideJob(job, { kind: "retry" });
    const two = await world.claimJob(job);
    await world.begin(two, how.prepare);
    await world.settle(two, 2, refused());
    assert.equal(how.rendered(), 2);
    assert.match(String(bodyOf(world, job)), /first words.* no 2$/);
    const { operation_id } = world.job(job);
    assert.deepEqual(how.keys, [operation_id, `${operation_id}-2`]);
    await world.decideJob(job, { kind: "retry" });
    const three = await world.claimJob(job);
    await world.begin(three, how.prepare);
    assert.equal(how.keys.at(-1), `${operation_id}-3`);
    await world.settle(three, 3, confirmed("C-1"));
  });

  it("after recreate is the stored one, under the stored key", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "search" } });
    const job = await world.lead();
    const how = counting();
    const one = await world.claimJob(job);
    await world.begin(one, how.prepare);
    await world.settle(one, 1, unknown());
    await world.decideJob(job, { kind: "recreate" });
    const two = await world.claimJob(job);
    await world.begin(two, how.prepare);
    await world.settle(two, 2, confirmed("C-1"));
    assert.equal(how.rendered(), 1);
    assert.equal(new Set(how.keys).size, 1);
  });
});

describe("the context of a note", () => {
  it("holds the record of the lead that it follows", async (t) => {
    const world = await makeWorld(t);
    const lead = await world.lead();
    const note = await world.note(lead);
    await world.attempt(lead, confirmed("C-1", "https://crm.example/leads/C-1"));
    const claimed = await world.claimJob(note);
    await world.begin(claimed, (destination, context, storedBody) => {
      assert.deepEqual(context.lead, { id: "C-1", link: "https://crm.example/leads/C-1" });
      assert.deepEqual(
        [context.step, context.action, context.bot.username],
        ["note", "enquiry", "TestEnquiryBot"],
      );
      return prepare(destination, context, storedBody);
    });
    await world.settle(claimed, 1, confirmed("N-1"));
  });
});

describe("an attempt that may not begin", () => {
  /** A job whose first attempt under a class that allows repeats ended unknown, claimed again. */
  async function afterUnknown(world: World, job?: JobId): Promise<ClaimedJob> {
    const id = job ?? (await world.lead());
    await world.attempt(id, unknown());
    return world.claimJob(id);
  }
  const never: Prepare = () => assert.fail("nothing may be rendered");

  for (const safety of ["search", "none"] as const) {
    it(`because the class is now ${safety} and an unknown is open: it waits for a look-up or a person`, async (t) => {
      const world = await makeWorld(t, { lead: { safety: "external-id" } });
      const claimed = await afterUnknown(world);
      const firstSent = world.row("SELECT sent_at_ms FROM attempts").sent_at_ms;
      world.steps = { lead: stepSettings({ safety }) };
      const begun = await world.begin(claimed, never);
      assert.deepEqual(begun, {
        kind: "stopped",
        jobId: claimed.jobId,
        to: "needs_reconciliation",
        reason: "class_forbids_repeat",
      });
      assert.equal(attempts(world).length, 1);
      const row = world.row("SELECT unknown_at_ms, next_check_at_ms, reason FROM reconciliations");
      assert.equal(row.unknown_at_ms, firstSent);
      assert.equal(row.next_check_at_ms === null, safety === "none");
      assert.equal((await world.alerts("needs_reconciliation")).length, safety === "none" ? 1 : 0);
    });
  }

  it("because the key has expired", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const claimed = await afterUnknown(world);
    world.now = Number(world.row("SELECT sent_at_ms FROM attempts").sent_at_ms) + DAY;
    const begun = await world.begin(claimed, never);
    assert.equal(begun.kind === "stopped" && begun.reason, "key_expired");
    assert.equal(world.state(claimed.jobId), "needs_reconciliation");
  });

  it("because the clock stands before the first attempt, so that the key's age can't be told", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const claimed = await afterUnknown(world);
    world.now = T0 - HOUR;
    const begun = await world.begin(claimed, never);
    assert.equal(begun.kind === "stopped" && begun.reason, "key_expired");
  });

  it("does begin to the last moment of the key's validity", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const claimed = await afterUnknown(world);
    world.now = Number(world.row("SELECT sent_at_ms FROM attempts").sent_at_ms) + DAY - 1;
    assert.equal((await world.begin(claimed)).kind, "begun");
    await world.settle(claimed, 2, already("C-1"));
  });

  it("counts the key's validity from the first attempt that may have left, not from one that did not", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "idempotency-key" } });
    const job = await world.lead();
    await world.attempt(job, notApplied());
    world.now += 3 * DAY;
    const claimed = await afterUnknown(world, job);
    assert.equal((await world.begin(claimed)).kind, "begun");
    await world.settle(claimed, 3, confirmed("C-1"));
  });

  const unrenderable: Prepare = () => ({ kind: "unrenderable", template: "lead.url", message: "is empty" });

  it("because it can't be rendered: failed, with the template's path, without an attempt", async (t) => {
    const world = await makeWorld(t);
    const claimed = await world.claimJob(await world.lead());
    const begun = await world.begin(claimed, unrenderable);
    assert.deepEqual(begun, {
      kind: "stopped",
      jobId: claimed.jobId,
      to: "failed",
      reason: "unrenderable",
    });
    const { attempts: counted, detail, reason } = world.job(claimed.jobId);
    assert.deepEqual([counted, detail, reason], [0, "lead.url: is empty", "unrenderable"]);
    assert.deepEqual(attempts(world), []);
    await world.decideJob(claimed.jobId, { kind: "retry" });
    await world.attempt(claimed.jobId, confirmed("C-1"));
  });

  it("because it can't be rendered, with an open unknown: parked, never called a failure", async (t) => {
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const claimed = await afterUnknown(world);
    const begun = await world.begin(claimed, unrenderable);
    assert.deepEqual(begun.kind === "stopped" && [begun.to, begun.reason], [
      "needs_reconciliation",
      "unrenderable",
    ]);
  });

  it("because its connector or its step is gone: failed, and it says so", async (t) => {
    const world = await makeWorld(t);
    const one = await world.claimJob(await world.lead());
    await world.begin(one, () => null);
    assert.match(String(world.job(one.jobId).detail), /not configured/);
    world.steps = {};
    const two = await world.claimJob(await world.lead());
    await world.begin(two, never);
    assert.match(String(world.job(two.jobId).detail), /no step "lead"/);
  });

  it("because a success of an earlier attempt came in meanwhile: done, and nothing is sent", async (t) => {
    // The first attempt's answer comes after its lease was taken back, while the repeat waits for its turn.
    const world = await makeWorld(t, { lead: { safety: "external-id" } });
    const job = await world.lead();
    const first = await world.claimJob(job);
    await world.begin(first);
    await world.store.rescue([first], world.settings, world.now, () => 0.5);
    const second = await world.claimJob(job);
    await world.settle(first, 1, confirmed("C-1", "https://crm.example/C-1"));
    assert.equal(world.state(job), "leased");
    const begun = await world.begin(second, never);
    assert.deepEqual(begun, { kind: "stopped", jobId: job, to: "done", reason: "late_evidence" });
    const { state, external_id, link, attempts: counted } = world.job(job);
    assert.deepEqual([state, external_id, link, counted], ["done", "C-1", "https://crm.example/C-1", 1]);
  });

  it("as a trial gives the trial back, so that another job is let through", async (t) => {
    const world = await makeWorld(t);
    const jobs = [await world.lead({ userId: 7001 }), await world.lead({ userId: 7002 })];
    world.write(
      "UPDATE destinations SET state = 'paused', reason = 'same_failure', paused_since_ms = ?, trial_ready = 1",
      T0,
    );
    const [trial] = await world.claim();
    assert.deepEqual([trial?.jobId, trial?.trial], [jobs[0], true]);
    await world.begin(trial ?? assert.fail(), unrenderable);
    const [next] = await world.claim();
    assert.deepEqual([next?.jobId, next?.trial], [jobs[1], true]);
  });
});

describe("giving a job back before it was begun", () => {
  it("counts nothing, and it can be claimed at once", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    const [transition] = await world.store.release([claimed], world.now);
    assert.deepEqual(
      [transition?.from, transition?.to, transition?.reason],
      ["leased", "pending", "given_back"],
    );
    assert.equal(world.job(job).attempts, 0);
    assert.equal((await world.claim()).length, 1);
  });

  it("is refused once it was begun, and for a token that does not match", async (t) => {
    const world = await makeWorld(t);
    const job = await world.lead();
    const claimed = await world.claimJob(job);
    const stranger = { ...claimed, token: asLeaseToken("made up") };
    assert.deepEqual(await world.store.release([stranger], world.now), []);
    await world.begin(claimed);
    assert.deepEqual(await world.store.release([claimed], world.now), []);
    assert.equal(world.state(job), "leased");
  });

  it("of a trial gives the trial back", async (t) => {
    const world = await makeWorld(t);
    await world.lead();
    world.write(
      "UPDATE destinations SET state = 'paused', reason = 'same_failure', paused_since_ms = ?, trial_ready = 1 WHERE destination = ?",
      T0,
      SALES,
    );
    const claimed = await world.claim();
    assert.equal(claimed[0]?.trial, true);
    assert.deepEqual(await world.claim(), []);
    await world.store.release(claimed, world.now);
    assert.equal((await world.claim())[0]?.trial, true);
  });
});
