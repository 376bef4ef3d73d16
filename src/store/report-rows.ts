/** Rows as the reports show them: shared by the lists and the trace. */
import { z } from "zod";
import { asJobId } from "../domain/ids.ts";
import { JOB_STATES } from "../domain/jobs.ts";
import type { JobReport } from "../domain/reports.ts";

export function iso(ms: number): string;
export function iso(ms: number | null): string | null;
export function iso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

export const countsSchema = z.object({ state: z.string(), n: z.number() });

export const jobReportRow = z
  .object({
    job_id: z.number().transform(asJobId),
    operation_id: z.string(),
    name: z.string(),
    step: z.string(),
    state: z.enum(JOB_STATES),
    attempts: z.number(),
    run_at_ms: z.number(),
    reason: z.string().nullable(),
    external_id: z.string().nullable(),
    detail: z.string().nullable(),
  })
  .transform(
    ({ name, run_at_ms, job_id, operation_id, ...row }): JobReport => ({
      job_id,
      operation_id,
      destination: name,
      ...row,
      run_at: iso(run_at_ms),
    }),
  );

const evidence = z.string().transform((json) =>
  z
    .array(
      z.object({ at_ms: z.number(), found: z.array(z.string()).nullable(), detail: z.string().nullable() }),
    )
    .parse(JSON.parse(json))
    .map(({ at_ms, ...seen }) => ({ at: iso(at_ms), ...seen })),
);

export const reconciliationRow = z.object({
  job_id: z.number(),
  operation_id: z.string(),
  name: z.string(),
  step: z.string(),
  code: z.string(),
  username: z.string().nullable(),
  user_id: z.number().nullable(),
  reason: z.string(),
  opened_at_ms: z.number(),
  checks: z.number(),
  next_check_at_ms: z.number().nullable(),
  resolved_at_ms: z.number().nullable(),
  resolution: z.string().nullable(),
  evidence,
});

/** What the lists and the trace both tell of a reconciliation. */
export function lookUpsOf(row: z.infer<typeof reconciliationRow>) {
  return {
    job_id: asJobId(row.job_id),
    operation_id: row.operation_id,
    destination: row.name,
    reason: row.reason,
    opened_at: iso(row.opened_at_ms),
    checks: row.checks,
    next_check_at: iso(row.next_check_at_ms),
    evidence: row.evidence,
  };
}
