/** What the dispatcher holds in hand: the turns of a slow destination (design §3.4, P2, P4). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Log } from "../../src/domain/ports.ts";
import type { ClaimedJob } from "../../src/domain/store.ts";
import { systemClock, systemRandom } from "../../src/system.ts";
import { makeDispatcher } from "../../src/worker/dispatcher.ts";
import { destinationSettings, HOUR, MINUTE, makeWorld, RUN } from "../store/fixtures.ts";

const silent: Log = { info() {}, warn() {}, error() {} };

describe("a destination whose rate is slower than its lease", () => {
  it("keeps the jobs that wait for their turn, and gives them back when it stops", async (t) => {
    const destination = destinationSettings({ rate: { count: 1, perMs: HOUR }, leaseMs: MINUTE });
    const world = await makeWorld(t);
    const first = await world.lead({ userId: 1 });
    const second = await world.lead({ userId: 2 });
    const begun: ClaimedJob[] = [];
    const passed: (() => void)[] = [];
    const pass = (): Promise<void> => new Promise((resolve) => passed.push(resolve));
    const dispatcher = makeDispatcher({
      store: world.store,
      destinations: [destination],
      settings: world.settings,
      // The one that gets its turn is finished at once; what it did is of no interest here.
      executor: { run: async (job) => void begun.push(job) },
      runId: RUN,
      clock: { ...systemClock, now: () => world.now },
      random: systemRandom,
      log: silent,
      dataVersion: () => 0,
      onTransitions() {},
      onDue: () => passed.shift()?.(),
      onFatal: assert.fail,
    });
    const started = pass();
    await dispatcher.start();
    await started;

    world.now += 2 * MINUTE;
    const muchLater = pass();
    dispatcher.wake();
    await muchLater;
    assert.deepEqual(
      begun.map(({ jobId }) => jobId),
      [first],
    );
    assert.equal(world.state(second), "leased");

    await dispatcher.stop(new AbortController().signal);
    assert.equal(world.state(second), "pending");
  });
});
