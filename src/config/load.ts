/**
 * Finds and reads the configuration and checks all of it, so that every mistake comes out at once, with exit code 78,
 * before anything is started. Secrets stay references in here; `resolve.ts` fetches their values for those who need them.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { parseEnv } from "node:util";
import { parse, TomlError } from "smol-toml";
import { z } from "zod";
import { ConfigError, type ConfigProblem } from "../domain/errors.ts";
import { maskedValue, problemsOf, suggestion } from "./problems.ts";
import { actionProblems, destinationProblems } from "./rules.ts";
import {
  type ActionConfig,
  action,
  type FileConfig,
  fileSchema,
  type HttpDestinationConfig,
  httpDestination,
  KNOWN_LATER,
  ledgerDestination,
} from "./schema.ts";
import type { SecretSource } from "./secrets.ts";

export interface LoadOptions {
  /** From `--config`. */
  path?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Further checks, so that their problems come out together with the others. */
  checks?: readonly ((config: Config) => ConfigProblem[])[];
}

export interface Destination {
  name: string;
  /** What the database calls it. */
  key: string;
  config: HttpDestinationConfig | { kind: "ledger" };
}

export interface Config {
  /** Null: there is no file, the token alone is the configuration. */
  path: string | null;
  file: FileConfig;
  /** Absolute. */
  databasePath: string;
  destinations: readonly Destination[];
  actions: readonly ActionConfig[];
  /** Where `env:` and `file:` references are looked up. */
  secretSource: SecretSource;
}

const DEFAULT_FILE = "service.conf";

/** @throws ConfigError with every problem */
export function loadConfig({ path, env, cwd, checks = [] }: LoadOptions): Config {
  const file = findFile(path ?? env.LEADONCE_CONFIG, cwd);
  const folder = file === null ? cwd : dirname(file);
  const secretSource = { env: { ...dotEnv(folder), ...definedOnly(env) }, folder };
  if (file === null && (secretSource.env.TELEGRAM_BOT_TOKEN ?? "") === "") throw nothingConfigured();

  const { config, problems } = read(file, file === null ? {} : parseToml(file), folder, secretSource);
  const all = [...problems, ...(config === null ? [] : checks.flatMap((check) => check(config)))];
  if (config === null || all.length > 0) {
    const count = all.length === 1 ? "one problem" : `${all.length} problems`;
    throw new ConfigError(
      `${file ?? "the configuration"} has ${count}:`,
      all,
      "Nothing was started. Mend the file and run the same command again.",
    );
  }
  return config;
}

function findFile(asked: string | undefined, cwd: string): string | null {
  const file = resolve(cwd, asked ?? DEFAULT_FILE);
  if (existsSync(file)) return file;
  if (asked === undefined) return null;
  throw new ConfigError(
    `there is no configuration file at ${file}`,
    [],
    "Check --config or LEADONCE_CONFIG; service.example.conf shows what one looks like.",
  );
}

function nothingConfigured(): ConfigError {
  return new ConfigError(
    "leadonce needs a bot to listen to.",
    [],
    [
      "  1. In Telegram, write /newbot to @BotFather. It gives you a token.",
      "  2. Start again with it:   TELEGRAM_BOT_TOKEN=123456:ABC… npm start",
      "     Leads then go to the built-in ledger. For a CRM, copy service.example.conf to service.conf.",
      "Just looking? See it work without signing up for anything:   npm run demo",
    ].join("\n"),
  );
}

/** A `.env` beside the configuration; the real environment wins. */
function dotEnv(folder: string): Record<string, string | undefined> {
  const file = resolve(folder, ".env");
  return existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
}

function definedOnly(env: LoadOptions["env"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function parseToml(file: string): unknown {
  try {
    return parse(readFileSync(file, "utf8"));
  } catch (error) {
    if (error instanceof TomlError) {
      // Its message quotes the line, which may hold a secret.
      throw new ConfigError(
        `${file} is not valid TOML: line ${error.line}, column ${error.column}`,
        [],
        "Texts need quotes, and each [table] may stand once.",
      );
    }
    throw new ConfigError(`${file} can't be read`, [], "Check that the file's rights let you read it.");
  }
}

function read(
  path: string | null,
  toml: unknown,
  folder: string,
  secretSource: SecretSource,
): { config: Config | null; problems: ConfigProblem[] } {
  const parsed = fileSchema.safeParse(toml);
  const crm =
    z.looseObject({ crm: z.record(z.string(), z.unknown()).optional() }).safeParse(toml).data?.crm ?? {};
  const read = Object.entries(crm).map(([name, value]) => readDestination(name, value));
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error, "", toml, fileSchema)),
    ...read.flatMap((result) => result.problems),
  ];
  if (!parsed.success) return { config: null, problems };
  const file = parsed.data;
  const destinations = withLedger(
    read.flatMap(({ destination }) => (destination === null ? [] : [destination])),
  );
  const actions = file.actions.length > 0 ? file.actions : [action.parse({})];
  problems.push(
    ...actionProblems(actions, [...new Set([...Object.keys(crm), "ledger"])]),
    ...keyProblems(destinations),
  );
  if (problems.length > 0) return { config: null, problems };
  const databasePath = isAbsolute(file.storage.path) ? file.storage.path : resolve(folder, file.storage.path);
  return { config: { path, file, databasePath, destinations, actions, secretSource }, problems };
}

function readDestination(
  name: string,
  value: unknown,
): { destination: Destination | null; problems: ConfigProblem[] } {
  const root = `crm.${name}`;
  const kind = z.looseObject({ kind: z.unknown() }).safeParse(value).data?.kind;
  if (kind !== "http" && kind !== "ledger") {
    return { destination: null, problems: [kindProblem(root, kind)] };
  }
  const schema = kind === "http" ? httpDestination : ledgerDestination;
  const parsed = schema.safeParse(value);
  if (!parsed.success) return { destination: null, problems: problemsOf(parsed.error, root, value, schema) };
  const config = parsed.data;
  const destination = { name, key: config.key ?? name, config };
  return { destination, problems: config.kind === "http" ? destinationProblems(name, config) : [] };
}

function kindProblem(root: string, kind: unknown): ConfigProblem {
  const path = `${root}.kind`;
  if (kind === undefined)
    return { path, value: null, message: "is missing", hint: 'Write kind = "http" (or "ledger").' };
  const later = typeof kind === "string" && KNOWN_LATER.includes(kind);
  return {
    path,
    value: maskedValue(path, kind),
    message: later ? `not built yet: the connector for ${String(kind)}` : "is no kind that leadonce knows",
    hint: later
      ? 'Describe its API with kind = "http"; the README shows how.'
      : suggestion(String(kind), ["http", "ledger"]),
  };
}

/** The destination `ledger` always exists. */
function withLedger(destinations: Destination[]): Destination[] {
  if (destinations.some(({ name }) => name === "ledger")) return destinations;
  return [...destinations, { name: "ledger", key: "ledger", config: { kind: "ledger" } }];
}

function keyProblems(destinations: readonly Destination[]): ConfigProblem[] {
  return destinations.flatMap(({ name, key }, index) =>
    destinations.findIndex((other) => other.key === key) === index
      ? []
      : [
          {
            path: `crm.${name}.key`,
            value: JSON.stringify(key),
            message: "is the key of another destination",
            hint: "Each destination needs a key of its own.",
          },
        ],
  );
}
