/** Small tools for the store's modules: checked rows and named transactions. */
import type Database from "better-sqlite3";
import type { z } from "zod";
import type { CrashHook } from "../domain/ports.ts";
import { asStorageError, refuseOtherFile } from "./database.ts";

type Value = string | number | null;
/** Positional values, or one object of named ones. */
export type Parameter = Value | Readonly<Record<string, Value>>;

export interface Reader<Row> {
  get(...parameters: Parameter[]): Row | undefined;
  all(...parameters: Parameter[]): Row[];
}

/** A prepared query whose rows are checked: a hand-edited database gives a clear error instead of a wrong effect. */
export function reader<Schema extends z.ZodType>(
  db: Database.Database,
  schema: Schema,
  sql: string,
): Reader<z.infer<Schema>> {
  const statement = db.prepare(sql);
  return {
    get: (...parameters) => {
      const row = statement.get(...parameters);
      return row === undefined ? undefined : schema.parse(row);
    },
    all: (...parameters) => statement.all(...parameters).map((row) => schema.parse(row)),
  };
}

/** What every module of the store works with. */
export interface StoreContext {
  db: Database.Database;
  crash: CrashHook;
}

/**
 * One durable transaction. It takes the write lock at once (BEGIN IMMEDIATE), so what it reads cannot change under it.
 * @throws StorageUnavailableError when the file can't be written now: nothing of it has happened
 */
export function transact<Result>(db: Database.Database, what: string, work: () => Result): Result {
  try {
    refuseOtherFile(db);
    return db.transaction(work).immediate();
  } catch (error) {
    throw asStorageError(error, `can't ${what}`);
  }
}

/** A read from the file, with the same errors. */
export function look<Result>(what: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw asStorageError(error, `can't ${what}`);
  }
}
