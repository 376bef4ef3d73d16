/** argv → a plain value, and the help that teaches the commands. Runs nothing: a mistyped line does no harm. */
import { Command, CommanderError, Option } from "commander";
import { assert, EXIT, UsageError } from "../domain/errors.ts";
import { JOB_STATES } from "../domain/jobs.ts";
import { VERSION } from "../version.ts";
import type { Invocation } from "./invocation.ts";
import { addDeciding } from "./parse-decide.ts";
import { type Choose, examples, globals, read } from "./parse-line.ts";
import { parseSince } from "./since.ts";

/** @throws UsageError for a command line that we don't understand */
export function parse(argv: readonly string[], nowMs: number): Invocation {
  const chosen: Invocation[] = [];
  const choose: Choose = (invocation) => void chosen.push(invocation);
  let help = "";
  const keep = (text: string): void => {
    help += text;
  };
  // Mistakes are thrown and printed in one place, by cli.ts. Subcommands inherit what is set before they are added.
  const program = new Command("leadonce")
    .exitOverride()
    .configureOutput({ writeOut: keep, writeErr: keep, outputError: () => {} })
    .configureHelp({ showGlobalOptions: true, subcommandTerm: (command) => command.name() });
  describeProgram(program);
  addStarting(program, choose);
  addLooking(program, choose, nowMs);
  addDeciding(program, choose);
  try {
    program.parse(argv, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return { command: "print", text: help, exitCode: EXIT.ok };
    if (error.code === "commander.help") return { command: "print", text: help, exitCode: EXIT.usage };
    throw usageError(error, program, argv);
  }
  const [invocation] = chosen;
  assert(invocation !== undefined, "a command line was parsed into no command");
  return invocation;
}

function usageError(error: CommanderError, program: Command, argv: readonly string[]): UsageError {
  const [message = "", ...suggestion] = error.message.replace(/^error: /, "").split("\n");
  const name = program.commands.map((command) => command.name()).find((known) => argv.includes(known));
  const see = `See: leadonce ${name === undefined ? "" : `${name} `}--help`;
  return new UsageError(message, [...suggestion, see].join(" "));
}

function describeProgram(program: Command): void {
  program
    .description(
      "leadonce makes each message that a customer writes to your Telegram bot a lead in your CRM, exactly once.",
    )
    .usage("<command> [--config PATH] [--json]")
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "print help, also for one command")
    .helpCommand(false)
    .option("--config <path>", "the configuration file (default: LEADONCE_CONFIG, else service.conf)")
    .option("--json", "print JSON, for other programs")
    .addHelpText(
      "after",
      `
The usual order:
  leadonce demo               see it work, with nothing to sign up for
  leadonce check              is the configuration right, does every destination answer?
  leadonce try                which request would a message make? Nothing is sent
  leadonce run                start the daemon
  leadonce status             is it well, does anything wait for a person?
  leadonce leads --since 2h   who wrote, and what became of it
  leadonce trace @username    the whole way of one enquiry

Commands may run while the daemon runs. Exit codes: 0 fine, 1 a check found something, 64 usage,
69 unreachable, 70 a bug, 74 storage, 75 another instance, 78 configuration.`,
    );
}

// ---- start --------------------------------------------------------------------------------------------------------

function addStarting(program: Command, choose: Choose): void {
  program.commandsGroup("Start:");
  program
    .command("run")
    .description("run the daemon in the foreground; Ctrl-C or SIGTERM ends it with nothing lost")
    .addHelpText("after", examples("leadonce run", "leadonce run --config /etc/leadonce/service.conf"))
    .action((_options, command: Command) => choose({ command: "run", options: globals(read(command)) }));
  program
    .command("demo")
    .description(
      "show the main job on stand-ins for Telegram and a CRM: lost answers, a crash, no second lead",
    )
    .addHelpText("after", examples("leadonce demo"))
    .action((_options, command: Command) => choose({ command: "demo", options: globals(read(command)) }));
  program
    .command("check")
    .description("test configuration, database, bot and destinations; exit 1 if anything is wrong")
    .option("--offline", "ask neither Telegram nor a destination")
    .addHelpText("after", examples("leadonce check", "leadonce check --offline"))
    .action((_options, command: Command) => {
      const options = read(command);
      choose({ command: "check", options: { ...globals(options), offline: options.offline } });
    });
  program
    .command("try")
    .description("rehearse a message: the action that takes it, its keys, the requests it would make")
    .option("--update <file>", "an update as Telegram sends it, as JSON (default: a sample)")
    .option("--destination <name>", "only this destination")
    .option("--send", "make one record marked TEST, and look it up again")
    .addHelpText("after", examples("leadonce try", "leadonce try --destination sales --send"))
    .action((_options, command: Command) => {
      const { update, destination, send, ...rest } = read(command);
      choose({ command: "try", options: { ...globals(rest), update, destination, send } });
    });
}

// ---- look ---------------------------------------------------------------------------------------------------------

function addLooking(program: Command, choose: Choose, nowMs: number): void {
  program.commandsGroup("Look:");
  program
    .command("status")
    .description("is it well: the poller, counts, destinations, and what waits for a person")
    .addHelpText("after", examples("leadonce status", "leadonce status --json"))
    .action((_options, command: Command) => choose({ command: "status", options: globals(read(command)) }));
  program
    .command("leads")
    .description("the ledger: every lead, and what became of it at each destination")
    .option("--since <when>", 'a time span such as "2h" or "7d", or an ISO date')
    .addHelpText("after", examples("leadonce leads --since 2h", "leadonce leads --since 2026-11-30 --json"))
    .action((_options, command: Command) => {
      const { since, ...rest } = read(command);
      const sinceMs = since === null ? null : parseSince(since, nowMs);
      choose({ command: "leads", options: { ...globals(rest), sinceMs } });
    });
  program
    .command("jobs")
    .description("jobs: one line per effect at a destination")
    .addOption(new Option("--state <state>", "only jobs in this state").choices(JOB_STATES))
    .option("--destination <name>", "only jobs of this destination")
    .addHelpText("after", examples("leadonce jobs --state failed", "leadonce jobs --destination sales"))
    .action((_options, command: Command) => {
      const { state, destination, ...rest } = read(command);
      choose({ command: "jobs", options: { ...globals(rest), state, destination } });
    });
  program
    .command("trace")
    .description("the whole time line of one enquiry")
    .argument(
      "<anything>",
      "an update id, event key, operation id or code, a record's id, a phone number or a @username",
    )
    .addHelpText("after", examples("leadonce trace @username", "leadonce trace 7KQ2-M0XA-93TF"))
    .action((anything: string, _options, command: Command) =>
      choose({ command: "trace", options: { ...globals(read(command)), anything } }),
    );
}
