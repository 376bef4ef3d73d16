/**
 * A poller on the real store, a real client and the Telegram stand-in, with a clock that tests move. The stand-in's own
 * clock runs, so that a waiting poll is answered as soon as somebody writes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Dispatcher } from "undici";
import { StorageUnavailableError } from "../../src/domain/errors.ts";
import { asBotId, LEDGER } from "../../src/domain/ids.ts";
import { makeIntake } from "../../src/domain/intake.ts";
import type { Clock, CrashPoint, Log, LogFields } from "../../src/domain/ports.ts";
import type { LeadReport } from "../../src/domain/reports.ts";
import type { Accepted, Page, PollerReport } from "../../src/domain/store.ts";
import {
  type BotControl,
  type BotOptions,
  exampleToken,
  startTelegramStandIn,
  type TelegramStandIn,
} from "../../src/stand-ins/telegram/index.ts";
import { openStore, type Store } from "../../src/store/index.ts";
import { telegramClient } from "../../src/telegram/client.ts";
import { Poller, type PollerOptions } from "../../src/telegram/poller.ts";

export const BOT_ID = asBotId(7001);
export const TOKEN = exampleToken(BOT_ID);
export const PERSON = { id: 5550101, first_name: "Test Person" };
export const FIRST_ID = 40_000_001;
export const START_MS = Date.UTC(2026, 0, 15, 9, 0, 0);

/** A guard against waiting for ever, not a measurement. */
const LIMIT_MS = 15_000;

function within<Value>(what: string, wait: (resolve: (value: Value) => void) => void): Promise<Value> {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`Waited in vain for ${what}.`)), LIMIT_MS);
    wait((value) => {
      clearTimeout(limit);
      resolve(value);
    });
  });
}

interface Sleeper {
  dueAtMs: number;
  ms: number;
  wake(): void;
}

/** Stands still until it is moved; wall and monotonic clock can be moved apart. */
export class TestClock implements Clock {
  readonly #sleepers = new Set<Sleeper>();
  readonly #watchers = new Set<() => void>();
  #monotonicMs = 0;
  #wallMs = START_MS;
  /** Sleeps that pass at once, each moving the clock by its length. By default the spacing after an empty answer. */
  passes: (ms: number) => boolean = (ms) => ms <= 250;
  /** Every sleep that was begun. */
  readonly slept: number[] = [];

  now = (): number => this.#wallMs;
  monotonic = (): number => this.#monotonicMs;

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.slept.push(ms);
    if (signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const sleeper: Sleeper = {
        dueAtMs: this.#monotonicMs + ms,
        ms,
        wake: () => {
          this.#sleepers.delete(sleeper);
          signal?.removeEventListener("abort", sleeper.wake);
          resolve();
        },
      };
      signal?.addEventListener("abort", sleeper.wake);
      this.#sleepers.add(sleeper);
      if (this.passes(ms)) this.advance(ms);
      for (const look of [...this.#watchers]) look();
    });
  }

  /** Lets both clocks run; who sleeps wakes at the right moment. */
  advance(ms: number): void {
    const targetMs = this.#monotonicMs + ms;
    for (let next = this.#next(targetMs); next !== undefined; next = this.#next(targetMs)) {
      this.#moveTo(next.dueAtMs);
      next.wake();
    }
    this.#moveTo(targetMs);
  }

  /** In steps, so that the loop can act in between. */
  async run(ms: number, stepMs = 1_000): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      this.advance(Math.min(stepMs, left));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The wall clock alone: somebody sets it, or the machine sleeps and monotonic time stands still. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
  }

  /** Somebody sleeps for a time like this, now or later. */
  whenSleeping(match: (ms: number) => boolean): Promise<number> {
    return within("somebody to sleep", (resolve) => {
      const look = (): void => {
        const sleeper = [...this.#sleepers].find(({ ms }) => match(ms));
        if (sleeper === undefined) return;
        this.#watchers.delete(look);
        resolve(sleeper.ms);
      };
      this.#watchers.add(look);
      look();
    });
  }

  #next(untilMs: number): Sleeper | undefined {
    const due = [...this.#sleepers].filter(({ dueAtMs }) => dueAtMs <= untilMs);
    return due.sort((a, b) => a.dueAtMs - b.dueAtMs)[0];
  }

  #moveTo(ms: number): void {
    this.#wallMs += ms - this.#monotonicMs;
    this.#monotonicMs = ms;
  }
}

