/** P3: a wish to end that arrives twice is one wish, and what is in hand is finished. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { world } from "./world.ts";

test("one Ctrl-C that arrives twice, as under npm, lets the lead in hand be answered", async (t) => {
  const w = await world(t, { safety: "none" });
  const held = w.crm.fault({ on: "create", kind: "slow" });
  const daemon = await w.started();
  w.say(1);
  await held.whenTaken();
  daemon.kill("SIGINT");
  await daemon.line("run.stopping");
  daemon.kill("SIGINT");
  held.release();
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
  assert.equal(daemon.of("run.stopped").length, 1, "it ended in order");
  assert.deepEqual(new Set((await w.jobs()).map(({ state }) => state)), new Set(["done"]));
});
