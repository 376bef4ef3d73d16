/**
 * The automatic look-ups (design §3.6, §6): what is due is asked of its destination, and the answer recorded. Keeps P3:
 * it only reads from the CRM; what an answer means is decided in the store.
 */
import PQueue from "p-queue";
import type { Connector } from "../domain/connector.ts";
import type { DestinationKey } from "../domain/ids.ts";
import type { Clock, Log, Random } from "../domain/ports.ts";
import type { StepSettingsOf } from "../domain/settings.ts";
import type { DueCheck, ReconcileStore, Transition } from "../domain/store.ts";
import { transitionFields } from "../domain/transition-fields.ts";

export interface ReconcilerOptions {
  store: ReconcileStore;
  connectors: ReadonlyMap<DestinationKey, Connector>;
  settings: StepSettingsOf;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  onTransitions(transitions: readonly Transition[]): void;
  onChecked(): void;
}

export interface Reconciler {
  /** Starts the look-ups that are due and not already under way; resolves when they are recorded. */
  run(): Promise<void>;
  stop(): Promise<void>;
}

/** Look-ups are searches, which CRMs limit more than anything else. */
const CONCURRENCY = 2;
const PER_RUN = 50;

export function makeReconciler(options: ReconcilerOptions): Reconciler {
  const { store, connectors, settings, clock, random, log, signal } = options;
  const queue = new PQueue({ concurrency: CONCURRENCY });
  const running = new Set<number>();

  async function check(due: DueCheck): Promise<void> {
    if (signal.aborted) return;
    const startedAtMs = clock.now();
    const connector = connectors.get(due.destination);
    const lookUp =
      connector === undefined
        ? { kind: "not_answered" as const, status: null, detail: "the destination is not configured" }
        : await connector.find(due.context, signal);
    // An aborted look-up says nothing; it is due again at the next start.
    if (signal.aborted) return;
    const transitions = await store.recordLookUp(
      due,
      lookUp,
      settings,
      startedAtMs,
      clock.now(),
      random.fraction(),
    );
    log.info("reconciliation.checked", {
      job: due.jobId,
      operation: due.context.operation.id,
      destination: due.destination,
      answered: lookUp.kind === "answered",
      found: lookUp.kind === "answered" ? lookUp.records.length : null,
    });
    for (const transition of transitions) log.info("job.settled", transitionFields(transition));
    options.onTransitions(transitions);
    options.onChecked();
  }

  return {
    run: async () => {
      const due = (await store.dueChecks(clock.now(), PER_RUN)).filter(
        ({ reconciliationId }) => !running.has(reconciliationId),
      );
      await Promise.all(
        due.map(async (one) => {
          running.add(one.reconciliationId);
          try {
            await queue.add(() => check(one));
          } finally {
            running.delete(one.reconciliationId);
          }
        }),
      );
    },
    stop: async () => {
      queue.clear();
      await queue.onIdle();
    },
  };
}
