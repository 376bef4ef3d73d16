/** Reads the configuration for a command, templates and secrets checked too: every mistake comes out at once. */
import type { AppSettings } from "../app.ts";
import { type Config, httpDestinations, loadConfig, resolveConfig } from "../config/index.ts";
import { checkTemplates } from "../crm/connectors.ts";
import type { ConfigProblem } from "../domain/errors.ts";
import type { Context } from "./context.ts";
import type { GlobalOptions } from "./invocation.ts";

/** Without the values of secrets. @throws ConfigError */
export function readConfiguration(options: GlobalOptions, { env, cwd }: Context): Config {
  const checks = [templateProblems];
  return loadConfig({ path: options.config ?? undefined, env, cwd, checks, withSecrets: true });
}

/** With the values of secrets, which from now on nothing prints. @throws ConfigError */
export function settingsFor(
  options: GlobalOptions,
  context: Context,
): AppSettings & { secretValues: string[] } {
  const resolved = resolveConfig(readConfiguration(options, context));
  context.terminal.hide(resolved.secretValues);
  return resolved;
}

function templateProblems(config: Config): ConfigProblem[] {
  return httpDestinations(config).flatMap(({ settings }) => checkTemplates(settings));
}
