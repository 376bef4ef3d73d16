/**
 * Design §4 and §6 as tables: every outcome under every safety class, with and without an earlier unknown. What stands
 * here was read from the design, not from the code.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Outcome, OutcomeKind } from "../../src/domain/outcome.ts";
import { type AttemptHistory, afterAttempt, mayNotRepeat, nextCheckAtMs } from "../../src/domain/policy.ts";
import { SAFETY_CLASSES, type SafetyClass, type StepSettings } from "../../src/domain/settings.ts";

const NOW = 1_767_600_000_000;
const SECOND = 1_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const OUTCOME: Record<OutcomeKind, Outcome> = {
  confirmed: { kind: "confirmed", status: 201, detail: null, externalId: "A", link: "https://crm.example/A" },
  already: { kind: "already", status: 409, detail: null, externalId: "A", link: null },
  refused: { kind: "refused", status: 422, detail: null },
  not_applied: { kind: "not_applied", status: 429, detail: null, retryAfterMs: null },
  unauthorised: { kind: "unauthorised", status: 401, detail: null },
  unknown: { kind: "unknown", status: null, detail: null },
};

function settings(safety: SafetyClass, overrides: Partial<StepSettings> = {}): StepSettings {
  return {
    safety,
    keyValidForMs: safety === "idempotency-key" ? DAY : null,
    unknownWaitMs: 30 * SECOND,
    retry: { firstMs: SECOND, maxMs: 900 * SECOND, giveUpAfterMs: 7 * DAY },
    checksMs: [15 * SECOND, 120 * SECOND],
    assumeAbsentAfterMs: null,
    onUnknown: "reconcile",
    canFind: safety === "search",
    ...overrides,
  };
}

function history(overrides: Partial<AttemptHistory> = {}): AttemptHistory {
  return { attempts: 1, openUnknown: false, firstMayHaveLeftAtMs: NOW, tryingForMs: 0, ...overrides };
}

type Expected = `${"done" | "failed" | "needs_reconciliation" | "pending"}${"" | `: ${string}`}`;

function judge(outcome: OutcomeKind, safety: SafetyClass, past: Partial<AttemptHistory>): Expected {
  const next = afterAttempt(OUTCOME[outcome], history(past), settings(safety), NOW, 0.5);
  return next.to === "done" ? "done" : `${next.to}: ${next.reason}`;
}

/** One row per outcome and history; one column per class, in the order of the design. */
const TABLE: [OutcomeKind, string, Partial<AttemptHistory>, Record<SafetyClass, Expected>][] = [
  ["confirmed", "at first", {}, same("done")],
  ["confirmed", "after an unknown", { openUnknown: true }, same("done")],
  ["already", "at first", {}, same("done")],
  ["already", "after an unknown", { openUnknown: true }, same("done")],
  ["refused", "at first", {}, same("failed: refused")],
  ["refused", "after an unknown", { openUnknown: true }, same("needs_reconciliation: refused_after_unknown")],
  ["not_applied", "at first", {}, same("pending: not_applied")],
  ["not_applied", "after an unknown", { openUnknown: true }, same("pending: not_applied")],
  ["not_applied", "after give_up_after", { tryingForMs: 7 * DAY }, same("failed: gave_up")],
  [
    "not_applied",
    "after give_up_after and an unknown",
    { tryingForMs: 7 * DAY, openUnknown: true },
    same("needs_reconciliation: gave_up_after_unknown"),
  ],
  ["unauthorised", "at first", {}, same("pending: unauthorised")],
  ["unauthorised", "after an unknown", { openUnknown: true }, same("pending: unauthorised")],
  ["unauthorised", "after give_up_after", { tryingForMs: 8 * DAY }, same("pending: unauthorised")],
  [
    "unknown",
    "at first",
    { openUnknown: true },
    repeats("pending: repeat_unknown", "pending: repeat_unknown"),
  ],
  [
    "unknown",
    "after give_up_after",
    { openUnknown: true, tryingForMs: 7 * DAY },
    repeats("needs_reconciliation: gave_up_after_unknown", "needs_reconciliation: gave_up_after_unknown"),
  ],
  [
    "unknown",
    "when the key will have expired",
    { openUnknown: true, firstMayHaveLeftAtMs: NOW - DAY + SECOND },
    repeats("needs_reconciliation: key_expired", "pending: repeat_unknown"),
  ],
  [
    "unknown",
    "when the clock stands before the first attempt",
    { openUnknown: true, firstMayHaveLeftAtMs: NOW + HOUR },
    repeats("needs_reconciliation: key_expired", "pending: repeat_unknown"),
  ],
];

