/**
 * What a command works with: the process's surroundings, the configuration and the database. Reads open the database
 * read-only, beside a running daemon or without one; decisions open it for writing. Neither changes the schema: the store
 * refuses a file that is not as this version knows it, and only `run` brings it forward, with the lock held.
 */
import { userInfo } from "node:os";
import { actionSettings, type Config, destinationKeys, loadConfig } from "../config/index.ts";
import type { Clock } from "../domain/ports.ts";
import type { IntakeSettings } from "../domain/settings.ts";
import type { Operator } from "../domain/store.ts";
import { openStore, type Store } from "../store/index.ts";
import type { GlobalOptions } from "./invocation.ts";
import type { Terminal } from "./terminal.ts";

export interface Context {
  env: NodeJS.ProcessEnv;
  cwd: string;
  clock: Pick<Clock, "now">;
  terminal: Terminal;
}

/** Runs `work` on the database opened read-only. @throws ConfigError, StorageError */
export async function reading<Result>(
  options: GlobalOptions,
  context: Context,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  return onStore("read", options, context, work);
}

/** Runs `work` on the database opened for a decision. @throws ConfigError, StorageError */
export async function deciding<Result>(
  options: GlobalOptions,
  context: Context,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  return onStore("write", options, context, work);
}

async function onStore<Result>(
  mode: "read" | "write",
  options: GlobalOptions,
  context: Context,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const path = configuration(options, context).databasePath;
  const store = openStore(path, { mode, nowMs: context.clock.now() });
  try {
    return await work(store);
  } finally {
    store.close();
  }
}

/** Who decides: LEADONCE_OPERATOR where set, the person behind sudo, else the login name. */
export function operatorOf(why: string | null, env: NodeJS.ProcessEnv): Operator {
  return { who: env.LEADONCE_OPERATOR || env.SUDO_USER || loginName(), why };
}

function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a number without a name.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

// ---- the configuration: the one place that knows its loader ---------------------------------------------------------

/** No secret is read: what is stored can be looked at without having the token at hand. */
function configuration(options: GlobalOptions, { env, cwd }: Context): Config {
  return loadConfig({ path: options.config ?? undefined, env, cwd });
}

/** What decides an update, as the configuration is now. @throws ConfigError */
export function configuredActions(
  options: GlobalOptions,
  context: Context,
): Pick<IntakeSettings, "actions" | "destinations"> {
  const config = configuration(options, context);
  return {
    actions: actionSettings(config),
    destinations: destinationKeys(config),
  };
}
