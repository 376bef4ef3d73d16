/**
 * `leadonce try`: rehearses the configuration on one update, from the action that takes it to the requests that would
 * leave. It writes nothing and needs no database; only `--send` sends, one record marked TEST for each CRM.
 */
import { randomBytes } from "node:crypto";
import type { AppSettings } from "../app.ts";
import { EXIT, type ExitCode } from "../domain/errors.ts";
import type { PlannedOperation } from "../domain/operation.ts";
import { redactor } from "../operator/log.ts";
import { systemClock } from "../system.ts";
import { settingsFor } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { TryOptions } from "./invocation.ts";
import { json } from "./text.ts";
import { contextOf, type Rehearsal, rehearse, type Stage } from "./try/rehearsal.ts";
import { sendTest, type TestReport, type TestTarget, testOperation } from "./try/send.ts";
import { makeStage } from "./try/stage.ts";
import { rehearsalText, testText } from "./try/text.ts";
import { readUpdate, sampleUpdate } from "./try/update.ts";

/** @throws ConfigError, UsageError */
export async function tryCommand(
  options: TryOptions,
  context: Context,
  output: NodeJS.WritableStream = process.stdout,
): Promise<ExitCode> {
  const { clock, cwd, terminal } = context;
  const settings = settingsFor(options, context);
  const { actions, secretValues } = settings;
  const element =
    options.update === null ? sampleUpdate(actions, clock.now()) : readUpdate(options.update, cwd);
  const print = printer(output, secretValues);
  const stage = await makeStage(settings, options.destination, clock.now());
  try {
    const { rehearsal, operations } = rehearse(element, stage);
    if (!options.json) for (const line of rehearsalText(rehearsal, terminal)) print(line);
    const targets = options.send ? targetsOf(operations, stage, settings) : [];
    const sent = (await agreed(targets, context))
      ? await sendAll(targets, stage, options, context, print)
      : [];
    if (options.json) print(json({ ...rehearsal, ...(options.send ? { sent } : {}) }));
    if (options.send && targets.length === 0) {
      terminal.err("Nothing was sent: this update makes no request to a CRM.");
      return EXIT.found;
    }
    return exitCode(rehearsal, sent);
  } finally {
    await Promise.all([...stage.connectors.values()].map((connector) => connector.close()));
  }
}

/** What a terminal would obey, except line ends, tabs and the colours that are ours: a customer or a CRM wrote it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /\u001b(?!\[\d{1,2}m)|[^\P{Cc}\n\t\u001b]/gu;

/**
 * Not the terminal's own print, which masks phone numbers: what the person's own update is rendered to is what they
 * ask to see. Secrets stay hidden, in the spellings that an address may give them (P5).
 */
function printer(output: NodeJS.WritableStream, secrets: readonly string[]): (text: string) => void {
  const addresses = secrets.filter((secret) => URL.canParse(secret)).map((secret) => new URL(secret).href);
  const redact = redactor([...secrets, ...addresses, ...addresses.map((href) => href.replace(/\/+$/, ""))]);
  return (text) => void output.write(`${redact(text).replace(CONTROLS, "")}\n`);
}

// ---- --send ---------------------------------------------------------------------------------------------------------

type Target = TestTarget & { operation: PlannedOperation };

/** The jobs that send something; the ledger needs no trial. */
function targetsOf(
  operations: readonly PlannedOperation[],
  { names, connectors }: Stage,
  { destinations }: AppSettings,
): Target[] {
  return operations.flatMap((operation) =>
    operation.jobs.flatMap(({ destination: key, step }) => {
      const connector = connectors.get(key);
      const settings = destinations.find((one) => one.key === key)?.steps[step];
      if (connector === undefined || settings === undefined) return [];
      return [{ destination: names.get(key) ?? key, step, connector, settings, operation }];
    }),
  );
}

/** `--send` says it; on a terminal it is asked once more, since a record in a CRM is seen by others. */
async function agreed(targets: readonly Target[], { terminal }: Context): Promise<boolean> {
  if (targets.length === 0) return true;
  const where = targets.map(({ destination }) => destination).join(", ");
  const answer = await terminal.confirm(`Make one record marked TEST at ${where}?`);
  if (answer === false) terminal.err("Nothing was sent.");
  return answer ?? true;
}

async function sendAll(
  targets: readonly Target[],
  { intake, nowMs }: Stage,
  options: TryOptions,
  { terminal }: Context,
  print: (text: string) => void,
): Promise<TestReport[]> {
  const reports: TestReport[] = [];
  for (const target of targets) {
    const operation = testOperation(target.operation, intake.bot.id, randomBytes(8).toString("hex"));
    const context = contextOf(operation, target.step, intake.bot, nowMs);
    const report = await sendTest(target, operation, context, systemClock);
    if (!options.json) for (const line of ["", ...testText(report, terminal)]) print(line);
    reports.push(report);
  }
  return reports;
}

function exitCode(rehearsal: Rehearsal, sent: readonly TestReport[]): ExitCode {
  const jobs = rehearsal.operations.flatMap((operation) => operation.jobs);
  const failed = sent.filter(({ problems }) => problems.length > 0);
  if (rehearsal.state === "quarantined" || jobs.some(({ problem }) => problem !== null)) return EXIT.found;
  if (failed.length === 0) return EXIT.ok;
  return failed.every(({ unreachable }) => unreachable) ? EXIT.unreachable : EXIT.found;
}
