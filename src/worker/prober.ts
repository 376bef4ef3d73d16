/** Asks a paused destination whether it works again (design §6); never with a create. */
import type { Connector } from "../domain/connector.ts";
import type { DestinationKey } from "../domain/ids.ts";
import type { Clock, Log, Random } from "../domain/ports.ts";
import type { DestinationSettings } from "../domain/settings.ts";
import type { WorkStore } from "../domain/store.ts";

export interface ProberOptions {
  store: Pick<WorkStore, "dueProbes" | "recordProbe">;
  destinations: readonly DestinationSettings[];
  connectors: ReadonlyMap<DestinationKey, Connector>;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** A probe was recorded; there may be a trial to claim. */
  onProbed(): void;
}

/** Probes every destination that is due; a destination is probed by one call at a time. */
export function makeProber(options: ProberOptions): () => Promise<void> {
  const { store, connectors, clock, random, log, signal } = options;
  const running = new Set<DestinationKey>();

  async function probe(key: DestinationKey): Promise<void> {
    const destination = options.destinations.find((candidate) => candidate.key === key);
    const connector = connectors.get(key);
    if (destination === undefined || connector === undefined) return;
    const result = await connector.probe(signal);
    if (signal.aborted) return;
    const health = await store.recordProbe(key, result, destination, clock.now(), random.fraction());
    log.info("destination.probed", {
      destination: destination.name,
      probe: result.kind,
      status: result.status,
      state: health.state,
      next: health.trialReady ? "one job is let through" : "probe again later",
    });
    options.onProbed();
  }

  return async () => {
    const due = (await store.dueProbes(clock.now())).filter((key) => !running.has(key));
    await Promise.all(
      due.map(async (key) => {
        running.add(key);
        try {
          await probe(key);
        } finally {
          running.delete(key);
        }
      }),
    );
  };
}
