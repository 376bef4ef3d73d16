/**
 * `leadonce check`: is the configuration right, and does everything answer? It changes nothing, makes no record, and
 * may run beside the daemon: it neither polls nor takes the lock.
 */
import { randomBytes } from "node:crypto";
import type { AppSettings } from "../app.ts";
import type { Config } from "../config/index.ts";
import { ConfigError, EXIT, type ExitCode } from "../domain/errors.ts";
import { checkClock } from "./check/clock.ts";
import { checkDestination } from "./check/destination.ts";
import { type CheckResult, checkText, configProblems, ok, skipped } from "./check/result.ts";
import { checkSafety } from "./check/safety.ts";
import { checkStorage } from "./check/storage.ts";
import { checkBot, checkToken } from "./check/telegram.ts";
import { readConfiguration, settingsFor } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { CheckOptions } from "./invocation.ts";
import { count, json } from "./text.ts";

/** @throws ConfigError when the file is wrong, unless JSON is asked for */
export async function checkCommand(options: CheckOptions, context: Context): Promise<ExitCode> {
  const { results, misconfigured } = await checkAll(options, context);
  const { terminal } = context;
  if (options.json) terminal.out(json(results));
  else for (const line of checkText(results, terminal)) terminal.out(line);
  if (misconfigured) return EXIT.config;
  return results.some(({ state }) => state === "problem") ? EXIT.found : EXIT.ok;
}

interface Checks {
  results: CheckResult[];
  misconfigured: boolean;
}

async function checkAll(options: CheckOptions, context: Context): Promise<Checks> {
  try {
    const config = readConfiguration(options, context);
    const { settings, results: secrets } = readSecrets(options, context);
    const storage = await checkStorage(config.databasePath, context.clock.now());
    const rest =
      settings === null
        ? [...classes(config), skipped("telegram", "nobody is asked before the secrets are there")]
        : [
            checkToken(settings.telegram.token, storage.bot),
            ...(await (options.offline ? offline(config) : online(config, settings, context))),
          ];
    return {
      results: [configurationResult(config), ...secrets, ...storage.results, ...rest],
      misconfigured: settings === null,
    };
  } catch (error) {
    // For people, the command line tells every problem with its place in the file, as it does for all commands.
    if (!(error instanceof ConfigError) || !options.json) throw error;
    return { results: configProblems("configuration", error), misconfigured: true };
  }
}

function configurationResult({ path, destinations, actions }: Config): CheckResult {
  const crms = destinations.filter(({ http }) => http !== null).length;
  const leads = crms === 0 ? "leads stay in the built-in ledger (leadonce leads)" : count(crms, "CRM");
  const file = path ?? "no file, so everything is a default";
  return ok("configuration", `${file}: ${count(actions.length, "action")}, ${leads}`);
}

/** Null where a secret is missing; the rest can be checked without. */
function readSecrets(
  options: CheckOptions,
  context: Context,
): { settings: AppSettings | null; results: CheckResult[] } {
  try {
    return { settings: settingsFor(options, context), results: [ok("secrets", "all of them can be read")] };
  } catch (error) {
    // Without a file and a token nothing has been set up, and the error says how to begin.
    if (!(error instanceof ConfigError) || error.problems.length === 0) throw error;
    return { settings: null, results: configProblems("secrets", error) };
  }
}

async function online(config: Config, settings: AppSettings, { clock }: Context): Promise<CheckResult[]> {
  const takesGroups = settings.actions.some(({ when }) => when.chat !== "private");
  const mark = randomBytes(12).toString("hex");
  const [bot, time, ...crms] = await Promise.all([
    checkBot(settings.telegram, takesGroups),
    checkClock(settings.telegram, clock),
    ...settings.http.map((destination) => checkDestination(destination, mark)),
  ]);
  return [...bot, ...time, ...crms.flat(), ...classes(config)];
}

function offline(config: Config): CheckResult[] {
  const asked = config.destinations.filter(({ http }) => http !== null).map(({ settings }) => settings.name);
  return [
    ...["telegram", ...asked.map((name) => `crm.${name}`)].map((check) =>
      skipped(check, "not asked (--offline)"),
    ),
    ...classes(config),
  ];
}

function classes(config: Config): CheckResult[] {
  return config.destinations.flatMap(checkSafety);
}
