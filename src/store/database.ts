/**
 * Opens the file: modes, pragmas, and what SQLite's errors mean to the rest of the program. Serves P1 (a commit is on
 * disk before it counts) and P5 (nobody else on the machine can read the file).
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  statfsSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import Database from "better-sqlite3";
import { StorageError, StorageUnavailableError } from "../domain/errors.ts";
import { connect } from "./connect.ts";

/**
 * How long a statement waits for another process; a command's transactions take milliseconds. SQLite waits on our only
 * thread, so the daemon, which tries everything again by itself, gives up sooner: until then it hears no answer of a
 * CRM and no signal.
 */
const BUSY_TIMEOUT_MS = { create: 1_000, write: 5_000, read: 5_000 } as const;

/** Magic numbers of `statfs(2)` for file systems whose locks may not hold across hosts. */
const NETWORK_FILE_SYSTEMS: Readonly<Record<number, string>> = {
  26985: "NFS",
  20859: "SMB",
  4266872130: "SMB",
  4283649346: "CIFS",
};

export interface OpenOptions {
  /** `create` makes the file and brings its schema forward, for whoever holds the lock; the others want it ready. */
  mode: "create" | "write" | "read";
}

/** The file's real path, with a folder that exists and is private where it is ours. @throws StorageError */
export function preparePath(path: string): string {
  const folder = dirname(path);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (holdsOnlyOurs(folder, basename(path))) chmodSync(folder, 0o700);
    const real = join(realpathSync(folder), basename(path));
    // Made here, so that it is private from its first moment and a link to a file that is still to come can be followed:
    // the lock must have one name, whichever way leads to the file.
    if (!existsSync(real)) closeSync(openSync(real, "a", 0o600));
    const file = realpathSync(real);
    refuseNetworkFileSystem(dirname(file));
    return file;
  } catch (error) {
    throw asStorageError(error, `can't use the folder ${folder}`);
  }
}

/** A folder with other things in it (/var/lib, a home) is not ours to close; the files themselves are 0600 anyway. */
function holdsOnlyOurs(folder: string, database: string): boolean {
  return readdirSync(folder).every((name) => name === "README.md" || name.startsWith(database));
}

function refuseNetworkFileSystem(folder: string): void {
  const name = NETWORK_FILE_SYSTEMS[statfsSync(folder).type];
  if (name === undefined) return;
  throw new StorageError(
    `${folder} is on ${name}, where the lock that keeps two daemons apart may not hold`,
    "Set [storage] path to a folder on a local disk.",
  );
}

/** @throws StorageError, StorageUnavailableError */
export function openDatabase(path: string, { mode }: OpenOptions): Database.Database {
  if (mode !== "create" && !existsSync(path)) {
    throw new StorageError(`there is no database at ${path} yet`, "Start the daemon once: leadonce run");
  }
  let db: Database.Database | null = null;
  try {
    db = connect(path, { readonly: mode === "read", timeout: BUSY_TIMEOUT_MS[mode] });
    refuseForeign(db, path);
    if (mode !== "read") {
      keepPrivate(path);
      // Readers (commands, sqlite3) go on while the daemon writes.
      db.pragma("journal_mode = WAL");
    }
    // better-sqlite3 is compiled with NORMAL under WAL, which may lose the last commits in a power cut; offsets are
    // confirmed to Telegram on their strength, and every open has to say so anew.
    db.pragma("synchronous = FULL");
    db.pragma("foreign_keys = ON");
    if (db.pragma("synchronous", { simple: true }) !== 2)
      throw new StorageError("SQLite refuses synchronous=FULL");
    keepPrivate(path);
    openedFiles.set(db, identityOf(path));
    return db;
  } catch (error) {
    db?.close();
    throw asStorageError(error, `can't open the database ${path}`);
  }
}

