/**
 * The ways from each schema to the next: literal SQL, forward only, each in one transaction with its row in
 * `migrations`, whose checksum shows later that the text has not changed. A newer file than we know is refused.
 */
import { createHash } from "node:crypto";
import type Database from "better-sqlite3";
import { StorageError } from "../../domain/errors.ts";
import { initial } from "./001-initial.ts";

export interface Migration {
  number: number;
  name: string;
  sql: string;
}

export const MIGRATIONS: readonly Migration[] = [initial];

const checksum = (migration: Migration): string => createHash("sha256").update(migration.sql).digest("hex");

/** @throws StorageError when the file is newer than this program, or a migration's text is not the one it ran */
export function migrate(db: Database.Database, nowMs: number, migrations = MIGRATIONS): void {
  db.exec(
    "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT",
  );
  for (const migration of missing(db, migrations)) apply(db, migration, nowMs);
}

/** For those who only use the file. @throws StorageError when its schema is not the one that this program knows */
export function checkSchema(db: Database.Database, migrations = MIGRATIONS): void {
  const made = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").get() !== undefined;
  if (made && missing(db, migrations).length === 0) return;
  throw new StorageError(
    "the database is not ready: its schema is older than this leadonce, or was never made",
    "Start (or restart) the daemon, which brings it forward: leadonce run",
  );
}

/** What has not been applied yet, once what has been applied is known to be ours. */
function missing(db: Database.Database, migrations: readonly Migration[]): Migration[] {
  const applied = db
    .prepare<[], { number: number; checksum: string }>(
      "SELECT number, checksum FROM migrations ORDER BY number",
    )
    .all();
  const newest = migrations.at(-1)?.number ?? 0;
  const beyond = applied.find(({ number }) => number > newest);
  if (beyond !== undefined) {
    throw new StorageError(
      `the database was written by a newer leadonce (schema ${beyond.number}, this one knows ${newest})`,
      "Start the newer version again; nothing was changed.",
    );
  }
  return migrations.filter((migration) => {
    const row = applied.find(({ number }) => number === migration.number);
    if (row !== undefined && row.checksum !== checksum(migration)) {
      throw new StorageError(
        `migration ${migration.number} (${migration.name}) is not the one this database was made with`,
        "Install the released version of leadonce; nothing was changed.",
      );
    }
    return row === undefined;
  });
}

function apply(db: Database.Database, migration: Migration, nowMs: number): void {
  db.transaction(() => {
    db.exec(migration.sql);
    db.prepare("INSERT INTO migrations (number, name, checksum, applied_at_ms) VALUES (?, ?, ?, ?)").run(
      migration.number,
      migration.name,
      checksum(migration),
      nowMs,
    );
  }).exclusive();
}
