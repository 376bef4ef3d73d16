/**
 * What an end-to-end test lives in: a Telegram and CRMs that misbehave on request, a folder with a configuration, and
 * the built daemon as a process. Whatever was started ends with the test.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { stringify } from "smol-toml";
import type {
  JobReport,
  LeadReport,
  ReconciliationReport,
  StatusReport,
  TraceReport,
} from "../../src/domain/reports.ts";
import {
  type CrmOptions,
  type CrmStandIn,
  type SafetyClass,
  startCrmStandIn,
} from "../../src/stand-ins/crm/index.ts";
import {
  type BotControl,
  exampleToken,
  type Person,
  startTelegramStandIn,
  type TelegramStandIn,
} from "../../src/stand-ins/telegram/index.ts";
import { connect } from "../../src/store/connect.ts";
import { openStore, type Store } from "../../src/store/index.ts";
import { type Changes, CRM_TOKEN, crmTable, merged, type Table } from "./crm-config.ts";
import { Daemon, type Finished, finished } from "./daemon.ts";

export const BOT_ID = 7001;
export const TOKEN = exampleToken(BOT_ID);

export interface WorldOptions {
  /** Of the destination `sales`, where `crms` names no others. */
  safety?: SafetyClass;
  /** Destinations by name, each with a stand-in of its own. */
  crms?: Readonly<Record<string, SafetyClass>>;
  /** Changes to the configuration. */
  config?: Changes;
  /** Further properties of the CRMs. */
  crm?: Partial<CrmOptions>;
  token?: string;
  /** An empty folder, for a test that needs a certain file system. */
  folder?: string;
}

export function person(n: number): Person {
  return { id: 5_550_000 + n, first_name: "Test", last_name: `Person ${n}` };
}

export async function world(t: TestContext, options: WorldOptions = {}): Promise<World> {
  const token = options.token ?? TOKEN;
  const telegram = await startTelegramStandIn({
    bots: [{ token, username: "leadonce_test_bot", firstUpdateId: 40_000_001 }],
  });
  const crms = new Map<string, CrmStandIn>();
  const classes = options.crms ?? { sales: options.safety ?? "idempotency-key" };
  for (const [name, safety] of Object.entries(classes)) {
    crms.set(name, await startCrmStandIn({ token: CRM_TOKEN, ...options.crm, safety }));
  }
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "leadonce-e2e-"));
  const world = new World(telegram, crms, folder, token);
  t.after(() => world.close());
  const tables = [...crms].map(([name, crm]) => [name, crmTable(crm.url, classes[name] ?? "none")]);
  world.configure({
    telegram: { token: "env:TELEGRAM_BOT_TOKEN", api_root: telegram.root, poll_timeout: "20s" },
    storage: { path: "data/leadonce.db" },
    crm: Object.fromEntries(tables),
    actions: [{ name: "enquiry", kind: "lead", repeat: "each" }],
  });
  world.configure(options.config ?? {});
  return world;
}

export class World {
  readonly telegram: TelegramStandIn;
  readonly crms: ReadonlyMap<string, CrmStandIn>;
  readonly folder: string;
  readonly database: string;
  readonly config: string;
  /** What every process is given unless a call says otherwise. */
  env: NodeJS.ProcessEnv;
  readonly #token: string;
  readonly #daemons: Daemon[] = [];
  readonly #endings: (() => void)[] = [];
  #table: Table = {};

  constructor(
    telegram: TelegramStandIn,
    crms: ReadonlyMap<string, CrmStandIn>,
    folder: string,
    token: string,
  ) {
    this.telegram = telegram;
    this.crms = crms;
    this.folder = folder;
    this.database = join(folder, "data/leadonce.db");
    this.config = join(folder, "service.conf");
    this.#token = token;
    this.env = { TELEGRAM_BOT_TOKEN: token, CRM_TOKEN };
  }

  get bot(): BotControl {
    return this.telegram.bot(this.#token);
  }

  /** The first CRM. */
  get crm(): CrmStandIn {
    const [crm] = this.crms.values();
    if (crm === undefined) throw new Error("This world has no CRM.");
    return crm;
  }

  /** Changes the configuration; a daemon reads it when it starts. */
  configure(changes: Changes): void {
    this.#table = merged(this.#table, changes);
    writeFileSync(this.config, stringify(this.#table));
  }

  start(env: NodeJS.ProcessEnv = {}, argv: readonly string[] = ["run", "--config", this.config]): Daemon {
    const daemon = new Daemon(argv, this.#surroundings(env));
    this.#daemons.push(daemon);
    return daemon;
  }

  /** A daemon that has reached Telegram. */
  async started(env: NodeJS.ProcessEnv = {}): Promise<Daemon> {
    const daemon = this.start(env);
    await daemon.line("poller.polling");
    return daemon;
  }

  /** A command, with this world's configuration. */
  run(...argv: string[]): Promise<Finished> {
    return finished([...argv, "--config", this.config], this.#surroundings({}));
  }

  /** What `leadonce status --json` and the like show, without a process for each look. */
  status(): Promise<StatusReport> {
    return this.#look((store) => store.status("", Date.now()));
  }

  leads(): Promise<LeadReport[]> {
    return this.#look((store) => store.leads(null));
  }

  /** Of the CRMs; those of the ledger are done from the start. */
  async jobs(): Promise<JobReport[]> {
    const jobs = await this.#look((store) => store.jobs({}));
    return jobs.filter(({ destination }) => destination !== "ledger");
  }

  reconciliations(): Promise<ReconciliationReport[]> {
    return this.#look((store) => store.openReconciliations());
  }

  async trace(anything: string | number): Promise<TraceReport> {
    const trace = await this.#look((store) => store.trace(String(anything)));
    assert.ok(trace !== null, `there is no trace of ${anything}`);
    return trace;
  }

  /** Several people write one message each. */
  say(count: number, text = "hello"): void {
    for (let n = 1; n <= count; n += 1) this.bot.say({ from: person(n), text: `${text} ${n}` });
  }

  /** Every update is confirmed, and no job or look-up is left that will go on by itself. */
  async settled(daemon: Daemon): Promise<void> {
    const confirmed = () => this.bot.pending === 0 || !daemon.running;
    await this.telegram.waitFor(confirmed, { what: "the confirmation of all updates", withinMs: 28_000 });
    const db = connect(this.database, { readonly: true });
    try {
      const moving = db.prepare(
        `SELECT 1 FROM jobs WHERE state IN ('blocked', 'pending', 'leased')
         UNION ALL SELECT 1 FROM reconciliations WHERE resolved_at_ms IS NULL AND next_check_at_ms IS NOT NULL`,
      );
      await daemon.until(() => moving.get() === undefined, "all jobs to come to rest");
    } finally {
      db.close();
    }
  }

  /** Runs when all daemons are gone and before the folder goes. */
  atEnd(work: () => void): void {
    this.#endings.push(work);
  }

  async close(): Promise<void> {
    for (const daemon of this.#daemons) daemon.kill("SIGKILL");
    await Promise.allSettled(this.#daemons.map(({ exit }) => exit));
    for (const work of this.#endings) work();
    await this.telegram.close();
    for (const crm of this.crms.values()) await crm.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #look<Result>(work: (store: Store) => Promise<Result>): Promise<Result> {
    const store = openStore(this.database, { mode: "read", nowMs: Date.now() });
    try {
      return await work(store);
    } finally {
      store.close();
    }
  }

  #surroundings(env: NodeJS.ProcessEnv): { folder: string; env: NodeJS.ProcessEnv } {
    return { folder: this.folder, env: { ...this.env, ...env } };
  }
}
