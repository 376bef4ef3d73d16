import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FINAL_JOB_STATES, isFinal, JOB_STATES, JOB_TRANSITIONS } from "../../src/domain/jobs.ts";

/** Design §4, read by hand: every state and where it may go. */
const DESIGN: Record<(typeof JOB_STATES)[number], string[]> = {
  blocked: ["pending", "failed", "cancelled", "needs_reconciliation"],
  pending: ["leased", "needs_reconciliation", "cancelled", "done"],
  leased: ["done", "failed", "pending", "needs_reconciliation", "cancelled"],
  done: [],
  failed: ["pending", "blocked", "done", "cancelled", "needs_reconciliation"],
  needs_reconciliation: ["done", "pending", "blocked", "cancelled"],
  cancelled: [],
};

describe("the transitions of a job", () => {
  for (const from of JOB_STATES) {
    it(`from ${from} are those of the design`, () => {
      const to = JOB_TRANSITIONS.filter((transition) => transition.from === from).map(({ to }) => to);
      assert.deepEqual([...to].sort(), [...DESIGN[from]].sort());
    });
  }

  it("say what brings them about", () => {
    for (const { by } of JOB_TRANSITIONS) assert.ok(by.length > 0);
  });

  it("never leave a final state", () => {
    assert.deepEqual([...FINAL_JOB_STATES], JOB_STATES.filter(isFinal));
    assert.equal(
      JOB_TRANSITIONS.some(({ from }) => isFinal(from)),
      false,
    );
  });

  it("leave no state that is not final a dead end", () => {
    for (const state of JOB_STATES) {
      assert.ok(isFinal(state) || JOB_TRANSITIONS.some(({ from }) => from === state), state);
    }
  });
});
