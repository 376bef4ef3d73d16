/** Who decided what, when and why: every decision of a person leaves a row. */
import type Database from "better-sqlite3";
import type { JobId } from "../domain/ids.ts";
import type { Operator } from "../domain/store.ts";

export interface OperatorAction {
  operator: Operator;
  action: string;
  jobId: JobId | null;
  subject: string | null;
  detail: string | null;
}

export function actionBook(db: Database.Database): { record(action: OperatorAction, nowMs: number): void } {
  const insert = db.prepare(
    "INSERT INTO operator_actions (at_ms, who, action, job_id, subject, why, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  return {
    record: ({ operator, action, jobId, subject, detail }, nowMs) =>
      void insert.run(nowMs, operator.who, action, jobId, subject, operator.why, detail),
  };
}
