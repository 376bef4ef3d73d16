/** Alerts: what somebody has to be told, once while it lasts (P4). Raised inside the transaction that causes them. */
import type Database from "better-sqlite3";
import { z } from "zod";
import type { Alert, AlertStore } from "../domain/store.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";

export interface AlertBook {
  raise(kind: string, subject: string, message: string, nowMs: number): void;
  /** Says whether there was one. */
  clear(kind: string, subject: string, nowMs: number): boolean;
}

/** For use inside another transaction. */
export function alertBook(db: Database.Database): AlertBook {
  const raise = db.prepare(
    `INSERT INTO alerts (kind, subject, message, raised_at_ms, last_at_ms) VALUES (@kind, @subject, @message, @nowMs, @nowMs)
     ON CONFLICT (kind, subject) WHERE cleared_at_ms IS NULL
     DO UPDATE SET times = times + 1, last_at_ms = @nowMs, message = @message`,
  );
  const clear = db.prepare(
    "UPDATE alerts SET cleared_at_ms = ? WHERE kind = ? AND subject = ? AND cleared_at_ms IS NULL",
  );
  return {
    raise: (kind, subject, message, nowMs) => void raise.run({ kind, subject, message, nowMs }),
    clear: (kind, subject, nowMs) => clear.run(nowMs, kind, subject).changes > 0,
  };
}

const alertRow = z
  .object({
    kind: z.string(),
    subject: z.string(),
    message: z.string(),
    raised_at_ms: z.number(),
    times: z.number(),
  })
  .transform(
    (row): Alert => ({
      kind: row.kind,
      subject: row.subject,
      message: row.message,
      raisedAtMs: row.raised_at_ms,
      times: row.times,
    }),
  );

export function alertStore({ db }: StoreContext): AlertStore {
  const book = alertBook(db);
  const open = reader(db, alertRow, "SELECT * FROM alerts WHERE cleared_at_ms IS NULL ORDER BY raised_at_ms");
  return {
    raiseAlert: async (kind, subject, message, nowMs) =>
      transact(db, "record an alert", () => book.raise(kind, subject, message, nowMs)),
    clearAlert: async (kind, subject, nowMs) =>
      transact(db, "clear an alert", () => {
        book.clear(kind, subject, nowMs);
      }),
    openAlerts: async () => look("read the alerts", () => open.all()),
  };
}
