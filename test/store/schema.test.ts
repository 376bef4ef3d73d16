/** The schema itself keeps the invariants: every pair of states and every constraint, tried through plain SQL. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import type Database from "better-sqlite3";
import { JOB_STATES, JOB_TRANSITIONS, type JobState } from "../../src/domain/jobs.ts";
import { OUTCOMES } from "../../src/domain/outcome.ts";
import { connect } from "../../src/store/connect.ts";
import { openStore } from "../../src/store/index.ts";
import { T0, tempFolder } from "./fixtures.ts";

function madeDatabase(t: TestContext): Database.Database {
  const path = join(tempFolder(t), "leadonce.db");
  openStore(path, { mode: "create", nowMs: T0 }).close();
  const db = connect(path);
  db.pragma("foreign_keys = ON");
  t.after(() => db.close());
  db.exec("INSERT INTO bots (bot_id, bound_at_ms) VALUES (1, 0)");
  db.exec(
    "INSERT INTO updates (event_key, bot_id, kind, state, received_at_ms) VALUES ('e', 1, 'message', 'accepted', 0)",
  );
  return db;
}

let operations = 0;

function newOperation(db: Database.Database): string {
  operations += 1;
  const id = `op-${operations}`;
  db.prepare(
    "INSERT INTO operations (operation_id, business_key, code, kind, action, bot_id, created_at_ms) VALUES (?, ?, 'C', 'lead', 'a', 1, 0)",
  ).run(id, `key-${operations}`);
  return id;
}

/** A job born in `state`; how a job of each state is reached otherwise is `bring`. */
function newJob(db: Database.Database, state = "pending", follows: number | null = null): number {
  const { lastInsertRowid } = db
    .prepare(
      `INSERT INTO jobs (operation_id, destination, step, state, follows_job_id, run_at_ms, created_at_ms, state_at_ms, finished_at_ms)
       VALUES (?, 'sales', 'lead', ?, ?, 0, 0, 0, ?)`,
    )
    .run(newOperation(db), state, follows, state === "done" ? 0 : null);
  return Number(lastInsertRowid);
}

/** Sets the state with everything beside it as it has to be, so that only the pair itself is on trial. */
function change(db: Database.Database, job: number, to: JobState): void {
  db.transaction(() => {
    db.prepare("DELETE FROM leases WHERE job_id = ?").run(job);
    if (to === "leased") {
      db.prepare("INSERT INTO leases (job_id, token, run_id, expires_at_ms) VALUES (?, ?, 'r', 0)").run(
        job,
        `t-${job}`,
      );
    }
    db.prepare(
      `UPDATE jobs SET state = @to, reason = 'r', finished_at_ms = CASE WHEN @to IN ('done', 'cancelled') THEN 0 END
       WHERE job_id = @job`,
    ).run({ to, job });
  })();
}

/** Walks a new job along legal transitions to `state`. */
function bring(db: Database.Database, state: JobState): number {
  const job = newJob(db, "pending", newJob(db));
  let paths: JobState[][] = [["pending"]];
  for (;;) {
    const found = paths.find((path) => path.at(-1) === state);
    if (found !== undefined) {
      for (const step of found.slice(1)) change(db, job, step);
      return job;
    }
    paths = paths.flatMap((path) =>
      JOB_TRANSITIONS.filter(({ from }) => from === path.at(-1)).map(({ to }) => [...path, to]),
    );
    assert.ok(paths.length > 0, `no way to ${state}`);
  }
}

const stateOf = (db: Database.Database, job: number): unknown =>
  db.prepare("SELECT state FROM jobs WHERE job_id = ?").pluck().get(job);

describe("the transitions in SQL", () => {
  it("are exactly those in code", (t) => {
    const db = madeDatabase(t);
    const inSql = db.prepare("SELECT from_state || ' ' || to_state FROM job_transitions").pluck().all();
    const inCode = JOB_TRANSITIONS.map(({ from, to }) => `${from} ${to}`);
    assert.deepEqual([...inSql].sort(), [...inCode].sort());
  });

  for (const from of JOB_STATES) {
    for (const to of JOB_STATES) {
      if (from === to) continue;
      const legal = JOB_TRANSITIONS.some((transition) => transition.from === from && transition.to === to);
      it(`${from} → ${to} ${legal ? "passes" : "aborts"}`, (t) => {
        const db = madeDatabase(t);
        const job = bring(db, from);
        if (legal) {
          change(db, job, to);
          assert.equal(stateOf(db, job), to);
        } else {
          assert.throws(() => change(db, job, to), /illegal transition of a job/);
          assert.equal(stateOf(db, job), from);
        }
      });
    }
  }
});

