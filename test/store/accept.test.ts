/** One page, one transaction (P1), and every delivery once (P2). */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { StorageUnavailableError } from "../../src/domain/errors.ts";
import { asBotId, asEventKey } from "../../src/domain/ids.ts";
import { makeIntake } from "../../src/domain/intake.ts";
import { noCrash } from "../../src/domain/ports.ts";
import type { Decide, IntakeStore, Page } from "../../src/domain/store.ts";
import { connect } from "../../src/store/connect.ts";
import { openDatabase } from "../../src/store/database.ts";
import { intakeStore } from "../../src/store/intake.ts";
import { BOT, intakeSettings, makeWorld, messageUpdate, OPERATOR, T0, type World } from "./fixtures.ts";

const three = [1, 2, 3].map((updateId) => messageUpdate({ updateId }));

function counts(world: World): Record<string, unknown> {
  return world.row(
    `SELECT (SELECT count(*) FROM updates) AS updates, (SELECT count(*) FROM operations) AS operations,
       (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM contacts) AS contacts,
       (SELECT next_offset FROM bots) AS next_offset`,
  );
}
const NOTHING = { updates: 0, operations: 0, jobs: 0, contacts: 0, next_offset: null };

const page = (elements: readonly unknown[], nextOffset = 4): Page => ({
  botId: BOT,
  elements,
  nextOffset,
  receivedAtMs: T0,
});

describe("a page", () => {
  it("is stored whole: updates, operations, jobs and the offset", async (t) => {
    const world = await makeWorld(t);
    const accepted = await world.accept(...three);
    assert.deepEqual(
      accepted.updates.map(({ updateId, state, operations }) => [updateId, state, operations.length]),
      [
        [1, "accepted", 1],
        [2, "accepted", 1],
        [3, "accepted", 1],
      ],
    );
    assert.equal(accepted.work, true);
    assert.deepEqual(counts(world), { updates: 3, operations: 3, jobs: 3, contacts: 1, next_offset: 4 });
    const stored = world.rows("SELECT body FROM updates ORDER BY update_id").map(({ body }) => body);
    assert.deepEqual(
      stored,
      three.map((element) => JSON.stringify(element)),
    );
  });

  it("TR-11: whose commit fails leaves nothing, and is stored when it comes again", async (t) => {
    let failing = true;
    const world = await makeWorld(t, {
      crash: (point) => {
        if (point === "accept.before_commit" && failing) throw new Error("cut off before the commit");
      },
    });
    await assert.rejects(world.accept(...three), /cut off/);
    assert.deepEqual(counts(world), NOTHING);
    failing = false;
    await world.accept(...three);
    assert.deepEqual(counts(world), { updates: 3, operations: 3, jobs: 3, contacts: 1, next_offset: 4 });
  });

  it("that is committed stays, whatever happens to the process then", async (t) => {
    const world = await makeWorld(t, {
      crash: (point) => {
        if (point === "accept.committed") throw new Error("cut off after the commit");
      },
    });
    await assert.rejects(world.accept(...three), /cut off/);
    world.reopen();
    assert.deepEqual(counts(world), { updates: 3, operations: 3, jobs: 3, contacts: 1, next_offset: 4 });
  });

  it("TR-01, TR-03: sets the offset that the page says, also when it is lower than the one before", async (t) => {
    const world = await makeWorld(t);
    await world.accept(messageUpdate({ updateId: 727_334_708 }));
    assert.equal(counts(world).next_offset, 727_334_709);
    await world.accept(messageUpdate({ updateId: 117_314_199 }));
    assert.equal(counts(world).next_offset, 117_314_200);
    assert.equal((await world.store.bot())?.nextOffset, 117_314_200);
    assert.equal(counts(world).operations, 2);
  });

  it("TR-56: may leave a gap in the numbers", async (t) => {
    const world = await makeWorld(t);
    await world.accept(messageUpdate({ updateId: 10 }), messageUpdate({ updateId: 500 }));
    assert.deepEqual([counts(world).operations, counts(world).next_offset], [2, 501]);
  });

  it("without an element moves the offset and says that there is no work", async (t) => {
    const world = await makeWorld(t);
    const accepted = await world.store.accept(page([], 17), world.decide);
    assert.deepEqual(accepted, { updates: [], duplicates: 0, work: false });
    assert.equal(counts(world).next_offset, 17);
  });

  it("of commands alone says that there is no work", async (t) => {
    const world = await makeWorld(t);
    assert.equal((await world.accept(messageUpdate({ updateId: 1, text: "/start" }))).work, false);
  });

  it("for a bot that the database is not bound to is a bug, and nothing is stored", async (t) => {
    const world = await makeWorld(t);
    const other = { ...page(three), botId: asBotId(99) };
    await assert.rejects(world.store.accept(other, world.decide), /not bound to/);
    assert.deepEqual(counts(world), NOTHING);
  });
});

