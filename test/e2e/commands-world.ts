/** A database in the state of an ordinary morning, and `leadonce` as a process of its own that works on it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { JobId, OperationId } from "../../src/domain/ids.ts";
import { asBusinessKey, asRunId, messageIdentity, operationCode, operationId } from "../../src/domain/ids.ts";
import type { PlannedOperation } from "../../src/domain/operation.ts";
import type { Decide } from "../../src/domain/store.ts";
import {
  BOT,
  confirmed,
  makeWorld,
  messageUpdate,
  refused,
  SALES,
  unknown,
  type World,
} from "../store/fixtures.ts";

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** What nobody may ever see in an output (P5). */
export const WORDS = "please call me about the blue door";
export const PHONE = "+12025550101";

export interface Output {
  code: number | null;
  out: string;
  err: string;
}

/** The compiled program where it is as new as the sources, else the sources: slower, the same. */
const PROGRAM = builtIsFresh()
  ? [join(ROOT, "dist/cli.js")]
  : ["--import", import.meta.resolve("tsx"), join(ROOT, "src/cli.ts")];

function builtIsFresh(): boolean {
  const built = join(ROOT, "dist/cli.js");
  if (!existsSync(built)) return false;
  const newest = readdirSync(join(ROOT, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath ?? entry.path, entry.name)).mtimeMs)
    .reduce((a, b) => Math.max(a, b), 0);
  return statSync(built).mtimeMs > newest;
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  /** Default: the repository. */
  cwd?: string;
}

/** Runs a program without a terminal and without any of our variables in its environment. */
export function execute(program: string, argv: readonly string[], options: RunOptions = {}): Promise<Output> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...options.env };
  const child = spawn(program, argv, { cwd: options.cwd ?? ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  const output: Output = { code: null, out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    output.out += String(chunk);
  });
  child.stderr.on("data", (chunk) => {
    output.err += String(chunk);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ ...output, code }));
  });
}

export function leadonce(argv: readonly string[], options: RunOptions = {}): Promise<Output> {
  return execute(process.execPath, [...PROGRAM, ...argv], options);
}

/** `leadonce … | reader`, through a pipe as the shell makes it; the exit code is that of whichever failed. */
export function leadonceInto(reader: string, argv: readonly string[]): Promise<Output> {
  const line = `set -o pipefail; "$@" | ${reader}`;
  return execute("bash", ["-c", line, "bash", process.execPath, ...PROGRAM, ...argv]);
}

export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "leadonce-commands-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A configuration whose secrets are nowhere to be had: none of these commands may need them. */
export function writeConfig(t: TestContext, databasePath: string): string {
  const file = join(tempFolder(t), "service.conf");
  writeFileSync(
    file,
    `[telegram]
token = "env:NO_SUCH_TOKEN"

[storage]
path = ${JSON.stringify(databasePath)}

[crm.sales]
kind = "http"
base_url = "http://127.0.0.1:9/api"
headers = { Authorization = "Bearer {{ secrets.token }}" }

[crm.sales.secrets]
token = "env:NO_SUCH_SECRET"

[crm.sales.lead]
method = "POST"
url = "leads"
body = { ref = "{{ operation.id }}", text = "{{ message.text }}" }
id = "/id"

[[actions]]
name = "enquiry"
kind = "lead"
repeat = "each"
to = ["sales"]
`,
  );
  return file;
}

export interface Morning {
  world: World;
  config: string;
  /** `leadonce` on this database, with its configuration. */
  run(...argv: string[]): Promise<Output>;
  /** Of each job, named by how it stands. */
  jobs: Record<"done" | "refused" | "unknown" | "foundTwice" | "pending", JobId>;
}

