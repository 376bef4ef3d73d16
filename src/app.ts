/**
 * The composition root: what is started and stopped, and in which order. The lock comes before everything, and the
 * database before the network, so that a second daemon or another bot's token is refused before it can do harm.
 */
import { hostname } from "node:os";
import type { ResolvedConfig } from "./config/index.ts";
import { createConnector } from "./crm/connectors.ts";
import type { Connector } from "./domain/connector.ts";
import { ConfigError, StorageError, StorageUnavailableError } from "./domain/errors.ts";
import type { BotId, DestinationKey, RunId } from "./domain/ids.ts";
import { makeIntake } from "./domain/intake.ts";
import type { Clock, CrashHook, Log, Random } from "./domain/ports.ts";
import type { StepSettingsOf } from "./domain/settings.ts";
import type { Accepted, Decide, Transition } from "./domain/store.ts";
import { makeReconciler, type Reconciler } from "./reconcile/reconciler.ts";
import { type Lock, lockedError, openStore, preparePath, type Store, takeLock } from "./store/index.ts";
import type { PollerAlert } from "./telegram/alarms.ts";
import { telegramClient } from "./telegram/client.ts";
import { Poller } from "./telegram/poller.ts";
import { botIdOfToken } from "./telegram/token.ts";
import { VERSION } from "./version.ts";
import { type Dispatcher, makeDispatcher } from "./worker/dispatcher.ts";
import { makeExecutor } from "./worker/executor.ts";
import { makeProber } from "./worker/prober.ts";

/** The configuration with its secrets read; which values are secret is the log's business. */
export type AppSettings = Omit<ResolvedConfig, "secretValues">;

export interface AppPorts {
  clock: Clock;
  random: Random;
  log: Log;
  crash: CrashHook;
}

export interface AppEvents {
  onIdentified?(bot: { id: BotId; username: string | null }): void;
  onLeads?(accepted: Accepted): void;
}

export interface App {
  /** Stops in order; what is in hand is finished, or cut off in time and settled as unknown. Never rejects. */
  stop(): Promise<void>;
  /** Rejects when the daemon can't go on; resolves after `stop()`. */
  readonly ended: Promise<void>;
}

/** With the poll already cut off, this leaves two of the ten seconds for settling what is cut off. */
const FINISH_WITHIN_MS = 7_000;
/** Told once, at a start: nothing can be done about them, so they end with the run. */
const PASSING_ALERTS = [
  "gap",
  "absence",
  "backlog",
  "group_privacy",
] as const satisfies readonly PollerAlert[];
const HEARTBEAT_MS = 60_000;

/** @throws LockedError, ConfigError, StorageError */
export async function startApp(settings: AppSettings, ports: AppPorts, events: AppEvents = {}): Promise<App> {
  const path = preparePath(settings.databasePath);
  const lock = takeLock(path);
  if (lock === null) throw lockedError(await holderOf(path, ports.clock.now()));
  let store: Store | null = null;
  try {
    store = openStore(path, { mode: "create", nowMs: ports.clock.now(), crash: ports.crash });
    await refuseOtherBot(store, botIdOfToken(settings.telegram.token));
    return await compose(settings, ports, events, store, lock);
  } catch (error) {
    store?.close();
    lock.release();
    throw error;
  }
}

async function holderOf(
  path: string,
  nowMs: number,
): Promise<{ pid: number; host: string; sinceMs: number } | null> {
  try {
    const store = openStore(path, { mode: "read", nowMs });
    try {
      const run = await store.lastRun();
      // A run that has ended holds nothing: whoever does has not entered itself yet.
      if (run === null || run.endedAtMs !== null) return null;
      return { pid: run.pid, host: run.host, sinceMs: run.startedAtMs };
    } finally {
      store.close();
    }
  } catch {
    // The holder may be making the file at this moment; that it is held is all that matters.
    return null;
  }
}

