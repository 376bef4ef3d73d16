/** Opening the file: durability, privacy, the lock, and the schema's versions (P1, P5). */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { LockedError, StorageError, StorageUnavailableError } from "../../src/domain/errors.ts";
import { connect } from "../../src/store/connect.ts";
import { openDatabase } from "../../src/store/database.ts";
import { lockedError, openStore, preparePath, takeLock } from "../../src/store/index.ts";
import { MIGRATIONS, migrate } from "../../src/store/migrations/index.ts";
import { BOT, makeWorld, messageUpdate, RUN, T0, tempFolder, withRaw } from "./fixtures.ts";

const create = { mode: "create", nowMs: T0 } as const;
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe("every open of the file", () => {
  it("has synchronous=FULL, WAL and foreign keys, also when the file was made before", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    openStore(path, create).close();
    for (const how of ["create", "write", "read", "write"] as const) {
      const db = openDatabase(path, { mode: how });
      assert.equal(db.pragma("synchronous", { simple: true }), 2, `FULL, opened to ${how}`);
      assert.equal(db.pragma("journal_mode", { simple: true }), "wal");
      assert.equal(db.pragma("foreign_keys", { simple: true }), 1);
      assert.ok(Number(db.pragma("busy_timeout", { simple: true })) >= 1_000);
      db.close();
    }
  });

  it("leaves a row that breaks a reference outside", async (t) => {
    const world = await makeWorld(t);
    assert.throws(
      () => world.write("INSERT INTO leases (job_id, token, run_id, expires_at_ms) VALUES (99, 'x', 'r', 0)"),
      /FOREIGN KEY/,
    );
  });
});

describe("the database of another program", () => {
  const made = ["CREATE TABLE orders (id INTEGER)", "CREATE TABLE migrations (id INTEGER, migration TEXT)"];
  for (const sql of made) {
    it(`is refused and stays as it is, whoever opens it: ${sql}`, (t) => {
      const path = join(tempFolder(t), "theirs.db");
      connect(path).exec(sql).close();
      chmodSync(path, 0o644);
      const before = readFileSync(path);
      for (const how of ["create", "write", "read"] as const) {
        const refused = { name: "StorageError", message: /database of another program/ };
        assert.throws(() => openStore(path, { mode: how, nowMs: T0 }), refused, how);
      }
      assert.deepEqual(readFileSync(path), before);
      assert.equal(mode(path), "644");
    });
  }

  it("is not what a start leaves that was cut off before the first table", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    writeFileSync(path, "");
    openStore(path, create).close();
  });
});

describe("who may read the files (P5)", () => {
  it("the database, the log and the lock are 0600 while they are in use", async (t) => {
    const world = await makeWorld(t);
    await world.lead();
    const lock = takeLock(world.path);
    for (const suffix of ["", "-wal", "-shm", ".lock"]) {
      assert.ok(existsSync(`${world.path}${suffix}`), suffix);
      assert.equal(mode(`${world.path}${suffix}`), "600", suffix);
    }
    lock?.release();
  });

  it("a database that was open to everybody is closed at the next open", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    openStore(path, create).close();
    chmodSync(path, 0o644);
    const store = openStore(path, create);
    t.after(() => store.close());
    for (const suffix of ["", "-wal", "-shm"]) assert.equal(mode(`${path}${suffix}`), "600", suffix);
  });

  it("a folder that is made is 0700, with every folder above it that is made too", (t) => {
    const root = tempFolder(t);
    const path = preparePath(join(root, "a", "b", "leadonce.db"));
    assert.equal(mode(join(root, "a", "b")), "700");
    assert.equal(mode(join(root, "a")), "700");
    assert.ok(path.endsWith(join("a", "b", "leadonce.db")));
  });

  it("a folder that was there becomes 0700 when it holds nothing but ours, as data/ in a fresh clone", (t) => {
    const folder = join(tempFolder(t), "data");
    mkdirSync(folder, { mode: 0o755 });
    writeFileSync(join(folder, "README.md"), "what this folder is for");
    preparePath(join(folder, "leadonce.db"));
    assert.equal(mode(folder), "700");
  });

  it("a folder that holds other things is left as it is: shutting people out of /var/lib is not ours", (t) => {
    const folder = join(tempFolder(t), "lib");
    mkdirSync(folder, { mode: 0o755 });
    writeFileSync(join(folder, "other.txt"), "");
    preparePath(join(folder, "leadonce.db"));
    assert.equal(mode(folder), "755");
  });
});

