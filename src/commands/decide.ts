/**
 * `retry`, `link`, `recreate`, `dismiss`: what a person decides about jobs (design §4, P3). The store judges whether a
 * decision applies, and records who decided and why in the same transaction; a job that it does not apply to is left
 * as it is, with the reason and the next command.
 */
import { EXIT, type ExitCode, UsageError, unreachable } from "../domain/errors.ts";
import type { JobId } from "../domain/ids.ts";
import { isFinal, type JobState } from "../domain/jobs.ts";
import type { JobReport } from "../domain/reports.ts";
import type { Decision } from "../domain/store.ts";
import type { Store } from "../store/index.ts";
import { type Context, deciding, operatorOf } from "./context.ts";
import { type DecisionReport, decisionText } from "./decision-text.ts";
import { destinationNamed } from "./destinations.ts";
import type { DecideOptions } from "./invocation.ts";
import type { Terminal } from "./terminal.ts";
import { count, json } from "./text.ts";

export async function decideCommand(options: DecideOptions, context: Context): Promise<ExitCode> {
  const { terminal } = context;
  const report = await deciding(options, context, async (store) => {
    const jobs = await chosenJobs(options, store);
    if (!(await agreed(jobs, options, terminal))) return null;
    return carryOut(jobs, options, context, store);
  });
  if (report === null) {
    terminal.err("Nothing was changed.");
    return EXIT.ok;
  }
  if (options.json) terminal.out(json(report));
  else for (const text of decisionText(report, options.decision)) terminal.out(text);
  const unknown = report.refused.filter(({ state }) => state === null).map(({ job_id }) => job_id);
  if (unknown.length > 0) {
    throw new UsageError(`there is no job ${unknown.join(", ")}`, "See the numbers: leadonce jobs");
  }
  return report.refused.length > 0 ? EXIT.found : EXIT.ok;
}

async function carryOut(
  jobs: readonly ChosenJob[],
  options: DecideOptions,
  { env, clock }: Context,
  store: Store,
): Promise<DecisionReport> {
  const operator = operatorOf(options.why, env);
  const names = new Map((await store.destinations()).map(({ key, name }) => [key, name]));
  const report: DecisionReport = { applied: [], refused: [] };
  for (const { id: jobId } of jobs) {
    const decided = await store.decideJob(jobId, options.decision, operator, clock.now());
    switch (decided.kind) {
      case "applied": {
        const [first, ...followers] = decided.transitions;
        if (first === undefined) break;
        report.applied.push({
          job_id: jobId,
          operation_id: first.operationId,
          destination: names.get(first.destination) ?? first.destination,
          step: first.step,
          state: first.to,
          reason: first.reason,
          external_id: first.externalId,
          following: followers.map(({ jobId: job_id, step, to }) => ({ job_id, step, state: to })),
        });
        break;
      }
      case "not_applicable":
        report.refused.push({ job_id: jobId, state: decided.state, why: decided.why });
        break;
      case "no_such_job":
        report.refused.push({ job_id: jobId, state: null, why: "there is no such job" });
        break;
      default:
        unreachable(decided);
    }
  }
  return report;
}

// ---- which jobs ---------------------------------------------------------------------------------------------------

interface ChosenJob {
  id: JobId;
  /** Null where the job was named by its number. */
  state: JobState | null;
}

async function chosenJobs({ chosen, decision }: DecideOptions, store: Store): Promise<ChosenJob[]> {
  if (chosen.kind === "jobs") return chosen.jobs.map((id) => ({ id, state: null }));
  const { state } = chosen;
  if (chosen.destination === null) return (await store.jobs({ state })).map(toChosen);
  const { name: destination, configured } = await destinationNamed(chosen.destination, store);
  // Where the configuration no longer names the destination nothing moves by itself, so all that is not over waits.
  if (!configured && decision.kind === "dismiss") {
    return (await store.jobs({ destination })).filter((job) => !isFinal(job.state)).map(toChosen);
  }
  return (await store.jobs({ state, destination })).map(toChosen);
}

function toChosen({ job_id, state }: JobReport): ChosenJob {
  return { id: job_id, state };
}

/** `--all` may mean more than a person thinks of: it says how much that is, and waits for a yes. */
async function agreed(
  jobs: readonly ChosenJob[],
  { chosen, decision }: DecideOptions,
  terminal: Terminal,
): Promise<boolean> {
  if (chosen.kind === "jobs" || chosen.yes || jobs.length === 0) return true;
  const amount = `${count(jobs.length, "job")} (${statesOf(jobs)})`;
  const answer = await terminal.confirm(`${IMPERATIVE[decision.kind]} ${amount}?`);
  if (answer !== null) return answer;
  throw new UsageError(
    `--all means ${amount}, and there is no terminal to ask you at; nothing was changed`,
    "If you mean it, add --yes.",
  );
}

const IMPERATIVE: Readonly<Record<Decision["kind"], string>> = {
  retry: "Retry",
  link: "Link",
  recreate: "Recreate",
  dismiss: "Dismiss",
};

function statesOf(jobs: readonly ChosenJob[]): string {
  const states = jobs.map(({ state }) => state);
  const counts = [...new Set(states)].map((state) => `${states.filter((s) => s === state).length} ${state}`);
  return counts.join(", ");
}
