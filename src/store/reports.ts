/** The reads behind the commands (design §9): plain queries, no message text and no phone number in any answer. */
import { z } from "zod";
import { JOB_STATES, type JobState } from "../domain/jobs.ts";
import type {
  JobReport,
  LeadReport,
  ReconciliationReport,
  ReportStore,
  StatusReport,
} from "../domain/reports.ts";
import { countsSchema, iso, jobReportRow, lookUpsOf, reconciliationRow } from "./report-rows.ts";
import { look, reader, type StoreContext } from "./sql.ts";
import { tracer } from "./trace.ts";

const botRow = z.object({
  bot_id: z.number(),
  username: z.string().nullable(),
  poller_state: z.string(),
  next_offset: z.number().nullable(),
  last_completed_at_ms: z.number().nullable(),
  last_error: z.string().nullable(),
});
const oneNumber = z.object({ n: z.number().nullable() });
const destinationRow = z.object({
  name: z.string(),
  configured: z.number(),
  state: z.enum(["active", "paused"]),
  reason: z.string().nullable(),
  detail: z.string().nullable(),
});
const alertRow = z.object({
  kind: z.string(),
  subject: z.string(),
  message: z.string(),
  raised_at_ms: z.number(),
  times: z.number(),
});
const leadRow = z.object({
  operation_id: z.string(),
  code: z.string(),
  business_key: z.string(),
  action: z.string(),
  state: z.enum(["open", "failed", "cancelled", "completed"]),
  created_at_ms: z.number(),
  username: z.string().nullable(),
  user_id: z.number().nullable(),
});
const leadJobRow = z.object({
  name: z.string(),
  state: z.enum(JOB_STATES),
  external_id: z.string().nullable(),
  link: z.string().nullable(),
});
const eventKeyRow = z.object({ event_key: z.string() });

