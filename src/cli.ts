#!/usr/bin/env node
/** argv → command → exit code: the only code that runs at import. */
import type { Context } from "./commands/context.ts";
import { decideCommand } from "./commands/decide.ts";
import { pauseCommand, resumeCommand } from "./commands/destinations.ts";
import { explainFailure } from "./commands/failure.ts";
import type { Invocation } from "./commands/invocation.ts";
import { jobsCommand } from "./commands/jobs.ts";
import { leadsCommand } from "./commands/leads.ts";
import { parse } from "./commands/parse.ts";
import { reconcileListCommand } from "./commands/reconcile-list.ts";
import { statusCommand } from "./commands/status.ts";
import { makeTerminal } from "./commands/terminal.ts";
import { traceCommand } from "./commands/trace.ts";
import { EXIT, type ExitCode, unreachable } from "./domain/errors.ts";
import { systemClock } from "./system.ts";

const context: Context = {
  env: process.env,
  cwd: process.cwd(),
  clock: systemClock,
  terminal: makeTerminal(process, process.env),
};

// The exit code is set, not forced: what still stands in a pipe is written first.
process.exitCode = await main(process.argv.slice(2), context);

async function main(argv: readonly string[], context: Context): Promise<ExitCode> {
  try {
    return await carryOut(parse(argv, context.clock.now()), context);
  } catch (error) {
    return explainFailure(error, context);
  }
}

async function carryOut(invocation: Invocation, context: Context): Promise<ExitCode> {
  switch (invocation.command) {
    case "print":
      context.terminal[invocation.exitCode === EXIT.ok ? "out" : "err"](invocation.text.trimEnd());
      return invocation.exitCode;
    // A late import for what loads much that the others don't need.
    case "run":
      return (await import("./commands/run.ts")).runCommand(invocation.options, context);
    case "demo":
      return (await import("./commands/demo.ts")).demoCommand(invocation.options, context);
    case "check":
      return (await import("./commands/check.ts")).checkCommand(invocation.options, context);
    case "try":
      return (await import("./commands/try.ts")).tryCommand(invocation.options, context);
    case "status":
      return statusCommand(invocation.options, context);
    case "leads":
      return leadsCommand(invocation.options, context);
    case "jobs":
      return jobsCommand(invocation.options, context);
    case "trace":
      return traceCommand(invocation.options, context);
    case "reconcile list":
      return reconcileListCommand(invocation.options, context);
    case "decide":
      return decideCommand(invocation.options, context);
    case "retry update":
      return (await import("./commands/retry-update.ts")).retryUpdateCommand(invocation.options, context);
    case "pause":
      return pauseCommand(invocation.options, context);
    case "resume":
      return resumeCommand(invocation.options, context);
    default:
      return unreachable(invocation);
  }
}
