/** The clocks as seen from outside the poll loop, and which troubles are told when. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Alarms } from "../../src/telegram/alarms.ts";
import { watch } from "../../src/telegram/watchdog.ts";
import { TestClock, TestLog } from "../contract/poller-world.ts";

function watched(): {
  clock: TestClock;
  seen: string[];
  alive: (ms: number) => void;
  stop: () => Promise<void>;
} {
  const clock = new TestClock();
  const seen: string[] = [];
  const end = new AbortController();
  let aliveMs = 0;
  const watching = watch(
    {
      clock,
      stalledAfterMs: 130_000,
      aliveMs: () => aliveMs,
      onResume: (ms) => seen.push(`resume ${ms}`),
      onStall: (ms) => {
        seen.push(`stall ${ms}`);
        aliveMs = clock.monotonic();
      },
    },
    end.signal,
  );
  return {
    clock,
    seen,
    alive: (ms) => {
      aliveMs = ms;
    },
    stop: () => {
      end.abort();
      return watching;
    },
  };
}

test("silence longer than the limit is a stall, once per limit", async () => {
  const { clock, seen, stop } = watched();
  await clock.run(130_000, 5_000);
  assert.deepEqual(seen, []);
  await clock.run(135_000, 5_000);
  assert.deepEqual(seen, ["stall 135000"]);
  await clock.run(10_000, 5_000);
  assert.deepEqual(seen, ["stall 135000", "stall 135000"]);
  await stop();
});

test("a wait that is intended is no stall", async () => {
  const { clock, seen, alive, stop } = watched();
  alive(240_000);
  await clock.run(370_000, 5_000);
  assert.deepEqual(seen, []);
  await stop();
});

test("a wall clock that moved much further than the monotonic one means that the machine slept", async () => {
  const { clock, seen, stop } = watched();
  await clock.run(10_000, 5_000);
  clock.stepWall(60_000);
  await clock.run(10_000, 5_000);
  clock.stepWall(-7_200_000);
  await clock.run(10_000, 5_000);
  clock.stepWall(3_000);
  await clock.run(10_000, 5_000);
  assert.deepEqual(seen, ["resume 60000"]);
  await stop();
});

function alarms(): { told: string[]; alarms: Alarms } {
  const told: string[] = [];
  const options = {
    log: new TestLog(),
    onAlert: (kind: string) => told.push(kind),
    onRecovered: (kind: string) => told.push(`${kind} is over`),
  };
  return { told, alarms: new Alarms(options) };
}

test("a trouble is told once while it lasts, and its end once", () => {
  const { told, alarms: book } = alarms();
  book.raise("unauthorised", "why");
  book.raise("unauthorised", "why");
  book.pollCompleted(1, true);
  book.pollCompleted(2, true);
  book.raise("unauthorised", "why");
  assert.deepEqual(told, ["unauthorised", "unauthorised is over", "unauthorised"]);
});

test("a full disk is over only when something could be written", () => {
  const { told, alarms: book } = alarms();
  book.raise("storage", "why");
  book.pollCompleted(1, false);
  assert.deepEqual(told, ["storage"]);
  book.pollCompleted(2, true);
  assert.deepEqual(told, ["storage", "storage is over"]);
});

test("a conflict is told after a minute, also when rounds are won in between, and is over after two quiet ones", () => {
  const { told, alarms: book } = alarms();
  for (const at of [0, 30_000, 59_000]) {
    book.conflict(at);
    book.pollCompleted(at + 1_000, true);
  }
  assert.deepEqual(told, []);
  book.conflict(61_000);
  assert.deepEqual(told, ["conflict"]);
  book.pollCompleted(181_000, true);
  assert.deepEqual(told, ["conflict"]);
  book.pollCompleted(181_001, true);
  assert.deepEqual(told, ["conflict", "conflict is over"]);
});

test("two conflicts far apart are two short ones", () => {
  const { told, alarms: book } = alarms();
  book.conflict(0);
  book.conflict(121_000);
  assert.deepEqual(told, []);
});
