/**
 * One attempt: begin (commit), send, settle. Keeps P3: nothing leaves before its attempt row is on disk, and an answer
 * that can't be written is held and tried again, because forgetting a success is what makes a second lead.
 */
import { StorageUnavailableError } from "../domain/errors.ts";
import type { Outcome } from "../domain/outcome.ts";
import type { Clock, CrashHook, Log, Random } from "../domain/ports.ts";
import type { DestinationSettings, StepSettingsOf } from "../domain/settings.ts";
import type { Begun, ClaimedJob, Prepare, Settlement, Transition, WorkStore } from "../domain/store.ts";
import { transitionFields } from "../domain/transition-fields.ts";
import { type Batch, batch } from "./batch.ts";

export interface ExecutorOptions {
  store: Pick<WorkStore, "beginAttempt" | "settle" | "release">;
  prepare: Prepare;
  settings: StepSettingsOf;
  clock: Clock;
  random: Random;
  log: Log;
  crash: CrashHook;
  onTransitions(transitions: readonly Transition[]): void;
}

export interface ExecutorSignals {
  /** From here on nothing new is begun. */
  stop: AbortSignal;
  /** From here on what is under way is cut off; its outcome is unknown. */
  abort: AbortSignal;
}

export interface Executor {
  run(job: ClaimedJob, destination: DestinationSettings, signals: ExecutorSignals): Promise<void>;
}

/** How long the executor waits before it tries again to write what the disk refused. */
const WRITE_AGAIN_MS = 1_000;

export function makeExecutor(options: ExecutorOptions): Executor {
  const { store, prepare, settings, clock, random, log, crash, onTransitions } = options;

  const begins: Batch<ClaimedJob & { leaseMs: number }, Begun> = batch((jobs) =>
    store.beginAttempt(jobs, prepare, settings, clock.now()),
  );
  const settles: Batch<Settlement, Transition[]> = batch(async (settlements) => {
    const transitions = await store.settle(settlements, settings, clock.now(), random.fraction);
    onTransitions(transitions);
    const settled = new Set(settlements.map(({ jobId }) => jobId));
    for (const follower of transitions.filter(({ jobId }) => !settled.has(jobId))) {
      log.info("job.moved", transitionFields(follower));
    }
    return settlements.map(({ jobId }) => transitions.filter((transition) => transition.jobId === jobId));
  });

  async function settle(settlement: Settlement): Promise<Transition[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await settles.add(settlement);
      } catch (error) {
        if (!(error instanceof StorageUnavailableError)) throw error;
        // Said once: a full disk needs no full log.
        if (tries === 1) {
          log.error("settle.held", {
            message: `${error.message}; the outcome is kept in memory and written as soon as that is possible`,
            job: settlement.jobId,
            outcome: settlement.outcome.kind,
          });
        }
        await clock.sleep(WRITE_AGAIN_MS);
      }
    }
  }

  /** Null when the program stops before the attempt could be written. */
  async function begin(
    job: ClaimedJob,
    destination: DestinationSettings,
    stop: AbortSignal,
  ): Promise<Begun | null> {
    for (let tries = 1; !stop.aborted; tries += 1) {
      try {
        return await begins.add({ ...job, leaseMs: destination.leaseMs });
      } catch (error) {
        if (!(error instanceof StorageUnavailableError)) throw error;
        if (tries === 1) {
          const message = `${error.message}; nothing was sent, it is tried again as soon as that is possible`;
          log.error("begin.held", { message, job: job.jobId });
        }
        await clock.sleep(WRITE_AGAIN_MS, stop);
      }
    }
    return null;
  }

  async function attempt(
    job: ClaimedJob,
    destination: DestinationSettings,
    signals: ExecutorSignals,
  ): Promise<void> {
    // Shutdown before sending: the job is given back, and nothing is counted.
    if (signals.stop.aborted) return giveBack(job);
    const begun = await begin(job, destination, signals.stop);
    if (begun === null) return giveBack(job);
    if (begun.kind === "lost") {
      log.warn("job.lease_lost", { job: job.jobId, operation: job.operationId, message: "nothing was sent" });
      return;
    }
    if (begun.kind === "stopped") {
      log.warn("job.stopped", {
        job: job.jobId,
        operation: job.operationId,
        to: begun.to,
        reason: begun.reason,
      });
      return;
    }
    const startedMs = clock.monotonic();
    const outcome = await begun.send(signals.abort);
    crash("send.answered");
    const transitions = await settle({ jobId: job.jobId, token: job.token, n: begun.n, outcome });
    logOutcome(begun.n, outcome, transitions, clock.monotonic() - startedMs);
  }

  async function giveBack(job: ClaimedJob): Promise<void> {
    onTransitions(await store.release([job], clock.now()));
  }

  function logOutcome(n: number, outcome: Outcome, transitions: Transition[], durationMs: number): void {
    for (const transition of transitions) {
      const line = {
        ...transitionFields(transition),
        attempt: n,
        outcome: outcome.kind,
        status: outcome.status,
        duration_ms: Math.round(durationMs),
      };
      if (transition.to === "done") log.info("job.settled", line);
      else log.warn("job.settled", line);
    }
  }

  return { run: attempt };
}