export interface LogLine {
  level: "info" | "warn" | "error";
  event: string;
  fields: LogFields;
}

export class TestLog implements Log {
  readonly lines: LogLine[] = [];
  readonly #watchers = new Set<(line: LogLine) => void>();

  info = (event: string, fields?: LogFields): void => this.#add("info", event, fields);
  warn = (event: string, fields?: LogFields): void => this.#add("warn", event, fields);
  error = (event: string, fields?: LogFields): void => this.#add("error", event, fields);

  of(event: string): LogFields[] {
    return this.lines.filter((line) => line.event === event).map(({ fields }) => fields);
  }

  /** The next line of this event. */
  next(event: string): Promise<LogFields> {
    return within(event, (resolve) => {
      const look = (line: LogLine): void => {
        if (line.event !== event) return;
        this.#watchers.delete(look);
        resolve(line.fields);
      };
      this.#watchers.add(look);
    });
  }

  onLine(look: (line: LogLine) => void): void {
    this.#watchers.add(look);
  }

  #add(level: LogLine["level"], event: string, fields: LogFields = {}): void {
    const line = { level, event, fields };
    this.lines.push(line);
    for (const look of [...this.#watchers]) look(line);
  }
}

export interface WorldOptions {
  bot?: Partial<BotOptions>;
  poller?: Partial<PollerOptions>;
  /** At each crash point of poller and store. */
  crash?: (point: CrashPoint) => void;
  dispatcher?: () => Dispatcher;
  /** The client's own, instead of the poller's: it stands still, and no call meets its deadline. */
  clientClock?: Clock;
  /** Instead of 127.0.0.1. */
  apiHost?: string;
}

export class PollerWorld {
  readonly telegram: TelegramStandIn;
  readonly bot: BotControl;
  readonly clock = new TestClock();
  readonly log = new TestLog();
  readonly alerts: { kind: string; message: string }[] = [];
  readonly recovered: string[] = [];
  readonly accepted: Accepted[] = [];
  /** What the poller wrote of itself. */
  readonly reports: PollerReport[] = [];
  /** Crash points in the order in which they were passed. */
  readonly points: CrashPoint[] = [];
  /** How many commits are still to fail as on a full disk. The real transaction is begun and rolled back. */
  failingCommits = 0;
  failingReports = 0;
  /** Runs before a page goes to the store; may hold it back. */
  beforeAccept: (page: Page) => Promise<void> = async () => {};
  readonly #options: WorldOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), "leadonce-poller-"));
  readonly #watchers = new Set<() => void>();
  store: Store;
  poller: Poller;
  running: Promise<void> = Promise.resolve();

  private constructor(telegram: TelegramStandIn, options: WorldOptions) {
    this.telegram = telegram;
    this.bot = telegram.bot();
    this.#options = options;
    this.store = this.#openStore();
    this.poller = this.#makePoller();
    // A wait after a failure passes at once, whatever its length; the poller says it before it sleeps.
    const announced = new Set<unknown>();
    this.log.onLine(({ fields }) => "wait_ms" in fields && announced.add(fields.wait_ms));
    this.clock.passes = (ms) => ms <= 250 || announced.delete(ms);
  }

