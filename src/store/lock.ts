/**
 * One daemon per database: an SQLite file beside it, held in an exclusive transaction. The operating system releases
 * it when the process dies, however it dies, so it never goes stale.
 */
import { chmodSync } from "node:fs";
import Database from "better-sqlite3";
import { LockedError } from "../domain/errors.ts";
import { connect } from "./connect.ts";
import { asStorageError } from "./database.ts";

export interface Lock {
  release(): void;
}

/**
 * @param path the real path of the database
 * @returns null when another process holds it
 * @throws StorageError when the lock file can't be used
 */
export function takeLock(path: string): Lock | null {
  const file = `${path}.lock`;
  let db: Database.Database | null = null;
  try {
    db = connect(file, { timeout: 0 });
    chmodSync(file, 0o600);
    // Nothing is ever written to it, so it needs no journal beside it.
    db.pragma("journal_mode = MEMORY");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) return null;
    throw asStorageError(error, `can't lock ${file}`);
  }
  const held = db;
  return {
    release: () => {
      if (held.open) held.close();
    },
  };
}

/** @param holder from the main database: the last run that has not ended */
export function lockedError(holder: { pid: number; host: string; sinceMs: number } | null): LockedError {
  const who =
    holder === null
      ? "another process"
      : `process ${holder.pid} on ${holder.host}, since ${new Date(holder.sinceMs).toISOString()}`;
  return new LockedError(
    `this database is already in use by ${who}`,
    "One database serves one daemon. Stop that one first, or look at it with: leadonce status",
  );
}
