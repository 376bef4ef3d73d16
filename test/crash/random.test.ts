/** P1, P2, P3: killed again and again at moments that nobody chose, with faults on both sides; then left in peace. */
import { test } from "node:test";
import type { CrmStandIn, Fault } from "../../src/stand-ins/crm/index.ts";
import { person, world } from "../e2e/world.ts";
import { assertPromises, CRMS } from "./promises.ts";

const ROUNDS = 6;

/** Not one of them leads to a second lead in a daemon that keeps its promises. */
const FAULTS: readonly Fault[] = [
  { on: "create", kind: "apply-then-drop" },
  { on: "create", kind: "apply-then-cut" },
  { on: "create", kind: "drop" },
  { on: "create", kind: "answer", status: 502, applied: true },
  { on: "create", kind: "answer", status: 429 },
  { on: "find", kind: "answer", status: 503 },
  { on: "find", kind: "drop" },
];

/** A small generator of well-spread numbers in [0, 1), the same for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

for (const seed of [11, 12]) {
  test(`killed ${ROUNDS} times at random moments (seed ${seed}), everything arrives once`, async (t) => {
    const random = randomFrom(seed);
    const below = (limit: number): number => Math.floor(random() * limit);
    const w = await world(t, { crms: CRMS });
    const said = [];
    const spoil = (crm: CrmStandIn): void => {
      const fault = FAULTS[below(FAULTS.length)];
      if (fault !== undefined) crm.fault({ ...fault, nth: 1 + below(3) });
    };
    for (let round = 1; round <= ROUNDS; round += 1) {
      for (const crm of w.crms.values()) spoil(crm);
      if (random() < 0.3) w.bot.fault({ method: "getUpdates", kind: "cut", bytes: 100, nth: 1 + below(2) });
      const daemon = w.start();
      for (let n = 0; n < 3; n += 1) {
        said.push(w.bot.say({ from: person(1 + below(3)), text: `round ${round}, ${n}` }));
      }
      const lines = 2 + below(20);
      const soMuch = daemon.until(() => daemon.lines.length >= lines, `${lines} lines of log`);
      // Whichever comes first; the other is told when the process ends.
      await Promise.any([soMuch, w.settled(daemon)]);
      daemon.kill("SIGKILL");
      await daemon.ended();
    }
    for (const crm of w.crms.values()) crm.calm();
    await w.settled(await w.started());
    await assertPromises(w, said);
  });
}