export function reportStore({ db }: StoreContext): ReportStore {
  const bot = reader(db, botRow, "SELECT * FROM bots ORDER BY bound_at_ms LIMIT 1");
  const updateCounts = reader(
    db,
    countsSchema,
    "SELECT state, count(*) AS n FROM updates WHERE state <> 'accepted' GROUP BY state",
  );
  const allUpdates = reader(db, oneNumber, "SELECT count(*) AS n FROM updates");
  const redelivered = reader(
    db,
    oneNumber,
    "SELECT sum(redelivered) AS n FROM updates WHERE redelivered > 0",
  );
  const jobCounts = reader(
    db,
    countsSchema,
    "SELECT state, count(*) AS n FROM jobs WHERE state <> 'done' GROUP BY state",
  );
  const allJobs = reader(db, oneNumber, "SELECT count(*) AS n FROM jobs");
  const oldestPending = reader(
    db,
    oneNumber,
    "SELECT min(created_at_ms) AS n FROM jobs WHERE state = 'pending'",
  );
  const destinations = reader(
    db,
    destinationRow,
    "SELECT * FROM destinations WHERE configured = 1 OR EXISTS (SELECT 1 FROM jobs j WHERE j.destination = destinations.destination AND j.state <> 'done') ORDER BY name",
  );
  const openReconciliations = reader(
    db,
    oneNumber,
    "SELECT count(*) AS n FROM reconciliations WHERE resolved_at_ms IS NULL",
  );
  const alerts = reader(
    db,
    alertRow,
    "SELECT * FROM alerts WHERE cleared_at_ms IS NULL ORDER BY raised_at_ms",
  );
  const leads = reader(
    db,
    leadRow,
    `SELECT o.operation_id, o.code, o.business_key, o.action, v.state, o.created_at_ms, c.username, c.user_id
     FROM operations o JOIN v_operations v USING (operation_id) LEFT JOIN contacts c ON c.contact_id = o.contact_id
     WHERE o.kind = 'lead' AND o.created_at_ms >= ? ORDER BY o.created_at_ms, o.rowid`,
  );
  const leadJobs = reader(
    db,
    leadJobRow,
    `SELECT coalesce(d.name, j.destination) AS name, j.state, j.external_id, j.link
     FROM jobs j LEFT JOIN destinations d ON d.destination = j.destination
     WHERE j.operation_id = ? AND j.step = 'lead' ORDER BY j.job_id`,
  );
  const eventKeys = reader(db, eventKeyRow, "SELECT event_key FROM operation_updates WHERE operation_id = ?");
  const jobList = reader(
    db,
    jobReportRow,
    `SELECT j.*, coalesce(d.name, j.destination) AS name FROM jobs j LEFT JOIN destinations d ON d.destination = j.destination
     WHERE (@state IS NULL OR j.state = @state) AND (@destination IS NULL OR coalesce(d.name, j.destination) = @destination)
     ORDER BY j.job_id`,
  );
  const reconciliations = reader(
    db,
    reconciliationRow,
    `SELECT r.*, j.operation_id, j.step, o.code, coalesce(d.name, j.destination) AS name, c.username, c.user_id
     FROM reconciliations r JOIN jobs j USING (job_id) JOIN operations o USING (operation_id)
       LEFT JOIN destinations d ON d.destination = j.destination LEFT JOIN contacts c ON c.contact_id = o.contact_id
     WHERE r.resolved_at_ms IS NULL ORDER BY r.opened_at_ms`,
  );

  /** Most rows are in one state: counted as the rest, so that no large table is grouped. */
  function countStates(
    most: string,
    all: number,
    others: { state: string; n: number }[],
  ): Map<string, number> {
    const rest = all - others.reduce((sum, { n }) => sum + n, 0);
    return new Map([...others.map(({ state, n }): [string, number] => [state, n]), [most, rest]]);
  }

  function countJobs(): Record<JobState, number> {
    const counts = countStates("done", allJobs.get()?.n ?? 0, jobCounts.all());
    const of = (state: JobState): number => counts.get(state) ?? 0;
    return {
      blocked: of("blocked"),
      pending: of("pending"),
      leased: of("leased"),
      done: of("done"),
      failed: of("failed"),
      needs_reconciliation: of("needs_reconciliation"),
      cancelled: of("cancelled"),
    };
  }

  function status(version: string, nowMs: number): StatusReport {
    const row = bot.get();
    const updates = countStates("accepted", allUpdates.get()?.n ?? 0, updateCounts.all());
    const oldest = oldestPending.get()?.n ?? null;
    return {
      version,
      bot: { id: row?.bot_id ?? null, username: row?.username ?? null },
      poller: {
        state: row?.poller_state ?? "never_started",
        next_offset: row?.next_offset ?? null,
        last_completed_at: iso(row?.last_completed_at_ms ?? null),
        last_error: row?.last_error ?? null,
      },
      updates: {
        accepted: updates.get("accepted") ?? 0,
        ignored: updates.get("ignored") ?? 0,
        quarantined: updates.get("quarantined") ?? 0,
        duplicates: redelivered.get()?.n ?? 0,
      },
      jobs: countJobs(),
      oldest_pending_age_s: oldest === null ? null : Math.max(0, Math.round((nowMs - oldest) / 1000)),
      destinations: destinations.all().map(({ name, configured, state, reason, detail }) => ({
        name,
        state: configured === 1 ? state : "unconfigured",
        reason: detail ?? reason,
      })),
      reconciliations_open: openReconciliations.get()?.n ?? 0,
      alerts: alerts.all().map(({ kind, subject, message, raised_at_ms, times }) => ({
        kind,
        subject,
        message,
        since: iso(raised_at_ms),
        times,
      })),
    };
  }

  return {
    status: async (version, nowMs) => look("read the status", () => status(version, nowMs)),

    leads: async (sinceMs) =>
      look("read the leads", () =>
        leads.all(sinceMs ?? 0).map(
          ({ created_at_ms, username, user_id, ...lead }): LeadReport => ({
            ...lead,
            created_at: iso(created_at_ms),
            contact: whereToFind(username, user_id),
            event_keys: eventKeys.all(lead.operation_id).map(({ event_key }) => event_key),
            destinations: leadJobs.all(lead.operation_id),
          }),
        ),
      ),

    jobs: async ({ state, destination }) =>
      look("read the jobs", (): JobReport[] =>
        jobList.all({ state: state ?? null, destination: destination ?? null }),
      ),

    openReconciliations: async () =>
      look("read the open reconciliations", () =>
        reconciliations.all().map(
          (row): ReconciliationReport => ({
            ...lookUpsOf(row),
            code: row.code,
            step: row.step,
            contact: whereToFind(row.username, row.user_id),
          }),
        ),
      ),

    trace: tracer(db),
  };
}

/** A person in Telegram, with neither name nor phone. */
function whereToFind(username: string | null, userId: number | null): string | null {
  if (username !== null) return `@${username}`;
  return userId === null ? null : `tg://user?id=${userId}`;
}
