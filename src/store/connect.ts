/**
 * The only place where better-sqlite3 is asked for a connection. Statements are made once for each SQL text and kept for
 * the life of the process, for speed and for a reason of Node's: since 24.19 the process aborts when a statement of
 * better-sqlite3 12 is garbage-collected while no JavaScript runs.
 *
 * Source: nodejs/node issue 65446. Version 13 of the driver is free of it, but needs Node 22.
 */
import Database from "better-sqlite3";

const kept: unknown[] = [];

/** @throws SqliteError, which `asStorageError` translates */
export function connect(path: string, options: Database.Options = {}): Database.Database {
  const db = new Database(path, options);
  const make = db.prepare.bind(db);
  const statements = new Map<string, Database.Statement>();

  function statement(purpose: string, sql: string): Database.Statement {
    const name = `${purpose} ${sql}`;
    const known = statements.get(name) ?? make(sql);
    statements.set(name, known);
    return known;
  }

  // The driver's generic signature tells callers the shapes of parameters and rows; what is kept has them all.
  db.prepare = ((sql: string) => statement("query", sql)) as typeof db.prepare;
  db.pragma = (source, { simple = false } = {}) => {
    const pragma = statement(simple ? "simple" : "pragma", `PRAGMA ${source}`);
    if (!pragma.reader) return pragma.run();
    return simple ? pragma.pluck().get() : pragma.all();
  };
  kept.push(db, statements);
  return db;
}