function same(expected: Expected): Record<SafetyClass, Expected> {
  return { "idempotency-key": expected, "external-id": expected, search: expected, none: expected };
}

/** Where a repeat is not allowed, an unknown always waits for a look-up or a person. */
function repeats(idempotencyKey: Expected, externalId: Expected): Record<SafetyClass, Expected> {
  const parked: Expected = "needs_reconciliation: unknown_outcome";
  return { "idempotency-key": idempotencyKey, "external-id": externalId, search: parked, none: parked };
}

describe("what follows an attempt", () => {
  for (const [outcome, when, past, expected] of TABLE) {
    for (const safety of SAFETY_CLASSES) {
      it(`${outcome} ${when} under ${safety}: ${expected[safety]}`, () => {
        assert.equal(judge(outcome, safety, past), expected[safety]);
      });
    }
  }

  it("a success brings the record's id and link along", () => {
    const next = afterAttempt(OUTCOME.confirmed, history(), settings("none"), NOW, 0.5);
    assert.deepEqual(next, { to: "done", externalId: "A", link: "https://crm.example/A" });
  });

  it("a refusal of our credentials counts as no attempt and waits for nothing but the pause", () => {
    const next = afterAttempt(OUTCOME.unauthorised, history(), settings("none"), NOW, 0.5);
    assert.ok(next.to === "pending");
    assert.deepEqual([next.counted, next.closesUnknown, next.runAtMs], [false, false, NOW]);
  });

  it("what was not applied is tried again after a backoff that Retry-After can lengthen up to max", () => {
    const waitFor = (attempts: number, retryAfterMs: number | null): number => {
      const outcome: Outcome = { kind: "not_applied", status: 429, detail: null, retryAfterMs };
      const next = afterAttempt(outcome, history({ attempts }), settings("none"), NOW, 0);
      assert.ok(next.to === "pending");
      return next.runAtMs - NOW;
    };
    assert.equal(waitFor(1, null), 500);
    assert.equal(waitFor(4, null), 4_000);
    assert.equal(waitFor(1, 60_000), 60_000);
    assert.equal(waitFor(1, DAY), 900_000);
  });

  it("a repeat after an unknown waits unknown_wait at least: the first request may still be running", () => {
    const waitFor = (attempts: number): number => {
      const next = afterAttempt(OUTCOME.unknown, history({ attempts }), settings("external-id"), NOW, 0);
      assert.ok(next.to === "pending");
      return next.runAtMs - NOW;
    };
    assert.equal(waitFor(1), 30_000);
    assert.equal(waitFor(10), 256_000);
  });

  it("a key without a known validity is never repeated", () => {
    const next = afterAttempt(
      OUTCOME.unknown,
      history({ openUnknown: true }),
      settings("idempotency-key", { keyValidForMs: null }),
      NOW,
      0.5,
    );
    assert.deepEqual(next, { to: "needs_reconciliation", reason: "key_expired" });
  });

  it("nothing is repeated where the configuration no longer names the step", () => {
    const after = (outcome: OutcomeKind, past: Partial<AttemptHistory> = {}): Expected => {
      const next = afterAttempt(OUTCOME[outcome], history(past), null, NOW, 0.5);
      return next.to === "done" ? "done" : `${next.to}: ${next.reason}`;
    };
    assert.equal(after("confirmed"), "done");
    assert.equal(after("unknown"), "needs_reconciliation: unknown_outcome");
    assert.equal(after("not_applied"), "failed: gave_up");
    assert.equal(after("not_applied", { openUnknown: true }), "needs_reconciliation: gave_up_after_unknown");
    assert.equal(after("refused"), "failed: refused");
  });
});