describe("a final state", () => {
  for (const state of ["done", "cancelled"] as const) {
    it(`${state} can't be left by an UPDATE of many columns, nor of many rows`, (t) => {
      const db = madeDatabase(t);
      const job = bring(db, state);
      bring(db, "failed");
      assert.throws(
        () => db.exec("UPDATE jobs SET attempts = 0, state = 'pending', finished_at_ms = NULL"),
        /illegal transition/,
      );
      assert.equal(stateOf(db, job), state);
    });
  }
});

describe("a lease", () => {
  it("has to be there before its job is leased", (t) => {
    const db = madeDatabase(t);
    const job = newJob(db);
    assert.throws(
      () => db.prepare("UPDATE jobs SET state = 'leased' WHERE job_id = ?").run(job),
      /a leased job needs a lease/,
    );
  });

  it("has to be gone before its job leaves", (t) => {
    const db = madeDatabase(t);
    const job = bring(db, "leased");
    for (const to of ["pending", "failed", "needs_reconciliation"]) {
      assert.throws(
        () => db.prepare("UPDATE jobs SET state = ?, reason = 'r' WHERE job_id = ?").run(to, job),
        /only a leased job may have a lease/,
      );
    }
  });

  it("is one per job, and its token is nobody else's", (t) => {
    const db = madeDatabase(t);
    const [one, other] = [bring(db, "leased"), newJob(db)];
    const insert = db.prepare("INSERT INTO leases VALUES (?, ?, 'r', 0)");
    assert.throws(() => insert.run(one, "another token"), /UNIQUE/);
    assert.throws(() => insert.run(other, `t-${one}`), /UNIQUE/);
  });
});

describe("a job", () => {
  const born: [JobState, boolean][] = JOB_STATES.map((state) => [
    state,
    state === "pending" || state === "blocked" || state === "done",
  ]);
  for (const [state, allowed] of born) {
    it(`${allowed ? "may" : "may not"} be born ${state}`, (t) => {
      const db = madeDatabase(t);
      const leader = newJob(db);
      if (allowed) assert.equal(stateOf(db, newJob(db, state, leader)), state);
      else assert.throws(() => newJob(db, state, leader), /a job begins as/);
    });
  }

  it("is one per operation, destination and step", (t) => {
    const db = madeDatabase(t);
    const insert = db.prepare(
      "INSERT INTO jobs (operation_id, destination, step, state, run_at_ms, created_at_ms, state_at_ms) VALUES (?, ?, ?, 'pending', 0, 0, 0)",
    );
    const operation = newOperation(db);
    insert.run(operation, "sales", "lead");
    insert.run(operation, "sales", "note");
    insert.run(operation, "other", "lead");
    assert.throws(() => insert.run(operation, "sales", "lead"), /UNIQUE/);
  });

  const broken: [string, string, RegExp][] = [
    ["an unknown state", "state = 'odd'", /job_state_known|illegal transition/],
    ["a finish time before it is final", "finished_at_ms = 1", /job_finished_exactly_when_final/],
    ["no finish time when it is final", "state = 'done'", /job_finished_exactly_when_final/],
    ["no reason when it is cancelled", "state = 'cancelled', finished_at_ms = 1", /job_says_why/],
    ["no reason when it waits for a person", "state = 'needs_reconciliation'", /job_says_why/],
    ["nothing to follow when it is blocked", "state = 'blocked'", /job_blocked_behind_something|illegal/],
    ["a text for a time", "run_at_ms = 'soon'", /cannot store TEXT/],
    ["an operation that does not exist", "operation_id = 'nobody'", /FOREIGN KEY/],
  ];
  for (const [what, assignment, expected] of broken) {
    it(`can't have ${what}`, (t) => {
      const db = madeDatabase(t);
      const job = newJob(db);
      assert.throws(() => db.exec(`UPDATE jobs SET ${assignment} WHERE job_id = ${job}`), expected);
    });
  }

  it("can't be blocked behind nothing", (t) => {
    assert.throws(() => newJob(madeDatabase(t), "blocked", null), /job_blocked_behind_something/);
  });

  it("gets a number that was never used before, even after the newest one is gone", (t) => {
    const db = madeDatabase(t);
    const last = newJob(db);
    db.prepare("DELETE FROM jobs WHERE job_id = ?").run(last);
    assert.ok(newJob(db) > last);
  });
});

describe("an attempt", () => {
  const insert = `INSERT INTO attempts (job_id, n, token, run_id, begun_at_ms, ended_at_ms, outcome, paused_ms_before)
                  VALUES (?, ?, 't', 'r', 0, ?, ?, 0)`;

  it("ends with an outcome, and has none before", (t) => {
    const db = madeDatabase(t);
    const job = newJob(db);
    assert.throws(() => db.prepare(insert).run(job, 1, 5, null), /attempt_ended_with_an_outcome/);
    assert.throws(() => db.prepare(insert).run(job, 1, null, "confirmed"), /attempt_ended_with_an_outcome/);
  });

  it("ends with one of the words in code", (t) => {
    const db = madeDatabase(t);
    const job = newJob(db);
    for (const [n, outcome] of OUTCOMES.entries()) db.prepare(insert).run(job, n + 1, 5, outcome);
    assert.throws(() => db.prepare(insert).run(job, 99, 5, "maybe"), /outcome_known/);
  });

  it("has a number of its own", (t) => {
    const db = madeDatabase(t);
    const job = newJob(db);
    db.prepare(insert).run(job, 1, null, null);
    assert.throws(() => db.prepare(insert).run(job, 1, null, null), /UNIQUE/);
  });
});