  static async start(t: TestContext, options: WorldOptions = {}): Promise<PollerWorld> {
    const telegram = await startTelegramStandIn({
      bots: [{ token: TOKEN, username: "example_bot", firstUpdateId: FIRST_ID, ...options.bot }],
    });
    const world = new PollerWorld(telegram, options);
    t.after(() => world.#close());
    return world;
  }

  /** Waits after failures no longer pass by themselves. */
  holdWaits(): void {
    this.clock.passes = (ms) => ms <= 250;
  }

  run(): void {
    this.running = this.poller.run();
    // Looked at by `ended` where a test expects it to reject.
    this.running.catch(() => {});
  }

  /** Settles as `run()` of the poller does. */
  async ended(): Promise<void> {
    await within<void>("the poller's end", (resolve) => void this.running.then(resolve, () => resolve()));
    await this.running;
  }

  async stop(): Promise<void> {
    await within<void>("the poller to stop", (resolve) => void this.poller.stop().then(resolve));
  }

  say(text: string): number {
    return this.bot.say({ from: PERSON, text }).update_id;
  }

  /** Another process on the same database: nothing but the file outlives the first. */
  async restart(): Promise<void> {
    await this.stop();
    this.store.close();
    this.store = this.#openStore();
    this.poller = this.#makePoller();
    this.run();
  }

  leads(): Promise<LeadReport[]> {
    return this.store.leads(null);
  }

  /** `offset` of every getUpdates so far; undefined where it was left out. */
  offsets(): (number | undefined)[] {
    return this.bot.polls.map(({ parameters }) =>
      parameters.offset === undefined ? undefined : Number(parameters.offset),
    );
  }

  /** Looks again whenever the poller told of something. */
  until(condition: () => boolean): Promise<void> {
    return within("what the poller should tell", (resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#watchers.delete(look);
        resolve(undefined);
      };
      this.#watchers.add(look);
      look();
    });
  }

  #openStore(): Store {
    return openStore(join(this.#folder, "leadonce.db"), {
      mode: "create",
      nowMs: this.clock.now(),
      crash: (point) => this.#pass(point),
    });
  }

  #pass(point: CrashPoint): void {
    this.points.push(point);
    this.#options.crash?.(point);
    if (point === "accept.before_commit" && this.failingCommits > 0) {
      this.failingCommits -= 1;
      throw diskFull();
    }
  }

  #makePoller(): Poller {
    const { clock, log, store } = this;
    const { dispatcher, clientClock = clock } = this.#options;
    const client = telegramClient({
      token: TOKEN,
      apiRoot: `http://${this.#options.apiHost ?? "127.0.0.1"}:${this.telegram.port}`,
      proxy: null,
      clock: clientClock,
      ...(dispatcher && { dispatcher }),
    });
    const look = (): void => {
      for (const watcher of [...this.#watchers]) watcher();
    };
    this.log.onLine(look);
    return new Poller({
      client,
      store: {
        bot: () => store.bot(),
        accept: async (page, decide) => {
          await this.beforeAccept(page);
          return store.accept(page, decide);
        },
        recordPoller: async (botId, report, nowMs) => {
          if (this.failingReports > 0) {
            this.failingReports -= 1;
            throw diskFull();
          }
          this.reports.push(report);
          await store.recordPoller(botId, report, nowMs);
        },
      },
      botId: BOT_ID,
      pollTimeoutMs: 50_000,
      updateKinds: [],
      takesGroups: false,
      takeOverWebhook: false,
      clock,
      random: { fraction: () => 0.5 },
      log,
      crash: (point) => this.#pass(point),
      identified: async (me) => {
        await store.bindBot(me.id, me.username, clock.now());
        return makeIntake({
          bot: { id: me.id, username: me.username ?? "" },
          actions: [
            {
              name: "enquiry",
              key: "enquiry",
              kind: "lead",
              when: { update: ["message"], chat: "private" },
              repeat: { rule: "each" },
              to: [LEDGER],
            },
          ],
          destinations: [{ key: LEDGER, kind: "ledger" }],
        });
      },
      onAccepted: (accepted) => this.accepted.push(accepted),
      onCompleted: look,
      onAlert: (kind, message) => {
        this.alerts.push({ kind, message });
        look();
      },
      onRecovered: (kind) => {
        this.recovered.push(kind);
        look();
      },
      ...this.#options.poller,
    });
  }

  async #close(): Promise<void> {
    await this.stop();
    await this.telegram.close();
    this.store.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function diskFull(): StorageUnavailableError {
  return new StorageUnavailableError("can't write: the disk is full", "Free some space.");
}