/** The number before the token's colon is the bot's id: compared before the first call, and again with getMe. */
async function refuseOtherBot(store: Store, botId: BotId): Promise<void> {
  const bound = await store.bot();
  if (bound !== null && bound.botId !== botId) throw otherBotError(bound.botId, bound.username, botId);
}

function otherBotError(bound: BotId, username: string | null, botId: BotId): ConfigError {
  const known = username === null ? "" : ` (@${username})`;
  return new ConfigError(
    `this database belongs to bot ${bound}${known}, but the token is that of bot ${botId}`,
    [],
    "Use that bot's token, or give this bot a database of its own: [storage] path. Nothing was changed.",
  );
}

async function compose(
  settings: AppSettings,
  ports: AppPorts,
  events: AppEvents,
  store: Store,
  lock: Lock,
): Promise<App> {
  const { clock, random, log, crash } = ports;
  const runId = random.runId();
  const botId = botIdOfToken(settings.telegram.token);
  const ending = new AbortController();
  const fatal = deferred();
  const onFatal = (error: unknown): void => fatal.reject(error);

  await enterRun(store, settings, runId, clock);
  const connectors = makeConnectors(settings, store.secretMark);
  const stepSettings: StepSettingsOf = (key, step) =>
    settings.destinations.find((destination) => destination.key === key)?.steps[step] ?? null;

  const onTransitions = (transitions: readonly Transition[]): void => {
    if (transitions.length > 0) dispatcher.wake();
  };
  const wake = (): void => dispatcher.wake();
  const executor = makeExecutor({
    store,
    settings: stepSettings,
    prepare: (key, context, storedBody) => connectors.get(key)?.prepare(context, storedBody) ?? null,
    clock,
    random,
    log,
    crash,
    onTransitions,
  });
  const { destinations } = settings;
  const { signal } = ending;
  const probeDue = makeProber({
    store,
    destinations,
    connectors,
    clock,
    random,
    log,
    signal,
    onProbed: wake,
  });
  const reconciler = makeReconciler({
    store,
    connectors,
    settings: stepSettings,
    clock,
    random,
    log,
    signal,
    onTransitions,
    onChecked: wake,
  });
  const dispatcher: Dispatcher = makeDispatcher({
    store,
    destinations,
    settings: stepSettings,
    executor,
    runId,
    clock,
    random,
    log,
    dataVersion: store.dataVersion,
    onTransitions,
    onDue: () => {
      probeDue().catch(unlessStorage(log, onFatal));
      reconciler.run().catch(unlessStorage(log, onFatal));
    },
    onFatal,
  });
  const poller = makePoller(settings, ports, events, store, botId, wake, onFatal);

  await dispatcher.start();
  poller.run().catch(onFatal);
  void heartbeat(store, runId, clock, log, signal).catch(onFatal);

  return {
    stop: once(async () => {
      ending.abort();
      await poller.stop();
      await settleWork(dispatcher, reconciler, clock);
      await Promise.all([...connectors.values()].map((connector) => connector.close()));
      await endRun(store, runId, clock, log);
      store.close();
      lock.release();
      fatal.resolve();
    }),
    ended: fatal.promise,
  };
}

async function enterRun(store: Store, settings: AppSettings, runId: RunId, clock: Clock): Promise<void> {
  const lastVersion = (await store.lastRun())?.version;
  const run = {
    runId,
    version: VERSION,
    configHash: settings.configHash,
    pid: process.pid,
    host: hostname(),
  };
  await store.startRun(run, clock.now());
  await store.configureDestinations(settings.destinations, clock.now());
  // What only had to be read once was there to be read until now.
  for (const kind of PASSING_ALERTS) await store.clearAlert(kind, "telegram", clock.now());
  const bot = await store.bot();
  // Another version may understand what this one's predecessor did not.
  if (lastVersion !== undefined && lastVersion !== VERSION && bot !== null) {
    await store.redecide("quarantined", intakeFor(settings, bot.botId, bot.username ?? ""), clock.now());
  }
}