describe("what is unique", () => {
  const twice: [string, string][] = [
    [
      "an event key",
      "INSERT INTO updates (event_key, bot_id, kind, state, received_at_ms) VALUES ('e1', 1, 'message', 'accepted', 0)",
    ],
    [
      "a business key",
      "INSERT INTO operations (operation_id, business_key, code, kind, action, bot_id, created_at_ms) VALUES (hex(randomblob(4)), 'same', 'C', 'lead', 'a', 1, 0)",
    ],
    ["a person per bot", "INSERT INTO contacts (bot_id, user_id, created_at_ms) VALUES (1, 7001, 0)"],
    [
      "an open alert per kind and subject",
      "INSERT INTO alerts (kind, subject, message, raised_at_ms, last_at_ms) VALUES ('k', 's', 'm', 0, 0)",
    ],
  ];
  for (const [what, sql] of twice) {
    it(what, (t) => {
      const db = madeDatabase(t);
      db.exec(sql);
      assert.throws(() => db.exec(sql), /UNIQUE/);
    });
  }

  it("the operation that a message feeds; edits, which take no message, may come twice", (t) => {
    const db = madeDatabase(t);
    const feed = db.prepare("INSERT INTO operation_updates VALUES (?, 'e', ?)");
    feed.run(newOperation(db), "1:2:3");
    assert.throws(() => feed.run(newOperation(db), "1:2:3"), /UNIQUE/);
    feed.run(newOperation(db), null);
    feed.run(newOperation(db), null);
  });

  it("the open reconciliation of a job; resolved ones may be many", (t) => {
    const db = madeDatabase(t);
    const job = newJob(db);
    const open = db.prepare(
      "INSERT INTO reconciliations (job_id, reason, opened_at_ms, unknown_at_ms) VALUES (?, 'r', 0, 0)",
    );
    open.run(job);
    assert.throws(() => open.run(job), /UNIQUE/);
    assert.throws(
      () => db.exec("UPDATE reconciliations SET resolved_at_ms = 1"),
      /reconciliation_resolved_somehow/,
    );
    db.exec("UPDATE reconciliations SET resolved_at_ms = 1, resolution = 'found'");
    open.run(job);
  });
});

describe("an update", () => {
  it("says why unless it was accepted", (t) => {
    const db = madeDatabase(t);
    for (const state of ["ignored", "quarantined"]) {
      assert.throws(
        () => db.prepare("UPDATE updates SET state = ? WHERE event_key = 'e'").run(state),
        /update_says_why/,
      );
    }
    assert.throws(
      () => db.exec("UPDATE updates SET state = 'odd', reason = 'r' WHERE event_key = 'e'"),
      /update_state_known/,
    );
  });
});

describe("a destination", () => {
  it("is paused exactly since it says", (t) => {
    const db = madeDatabase(t);
    db.exec(
      "INSERT INTO destinations (destination, name, kind, configured, fingerprint) VALUES ('sales', 'sales', 'http', 1, '')",
    );
    assert.throws(() => db.exec("UPDATE destinations SET state = 'paused'"), /destination_paused_since/);
    assert.throws(() => db.exec("UPDATE destinations SET paused_since_ms = 1"), /destination_paused_since/);
    db.exec("UPDATE destinations SET state = 'paused', paused_since_ms = 1");
  });
});

describe("every table", () => {
  it("is STRICT, so that a text never becomes a number by accident", (t) => {
    const db = madeDatabase(t);
    const tables = db
      .prepare(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'",
      )
      .pluck()
      .all();
    assert.deepEqual(tables, []);
  });

  it("names times *_at_ms and lengths *_ms, as INTEGER", (t) => {
    const db = madeDatabase(t);
    const columns = db
      .prepare(
        `SELECT t.name || '.' || c.name AS column, c.type FROM pragma_table_list t, pragma_table_info(t.name) c
         WHERE t.type = 'table' AND (c.name LIKE '%\\_at%' ESCAPE '\\' OR c.name LIKE '%\\_ms%' ESCAPE '\\')`,
      )
      .all() as { column: string; type: string }[];
    assert.ok(columns.length > 20);
    for (const { column, type } of columns) {
      assert.equal(type, "INTEGER", column);
      assert.match(column, /_ms(_before)?$/);
    }
  });
});