describe("on_unknown", () => {
  for (const safety of SAFETY_CLASSES) {
    it(`accept under ${safety}: done without an id, never sent twice`, () => {
      const config = settings(safety, { onUnknown: "accept" });
      const next = afterAttempt(OUTCOME.unknown, history({ openUnknown: true }), config, NOW, 0.5);
      assert.deepEqual(next, { to: "done", externalId: null, link: null });
    });

    it(`repeat under ${safety}: sent once more, and the unknown is closed`, () => {
      const config = settings(safety, { onUnknown: "repeat" });
      const next = afterAttempt(OUTCOME.unknown, history({ openUnknown: true }), config, NOW, 0.5);
      assert.ok(next.to === "pending");
      assert.deepEqual([next.reason, next.closesUnknown, next.counted], ["repeat_unknown", true, true]);
      assert.ok(next.runAtMs >= NOW + 30_000);
    });
  }

  it("repeat does not ask whether a key has expired", () => {
    const config = settings("idempotency-key", { onUnknown: "repeat" });
    const past = history({ openUnknown: true, firstMayHaveLeftAtMs: NOW - 2 * DAY });
    assert.equal(afterAttempt(OUTCOME.unknown, past, config, NOW, 0.5).to, "pending");
  });
});

describe("whether a job with an unknown behind it may be sent again", () => {
  const open = { openUnknown: true, firstMayHaveLeftAtMs: NOW };

  it("is not asked where nothing is unknown", () => {
    for (const safety of SAFETY_CLASSES) {
      const past = { openUnknown: false, firstMayHaveLeftAtMs: NOW - 10 * DAY };
      assert.equal(mayNotRepeat(past, settings(safety), NOW), null);
    }
  });

  it("is up to the class configured now", () => {
    assert.equal(mayNotRepeat(open, settings("idempotency-key"), NOW), null);
    assert.equal(mayNotRepeat(open, settings("external-id"), NOW + 400 * DAY), null);
    assert.equal(mayNotRepeat(open, settings("search"), NOW), "class_forbids_repeat");
    assert.equal(mayNotRepeat(open, settings("none"), NOW), "class_forbids_repeat");
  });

  it("ends for a key when its validity is over, to the millisecond", () => {
    const config = settings("idempotency-key");
    assert.equal(mayNotRepeat(open, config, NOW + DAY - 1), null);
    assert.equal(mayNotRepeat(open, config, NOW + DAY), "key_expired");
  });

  it("ends for a key when the clock stands before the first attempt: its age can't be told", () => {
    assert.equal(mayNotRepeat(open, settings("idempotency-key"), NOW - 1), "key_expired");
  });
});

describe("when the next automatic look-up is due", () => {
  const search = settings("search");
  const absent = settings("search", { assumeAbsentAfterMs: HOUR });

  it("follows the schedule, counted from the unknown attempt", () => {
    assert.equal(nextCheckAtMs(search, NOW, 0, NOW), NOW + 15 * SECOND);
    assert.equal(nextCheckAtMs(search, NOW, 1, NOW + 20 * SECOND), NOW + 120 * SECOND);
  });

  it("is at once where the schedule's moment has passed", () => {
    assert.equal(nextCheckAtMs(search, NOW, 0, NOW + HOUR), NOW + HOUR);
  });

  it("is never when the schedule is used up, or there is nothing to look with", () => {
    assert.equal(nextCheckAtMs(search, NOW, 2, NOW), null);
    assert.equal(nextCheckAtMs(settings("none"), NOW, 0, NOW), null);
    assert.equal(nextCheckAtMs(null, NOW, 0, NOW), null);
  });

  it("is once more after assume_absent_after, so that the look-up can count as proof", () => {
    assert.equal(nextCheckAtMs(absent, NOW, 2, NOW + 130 * SECOND), NOW + HOUR + 1);
  });

  it("is at once when that delay ran out while the last look-up was under way", () => {
    assert.equal(nextCheckAtMs(absent, NOW, 2, NOW + HOUR + SECOND), NOW + HOUR + SECOND);
  });
});
