/**
 * Finds the configuration, reads it and checks it whole: every problem is told at once, whatever kind it is of. Owns
 * the order of the checks; what they are stands in `schema.ts`, `rules.ts` and in what the caller adds.
 */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import { ConfigError, type ConfigProblem } from "../domain/errors.ts";
import { type Config, makeConfig } from "./config.ts";
import { mended } from "./mend.ts";
import { actionRules, destinationNameRules } from "./name-rules.ts";
import { problemsOf } from "./problems.ts";
import { followReferences } from "./references.ts";
import { destinationRules, type Finding } from "./rules.ts";
import { type Document, document } from "./schema.ts";
import { literalProblems, secretProblems } from "./secrets.ts";
import { errorCode, openSources, type Sources } from "./sources.ts";
import { isTree, type Tree } from "./tree.ts";

export interface LoadOptions {
  /** `--config`; without it LEADONCE_CONFIG, else `service.conf` in the working directory, else no file at all. */
  path?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Further checks, such as that of templates; each problem names its path as in the file. */
  checks?: readonly ((config: Config) => ConfigProblem[])[];
  /** For commands that go on to read the secrets: of a file with problems, those of its secrets are told as well. */
  withSecrets?: boolean;
}

/** @throws ConfigError */
export function loadConfig({ path, env, cwd, checks = [], withSecrets = false }: LoadOptions): Config {
  const { file, written } = read(path ?? env.LEADONCE_CONFIG, cwd);
  const folder = file === null ? cwd : dirname(file);
  const sources = openSources(env, folder);
  const told = new Told();
  const valid = validate(written, sources, told);
  if (valid !== null) {
    const config = makeConfig(valid, file, folder);
    told.add(findings(valid, Object.keys(isTree(written.crm) ? written.crm : {})));
    told.add([...literalProblems(config), ...checks.flatMap((check) => check(config))]);
    if (told.problems.length === 0) return config;
    if (withSecrets) told.add(secretProblems(config));
  }
  const count = told.problems.length === 1 ? "a problem" : `${told.problems.length} problems`;
  throw new ConfigError(`${file ?? "the configuration"} has ${count}; nothing was started`, told.problems);
}

function read(asked: string | undefined, cwd: string): { file: string | null; written: Tree } {
  // An empty LEADONCE_CONFIG is what a shell makes of one that is not set.
  const wanted = asked === "" ? undefined : asked;
  const file = resolve(cwd, wanted ?? "service.conf");
  let text: string;
  try {
    text = readFileSync(file, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" && wanted === undefined) return { file: null, written: {} };
    if (code === "ENOENT") {
      const hint = "Look at --config and LEADONCE_CONFIG, or start from service.example.conf.";
      throw new ConfigError(`there is no configuration file ${file}`, [], hint);
    }
    throw new ConfigError(`the configuration ${file} can't be read (${code})`);
  }
  return { file, written: parseToml(text, file) };
}

/** The library quotes the lines around an error, and one of them may hold a secret (P5): only the place is passed on. */
function parseToml(text: string, file: string): Tree {
  try {
    return parse(text, { unsafeKeyBehaviour: "throw" });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [message = ""] = error.message.replace("Invalid TOML document: ", "").split("\n");
    const place = `line ${error.line}, column ${error.column}`;
    const hint = "a text stands in quotes, and a table begins with its [name] on a line of its own";
    const problem = { path: place, value: null, message, hint };
    throw new ConfigError(`${file} is not written in TOML as it should be; nothing was started`, [problem]);
  }
}

/** Far more rounds than faults can lie under one another. */
const ROUNDS_MAX = 50;

/** @returns what is right in the tree, for further checks; null where nothing can be made of it */
function validate(written: Tree, sources: Sources, told: Told): Document | null {
  let current = written;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const { tree, problems } = followReferences(current, sources);
    told.add(problems);
    const result = document.safeParse(tree);
    if (result.success) return result.data;
    told.addUnlessBelow(problemsOf(result.error.issues, current));
    current = mended(current, result.error.issues);
  }
  return null;
}

function findings(valid: Document, names: readonly string[]): Finding[] {
  const ofDestinations = Object.entries(valid.crm).flatMap(([name, table]) =>
    table.kind === "http" ? [...destinationRules(`crm.${name}`, table)] : [],
  );
  return [...ofDestinations, ...destinationNameRules(valid), ...actionRules(valid, names)];
}

/** Each problem once, and none that only follows from another. */
class Told {
  readonly problems: ConfigProblem[] = [];

  add(problems: readonly (ConfigProblem & { reads?: readonly string[] })[]): void {
    const before = [...this.problems];
    for (const { reads = [], ...problem } of problems) {
      const follows = before.some(
        ({ path }) => path === problem.path || reads.some((place) => isAtOrBelow(path, place)),
      );
      if (!follows) this.problems.push(problem);
    }
  }

  /** Of a later round: what was taken out in an earlier one is missing now. */
  addUnlessBelow(problems: readonly ConfigProblem[]): void {
    this.add(problems.map((problem) => ({ ...problem, reads: [problem.path] })));
  }
}

function isAtOrBelow(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}.`) || path.startsWith(`${place}[`);
}
