/** The runs of the daemon: who holds the database, since when, and when it last gave a sign of life. */
import { z } from "zod";
import { asRunId } from "../domain/ids.ts";
import type { RunRow, RunStore } from "../domain/store.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";

const runRow = z
  .object({
    run_id: z.string().transform(asRunId),
    version: z.string(),
    config_hash: z.string(),
    pid: z.number(),
    host: z.string(),
    started_at_ms: z.number(),
    heartbeat_at_ms: z.number(),
    ended_at_ms: z.number().nullable(),
  })
  .transform(
    (row): RunRow => ({
      runId: row.run_id,
      version: row.version,
      configHash: row.config_hash,
      pid: row.pid,
      host: row.host,
      startedAtMs: row.started_at_ms,
      heartbeatAtMs: row.heartbeat_at_ms,
      endedAtMs: row.ended_at_ms,
    }),
  );

export function runStore({ db }: StoreContext): RunStore {
  const last = reader(db, runRow, "SELECT * FROM runs ORDER BY started_at_ms DESC LIMIT 1");
  return {
    lastRun: async () => look("read the last run", () => last.get() ?? null),
    startRun: async ({ runId, version, configHash, pid, host }, nowMs) =>
      transact(db, "record the start", () => {
        db.prepare(
          `INSERT INTO runs (run_id, version, config_hash, pid, host, started_at_ms, heartbeat_at_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
        ).run(runId, version, configHash, pid, host, nowMs, nowMs);
      }),
    heartbeat: async (runId, nowMs) =>
      transact(db, "record a heartbeat", () => {
        db.prepare("UPDATE runs SET heartbeat_at_ms = ? WHERE run_id = ?").run(nowMs, runId);
      }),
    endRun: async (runId, nowMs) =>
      transact(db, "record the end", () => {
        db.prepare("UPDATE runs SET ended_at_ms = ? WHERE run_id = ?").run(nowMs, runId);
      }),
  };
}