/** One lead of each kind at `sales`, one ignored and one quarantined update; the store stays open, as a daemon's does. */
export async function makeMorning(t: TestContext): Promise<Morning> {
  const world = await makeWorld(t);
  const config = writeConfig(t, world.path);
  await startedRun(world);
  const done = await world.lead({ text: WORDS, userId: 7001, from: { username: "test_person" } });
  await world.attempt(done, confirmed("4711", "https://crm.example/leads/4711"));
  const phone = { contact: { phone_number: PHONE.slice(1), first_name: "Test", user_id: 7002 } };
  const refusedJob = await world.lead({ userId: 7002, message: phone });
  await world.attempt(refusedJob, refused());
  const foundTwice = await world.lead({ userId: 7003, text: WORDS });
  await world.attempt(foundTwice, unknown());
  world.now += 60_000;
  await world.lookUp(["A1", "A2"]);
  const unknownJob = await world.lead({ userId: 7004, text: WORDS });
  await world.attempt(unknownJob, unknown(504));
  const pending = await world.lead({ userId: 7005, text: WORDS });
  await world.accept({ update_id: 5000, chat_boost: {} }, { update_id: 5001, message: { text: WORDS } });
  return {
    world,
    config,
    run: (...argv) => leadonce(["--config", config, ...argv]),
    jobs: { done, refused: refusedJob, unknown: unknownJob, foundTwice, pending },
  };
}

async function startedRun(world: World): Promise<void> {
  const run = { runId: asRunId("run-1"), version: "0.1.0", configHash: "0", pid: 77, host: "box" };
  await world.store.startRun(run, world.now);
  const polled = { state: "polling" as const, lastCompletedAtMs: world.now, lastError: null };
  await world.store.recordPoller(BOT, polled, world.now);
}

/** A lead whose customer wrote on: its notes wait behind it. */
export async function leadWithNotes(world: World, notes: number): Promise<{ lead: JobId; notes: JobId[] }> {
  const before = world.decide;
  const lead = await world.lead({ userId: 7100, text: WORDS });
  const leadOperation = String(world.job(lead).operation_id);
  const made: JobId[] = [];
  for (let n = 0; n < notes; n += 1) {
    world.decide = noteOn(leadOperation as OperationId, n); // an id that the store itself gave out
    await world.accept(messageUpdate({ updateId: 8000 + n, userId: 7100, text: WORDS }));
    const row = world.row("SELECT job_id FROM jobs WHERE step = 'note' ORDER BY job_id DESC LIMIT 1");
    made.push(row.job_id as JobId);
  }
  world.decide = before;
  return { lead, notes: made };
}

function noteOn(leadOperation: OperationId, n: number): Decide {
  const businessKey = asBusinessKey(`note:${BOT}:7100:${8000 + n}`);
  const id = operationId(businessKey);
  const note: PlannedOperation = {
    id,
    code: operationCode(id),
    businessKey,
    kind: "note",
    action: "enquiry",
    input: {
      messages: [],
      contact: {
        userId: 7100,
        firstName: "Test",
        lastName: "Person",
        username: null,
        language: null,
        phone: null,
      },
      source: { first: null, last: null },
    },
    messages: [
      messageIdentity({ botId: BOT, chatId: 7100, messageId: 8000 + n, businessConnectionId: null }),
    ],
    jobs: [
      {
        destination: SALES,
        step: "note",
        state: "blocked",
        runAtMs: 0,
        follows: { operationId: leadOperation, step: "lead" },
        externalId: null,
      },
    ],
  };
  return {
    wants: () => ({ contact: null, messages: [], businessKeys: [] }),
    decide: () => ({ state: "accepted", reason: null, contact: null, operations: [note] }),
  };
}

/** Fails where an output holds what must not leak. */
export function assertNothingLeaks({ out, err }: Output): void {
  for (const secret of [WORDS, "blue door", PHONE, PHONE.slice(1), "555 0101"]) {
    assert.ok(!out.includes(secret), `stdout holds "${secret}"`);
    assert.ok(!err.includes(secret), `stderr holds "${secret}"`);
  }
}