describe("the path of the database", () => {
  it("is the real one, so that two names of one file take one lock", (t) => {
    const root = tempFolder(t);
    mkdirSync(join(root, "real"));
    openStore(join(root, "real", "leadonce.db"), create).close();
    symlinkSync(join(root, "real"), join(root, "folder"));
    symlinkSync(join(root, "real", "leadonce.db"), join(root, "file.db"));
    const real = preparePath(join(root, "real", "leadonce.db"));
    assert.equal(preparePath(join(root, "folder", "leadonce.db")), real);
    assert.equal(preparePath(join(root, "file.db")), real);
  });

  it("is the real one from the first start on, also through a link to a file that is still to come", (t) => {
    const root = tempFolder(t);
    symlinkSync(join(root, "real.db"), join(root, "link.db"));
    const first = preparePath(join(root, "link.db"));
    assert.equal(mode(first), "600");
    openStore(first, create).close();
    assert.equal(preparePath(join(root, "link.db")), first);
    assert.equal(preparePath(join(root, "real.db")), first);
  });

  it("that names another file than the one in use, or none, confirms and sends nothing until it is put back (P1)", async (t) => {
    const world = await makeWorld(t);
    await world.lead();
    const aside = `${world.path}.aside`;
    const changes = [() => renameSync(world.path, aside), () => writeFileSync(world.path, "")];
    for (const change of changes) {
      change();
      await assert.rejects(world.claim(), StorageUnavailableError);
      await assert.rejects(world.accept(messageUpdate({ updateId: 900 })), StorageUnavailableError);
    }
    renameSync(aside, world.path);
    assert.equal((await world.claim()).length, 1);
  });

  it("that can't be used gives a storage error with a hint", (t) => {
    const root = tempFolder(t);
    writeFileSync(join(root, "file"), "");
    assert.throws(
      () => preparePath(join(root, "file", "leadonce.db")),
      (error) => error instanceof StorageUnavailableError && error.exitCode === 74 && error.hint !== null,
    );
  });
});

describe("a file that can't be opened", () => {
  it("that does not exist names the command that makes it, and is not made", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    for (const how of ["read", "write"] as const) {
      assert.throws(() => openStore(path, { mode: how, nowMs: T0 }), StorageError);
    }
    assert.equal(existsSync(path), false);
  });

  it("that is no database is a storage error, and stays as it was", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    writeFileSync(path, "this is a shopping list, not a database, and long enough to be read as a header");
    for (const how of ["create", "write", "read"] as const) {
      assert.throws(
        () => openStore(path, { mode: how, nowMs: T0 }),
        (error) => error instanceof StorageError && /damaged|not a leadonce database/.test(error.message),
      );
    }
    assert.equal(statSync(path).size, 79);
  });

  it("that another program holds for writing is a passing trouble, not a bug", async (t) => {
    const world = await makeWorld(t);
    world.store.close();
    withRaw(world.path, (db) => {
      db.exec("BEGIN EXCLUSIVE");
      assert.throws(
        () => openStore(world.path, create),
        (error) => error instanceof StorageUnavailableError && error.exitCode === 74,
      );
      db.exec("ROLLBACK");
    });
    world.reopen();
  });
});

