import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { formatDuration, parseDuration, parseRate } from "../../src/config/units.ts";
import { closest } from "../../src/domain/did-you-mean.ts";

describe("a length of time", () => {
  it("is a whole number and its unit", () => {
    const read = ["500ms", "20s", "15m", "24h", "7d", "0s"].map(parseDuration);
    assert.deepEqual(read, [500, 20_000, 900_000, 86_400_000, 604_800_000, 0]);
  });

  it("is nothing else", () => {
    for (const text of ["", "20", "s", "1.5s", "-1s", "20 s", "20S", "1w", "1h30m", "9999999999s"]) {
      assert.equal(parseDuration(text), null, text);
    }
  });

  it("is written as it is read", () => {
    assert.deepEqual([30_000, 90_000, 86_400_000, 1500, 0].map(formatDuration), [
      "30s",
      "90s",
      "1d",
      "1500ms",
      "0ms",
    ]);
    fc.assert(fc.property(fc.nat(999_999_999), (ms) => assert.equal(parseDuration(formatDuration(ms)), ms)));
  });
});

describe("a rate", () => {
  it("is a number of requests per length of time", () => {
    assert.deepEqual(parseRate("10/1s"), { count: 10, perMs: 1000 });
    assert.deepEqual(parseRate("100/15m"), { count: 100, perMs: 900_000 });
  });

  it("lets something through", () => {
    for (const text of ["", "10", "0/1s", "10/0s", "10/s", "1/1s/1s", "-1/1s", "1.5/1s"]) {
      assert.equal(parseRate(text), null, text);
    }
  });
});

describe("the word that was meant", () => {
  it("is the nearest one, with letters missing, added, wrong or swapped", () => {
    const words = ["token", "timeout", "concurrency", "base_url", "find"];
    const meant = ["tokn", "tokeen", "tomeout", "concurency", "base_ulr", "fnd", "Token"].map((word) =>
      closest(word, words),
    );
    assert.deepEqual(meant, ["token", "token", "timeout", "concurrency", "base_url", "find", "token"]);
  });

  it("is not guessed from far away", () => {
    assert.equal(closest("password", ["token", "proxy", "path"]), null);
    assert.equal(closest("", ["id"]), null);
  });
});
