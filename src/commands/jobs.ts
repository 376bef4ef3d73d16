/** `leadonce jobs`: one line per effect at a destination, and the next step for those that wait for a person (P4). */
import { EXIT, type ExitCode } from "../domain/errors.ts";
import { reasonText } from "../domain/explain.ts";
import { asOperationId, operationCode } from "../domain/ids.ts";
import { isFinal, type JobState } from "../domain/jobs.ts";
import type { JobReport } from "../domain/reports.ts";
import { type Context, reading } from "./context.ts";
import { destinationNamed } from "./destinations.ts";
import type { JobsOptions } from "./invocation.ts";
import { type Format, oneLine, type Terminal } from "./terminal.ts";
import { count, json, table, until } from "./text.ts";

/** The same colours wherever a job's state is shown. */
export const STATE_FORMATS: Readonly<Record<JobState, Format>> = {
  blocked: "cyan",
  pending: "cyan",
  leased: "cyan",
  done: "green",
  failed: "red",
  needs_reconciliation: "yellow",
  cancelled: "dim",
};

export async function jobsCommand(options: JobsOptions, context: Context): Promise<ExitCode> {
  const { state, destination } = options;
  const jobs = await reading(options, context, async (store) =>
    store.jobs({
      ...(state === null ? {} : { state }),
      ...(destination === null ? {} : { destination: (await destinationNamed(destination, store)).name }),
    }),
  );
  const { terminal, clock } = context;
  if (options.json) terminal.out(json(jobs));
  else for (const line of jobsText(jobs, clock.now(), terminal)) terminal.out(line);
  return EXIT.ok;
}

export function jobsText(
  jobs: readonly JobReport[],
  nowMs: number,
  terminal: Pick<Terminal, "style">,
): string[] {
  if (jobs.length === 0) return ["No such job. Is all well? leadonce status"];
  const header = ["job", "code", "destination", "step", "state", "attempts", "due", "reason", "record"];
  return [
    ...table([
      header.map((name) => terminal.style("dim", name)),
      ...jobs.map((job) => [
        String(job.job_id),
        operationCode(asOperationId(job.operation_id)),
        job.destination,
        job.step,
        terminal.style(STATE_FORMATS[job.state], job.state),
        String(job.attempts),
        job.state === "pending" ? until(job.run_at, nowMs) : "",
        isFinal(job.state) ? "" : (job.reason ?? ""),
        oneLine(job.external_id ?? ""),
      ]),
    ]),
    "",
    `${count(jobs.length, "job")}.`,
    ...failedText(jobs.filter(({ state }) => state === "failed")),
    ...(jobs.some(({ state }) => state === "needs_reconciliation")
      ? ["", "What is unknown, and what is safe: leadonce reconcile list"]
      : []),
  ];
}

/** Many jobs fail for one reason, so each reason is explained once. */
function failedText(failed: readonly JobReport[]): string[] {
  const byReason = new Map<string, JobReport[]>();
  for (const job of failed) {
    const reason = job.reason ?? "";
    byReason.set(reason, [...(byReason.get(reason) ?? []), job]);
  }
  return [...byReason].flatMap(([reason, jobs]) => {
    const { why, safe } = reasonText(reason);
    const details = [...new Set(jobs.map(({ detail }) => oneLine(detail ?? "")))].filter(Boolean);
    const [first] = jobs;
    return [
      "",
      `${count(jobs.length, "failed job")} (${reason}): ${why}`,
      ...details.slice(0, 3).map((detail) => `  it said: ${detail}`),
      `  safe: ${safe}`,
      ...(first === undefined ? [] : [`  next: ${failedCommands(first.job_id)}`]),
    ];
  });
}

/** What a person can do with a failed job. */
export function failedCommands(job: JobReport["job_id"]): string {
  return `leadonce retry ${job} · leadonce link ${job} ID · leadonce dismiss ${job} --why "…"`;
}