describe("the bot", () => {
  it("TR-04: that a database is bound to can't be replaced; the same bot's new token or name is welcome", async (t) => {
    const world = await makeWorld(t);
    await world.accept(...three);
    const before = counts(world);
    const result = await world.store.bindBot(asBotId(99), "other", T0);
    assert.equal(result.kind, "other");
    assert.equal(result.kind === "other" && result.bot.botId, BOT);
    assert.deepEqual(counts(world), before);
    assert.deepEqual(await world.store.bindBot(BOT, "RenamedBot", T0), { kind: "bound" });
    assert.equal((await world.store.bot())?.username, "RenamedBot");
    assert.deepEqual(await world.store.bindBot(BOT, null, T0), { kind: "bound" });
    assert.equal((await world.store.bot())?.username, "RenamedBot", "getMe has not answered yet");
  });

  it("of a fresh database is nobody", async (t) => {
    const world = await makeWorld(t);
    world.write("DELETE FROM bots");
    assert.equal(await world.store.bot(), null);
  });
});

describe("a redelivery", () => {
  it("TR-07, TR-06: of the same page 20 times makes nothing more, over as many restarts, and is counted", async (t) => {
    const world = await makeWorld(t);
    const ten = Array.from({ length: 10 }, (_, n) => messageUpdate({ updateId: n + 1 }));
    await world.accept(...ten);
    const before = counts(world);
    for (let time = 1; time <= 20; time += 1) {
      world.reopen();
      const again = await world.accept(...ten);
      assert.deepEqual(again, { updates: [], duplicates: 10, work: false });
    }
    assert.deepEqual(counts(world), before);
    const { updates } = await world.store.status("1", T0);
    assert.deepEqual(updates, { accepted: 10, ignored: 0, quarantined: 0, duplicates: 200 });
  });

  it("TR-24: inside one page is one lead", async (t) => {
    const world = await makeWorld(t);
    const [one] = three;
    const accepted = await world.accept(one, one, one);
    assert.deepEqual([accepted.updates.length, accepted.duplicates], [1, 2]);
    assert.equal(counts(world).operations, 1);
  });

  it("TR-08: of a page that was handled in part makes nothing twice", async (t) => {
    const world = await makeWorld(t);
    await world.accept(three[0]);
    world.reopen();
    await world.accept(...three);
    assert.equal(counts(world).operations, 3);
  });

  it("TR-01: the same number with other content is another event", async (t) => {
    const world = await makeWorld(t);
    await world.accept(messageUpdate({ updateId: 5, messageId: 50 }));
    const accepted = await world.accept(messageUpdate({ updateId: 5, messageId: 51, text: "Other" }));
    assert.deepEqual([accepted.updates.length, accepted.duplicates], [1, 0]);
    assert.deepEqual([counts(world).updates, counts(world).operations], [2, 2]);
  });

  it("TR-27: the same message under another number makes no second lead", async (t) => {
    const world = await makeWorld(t);
    const accepted = await world.accept(
      messageUpdate({ updateId: 1, messageId: 9 }),
      messageUpdate({ updateId: 2, messageId: 9 }),
    );
    assert.deepEqual(
      accepted.updates.map(({ state, reason }) => [state, reason]),
      [
        ["accepted", null],
        ["ignored", "same_message"],
      ],
    );
    assert.deepEqual([counts(world).updates, counts(world).operations, counts(world).jobs], [2, 1, 1]);
  });

  it("TR-21: from two connections at once is absorbed by the database, not by a look before the write", async (t) => {
    const world = await makeWorld(t);
    const ten = Array.from({ length: 10 }, (_, n) => messageUpdate({ updateId: n + 1 }));
    // The same messages under other numbers: only the message identity can tell.
    const copies = ten.map((update, n) => ({ ...update, update_id: 100 + n }));
    const answers = await acceptAtOnce(t, world.path, [ten, ten, copies, copies]);
    assert.equal(
      answers.reduce((sum, { operations }) => sum + operations, 0),
      10,
    );
    assert.equal(
      answers.reduce((sum, { duplicates }) => sum + duplicates, 0),
      20,
    );
    assert.deepEqual([counts(world).operations, counts(world).jobs], [10, 10]);
  });
});

