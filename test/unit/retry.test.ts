import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { backoffMs } from "../../src/domain/retry.ts";

const RETRY = { firstMs: 1_000, maxMs: 60_000 };
/** As near to one as a fraction in [0, 1) comes. */
const ALMOST_ONE = 1 - Number.EPSILON;

describe("the wait before a retry", () => {
  it("doubles from first up to max, and jitter takes up to half of it away", () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => backoffMs(RETRY, n, ALMOST_ONE));
    assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    assert.equal(backoffMs(RETRY, 1, 0), 500);
  });

  it("honours what the other side asked for where that is longer", () => {
    assert.equal(backoffMs(RETRY, 1, 0, 30_000), 30_000);
    assert.equal(backoffMs(RETRY, 5, ALMOST_ONE, 10), 16_000);
  });

  it("caps what the other side asked for, and ignores nonsense", () => {
    assert.equal(backoffMs(RETRY, 1, 0, 86_400_000), 60_000);
    for (const asked of [Number.NaN, Number.POSITIVE_INFINITY, -5, 0, null]) {
      assert.equal(backoffMs(RETRY, 1, 0, asked), 500, String(asked));
    }
  });

  it("is a whole number between half of first and max, whatever comes", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: ALMOST_ONE, noNaN: true }),
        fc.option(fc.double()),
        (n, fraction, asked) => {
          const wait = backoffMs(RETRY, n, fraction, asked);
          assert.ok(Number.isInteger(wait) && wait >= 500 && wait <= 60_000);
        },
      ),
    );
  });
});
