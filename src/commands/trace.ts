/**
 * `leadonce trace`: the whole way of one enquiry as a time line, from whatever a person has in hand. What they had in
 * hand may be a phone number, so it is never printed (P5).
 */
import { EXIT, type ExitCode, unreachable } from "../domain/errors.ts";
import { reasonText } from "../domain/explain.ts";
import type { JobReport, TraceReport } from "../domain/reports.ts";
import { type Context, reading } from "./context.ts";
import type { TraceOptions } from "./invocation.ts";
import { failedCommands, STATE_FORMATS } from "./jobs.ts";
import { oneLine, type Terminal } from "./terminal.ts";
import { count, json, until } from "./text.ts";

const NOTHING: TraceReport = {
  updates: [],
  operations: [],
  jobs: [],
  attempts: [],
  reconciliations: [],
  operator_actions: [],
};

export async function traceCommand(options: TraceOptions, context: Context): Promise<ExitCode> {
  const trace = await reading(options, context, (store) => store.trace(options.anything));
  const { terminal, clock } = context;
  if (options.json) terminal.out(json(trace ?? NOTHING));
  else if (trace !== null) for (const line of traceText(trace, clock.now(), terminal)) terminal.out(line);
  else {
    terminal.err(
      "Nothing stored matches that. It can be an update id, an event key, an operation id or code, a record's id, a\n" +
        "phone number with its country code, or a @username. Recent leads: leadonce leads --since 2d",
    );
  }
  return trace === null ? EXIT.found : EXIT.ok;
}

export function traceText(trace: TraceReport, nowMs: number, terminal: Pick<Terminal, "style">): string[] {
  return [
    ...timeLine(trace).map(({ at, what }) => `${terminal.style("dim", at)}  ${oneLine(what)}`),
    "",
    ...trace.jobs.map((job) => standing(job, nowMs, terminal)),
    ...(trace.jobs.length === 0 ? [noJobs(trace)] : []),
  ];
}

interface Moment {
  /** ISO 8601, so that text order is time order. */
  at: string;
  what: string;
}

function timeLine(trace: TraceReport): Moment[] {
  const jobsOf = (id: string): JobReport[] => trace.jobs.filter(({ operation_id }) => operation_id === id);
  const moments = [
    ...trace.updates.map(updateMoment),
    ...trace.operations.flatMap((operation) => [
      {
        at: operation.created_at,
        what: `${operation.kind} ${operation.code} made by action ${operation.action} (${operation.business_key})`,
      },
      ...jobsOf(operation.operation_id).map((job) => ({
        at: operation.created_at,
        what: `job ${job.job_id} made: ${job.step} at ${job.destination}`,
      })),
    ]),
    ...trace.attempts.flatMap(attemptMoments),
    ...trace.reconciliations.flatMap(reconciliationMoments),
    ...trace.operator_actions.map(({ at, who, action, job_id, why, detail }) => ({
      at,
      what: `${who} decided ${action}${job_id === null ? "" : ` of job ${job_id}`}${detail === null ? "" : `, ${detail}`}${why === null ? "" : `: ${why}`}`,
    })),
  ];
  // Sorting is stable: what happened in one transaction stays in the order of cause and effect.
  return moments.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

function updateMoment(update: TraceReport["updates"][number]): Moment {
  const { update_id, kind, state, reason, redelivered, event_key } = update;
  const again = redelivered === 0 ? "" : `; came again ${count(redelivered, "time")}, absorbed`;
  return {
    at: update.received_at,
    what: `update ${update_id ?? "without id"} (${kind}) ${state}${reason === null ? "" : `: ${reason}`} (${event_key})${again}`,
  };
}

function attemptMoments(attempt: TraceReport["attempts"][number]): Moment[] {
  const name = `job ${attempt.job_id} attempt ${attempt.n}`;
  const began = { at: attempt.begun_at, what: `${name} begun` };
  if (attempt.ended_at === null) return [{ ...began, what: `${name} begun, not ended yet` }];
  const parts = [
    attempt.status === null ? null : `HTTP ${attempt.status}`,
    attempt.external_id === null ? null : `record ${attempt.external_id}`,
    attempt.detail,
  ].filter((part) => part !== null);
  const ended = `${name} ended: ${attempt.outcome ?? "?"}${parts.length === 0 ? "" : ` (${parts.join(", ")})`}`;
  return [began, { at: attempt.ended_at, what: ended }];
}

function reconciliationMoments(row: TraceReport["reconciliations"][number]): Moment[] {
  const name = `job ${row.job_id}`;
  return [
    { at: row.opened_at, what: `${name} parked: ${row.reason}. ${reasonText(row.reason).why}` },
    ...row.evidence.map(({ at, found, detail }) => {
      const saw = found === null ? null : found.length === 0 ? "found nothing" : `found ${found.join(", ")}`;
      return { at, what: `${name} looked up: ${[saw, detail].filter((part) => part !== null).join(", ")}` };
    }),
    ...(row.resolved_at === null
      ? []
      : [{ at: row.resolved_at, what: `${name} settled: ${row.resolution ?? "?"}` }]),
  ];
}

/** How each job stands now, and what is next for one that is not done. */
function standing(job: JobReport, nowMs: number, terminal: Pick<Terminal, "style">): string {
  const state = terminal.style(STATE_FORMATS[job.state], job.state);
  const record = job.external_id === null ? "" : `, record ${oneLine(job.external_id)}`;
  const next = nextStep(job, nowMs);
  return `job ${job.job_id} (${job.step} at ${job.destination}) is ${state}${record}${next === null ? "" : `: ${next}`}`;
}

function nextStep({ job_id, state, run_at }: JobReport, nowMs: number): string | null {
  switch (state) {
    case "blocked":
      return "it waits for the job that it follows";
    case "pending":
      return `due ${until(run_at, nowMs)}`;
    case "leased":
      return "it is being sent";
    case "failed":
      return failedCommands(job_id);
    case "needs_reconciliation":
      return "leadonce reconcile list";
    case "done":
    case "cancelled":
      return null;
    default:
      return unreachable(state);
  }
}

function noJobs({ updates }: TraceReport): string {
  const again = updates.find(({ state }) => state !== "accepted");
  if (again === undefined) return "It made no job.";
  return `It made no job. Decide it again with the configuration as it is now: leadonce retry --update ${again.event_key}`;
}
