/** Destinations: what is configured now, probes, and pauses by a person (design §6). */
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import { afterProbe, HEALTHY, pausedByOperator } from "../domain/health.ts";
import { asDestinationKey } from "../domain/ids.ts";
import type { DecisionStore, WorkStore } from "../domain/store.ts";
import { alertBook } from "./alerts.ts";
import { healthBook } from "./health.ts";
import { actionBook } from "./operator-actions.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";

type DestinationStore = Pick<
  WorkStore,
  "destinations" | "configureDestinations" | "dueProbes" | "recordProbe"
> &
  Pick<DecisionStore, "pause" | "resume">;

const keyRow = z.object({ destination: z.string().transform(asDestinationKey) });
const countRow = z.object({ destination: z.string(), n: z.number() });

export function destinationStore({ db }: StoreContext): DestinationStore {
  const health = healthBook(db);
  const alerts = alertBook(db);
  const actions = actionBook(db);
  const due = reader(
    db,
    keyRow,
    "SELECT destination FROM destinations WHERE configured = 1 AND state = 'paused' AND next_probe_at_ms <= ?",
  );
  const forget = db.prepare("UPDATE destinations SET configured = 0");
  const enter = db.prepare(
    `INSERT INTO destinations (destination, name, kind, configured, fingerprint) VALUES (@key, @name, @kind, 1, @fingerprint)
     ON CONFLICT (destination) DO UPDATE SET name = @name, kind = @kind, configured = 1, fingerprint = @fingerprint`,
  );
  const orphans = reader(
    db,
    countRow,
    `SELECT j.destination, count(*) AS n FROM jobs j LEFT JOIN destinations d ON d.destination = j.destination
     WHERE j.state IN ('blocked', 'pending', 'leased', 'failed', 'needs_reconciliation') AND coalesce(d.configured, 0) = 0
     GROUP BY j.destination`,
  );

  return {
    destinations: async () =>
      look("read the destinations", () =>
        health.all().map(({ key, name, configured, health }) => ({ key, name, configured, health })),
      ),

    configureDestinations: async (destinations, nowMs) =>
      transact(db, "enter the destinations", () => {
        const before = new Map(health.all().map((row) => [row.key, row]));
        forget.run();
        for (const { key, name, kind, fingerprint } of destinations) {
          const old = before.get(key);
          enter.run({ key, name, kind, fingerprint });
          if (old === undefined || old.health.state === "active" || old.health.reason === "operator")
            continue;
          // A changed configuration or secret may have mended it; an unchanged one is probed at once.
          if (old.fingerprint !== fingerprint) health.save(key, HEALTHY, nowMs);
          else health.save(key, { ...old.health, nextProbeAtMs: nowMs, trialReady: false }, nowMs);
        }
        const waiting = new Map(orphans.all().map(({ destination, n }) => [destination, n]));
        for (const { key } of health.all()) {
          if (!waiting.has(key)) alerts.clear("unconfigured", key, nowMs);
        }
        for (const [destination, n] of waiting) {
          alerts.raise(
            "unconfigured",
            destination,
            `${n} jobs belong to "${destination}", which the configuration does not name. They stay as they are. Put it back into service.conf, or dismiss them: leadonce dismiss --all --destination ${destination} --why …`,
            nowMs,
          );
        }
      }),

    dueProbes: async (nowMs) =>
      look("read due probes", () => due.all(nowMs).map(({ destination }) => destination)),

    recordProbe: async (destination, probe, settings, nowMs, fraction) =>
      transact(db, "record a probe", () => {
        const stored = health.get(destination);
        assert(stored !== undefined, `destination ${destination} is not entered`);
        const next = afterProbe(stored.health, probe, settings.retry, nowMs, fraction);
        health.save(destination, next, nowMs);
        return next;
      }),

    pause: async (destination, operator, nowMs) =>
      transact(db, "pause a destination", () => {
        const stored = health.get(destination);
        assert(stored !== undefined, `destination ${destination} is not entered`);
        health.save(
          destination,
          pausedByOperator(stored.health, operator.why ?? "paused by hand", nowMs),
          nowMs,
        );
        actions.record({ operator, action: "pause", jobId: null, subject: stored.name, detail: null }, nowMs);
      }),

    resume: async (destination, operator, nowMs) =>
      transact(db, "resume a destination", () => {
        const stored = health.get(destination);
        assert(stored !== undefined, `destination ${destination} is not entered`);
        health.save(destination, HEALTHY, nowMs);
        actions.record(
          { operator, action: "resume", jobId: null, subject: stored.name, detail: null },
          nowMs,
        );
      }),
  };
}
