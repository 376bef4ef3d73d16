/** Which jump in the numbers is a gap, and how it is told. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { asEventKey } from "../../src/domain/ids.ts";
import type { AcceptedUpdate } from "../../src/domain/store.ts";
import { absenceMessage, gapMessage, jumpBefore } from "../../src/telegram/gaps.ts";
import { offsetAfter } from "../../src/telegram/page.ts";

function accepted(...ids: (number | null)[]): AcceptedUpdate[] {
  return ids.map((updateId) => ({
    eventKey: asEventKey(`tg:1:${updateId ?? "none"}:00000000`),
    updateId,
    state: "accepted",
    reason: null,
    operations: [],
  }));
}

test("the expected id, or no page before it, is no jump", () => {
  assert.deepEqual(jumpBefore(10, accepted(10, 11)), { kind: "none" });
  assert.deepEqual(jumpBefore(null, accepted(10)), { kind: "none" });
  assert.deepEqual(jumpBefore(10, accepted()), { kind: "none" });
  assert.deepEqual(jumpBefore(10, accepted(null)), { kind: "none" });
});

test("a higher id is a gap of as many as are missing", () => {
  assert.deepEqual(jumpBefore(10, accepted(13)), { kind: "gap", missing: 3 });
});

test("elements without a valid id count as ids that came", () => {
  assert.deepEqual(jumpBefore(10, accepted(null, 11)), { kind: "none" });
  assert.deepEqual(jumpBefore(10, accepted(null, 13)), { kind: "gap", missing: 2 });
});

test("a lower id, or one further away than a queue is long, is a new numbering", () => {
  assert.deepEqual(jumpBefore(10, accepted(9)), { kind: "renumbered" });
  assert.deepEqual(jumpBefore(10, accepted(100_010)), { kind: "gap", missing: 100_000 });
  assert.deepEqual(jumpBefore(10, accepted(100_011)), { kind: "renumbered" });
});

test("the texts count in plain words", () => {
  assert.match(gapMessage(1), /^1 update of/);
  assert.match(gapMessage(2), /^2 updates of/);
  const day = 24 * 3_600_000;
  assert.equal(absenceMessage(null, day * 10), null);
  assert.equal(absenceMessage(0, day), null);
  assert.equal(absenceMessage(day, 0), null, "a clock that went back is no absence");
  assert.match(absenceMessage(0, day + 1) ?? "", /^nothing was fetched from Telegram for 24 hours/);
});

test("the next offset is the last valid id of the page + 1, whatever the others are", () => {
  const page = (...ids: unknown[]): unknown[] => ids.map((update_id) => ({ update_id }));
  assert.equal(offsetAfter(page(5, 6)), 7);
  assert.equal(offsetAfter(page(900, 6)), 7, "not the highest");
  assert.equal(offsetAfter([...page(6), null, 7, "8", ...page(-9, "10", 1.5, 2 ** 31 - 1, 2 ** 40)]), 7);
  assert.equal(offsetAfter(page(0)), 1);
  assert.equal(offsetAfter(page(2 ** 31 - 2)), 2 ** 31 - 1);
  assert.equal(offsetAfter(page(-1)), null);
  assert.equal(offsetAfter([]), null);
});
