/**
 * Hands ready jobs to a p-queue per destination (design §3.4). Woken by commits in this process, by due times, and by
 * other processes' writes; it never polls for work otherwise. Owns no state that a crash could lose: what it holds are
 * leases in the database.
 */
import { setMaxListeners } from "node:events";
import PQueue from "p-queue";
import { StorageUnavailableError } from "../domain/errors.ts";
import type { DestinationKey, LeaseToken, RunId } from "../domain/ids.ts";
import type { Clock, Log, Random } from "../domain/ports.ts";
import type { DestinationSettings, StepSettingsOf } from "../domain/settings.ts";
import type { ClaimedJob, Transition, WorkStore } from "../domain/store.ts";
import { transitionFields } from "../domain/transition-fields.ts";
import type { Executor } from "./executor.ts";

export interface DispatcherOptions {
  store: Pick<WorkStore, "claim" | "release" | "staleLeases" | "rescue" | "nextDueAtMs">;
  destinations: readonly DestinationSettings[];
  settings: StepSettingsOf;
  executor: Executor;
  runId: RunId;
  clock: Clock;
  random: Random;
  log: Log;
  /** Rises when another process has written; see `Store.dataVersion`. */
  dataVersion(): number;
  onTransitions(transitions: readonly Transition[]): void;
  /** Called whenever something may be due: probes and look-ups have their own runners. */
  onDue(): void;
  /** A bug: the program has to end, since going on could break a promise. */
  onFatal(error: unknown): void;
}

export interface Dispatcher {
  /** Takes back what a dead process left leased, then begins to work. */
  start(): Promise<void>;
  /** Something may have become ready. Cheap; any number of calls make one pass. */
  wake(): void;
  /** Begins nothing more, gives back what was not begun, and waits for the rest until `signal` cuts it off. */
  stop(signal: AbortSignal): Promise<void>;
}

/** How often another process's writes are noticed; design §9 promises within a second. */
const OTHERS_WRITES_MS = 500;
/** A due time is looked at again at least this often, because the wall clock may be set. */
const LONGEST_SLEEP_MS = 30_000;

interface Lane {
  destination: DestinationSettings;
  queue: PQueue;
}

