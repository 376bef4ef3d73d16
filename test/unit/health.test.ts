/** Design §6, "Pause and probe", rule by rule. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { afterOutcome, afterProbe, HEALTHY, type Health, pausedByOperator } from "../../src/domain/health.ts";
import { asJobId, type JobId } from "../../src/domain/ids.ts";
import type { Outcome, Probe } from "../../src/domain/outcome.ts";

const NOW = 1_767_600_000_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const RETRY = { firstMs: 1_000, maxMs: 15 * MINUTE, giveUpAfterMs: 7 * 24 * HOUR };
const ALMOST_ONE = 1 - Number.EPSILON;

const A = asJobId(1);
const B = asJobId(2);
const C = asJobId(3);
const D = asJobId(4);
const E = asJobId(5);
const F = asJobId(6);

const ok: Outcome = { kind: "confirmed", status: 201, detail: null, externalId: "X", link: null };
const refused = (status = 422): Outcome => ({ kind: "refused", status, detail: null });
const unknown = (status: number | null): Outcome => ({ kind: "unknown", status, detail: null });
const notApplied = (status: number | null): Outcome => ({
  kind: "not_applied",
  status,
  detail: null,
  retryAfterMs: null,
});
const unauthorised: Outcome = { kind: "unauthorised", status: 401, detail: null };

type Happening = [JobId, Outcome] | [JobId, Outcome, "parked"];

/** The health after these outcomes, one second apart. */
function after(health: Health, ...happenings: Happening[]): Health {
  return happenings.reduce(
    (before, [jobId, outcome, parked], n) =>
      afterOutcome(before, jobId, outcome, parked === "parked", RETRY, NOW + n * 1_000, ALMOST_ONE),
    health,
  );
}

const good: Probe = { kind: "good", status: 200, detail: null };
const bad: Probe = { kind: "bad", status: 503, detail: null };
const probe = (health: Health, seen: Probe, nowMs = NOW): Health =>
  afterProbe(health, seen, RETRY, nowMs, ALMOST_ONE);

/** Paused after 401, probed well, and job A let through. */
function onTrial(): Health {
  const ready = probe(after(HEALTHY, [A, unauthorised]), good);
  return { ...ready, trialReady: false, trialJobId: A };
}

describe("a destination pauses", () => {
  it("at once after unauthorised, and says so", () => {
    const health = after(HEALTHY, [A, unauthorised]);
    assert.deepEqual([health.state, health.reason, health.pausedSinceMs], ["paused", "unauthorised", NOW]);
    assert.equal(health.nextProbeAtMs, NOW + RETRY.firstMs);
    assert.match(health.detail ?? "", /401/);
  });

  const same: [string, Outcome, Outcome][] = [
    ["404", refused(404), refused(404)],
    ["405", refused(405), refused(405)],
    ["any 5xx", unknown(500), notApplied(503)],
    ["a dead network", notApplied(null), unknown(null)],
  ];
  for (const [name, first, second] of same) {
    it(`after ${name} of two different jobs with no success between`, () => {
      const health = after(HEALTHY, [A, first], [B, second]);
      assert.deepEqual([health.state, health.reason], ["paused", "same_failure"]);
    });

    it(`not after ${name} of one job twice`, () => {
      assert.equal(after(HEALTHY, [A, first], [A, second]).state, "active");
    });

    it(`not after ${name} of two jobs with a success between`, () => {
      assert.equal(after(HEALTHY, [A, first], [C, ok], [B, second]).state, "active");
    });
  }

  it("after the same failure of two jobs even where something harmless came between", () => {
    const health = after(HEALTHY, [A, unknown(502)], [B, notApplied(429)], [C, unknown(502)]);
    assert.equal(health.reason, "same_failure");
  });

  it("not after two different failures of two jobs", () => {
    assert.equal(after(HEALTHY, [A, refused(404)], [B, unknown(500)]).state, "active");
  });

  it("not for answers that concern one job: 429, 408, 3xx, 422 and a 2xx without an id", () => {
    const outcomes = [notApplied(429), unknown(408), unknown(302), unknown(200), refused(422)];
    for (const outcome of outcomes) {
      assert.equal(after(HEALTHY, [A, outcome], [B, outcome], [C, outcome]).state, "active", outcome.kind);
    }
  });

  it("after five different jobs refused in a row", () => {
    const four: Happening[] = [A, B, C, D].map((job) => [job, refused()]);
    assert.equal(after(HEALTHY, ...four).state, "active");
    const health = after(HEALTHY, ...four, [E, refused()]);
    assert.deepEqual([health.state, health.reason], ["paused", "refused_in_a_row"]);
  });

  it("not after five refusals of four jobs, nor with a success between", () => {
    const four: Happening[] = [A, B, C, D].map((job) => [job, refused()]);
    assert.equal(after(HEALTHY, ...four, [A, refused()]).state, "active");
    assert.equal(after(HEALTHY, ...four, [F, ok], [E, refused()]).state, "active");
  });
});

