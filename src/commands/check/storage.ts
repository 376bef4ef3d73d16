/**
 * `leadonce check`, the database and its folder: P1 needs a disk that keeps what was committed, P5 files that nobody
 * else can read. It only looks: the lock is left to the daemon, and what does not exist is not made.
 */
import { accessSync, constants, readdirSync, type Stats, statfsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { LeadonceError, unreachable } from "../../domain/errors.ts";
import type { BotRow } from "../../domain/store.ts";
import { openStore, preparePath, type Store } from "../../store/index.ts";
import { daemonReport } from "../status.ts";
import { ago } from "../text.ts";
import { type CheckResult, ok, problem, problemOf, skipped, warning } from "./result.ts";

export interface StorageChecks {
  results: CheckResult[];
  /** The bot that the database belongs to; null where there is none yet, or it could not be read. */
  bot: BotRow | null;
}

/** @param path absolute, of the database */
export async function checkStorage(path: string, nowMs: number): Promise<StorageChecks> {
  const folder = dirname(path);
  const existing = nearestFolder(folder);
  const around = [checkFolder(folder, existing, path), checkSpace(existing)];
  const stuck = around.some(({ state }) => state === "problem");
  const { results, bot } = stuck ? notYet("storage.path") : await checkDatabase(folder, path, nowMs);
  return { results: [...around, ...results], bot };
}

function notYet(check: string): StorageChecks {
  return { results: [skipped(check, "not looked at before that is mended")], bot: null };
}

// ---- the folder -----------------------------------------------------------------------------------------------------

function checkFolder(folder: string, existing: string, path: string): CheckResult {
  const check = "storage.folder";
  if (!statOf(existing)?.isDirectory()) {
    return problem(check, `${existing} is not a folder`, "Set [storage] path to a file in a folder.");
  }
  try {
    accessSync(existing, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return problem(
      check,
      `this user may not read and write in ${existing}`,
      "Run it as the user of the daemon, give that user the folder, or set [storage] path to another one.",
    );
  }
  if (existing !== folder) return ok(check, `not there yet: leadonce run makes ${folder}`);
  const mode = permissions(statSync(folder));
  if ((mode & 0o077) !== 0) {
    return warning(
      check,
      `others on this machine may look into ${folder} (mode ${mode.toString(8)})`,
      `Best is a folder for the database alone: chmod 700 ${folder}`,
    );
  }
  return checkFileSystem(check, folder, path);
}

/** `preparePath` has nothing left to change here: the folder is there, and private. */
function checkFileSystem(check: string, folder: string, path: string): CheckResult {
  try {
    preparePath(path);
    return ok(check, `${folder} is writable, private and on a local disk`);
  } catch (error) {
    if (error instanceof LeadonceError) return problemOf(check, error);
    throw error;
  }
}

const MIB = 1024 * 1024;
/** A day of thousands of messages, and the write-ahead log beside it. */
const LITTLE_SPACE_BYTES = 500 * MIB;
/** Near the end SQLite refuses commits, and updates wait at Telegram, for 24 hours at most. */
const NO_SPACE_BYTES = 50 * MIB;

function checkSpace(folder: string): CheckResult {
  const { bavail, bsize } = statfsSync(folder);
  return spaceResult(folder, bavail * bsize);
}

export function spaceResult(folder: string, freeBytes: number): CheckResult {
  const check = "storage.space";
  const mib = Math.floor(freeBytes / MIB);
  const free = `${mib < 10_240 ? `${mib} MiB` : `${Math.floor(mib / 1024)} GiB`} free at ${folder}`;
  if (freeBytes < NO_SPACE_BYTES) return problem(check, free, "Free some disk space before you start.");
  if (freeBytes < LITTLE_SPACE_BYTES) return warning(check, free, "Free some disk space soon.");
  return ok(check, free);
}

// ---- the database ---------------------------------------------------------------------------------------------------

async function checkDatabase(folder: string, path: string, nowMs: number): Promise<StorageChecks> {
  if (statOf(path) === null) {
    return { results: [ok("storage.path", `no database yet: leadonce run makes ${path}`)], bot: null };
  }
  const open = openToOthers(folder, basename(path));
  // Opening it would change its mode, and check changes nothing.
  if (open.length === 0) return checkInside(path, nowMs);
  const exposed = problem(
    "storage.path",
    `others on this machine may read ${open.join(", ")}, and customers' messages with it`,
    `chmod 600 ${open.map((name) => join(folder, name)).join(" ")}`,
  );
  return { results: [exposed, ...notYet("storage.schema").results], bot: null };
}

async function checkInside(path: string, nowMs: number): Promise<StorageChecks> {
  let store: Store | null = null;
  try {
    store = openStore(path, { mode: "read", nowMs });
    const bot = await store.bot();
    return {
      results: [
        ok("storage.path", `${path} is private, and every commit reaches the disk (synchronous=FULL)`),
        ok("storage.schema", "it is the one of this version"),
        await checkDaemon(store, bot, nowMs),
      ],
      bot,
    };
  } catch (error) {
    if (error instanceof LeadonceError) return { results: [problemOf("storage.path", error)], bot: null };
    throw error;
  } finally {
    store?.close();
  }
}

async function checkDaemon(store: Store, bot: BotRow | null, nowMs: number): Promise<CheckResult> {
  const polledAtMs = bot?.lastCompletedAtMs ?? null;
  const polledAt = polledAtMs === null ? null : new Date(polledAtMs).toISOString();
  const { state, pid, host, last_sign_at } = daemonReport(await store.lastRun(), polledAt, nowMs);
  const last = last_sign_at === null ? "" : ago(last_sign_at, nowMs);
  switch (state) {
    case "running":
      return ok("daemon", `it runs on this database: process ${pid} on ${host}`);
    case "silent":
      return warning(
        "daemon",
        `process ${pid} on ${host} has given no sign of life since ${last}`,
        "leadonce status",
      );
    case "stopped":
      return ok("daemon", `none runs on this database, the last one stopped ${last}`);
    case "never_started":
      return ok("daemon", "none has run on this database yet");
    default:
      return unreachable(state);
  }
}

// ---- files ----------------------------------------------------------------------------------------------------------

/** The database, its write-ahead log, its lock: whichever of them can be opened by others than their owner. */
function openToOthers(folder: string, database: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(database))
    .filter((name) => {
      // The log of a daemon that ends at this moment is gone by now.
      const stats = statOf(join(folder, name));
      return stats !== null && (permissions(stats) & 0o077) !== 0;
    });
}

function permissions({ mode }: Stats): number {
  return mode & 0o777;
}

/** The folder itself, or where it would be made. */
function nearestFolder(folder: string): string {
  return statOf(folder) === null && dirname(folder) !== folder ? nearestFolder(dirname(folder)) : folder;
}

function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    // Not there, below something that is no folder, or hidden from this user: whoever asks looks further up.
    return null;
  }
}
