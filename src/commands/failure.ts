/** How a command that ends in an error says so: what happened, the next step, and the exit code of design §9. */
import { formatConfigError } from "../config/index.ts";
import { ConfigError, EXIT, type ExitCode, InvariantError, LeadonceError } from "../domain/errors.ts";
import type { Context } from "./context.ts";

/** Prints the error for people; its stack only with LEADONCE_DEBUG=1. */
export function explainFailure(
  error: unknown,
  { terminal, env }: Pick<Context, "terminal" | "env">,
): ExitCode {
  for (const line of failureText(error)) terminal.err(line);
  if (env.LEADONCE_DEBUG === "1" && error instanceof Error) terminal.err(stackOf(error));
  return error instanceof LeadonceError ? error.exitCode : EXIT.bug;
}

function failureText(error: unknown): string[] {
  if (error instanceof ConfigError) return [formatConfigError(error)];
  if (error instanceof LeadonceError) {
    return [`leadonce: ${error.message}`, ...(error.hint === null ? [] : [`  ${error.hint}`])];
  }
  // The message of an error that nobody foresaw may quote a customer's words (JSON.parse does), so it is not shown.
  const what =
    error instanceof InvariantError ? error.message : error instanceof Error ? error.name : typeof error;
  return [
    `leadonce: this is a bug of leadonce (${what}).`,
    "  What was stored stays stored. Run the same command with LEADONCE_DEBUG=1 and report what it prints.",
  ];
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own;
}