/** Each page in a process of its own, all let go at the same moment. */
async function acceptAtOnce(
  t: TestContext,
  path: string,
  pages: readonly (readonly unknown[])[],
): Promise<{ operations: number; duplicates: number }[]> {
  const script = fileURLToPath(new URL("accept-page.ts", import.meta.url));
  const children = pages.map((elements) =>
    spawn(process.execPath, ["--import", "tsx", script, path, JSON.stringify(elements)], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  t.after(() => {
    for (const child of children) child.kill("SIGKILL");
  });
  await Promise.all(children.map((child) => once(child.stdout, "data")));
  const answers = children.map((child) => text(child.stdout));
  for (const child of children) child.stdin.write("go\n");
  return Promise.all(answers.map(async (answer) => JSON.parse(await answer)));
}

describe("one bad update", () => {
  /** Business logic that throws on a certain text, after it has decided. */
  const throwing = (error: unknown): Decide => {
    const intake = makeIntake(intakeSettings());
    return {
      wants: intake.wants,
      decide: (update, facts, nowMs) => {
        const plan = intake.decide(update, facts, nowMs);
        if (plan.operations[0]?.input.messages[0]?.text === "boom") throw error;
        return plan;
      },
    };
  };
  const boom = messageUpdate({ updateId: 2, userId: 7002, text: "boom" });

  it("TR-13, TR-15: on which decide throws is kept alone in quarantine, and the others flow", async (t) => {
    const world = await makeWorld(t);
    world.decide = throwing(new TypeError("a customer's words"));
    const accepted = await world.accept(three[0], boom, three[2]);
    assert.deepEqual(
      accepted.updates.map(({ state, reason, operations }) => [state, reason, operations.length]),
      [
        ["accepted", null, 1],
        ["quarantined", "error: TypeError", 0],
        ["accepted", null, 1],
      ],
    );
    assert.deepEqual(counts(world), { updates: 3, operations: 2, jobs: 2, contacts: 1, next_offset: 4 });
    const kept = world.row("SELECT body, kind FROM updates WHERE state = 'quarantined'");
    assert.deepEqual(kept, { body: JSON.stringify(boom), kind: "message" });
    const [alert] = await world.alerts("quarantined");
    assert.ok(alert !== undefined);
    assert.doesNotMatch(alert, /customer/);
  });

  it("that breaks a constraint halfway leaves nothing of what it had written", async (t) => {
    const world = await makeWorld(t);
    const intake = world.decide;
    world.decide = {
      wants: intake.wants,
      decide: (update, facts, nowMs) => {
        const plan = intake.decide(update, facts, nowMs);
        const [operation] = plan.operations;
        if (operation === undefined || update.updateId !== 2) return plan;
        // The second job of one step at one destination breaks a constraint, after the operation was written.
        return { ...plan, operations: [{ ...operation, jobs: [...operation.jobs, ...operation.jobs] }] };
      },
    };
    const accepted = await world.accept(three[0], boom, three[2]);
    assert.deepEqual(
      accepted.updates.map(({ reason }) => reason),
      [null, "error: SQLITE_CONSTRAINT_UNIQUE", null],
    );
    assert.deepEqual(counts(world), { updates: 3, operations: 2, jobs: 2, contacts: 1, next_offset: 4 });
  });

  it("that is nested too deeply to be written does not take its page along", async (t) => {
    const world = await makeWorld(t);
    const deep = JSON.parse(`{"update_id":1,"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}`);
    const accepted = await world.accept(deep, messageUpdate({ updateId: 2 }));
    // Newer Node versions can write such depth; then it is an update of a kind that nobody knows.
    const first = accepted.updates[0];
    assert.ok(first?.state === "quarantined" || first?.reason === "unknown_kind", first?.state);
    assert.equal(accepted.updates[1]?.state, "accepted");
    assert.equal((await world.accept(deep)).duplicates, 1);
  });

  it("that is malformed says where and not what", async (t) => {
    const world = await makeWorld(t);
    const bad = messageUpdate({ updateId: 2, message: { text: { secret: "words" } } });
    const accepted = await world.accept(three[0], bad, 17, null, "text", [], { update_id: -1 });
    assert.equal(accepted.updates[0]?.state, "accepted");
    for (const update of accepted.updates.slice(1)) {
      assert.equal(update.state, "quarantined");
      assert.match(update.reason ?? "", /^malformed: /);
      assert.doesNotMatch(JSON.stringify(update), /secret|words/);
    }
    assert.equal(accepted.updates[1]?.reason, "malformed: unexpected shape at message.text");
    assert.equal(counts(world).updates, 7);
    assert.deepEqual(
      world.rows(
        "SELECT event_key FROM updates WHERE update_id IS NULL AND event_key NOT LIKE 'tg:4242:none:%'",
      ),
      [],
    );
  });

  it("is decided again by its key, and then makes what it should have made, once", async (t) => {
    const world = await makeWorld(t);
    const healthy = world.decide;
    world.decide = throwing(new Error("a bug"));
    const { updates } = await world.accept(boom);
    const eventKey = updates[0]?.eventKey;
    assert.ok(eventKey !== undefined);
    const still = await world.store.redecide({ eventKey, operator: OPERATOR }, world.decide, T0 + 1);
    assert.equal(still.updates[0]?.state, "quarantined");
    assert.equal((await world.alerts("quarantined")).length, 1);

    const again = await world.store.redecide({ eventKey, operator: OPERATOR }, healthy, T0 + 2);
    assert.deepEqual([again.updates[0]?.state, again.work], ["accepted", true]);
    assert.deepEqual(await world.alerts("quarantined"), []);
    assert.deepEqual(counts(world), { updates: 1, operations: 1, jobs: 1, contacts: 1, next_offset: 3 });
    assert.deepEqual(await world.store.redecide({ eventKey, operator: OPERATOR }, healthy, T0 + 3), {
      updates: [],
      duplicates: 0,
      work: false,
    });
    assert.equal((await world.accept(boom)).duplicates, 1);
    assert.equal(counts(world).operations, 1);
  });

  it("all of them are decided again in the order in which they came, which is the order of their effects", async (t) => {
    const world = await makeWorld(t);
    const healthy = world.decide;
    world.decide = { wants: healthy.wants, decide: () => assert.fail("a bug") };
    const many = Array.from({ length: 20 }, (_, n) => messageUpdate({ updateId: 20 - n, text: `no ${n}` }));
    await world.accept(...many);
    await world.store.redecide("quarantined", healthy, T0);
    const order = world
      .rows(
        `SELECT update_id FROM jobs JOIN operation_updates USING (operation_id) JOIN updates USING (event_key)
         ORDER BY job_id`,
      )
      .map(({ update_id }) => update_id);
    assert.deepEqual(
      order,
      Array.from({ length: 20 }, (_, n) => 20 - n),
    );
    assert.deepEqual(await world.alerts("quarantined"), []);
  });

  it("an ignored update is decided again by its key too, when a wrong when has been mended", async (t) => {
    const world = await makeWorld(t, { intake: { actions: [] } });
    const { updates } = await world.accept(three[0]);
    assert.deepEqual([updates[0]?.state, updates[0]?.reason], ["ignored", "no_action"]);
    const again = await world.store.redecide(
      { eventKey: updates[0]?.eventKey ?? assert.fail(), operator: OPERATOR },
      makeIntake(intakeSettings()),
      T0,
    );
    assert.equal(again.updates[0]?.operations.length, 1);
    assert.equal(counts(world).jobs, 1);
  });

  it("a person who has one decided again is on record, in the trace too", async (t) => {
    const world = await makeWorld(t, { intake: { actions: [] } });
    const { updates } = await world.accept(three[0]);
    const eventKey = updates[0]?.eventKey ?? assert.fail();
    await world.store.redecide({ eventKey, operator: OPERATOR }, makeIntake(intakeSettings()), T0);
    const trace = await world.store.trace(eventKey);
    assert.deepEqual(
      trace?.operator_actions.map(({ who, action, why }) => [who, action, why]),
      [["tester", "retry update", "because"]],
    );
  });

  it("a key that nobody knows, or whose update was accepted, is decided for nobody and leaves no record", async (t) => {
    const world = await makeWorld(t);
    const { updates } = await world.accept(three[0]);
    const accepted = updates[0]?.eventKey ?? assert.fail();
    for (const eventKey of [accepted, asEventKey("tg:4242:1:00000000")]) {
      const again = await world.store.redecide({ eventKey, operator: OPERATOR }, world.decide, T0);
      assert.deepEqual(again.updates, []);
    }
    assert.deepEqual(world.rows("SELECT * FROM operator_actions"), []);
    assert.equal(counts(world).jobs, 1);
  });
});

describe("storage trouble", () => {
  /** The intake over a connection that the test holds in its hands. */
  function intakeOver(t: TestContext, db: Database.Database): IntakeStore {
    t.after(() => db.close());
    return intakeStore({ db, crash: noCrash });
  }
  /** Far more than the few pages that a full disk leaves. */
  const large = [1, 2, 3].map((updateId) => messageUpdate({ updateId, text: "x".repeat(40_000) }));

  const unavailable = (why: RegExp) => (error: unknown) =>
    error instanceof StorageUnavailableError && why.test(error.message) && error.exitCode === 74;

  it("a full disk fails the whole page, quarantines nobody, and passes when there is room again", async (t) => {
    const world = await makeWorld(t);
    const db = openDatabase(world.path, { mode: "write" });
    const intake = intakeOver(t, db);
    const pages = Number(db.pragma("page_count", { simple: true }));
    // Room for the first update, not for the third: the disk fills in the middle of the page.
    for (const room of [0, 12, 24]) {
      db.pragma(`max_page_count = ${pages + room}`);
      await assert.rejects(intake.accept(page(large), world.decide), unavailable(/disk is full/));
      assert.deepEqual(counts(world), NOTHING);
    }
    db.pragma("max_page_count = 100000");
    await intake.accept(page(large), world.decide);
    assert.deepEqual([counts(world).operations, counts(world).next_offset], [3, 4]);
    assert.deepEqual(await world.alerts("quarantined"), []);
  });

  it("a file that another program holds fails the page, and passes when that one is done", async (t) => {
    const world = await makeWorld(t);
    const db = connect(world.path, { timeout: 20 });
    const intake = intakeOver(t, db);
    const other = connect(world.path);
    other.exec("BEGIN IMMEDIATE");
    await assert.rejects(intake.accept(page(three), world.decide), unavailable(/another process/));
    other.exec("ROLLBACK");
    other.close();
    assert.deepEqual(counts(world), NOTHING);
    await intake.accept(page(three), world.decide);
    assert.equal(counts(world).operations, 3);
  });

  it("a read-only file fails the page", async (t) => {
    const world = await makeWorld(t);
    const intake = intakeOver(t, openDatabase(world.path, { mode: "read" }));
    await assert.rejects(intake.accept(page(three), world.decide), unavailable(/read-only/));
    assert.deepEqual(counts(world), NOTHING);
  });

  it("inside one update fails the page too: the customer is not to blame", async (t) => {
    const world = await makeWorld(t);
    const trouble = new Database.SqliteError("disk I/O error", "SQLITE_IOERR_WRITE");
    const intake = world.decide;
    world.decide = {
      wants: intake.wants,
      decide: (update, facts, nowMs) => {
        if (update.updateId === 2) throw trouble;
        return intake.decide(update, facts, nowMs);
      },
    };
    await assert.rejects(world.accept(...three), unavailable(/reading or writing failed/));
    assert.deepEqual(counts(world), NOTHING);
  });

  it("a damaged file is a storage error that does not pass by itself", async (t) => {
    const world = await makeWorld(t);
    const intake = world.decide;
    world.decide = {
      wants: intake.wants,
      decide: () => {
        throw new Database.SqliteError("malformed", "SQLITE_CORRUPT");
      },
    };
    await assert.rejects(
      world.accept(...three),
      (error) => error instanceof Error && error.name === "StorageError" && /damaged/.test(error.message),
    );
  });
});

describe("the poller's report", () => {
  it("is kept, and a report without a completed poll leaves the last one standing", async (t) => {
    const world = await makeWorld(t);
    await world.store.recordPoller(BOT, { state: "polling", lastCompletedAtMs: T0, lastError: null }, T0);
    await world.store.recordPoller(
      BOT,
      { state: "retrying", lastCompletedAtMs: null, lastError: "HTTP 502" },
      T0 + 1,
    );
    const { poller } = await world.store.status("1", T0);
    assert.deepEqual(poller, {
      state: "retrying",
      next_offset: null,
      last_completed_at: "2026-01-05T09:00:00.000Z",
      last_error: "HTTP 502",
    });
  });
});
