/**
 * Where `env:NAME` and `file:PATH` lead: the environment, the `.env` beside the configuration, and files. Owns the
 * reading of them and nothing of what they hold: no value is in any message (P5).
 */
import { readFileSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { ConfigError } from "../domain/errors.ts";

export interface Sources {
  /** The real environment laid over `.env`. */
  env: Readonly<Record<string, string | undefined>>;
  /** That of the configuration file; without one, the working directory. */
  folder: string;
}

/** A reference that leads nowhere; `message` and `hint` are for the person who wrote it. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
  readonly hint: string | null;

  constructor(message: string, hint: string | null) {
    super(message);
    this.hint = hint;
  }
}

/** @throws ConfigError when a `.env` is there and can't be read */
export function openSources(realEnv: Readonly<Record<string, string | undefined>>, folder: string): Sources {
  return { env: { ...readDotEnv(folder), ...realEnv }, folder };
}

export function isReference(text: string): boolean {
  return text.startsWith("env:") || text.startsWith("file:");
}

/**
 * What a reference stands for, without the line break that editors leave at the end of a file.
 * @throws UnreadableError
 */
export function readReference(reference: string, sources: Sources): string {
  const value = reference.startsWith("env:")
    ? readVariable(reference.slice("env:".length), sources)
    : readSecretFile(reference.slice("file:".length), sources);
  if (value.trim() === "") throw new UnreadableError("there is nothing in it", null);
  return value;
}

function readVariable(name: string, { env }: Sources): string {
  if (!/^[A-Za-z_]\w*$/.test(name)) {
    throw new UnreadableError("env: is not followed by the name of an environment variable", "env:CRM_TOKEN");
  }
  const value = env[name];
  if (value === undefined) {
    throw new UnreadableError(
      `the environment variable ${name} is not set`,
      `set it where leadonce starts, or write ${name}=… into a file .env beside the configuration`,
    );
  }
  return value;
}

function readSecretFile(path: string, sources: Sources): string {
  if (path === "") throw new UnreadableError("file: is not followed by a path", "file:crm-token.txt");
  const candidates = candidatesFor(path, sources);
  for (const candidate of candidates) {
    const text = readIfThere(candidate);
    if (text !== null) return text.replace(/^\uFEFF/, "").replace(/(\r?\n)+$/, "");
  }
  throw new UnreadableError(
    `there is no such file: ${candidates.join(", nor ")}`,
    "a relative path begins at the configuration's folder",
  );
}

/**
 * `$CREDENTIALS_DIRECTORY` is written out or left away: with `LoadCredential=crm_token:…` in a systemd unit,
 * `file:crm_token` finds it there.
 */
function candidatesFor(path: string, { env, folder }: Sources): string[] {
  const credentials = env.CREDENTIALS_DIRECTORY;
  const [, named] = /^\$(?:CREDENTIALS_DIRECTORY|\{CREDENTIALS_DIRECTORY\})\/(.+)$/.exec(path) ?? [];
  if (named !== undefined) {
    if (credentials !== undefined) return [join(credentials, named)];
    throw new UnreadableError(
      "CREDENTIALS_DIRECTORY is not set",
      "systemd sets it for a unit that has LoadCredential=",
    );
  }
  if (isAbsolute(path) || credentials === undefined) return [resolve(folder, path)];
  return [join(credentials, path), resolve(folder, path)];
}

function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new UnreadableError(`${path} can't be read (${code})`, null);
  }
}

function readDotEnv(folder: string): NodeJS.Dict<string> {
  const path = join(folder, ".env");
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return {};
    throw new ConfigError(`${path} can't be read (${code})`);
  }
}

export function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown error";
}
