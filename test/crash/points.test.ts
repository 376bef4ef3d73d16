/**
 * P1, P2, P3: the process is killed at each step of the path, once the first time it gets there and once the second,
 * with several messages on their way. The next start has to go on as if nothing had happened.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CRASH_POINTS } from "../../src/domain/ports.ts";
import { person, world } from "../e2e/world.ts";
import { assertPromises, CRMS } from "./promises.ts";

describe("killed at", { concurrency: 2 }, () => {
  for (const point of CRASH_POINTS) {
    for (const nth of [1, 2]) {
      test(`${point}, time ${nth}: nothing is lost, doubled or out of order`, {
        timeout: 60_000,
      }, async (t) => {
        const w = await world(t, { crms: CRMS });
        // Two lost answers, so that the look-ups are on the path too. One would be enough for the others.
        w.crms.get("searched")?.fault({ on: "create", kind: "apply-then-drop", nth: 1 });
        w.crms.get("searched")?.fault({ on: "create", kind: "apply-then-drop", nth: 3 });
        w.crms.get("keyed")?.fault({ on: "create", kind: "apply-then-drop", nth: 2 });
        w.crms.get("unique")?.fault({ on: "create", kind: "apply-then-drop", nth: 2 });
        const say = (who: number, text: string) => w.bot.say({ from: person(who), text });
        const said = [say(1, "one"), say(2, "two"), say(1, "three")];

        const doomed = w.start({ LEADONCE_CRASH_AT: `${point}:${nth}` });
        // A second page, for the second time at the steps of polling.
        doomed.line("lead.stored", 3).then(
          () => said.push(say(1, "four"), say(3, "five")),
          () => undefined,
        );
        assert.deepEqual(await doomed.ended(), { code: null, signal: "SIGKILL" });

        await w.settled(await w.started());
        await assertPromises(w, said);
      });
    }
  }
});