describe("while a destination is paused", () => {
  it("outcomes of jobs that were under way change nothing about the pause", () => {
    const paused = after(HEALTHY, [A, unauthorised]);
    const later = after(paused, [B, unauthorised], [C, unknown(500)], [D, refused()]);
    const { state, reason, pausedSinceMs, nextProbeAtMs, probes } = later;
    assert.deepEqual(
      [state, reason, pausedSinceMs, nextProbeAtMs, probes],
      ["paused", "unauthorised", NOW, NOW + RETRY.firstMs, 0],
    );
  });

  it("probes that are not good come at a growing distance, up to max", () => {
    let health = after(HEALTHY, [A, unauthorised]);
    const distances: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      health = probe(health, n % 2 === 0 ? bad : { kind: "refused", status: 401, detail: null });
      distances.push((health.nextProbeAtMs ?? 0) - NOW);
    }
    assert.deepEqual(distances.slice(0, 3), [2_000, 4_000, 8_000]);
    assert.equal(Math.max(...distances), RETRY.maxMs);
    assert.deepEqual(
      [...distances].sort((a, b) => a - b),
      distances,
    );
    assert.equal(health.trialReady, false);
  });

  it("a good probe lets one job through and asks no more until that one has ended", () => {
    const health = probe(after(HEALTHY, [A, unauthorised]), good);
    assert.deepEqual([health.state, health.trialReady, health.nextProbeAtMs], ["paused", true, null]);
  });

  it("a confirmed trial ends the pause and the distance starts anew", () => {
    assert.deepEqual(after(onTrial(), [A, ok]), HEALTHY);
  });

  it("a trial that is not confirmed keeps the pause, and the next probe is further away", () => {
    for (const outcome of [refused(), notApplied(503), unauthorised, unknown(null)]) {
      const health = after({ ...onTrial(), probes: 3 }, [A, outcome]);
      assert.deepEqual([health.state, health.trialReady, health.probes], ["paused", false, 4]);
      assert.equal(health.nextProbeAtMs, NOW + 8_000);
    }
  });

  it("the distance does not start anew with a good probe alone", () => {
    let health = onTrial();
    const distances: number[] = [];
    for (let n = 0; n < 6; n += 1) {
      health = after(health, [A, notApplied(503)]);
      distances.push((health.nextProbeAtMs ?? 0) - NOW);
      health = { ...probe(health, good), trialReady: false, trialJobId: A };
    }
    assert.deepEqual(distances, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]);
  });

  it("a trial that had to be parked costs a person's time: the distance grows up to one hour", () => {
    let health = onTrial();
    const distances: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      health = after(health, [A, unknown(null), "parked"]);
      distances.push((health.nextProbeAtMs ?? 0) - NOW);
    }
    assert.deepEqual(
      distances,
      [1, 2, 4, 8, 16, 32, 60, 60].map((minutes) => minutes * MINUTE),
    );
  });

  it("the outcome of another job than the trial's leaves the trial alone", () => {
    const health = after(onTrial(), [B, notApplied(503)]);
    assert.deepEqual([health.trialJobId, health.nextProbeAtMs, health.probes], [A, null, 0]);
  });
});

describe("a pause by a person", () => {
  const paused = pausedByOperator(HEALTHY, "maintenance", NOW);

  it("has no probe and says why", () => {
    assert.deepEqual(
      [paused.state, paused.reason, paused.detail, paused.nextProbeAtMs],
      ["paused", "operator", "maintenance", null],
    );
  });

  it("is not ended by a success, nor by a good probe that was under way", () => {
    assert.equal(after(paused, [A, ok]).state, "paused");
    assert.equal(after(paused, [A, ok]).reason, "operator");
    const probed = probe(paused, good);
    assert.deepEqual([probed.state, probed.trialReady], ["paused", false]);
  });

  it("takes a trial back that was about to be let through", () => {
    const health = pausedByOperator(probe(after(HEALTHY, [A, unauthorised]), good), "maintenance", NOW);
    assert.equal(health.trialReady, false);
  });

  it("goes on counting from when the destination first stopped", () => {
    const earlier = after(HEALTHY, [A, unauthorised]);
    assert.equal(pausedByOperator(earlier, "maintenance", NOW + HOUR).pausedSinceMs, NOW);
  });
});

describe("a probe that comes back after the pause has ended", () => {
  it("changes nothing", () => {
    assert.deepEqual(probe(HEALTHY, good), HEALTHY);
    assert.deepEqual(probe(HEALTHY, bad), HEALTHY);
  });
});