/** A path that slipped: another program's file keeps its mode, its journal and its schema. @throws StorageError */
function refuseForeign(db: Database.Database, path: string): void {
  const names = (from: string): unknown[] => db.prepare(`SELECT name FROM ${from}`).pluck().all();
  const tables = names("sqlite_schema WHERE type = 'table'");
  // Others have a table of this name, too; the columns are ours.
  const columns = names("pragma_table_info('migrations')");
  if (tables.length === 0 || ["number", "checksum"].every((column) => columns.includes(column))) return;
  throw new StorageError(
    `${path} is the database of another program; nothing in it was changed`,
    "Set [storage] path to a file that leadonce has for itself.",
  );
}

/** Which file each database was opened on: a path may name another one later, or none. */
const openedFiles = new WeakMap<Database.Database, string | null>();

function identityOf(path: string): string | null {
  const file = statSync(path, { throwIfNoEntry: false });
  return file === undefined ? null : `${file.dev}:${file.ino}`;
}

/**
 * P1: what is written to a file that was deleted or moved away is gone with the process, so nothing may be confirmed to
 * Telegram or sent on its strength.
 * @throws StorageUnavailableError while the path does not name the file that was opened
 */
export function refuseOtherFile(db: Database.Database): void {
  const opened = openedFiles.get(db);
  if (opened === undefined || opened === identityOf(db.name)) return;
  throw new StorageUnavailableError(
    "the database file was moved or deleted while leadonce runs",
    "Put the same file back and leadonce goes on; to use another one, stop leadonce first.",
  );
}

/** The write-ahead log takes the main file's mode when it is made, so the main file's mode is set first. */
function keepPrivate(path: string): void {
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    if (existsSync(file)) chmodSync(file, 0o600);
  }
}

/** Nothing was written and the same call may succeed later. */
const PASSING = [
  "SQLITE_FULL",
  "SQLITE_IOERR",
  "SQLITE_BUSY",
  "SQLITE_LOCKED",
  "SQLITE_READONLY",
  "SQLITE_CANTOPEN",
  "SQLITE_NOMEM",
];

export function isStorageTrouble(error: unknown): boolean {
  return (
    error instanceof StorageError || (error instanceof Database.SqliteError && isFileTrouble(error.code))
  );
}

function isFileTrouble(code: string): boolean {
  return [...PASSING, "SQLITE_CORRUPT", "SQLITE_NOTADB"].some((known) => code.startsWith(known));
}

/** Turns what SQLite or the file system says about the file into our words; leaves everything else as it is. */
export function asStorageError(error: unknown, what: string): unknown {
  if (error instanceof Database.SqliteError) {
    if (PASSING.some((code) => error.code.startsWith(code))) {
      return new StorageUnavailableError(`${what}: ${explain(error.code)}`, hintFor(error.code), error);
    }
    if (isFileTrouble(error.code)) {
      return new StorageError(
        `${what}: the file is damaged or not a leadonce database (${error.code})`,
        "Keep the file, put a backup beside it under another name and set [storage] path to that.",
        error,
      );
    }
    return error;
  }
  if (
    error instanceof Error &&
    "code" in error &&
    typeof error.code === "string" &&
    /^E[A-Z]+$/.test(error.code)
  ) {
    return new StorageUnavailableError(
      `${what}: ${error.code}`,
      "Check that the folder exists and is writable.",
      error,
    );
  }
  return error;
}

function explain(code: string): string {
  if (code.startsWith("SQLITE_FULL")) return "the disk is full";
  if (code.startsWith("SQLITE_READONLY")) return "the file or its folder is read-only";
  if (code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED"))
    return "another process holds the file";
  if (code.startsWith("SQLITE_CANTOPEN")) return "the file can't be opened";
  return `reading or writing failed (${code})`;
}

function hintFor(code: string): string {
  if (code.startsWith("SQLITE_FULL"))
    return "Free some disk space; leadonce goes on by itself. Nothing is lost.";
  if (code.startsWith("SQLITE_READONLY"))
    return "Make the file and its folder writable again; leadonce goes on by itself.";
  if (code.startsWith("SQLITE_BUSY"))
    return "Close the program that holds the database; leadonce goes on by itself.";
  return "Check the disk and the rights of the folder.";
}
