/** P4: a daemon that can't go on ends, instead of staying deaf with the lock in its hand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "../../src/store/connect.ts";
import { world } from "./world.ts";

test("a failure that nobody foresaw ends the process and frees the database for the next start", async (t) => {
  const w = await world(t);
  const daemon = await w.started();
  await w.run("pause", "sales");
  w.say(1);
  await daemon.line("lead.stored");
  // Somebody's hand in the database: an input that no version of leadonce wrote.
  const db = connect(w.database);
  const { input } = db.prepare<[], { input: string }>("SELECT input FROM operations").get() ?? { input: "" };
  db.prepare("UPDATE operations SET input = '{}'").run();
  await w.run("resume", "sales");
  assert.equal((await daemon.exit).code, 70);
  assert.equal(daemon.of("run.failed").length, 1);
  assert.match(daemon.output, /this is a bug of leadonce/);

  db.prepare("UPDATE operations SET input = ?").run(input);
  db.close();
  const next = await w.started();
  await w.settled(next);
  assert.equal(w.crm.leads.length, 1);
});
