/**
 * The store: the only SQL and the only import of better-sqlite3. `openStore` puts its modules together; each method is
 * one transaction (design §12).
 */
import { randomBytes } from "node:crypto";
import type Database from "better-sqlite3";
import { REASONS } from "../domain/explain.ts";
import { type CrashHook, noCrash } from "../domain/ports.ts";
import type { ReportStore } from "../domain/reports.ts";
import type {
  AlertStore,
  DecisionStore,
  IntakeStore,
  ReconcileStore,
  RunStore,
  WorkStore,
} from "../domain/store.ts";
import { alertStore } from "./alerts.ts";
import { asStorageError, type OpenOptions, openDatabase, preparePath } from "./database.ts";
import { decisionStore } from "./decisions.ts";
import { destinationStore } from "./destinations.ts";
import { intakeStore } from "./intake.ts";
import { checkSchema, migrate } from "./migrations/index.ts";
import { reconcileStore } from "./reconciliations.ts";
import { reportStore } from "./reports.ts";
import { runStore } from "./runs.ts";
import { look } from "./sql.ts";
import { workStore } from "./work.ts";

export { type Lock, lockedError, takeLock } from "./lock.ts";
export { preparePath };

export interface Store
  extends IntakeStore,
    WorkStore,
    ReconcileStore,
    DecisionStore,
    AlertStore,
    RunStore,
    ReportStore {
  /** Rises when another process has written; cheap to ask. */
  dataVersion(): number;
  /** Random per database: marks the places of secrets in stored bodies, so that no customer's text can name one. */
  readonly secretMark: string;
  close(): void;
}

export interface StoreOptions extends OpenOptions {
  nowMs: number;
  crash?: CrashHook;
}

/** @throws StorageError, StorageUnavailableError */
export function openStore(path: string, options: StoreOptions): Store {
  const db = openDatabase(path, options);
  try {
    // Only the daemon, which holds the lock, changes the schema: a command must not pull it away under an older daemon.
    if (options.mode === "create") makeReady(db, options.nowMs);
    else checkSchema(db);
    const context = { db, crash: options.crash ?? noCrash };
    return {
      ...intakeStore(context),
      ...workStore(context),
      ...destinationStore(context),
      ...reconcileStore(context),
      ...decisionStore(context),
      ...alertStore(context),
      ...runStore(context),
      ...reportStore(context),
      // better-sqlite3 types a simple pragma as unknown; this one is always a number.
      dataVersion: () =>
        look("ask who has written", () => db.pragma("data_version", { simple: true }) as number),
      secretMark: secretMark(db),
      close: () => void db.close(),
    };
  } catch (error) {
    db.close();
    throw asStorageError(error, `can't open the database ${path}`);
  }
}

function makeReady(db: Database.Database, nowMs: number): void {
  migrate(db, nowMs);
  writeReasons(db);
  db.prepare("INSERT OR IGNORE INTO meta (name, value) VALUES ('secret_mark', ?)").run(
    randomBytes(12).toString("hex"),
  );
}

/** The texts of the reasons, so that the views can tell people; written only where they changed. */
function writeReasons(db: Database.Database): void {
  const write = db.prepare(
    `INSERT INTO reasons (reason, why, safe) VALUES (?, ?, ?)
     ON CONFLICT (reason) DO UPDATE SET why = excluded.why, safe = excluded.safe
     WHERE why <> excluded.why OR safe <> excluded.safe`,
  );
  db.transaction(() => {
    for (const [reason, { why, safe }] of Object.entries(REASONS)) write.run(reason, why, safe);
  }).immediate();
}

function secretMark(db: Database.Database): string {
  const row = db.prepare<[], { value: string }>("SELECT value FROM meta WHERE name = 'secret_mark'").get();
  return row?.value ?? "";
}
