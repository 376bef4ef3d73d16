/** The options of a command line as commander leaves them, checked once for every command. */
import type { Command } from "commander";
import { z } from "zod";
import { JOB_STATES } from "../domain/jobs.ts";
import type { GlobalOptions, Invocation } from "./invocation.ts";

/** Takes what a command line was parsed into. */
export type Choose = (invocation: Invocation) => void;

const text = z
  .string()
  .default("")
  .transform((value) => value.trim() || null);
const flag = z.boolean().default(false);

/** Every option of every command; one that a command does not have is null or false. */
const line = z.object({
  config: text,
  json: flag,
  since: text,
  state: z.enum(JOB_STATES).nullable().default(null),
  destination: text,
  all: flag,
  yes: flag,
  why: text,
  withNotes: flag,
  update: text,
  offline: flag,
  send: flag,
});
export type Line = z.infer<typeof line>;

export function read(command: Command): Line {
  return line.parse(command.optsWithGlobals());
}

export function globals({ config, json }: GlobalOptions): GlobalOptions {
  return { config, json };
}

export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((example) => `  ${example}`).join("\n")}`;
}