export function makeDispatcher(options: DispatcherOptions): Dispatcher {
  const { store, executor, clock, random, log, runId, settings } = options;
  const lanes = new Map<DestinationKey, Lane>(
    options.destinations
      .filter(({ kind }) => kind !== "ledger")
      .map((destination) => [destination.key, { destination, queue: makeQueue(destination, wake) }]),
  );
  const stopping = new AbortController();
  const aborting = new AbortController();
  // One listener for each request under way, which is no leak however many there are.
  setMaxListeners(0, aborting.signal);
  /** Whatever this process has claimed and not finished: its lease is never taken back, however long it waits. */
  const inHand = new Set<LeaseToken>();
  /** Of these, what the rate of its destination has not let begin. */
  const waiting = new Map<LeaseToken, ClaimedJob>();
  let passing = false;
  let wakeAgain = false;
  let timer: AbortController | null = null;
  let version = 0;
  let storageTrouble = false;

  function wake(): void {
    if (stopping.signal.aborted) return;
    wakeAgain = true;
    if (!passing) void passes();
  }

  async function passes(): Promise<void> {
    passing = true;
    try {
      while (wakeAgain && !stopping.signal.aborted) {
        wakeAgain = false;
        await pass();
      }
    } catch (error) {
      if (error instanceof StorageUnavailableError) waitForStorage(error);
      else options.onFatal(error);
    } finally {
      passing = false;
    }
  }

  function waitForStorage(error: StorageUnavailableError): void {
    // Said once while it lasts: a full disk needs no full log.
    if (!storageTrouble)
      log.error("dispatcher.storage", { message: `${error.message}; jobs wait, nothing is lost` });
    storageTrouble = true;
    sleepUntil(clock.now() + 1_000);
  }

  async function pass(): Promise<void> {
    // One reading for the whole pass: what becomes due while it runs is seen by the sleep at its end.
    const nowMs = clock.now();
    await rescueExpired();
    const requests = [...lanes.values()].map(({ destination, queue }) => ({
      destination: destination.key,
      limit: destination.concurrency - queue.pending - queue.size,
      leaseMs: destination.leaseMs,
    }));
    const claimed = await store.claim(requests, runId, random.leaseToken, nowMs);
    if (storageTrouble && claimed.length > 0) {
      storageTrouble = false;
      log.info("dispatcher.storage_back", { message: "the database can be written again; work goes on" });
    }
    for (const job of claimed) enqueue(job);
    // After the claim, which fails while the disk is full: asking a CRM is no use when its answer can't be written.
    options.onDue();
    const due = await store.nextDueAtMs(nowMs);
    sleepUntil(due ?? nowMs + LONGEST_SLEEP_MS);
  }

  /** Leases that ran out although nobody in this process works on them. */
  async function rescueExpired(): Promise<void> {
    const stale = (await store.staleLeases(clock.now())).filter(({ token }) => !inHand.has(token));
    if (stale.length > 0) report(await store.rescue(stale, settings, clock.now(), random.fraction));
  }

  function report(transitions: readonly Transition[]): void {
    for (const transition of transitions) log.warn("job.rescued", transitionFields(transition));
    options.onTransitions(transitions);
  }

  function enqueue(job: ClaimedJob): void {
    const lane = lanes.get(job.destination);
    if (lane === undefined) return;
    const { destination, queue } = lane;
    inHand.add(job.token);
    waiting.set(job.token, job);
    queue
      .add(() => {
        waiting.delete(job.token);
        return executor.run(job, destination, { stop: stopping.signal, abort: aborting.signal });
      })
      .catch((error: unknown) => {
        // The lease stays; it is taken back when it runs out.
        if (error instanceof StorageUnavailableError)
          log.error("job.storage", { job: job.jobId, message: error.message });
        else options.onFatal(error);
      })
      .finally(() => inHand.delete(job.token));
  }

  /** At a slow rate a turn may come in an hour; whoever stops can't wait for that. */
  async function giveBackWaiting(): Promise<void> {
    for (const { queue } of lanes.values()) queue.clear();
    try {
      await store.release([...waiting.values()], clock.now());
    } catch (error) {
      // Then the next start takes them back.
      if (!(error instanceof StorageUnavailableError)) throw error;
      log.warn("dispatcher.storage", { message: error.message });
    }
  }

  function sleepUntil(atMs: number): void {
    timer?.abort();
    const next = new AbortController();
    timer = next;
    const wait = Math.min(LONGEST_SLEEP_MS, Math.max(0, atMs - clock.now()));
    void clock.sleep(wait, next.signal).then(() => {
      if (!next.signal.aborted) wake();
    });
  }

  async function watchOthers(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const now = options.dataVersion();
        if (now !== version) wake();
        version = now;
      } catch (error) {
        // The next pass says so; a look that failed has seen nothing.
        if (!(error instanceof StorageUnavailableError)) throw error;
      }
      await clock.sleep(OTHERS_WRITES_MS, stopping.signal);
    }
  }

  return {
    start: async () => {
      // The lock is ours, so every lease in the file is a dead process's.
      const stale = await store.staleLeases(Number.POSITIVE_INFINITY);
      if (stale.length > 0) {
        const transitions = await store.rescue(stale, settings, clock.now(), random.fraction);
        log.warn("rescue", { message: "took back what the last run left in hand", jobs: stale.length });
        report(transitions);
      }
      void watchOthers().catch(options.onFatal);
      wake();
    },
    wake,
    stop: async (signal) => {
      stopping.abort();
      timer?.abort();
      const abort = (): void => aborting.abort();
      if (signal.aborted) abort();
      else signal.addEventListener("abort", abort, { once: true });
      await giveBackWaiting();
      await Promise.all([...lanes.values()].map(({ queue }) => queue.onIdle()));
    },
  };
}

/** @param onFree a place has become free; the job's own promise settles while its place is still taken */
function makeQueue({ concurrency, rate }: DestinationSettings, onFree: () => void): PQueue {
  const queue = new PQueue({
    concurrency,
    ...(rate === null ? {} : { intervalCap: rate.count, interval: rate.perMs, strict: true }),
  });
  queue.on("next", onFree);
  return queue;
}