describe("the lock", () => {
  const database = (t: TestContext): string => join(tempFolder(t), "leadonce.db");

  async function holder(path: string): Promise<{ child: ChildProcess; said: string }> {
    const script = fileURLToPath(new URL("lock-holder.ts", import.meta.url));
    const child = spawn(process.execPath, ["--import", "tsx", script, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = await once(child.stdout, "data");
    return { child, said: String(said).trim() };
  }

  it("TR-40: is refused to a second taker while the first one holds it, and free again after its release", (t) => {
    const path = database(t);
    const first = takeLock(path);
    assert.ok(first !== null);
    assert.equal(takeLock(path), null);
    assert.equal(takeLock(path), null, "asking does not loosen it");
    first.release();
    const second = takeLock(path);
    assert.ok(second !== null);
    first.release();
    assert.equal(takeLock(path), null, "a second release of the old one does not loosen the new one");
    second.release();
  });

  it("is refused while another process holds it, and released by its SIGKILL", async (t) => {
    const path = database(t);
    const { child, said } = await holder(path);
    t.after(() => child.kill("SIGKILL"));
    assert.equal(said, "held");
    assert.equal(takeLock(path), null);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    const lock = takeLock(path);
    assert.ok(lock !== null);
    const { said: refused } = await holder(path);
    assert.equal(refused, "refused");
    lock.release();
  });

  it("leaves nothing beside it but its own file, 0600", (t) => {
    const folder = tempFolder(t);
    const lock = takeLock(join(folder, "leadonce.db"));
    assert.deepEqual(readdirSync(folder), ["leadonce.db.lock"]);
    assert.equal(mode(join(folder, "leadonce.db.lock")), "600");
    lock?.release();
  });

  it("can be taken although commands have the database open", async (t) => {
    const world = await makeWorld(t);
    const lock = takeLock(world.path);
    assert.ok(lock !== null);
    await world.lead();
    lock.release();
  });

  it("that can't be made is a storage error", (t) => {
    const path = database(t);
    mkdirSync(`${path}.lock`);
    assert.throws(() => takeLock(path), StorageError);
  });

  it("that is held names its holder and ends with exit code 75", () => {
    const error = lockedError({ pid: 4711, host: "box", sinceMs: T0 });
    assert.ok(error instanceof LockedError);
    assert.equal(error.exitCode, 75);
    assert.match(error.message, /4711.*box.*2026-01-05T09:00:00/);
    assert.match(lockedError(null).message, /another process/);
  });
});

describe("the schema", () => {
  const versions = (path: string): unknown =>
    withRaw(path, (db) => db.prepare("SELECT number, applied_at_ms FROM migrations").all());
  const schemaOf = (path: string): unknown =>
    withRaw(path, (db) => db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all());

  function madeFile(t: TestContext): string {
    const path = join(tempFolder(t), "leadonce.db");
    openStore(path, create).close();
    return path;
  }

  it("made twice is made once", (t) => {
    const path = madeFile(t);
    const [schema, applied] = [schemaOf(path), versions(path)];
    openStore(path, { mode: "create", nowMs: T0 + 5_000 }).close();
    assert.deepEqual(schemaOf(path), schema);
    assert.deepEqual(versions(path), applied);
    assert.deepEqual(applied, [{ number: 1, applied_at_ms: T0 }]);
  });

  it("of a newer version is refused in every mode, and nothing is changed", (t) => {
    const path = madeFile(t);
    withRaw(path, (db) => db.exec("INSERT INTO migrations VALUES (99, 'from the future', 'x', 0)"));
    const before = schemaOf(path);
    for (const how of ["create", "write", "read"] as const) {
      assert.throws(
        () => openStore(path, { mode: how, nowMs: T0 }),
        (error) => error instanceof StorageError && /newer leadonce/.test(error.message),
        how,
      );
    }
    assert.deepEqual(schemaOf(path), before);
  });

  it("whose migration has another text than the one that ran is refused in every mode", (t) => {
    const path = madeFile(t);
    withRaw(path, (db) => db.exec("UPDATE migrations SET checksum = 'other'"));
    for (const how of ["create", "write", "read"] as const) {
      assert.throws(
        () => openStore(path, { mode: how, nowMs: T0 }),
        (error) => error instanceof StorageError && /is not the one/.test(error.message),
        how,
      );
    }
  });

  it("is brought forward by the daemon alone, who holds the lock; a command says so", (t) => {
    const path = join(tempFolder(t), "leadonce.db");
    withRaw(path, () => {}); // an empty file, as when the daemon was stopped before its first migration
    openDatabase(path, { mode: "create" }).close();
    for (const how of ["write", "read"] as const) {
      assert.throws(
        () => openStore(path, { mode: how, nowMs: T0 }),
        (error) => error instanceof StorageError && /leadonce run/.test(error.hint ?? ""),
        how,
      );
    }
    assert.deepEqual(schemaOf(path), []);
    openStore(path, create).close();
    openStore(path, { mode: "write", nowMs: T0 }).close();
  });

  it("a migration that fails leaves no trace of itself", (t) => {
    const path = madeFile(t);
    const before = schemaOf(path);
    const broken = {
      number: 2,
      name: "broken",
      sql: "CREATE TABLE half_made (a); INSERT INTO meta VALUES ('half', 'made'); SELECT nonsense;",
    };
    withRaw(path, (db) => assert.throws(() => migrate(db, T0, [...MIGRATIONS, broken])));
    assert.deepEqual(schemaOf(path), before);
    assert.deepEqual(versions(path), [{ number: 1, applied_at_ms: T0 }]);
    assert.deepEqual(
      withRaw(path, (db) => db.prepare("SELECT * FROM meta WHERE name = 'half'").all()),
      [],
    );
    openStore(path, create).close();
  });

  it("a further migration is applied once, with its row", (t) => {
    const path = madeFile(t);
    const next = { number: 2, name: "next", sql: "CREATE TABLE later (a INTEGER) STRICT;" };
    withRaw(path, (db) => {
      migrate(db, T0 + 1, [...MIGRATIONS, next]);
      migrate(db, T0 + 2, [...MIGRATIONS, next]);
    });
    assert.deepEqual(versions(path), [
      { number: 1, applied_at_ms: T0 },
      { number: 2, applied_at_ms: T0 + 1 },
    ]);
  });

  it("has numbers that rise by one from one", () => {
    assert.deepEqual(
      MIGRATIONS.map(({ number }) => number),
      MIGRATIONS.map((_, position) => position + 1),
    );
  });
});

describe("the mark of secrets in stored bodies", () => {
  it("is random per database and stays the same in it", async (t) => {
    const [one, other] = [await makeWorld(t), await makeWorld(t)];
    const mark = one.store.secretMark;
    assert.match(mark, /^[0-9a-f]{24}$/);
    assert.notEqual(other.store.secretMark, mark);
    one.reopen();
    assert.equal(one.store.secretMark, mark);
    const command = openStore(one.path, { mode: "write", nowMs: T0 });
    assert.equal(command.secretMark, mark);
    command.close();
  });
});

describe("a change by another process", () => {
  it("raises the data version; our own does not", async (t) => {
    const world = await makeWorld(t);
    const before = world.store.dataVersion();
    await world.lead();
    assert.equal(world.store.dataVersion(), before);
    world.write("UPDATE bots SET username = 'other' WHERE bot_id = ?", BOT);
    assert.notEqual(world.store.dataVersion(), before);
  });
});

describe("a run", () => {
  const run = { runId: RUN, version: "1.0.0", configHash: "h", pid: 7, host: "box" };

  it("is the newest one, whoever came before", async (t) => {
    const { store } = await makeWorld(t);
    assert.equal(await store.lastRun(), null);
    await store.startRun(run, T0);
    await store.heartbeat(RUN, T0 + 60_000);
    assert.deepEqual(await store.lastRun(), {
      ...run,
      startedAtMs: T0,
      heartbeatAtMs: T0 + 60_000,
      endedAtMs: null,
    });
    await store.endRun(RUN, T0 + 70_000);
    assert.equal((await store.lastRun())?.endedAtMs, T0 + 70_000);
  });
});