function intakeFor(settings: AppSettings, id: BotId, username: string): Decide {
  return makeIntake({
    bot: { id, username },
    actions: settings.actions,
    destinations: settings.destinations,
  });
}

function makeConnectors(settings: AppSettings, secretMark: string): ReadonlyMap<DestinationKey, Connector> {
  return new Map(
    settings.http.map(({ key, settings: http, secrets }) => [
      key,
      createConnector({ settings: http, secrets, secretMark }),
    ]),
  );
}

function makePoller(
  settings: AppSettings,
  { clock, random, log, crash }: AppPorts,
  events: AppEvents,
  store: Store,
  botId: BotId,
  wake: () => void,
  onFatal: (error: unknown) => void,
): Poller {
  const { telegram, actions } = settings;
  const record = (write: Promise<void>): void => void write.catch(unlessStorage(log, onFatal));
  return new Poller({
    client: telegramClient({
      token: telegram.token,
      apiRoot: telegram.apiRoot,
      proxy: telegram.proxy,
      clock,
    }),
    store,
    botId,
    pollTimeoutMs: telegram.pollTimeoutMs,
    updateKinds: actions.flatMap(({ when }) => when.update),
    takesGroups: actions.some(({ when }) => when.chat !== "private"),
    takeOverWebhook: telegram.takeOverWebhook,
    clock,
    random,
    log,
    crash,
    identified: async (me) => {
      const bound = await store.bindBot(me.id, me.username, clock.now());
      if (bound.kind === "other") throw otherBotError(bound.bot.botId, bound.bot.username, me.id);
      events.onIdentified?.(me);
      return intakeFor(settings, me.id, me.username ?? "");
    },
    onAccepted: (accepted) => {
      for (const { operations, eventKey } of accepted.updates) {
        for (const { id, code, action } of operations) {
          log.info("lead.stored", { operation: id, code, action, update: eventKey });
        }
      }
      events.onLeads?.(accepted);
      if (accepted.work) wake();
    },
    onCompleted: () => {},
    onAlert: (kind, message) => record(store.raiseAlert(kind, "telegram", message, clock.now())),
    onRecovered: (kind) => record(store.clearAlert(kind, "telegram", clock.now())),
  });
}

async function settleWork(dispatcher: Dispatcher, reconciler: Reconciler, clock: Clock): Promise<void> {
  const cutOff = new AbortController();
  const finished = new AbortController();
  void clock.sleep(FINISH_WITHIN_MS, finished.signal).then(() => cutOff.abort());
  await Promise.all([dispatcher.stop(cutOff.signal), reconciler.stop()]);
  finished.abort();
}

/** A sign of life once a minute: the only thing that an idle daemon writes besides the poller's own report. */
async function heartbeat(
  store: Store,
  runId: RunId,
  clock: Clock,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(HEARTBEAT_MS, signal);
    if (signal.aborted) return;
    await store.heartbeat(runId, clock.now()).catch(unlessStorage(log));
  }
}

/** Without it the next start takes the run for one that crashed, which is harmless. */
async function endRun(store: Store, runId: RunId, clock: Clock, log: Log): Promise<void> {
  await store.endRun(runId, clock.now()).catch((error: unknown) => {
    if (!(error instanceof StorageError)) throw error;
    log.warn("storage.unavailable", { message: error.message });
  });
}

/** Storage that is unavailable passes by itself and is told by whoever could not write; anything else is a bug. */
function unlessStorage(log: Log, otherwise?: (error: unknown) => void): (error: unknown) => void {
  return (error) => {
    if (error instanceof StorageUnavailableError) log.warn("storage.unavailable", { message: error.message });
    else if (otherwise !== undefined) otherwise(error);
    else throw error;
  };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => {
    running ??= work();
    return running;
  };
}

function deferred(): { promise: Promise<void>; resolve(): void; reject(error: unknown): void } {
  let resolve: () => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
