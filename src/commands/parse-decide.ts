/** The command lines by which a person decides: which jobs, what, and why. */
import type { Command } from "commander";
import { UsageError } from "../domain/errors.ts";
import { asJobId, type JobId } from "../domain/ids.ts";
import type { Decision } from "../domain/store.ts";
import type { Chosen, Invocation, WaitingState } from "./invocation.ts";
import { type Choose, examples, globals, type Line, read } from "./parse-line.ts";

export function addDeciding(program: Command, choose: Choose): void {
  program.commandsGroup("Decide:");
  const reconcile = program
    .command("reconcile")
    .description("decide what is unknown: the record may or may not exist")
    .addHelpText(
      "after",
      examples("leadonce reconcile list", "leadonce reconcile link 7 4711", "leadonce reconcile recreate 7"),
    );
  reconcile
    .command("list")
    .description("what is unknown: why, what is safe, what the look-ups saw, and the next command")
    .addHelpText("after", examples("leadonce reconcile list"))
    .action((_options, command: Command) =>
      choose({ command: "reconcile list", options: globals(read(command)) }),
    );
  addLink(
    reconcile,
    "the record exists: note its id, send nothing",
    "leadonce reconcile link 7 4711",
    choose,
  );
  chosenJobs(reconcile.command("recreate"))
    .description("the record certainly does not exist: send the same request once more")
    .option("--why <text>", "recorded with the decision")
    .addHelpText(
      "after",
      examples("leadonce reconcile recreate 7", 'leadonce reconcile recreate 7 --why "not in the CRM"'),
    )
    .action((jobs: string[], _options, command: Command) =>
      choose(decide(jobs, read(command), "needs_reconciliation", { kind: "recreate" })),
    );
  addDismiss(reconcile, "needs_reconciliation", "leadonce reconcile dismiss", choose);

  chosenJobs(program.command("retry"))
    .description("send what failed again, made anew with the configuration as it is now")
    .option("--update <key>", "decide a quarantined or ignored update again")
    .option("--why <text>", "recorded with the decision")
    .addHelpText(
      "after",
      examples(
        "leadonce retry 7",
        "leadonce retry --all --destination sales",
        "leadonce retry --update tg:123456:987654321:0f3a9c21",
      ),
    )
    .action((jobs: string[], _options, command: Command) => choose(retry(jobs, read(command))));
  addLink(program, "the record exists after all: note its id, send nothing", "leadonce link 7 4711", choose);
  addDismiss(program, "failed", "leadonce dismiss", choose);
  program
    .command("pause")
    .description("stop sending to a destination; its jobs wait")
    .argument("<name>", "the destination's name in the configuration")
    .option("--why <text>", "recorded, and shown by status")
    .addHelpText("after", examples('leadonce pause sales --why "the CRM is being moved"'))
    .action((name: string, _options, command: Command) => {
      const { why, ...rest } = read(command);
      choose({ command: "pause", options: { ...globals(rest), name, why } });
    });
  program
    .command("resume")
    .description("send to a destination again, whatever paused it")
    .argument("<name>", "the destination's name in the configuration")
    .option("--why <text>", "recorded with the decision")
    .addHelpText("after", examples("leadonce resume sales"))
    .action((name: string, _options, command: Command) => {
      const { why, ...rest } = read(command);
      choose({ command: "resume", options: { ...globals(rest), name, why } });
    });
}

function addLink(parent: Command, description: string, example: string, choose: Choose): void {
  parent
    .command("link")
    .description(description)
    .argument("<job>", "the job's number")
    .argument("<id>", "the record's id at the destination")
    .option("--why <text>", "recorded with the decision")
    .addHelpText("after", examples(example))
    .action((job: string, id: string, _options, command: Command) => {
      const { why, ...rest } = read(command);
      const externalId = id.trim();
      if (externalId === "") throw new UsageError("the record's id is empty", `For example: ${example}`);
      const chosen: Chosen = { kind: "jobs", jobs: [jobNumber(job)] };
      choose({
        command: "decide",
        options: { ...globals(rest), decision: { kind: "link", externalId }, chosen, why },
      });
    });
}

function addDismiss(parent: Command, state: WaitingState, spelling: string, choose: Choose): void {
  chosenJobs(parent.command("dismiss"))
    .description("it shall not happen; that is final")
    .option("--why <text>", "recorded with the decision (needed)")
    .option("--with-notes", "also dismiss the notes that follow a lead; without it they wait as failed")
    .addHelpText("after", examples(`${spelling} 7 --why "a test of ours"`))
    .action((jobs: string[], _options, command: Command) => {
      const options = read(command);
      if (options.why === null) {
        throw new UsageError("say why it is dismissed", `For example: ${spelling} 7 --why "a test of ours"`);
      }
      choose(decide(jobs, options, state, { kind: "dismiss", withNotes: options.withNotes }));
    });
}

function chosenJobs(command: Command): Command {
  return command
    .argument("[job...]", "the numbers of the jobs")
    .option("--all", "every job that waits for this decision; shows how many, and asks")
    .option("--destination <name>", "with --all: only those of this destination")
    .option("--yes", "with --all: don't ask");
}

function decide(jobs: readonly string[], options: Line, state: WaitingState, decision: Decision): Invocation {
  const chosen = chosenBy(jobs, options, state);
  return { command: "decide", options: { ...globals(options), decision, chosen, why: options.why } };
}

function retry(jobs: readonly string[], options: Line): Invocation {
  const { update } = options;
  if (update === null) return decide(jobs, options, "failed", { kind: "retry" });
  if (jobs.length > 0 || options.all) {
    throw new UsageError("--update stands alone", "Retry jobs and updates with one command each.");
  }
  return { command: "retry update", options: { ...globals(options), update } };
}

function chosenBy(jobs: readonly string[], options: Line, state: WaitingState): Chosen {
  const { all, destination, yes } = options;
  if (all && jobs.length > 0) throw new UsageError("name jobs or take --all, not both");
  if (all) return { kind: "all", state, destination, yes };
  if (destination !== null) {
    throw new UsageError("--destination narrows --all down", "Add --all, or leave --destination out.");
  }
  if (jobs.length === 0) {
    throw new UsageError(
      "say which jobs: their numbers, or --all",
      `See them: leadonce ${state === "failed" ? "jobs --state failed" : "reconcile list"}`,
    );
  }
  return { kind: "jobs", jobs: [...new Set(jobs.map(jobNumber))] };
}

function jobNumber(text: string): JobId {
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new UsageError("a job is named by its number, such as 7", "See the numbers: leadonce jobs");
  }
  return asJobId(Number(text));
}
