/** A configuration in a folder of its own, loaded as a command does. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { type Config, type LoadOptions, loadConfig } from "../../src/config/index.ts";
import { ConfigError, type ConfigProblem } from "../../src/domain/errors.ts";

export const TOKEN = "12345678:AAF0000000000000000000000000000test";

export interface World {
  toml: string;
  env?: Record<string, string>;
  /** Further files in the folder, by name. */
  files?: Record<string, string>;
  checks?: LoadOptions["checks"];
  withSecrets?: boolean;
}

export function tempFolder(t: TestContext, files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "leadonce-config-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

export function load(
  t: TestContext,
  { toml, env = {}, files = {}, checks = [], withSecrets = false }: World,
): Config {
  const cwd = tempFolder(t, { "service.conf": toml, ...files });
  return loadConfig({ env, cwd, checks, withSecrets });
}

/** The error that `attempt` ends in; fails the test where it ends in none, or in another kind. */
export function configErrorOf(attempt: () => unknown): ConfigError {
  try {
    attempt();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("the configuration was accepted");
}

export function problemsOf(t: TestContext, world: World): readonly ConfigProblem[] {
  return configErrorOf(() => load(t, world)).problems;
}

/** Fails the test where there is not exactly one problem. */
export function onlyProblem(t: TestContext, toml: string): ConfigProblem {
  const problems = problemsOf(t, { toml });
  const [problem] = problems;
  if (problem === undefined || problems.length > 1) {
    throw new Error(`expected one problem: ${JSON.stringify(problems, null, 2)}`);
  }
  return problem;
}

/** `[crm.sales]` with a lead that can be looked up; each part can be replaced. */
export function sales({ top = "", lead = LEAD, find = FIND, rest = "" } = {}): string {
  return ['[crm.sales]\nkind = "http"\nbase_url = "https://crm.example/api"', top, lead, find, rest].join(
    "\n",
  );
}

export const LEAD = `[crm.sales.lead]
url = "leads"
body = { external_ref = "{{ operation.id }}" }
id = "/id"`;

export const FIND = `[crm.sales.lead.find]
url = "leads?external_ref={{ operation.id }}"
items = "/items"
id = "/id"`;
