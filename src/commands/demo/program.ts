/**
 * leadonce itself as a process of its own: this very program once more, compiled or from its sources, on the demo's
 * configuration and with nothing of the user's own set-up.
 */
import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { extname } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { EXIT, LeadonceError } from "../../domain/errors.ts";

const CLI = fileURLToPath(new URL(`../../cli${extname(import.meta.url)}`, import.meta.url));

export type Child = ChildProcessByStdio<null, Readable, Readable>;

export interface Program {
  /** Runs a command to its end and resolves with what it printed. @throws LeadonceError where it fails */
  run(command: string): Promise<string>;
  start(command: string): Child;
}

export interface ProgramOptions {
  configPath: string;
  token: string;
  /** Ends the commands that run; no further one starts. */
  signal: AbortSignal;
}

export function makeProgram({ configPath, token, signal }: ProgramOptions): Program {
  const env = { ...withoutOwnVariables(), LEADONCE_CONFIG: configPath, TELEGRAM_BOT_TOKEN: token };
  const argv = (command: string): string[] => [...process.execArgv, CLI, ...command.split(" ")];
  return {
    run: async (command) => {
      try {
        const { stdout } = await promisify(execFile)(process.execPath, argv(command), { env, signal });
        return stdout.trimEnd();
      } catch (error) {
        signal.throwIfAborted();
        throw new LeadonceError(
          EXIT.bug,
          `leadonce ${command} failed in the demo`,
          complaintOf(error),
          error,
        );
      }
    },
    start: (command) => {
      signal.throwIfAborted();
      return spawn(process.execPath, argv(command), { env, stdio: ["ignore", "pipe", "pipe"] });
    },
  };
}

/** What a command that failed has printed to people. */
function complaintOf(error: unknown): string | null {
  return error instanceof Error && "stderr" in error ? String(error.stderr).trim() : null;
}

/** A crash point or a configuration that the user has set is none of the demo's business. */
function withoutOwnVariables(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LEADONCE_")));
}
