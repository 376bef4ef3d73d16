/**
 * `env:NAME` and `file:PATH`: resolved only by commands that need the values, all at once, so that a person sees every
 * missing one. Keeps P5: an error names the reference, never a value.
 */
import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import type { ConfigProblem } from "../domain/errors.ts";

export interface SecretSource {
  env: Readonly<Record<string, string | undefined>>;
  /** Relative `file:` paths are looked for in systemd's credentials first, then here. */
  folder: string;
}

export type Resolved = { kind: "value"; value: string } | { kind: "problem"; problem: ConfigProblem };

/** A text that is no reference is its own value. */
export function resolveText(path: string, text: string, source: SecretSource): Resolved {
  const reference = /^(env|file):([\s\S]+)$/.exec(text);
  if (reference === null) return { kind: "value", value: text };
  const target = (reference[2] ?? "").trim();
  const problem = (message: string, hint: string): Resolved => ({
    kind: "problem",
    problem: { path, value: text, message, hint },
  });
  if (reference[1] === "env") {
    const value = source.env[target];
    if (value !== undefined && value !== "") return { kind: "value", value };
    return problem(
      "the environment variable is not set",
      `Set ${target}, for instance in a file .env beside the configuration.`,
    );
  }
  for (const file of candidates(target, source)) {
    try {
      // Editors end a file with a line break that is no part of a secret.
      return { kind: "value", value: readFileSync(file, "utf8").replace(/\r?\n$/, "") };
    } catch (error) {
      if (!isMissing(error)) return problem("the file can't be read", `Check the rights of ${target}.`);
    }
  }
  return problem("there is no such file", "The path is relative to the configuration's folder.");
}

function candidates(target: string, { env, folder }: SecretSource): string[] {
  const expanded = target.replace(/^\$\{?CREDENTIALS_DIRECTORY\}?\//, "");
  const credentials = env.CREDENTIALS_DIRECTORY;
  if (isAbsolute(expanded)) return [expanded];
  return [...(credentials === undefined ? [] : [join(credentials, expanded)]), join(folder, expanded)];
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
