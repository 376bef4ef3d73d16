/** From the checked file to the plain values of the core (`domain/settings`, `domain/http-settings`). */
import { createHash } from "node:crypto";
import type {
  BodyValue,
  FindSettings,
  HttpDestinationSettings,
  HttpStepSettings,
} from "../domain/http-settings.ts";
import { asDestinationKey } from "../domain/ids.ts";
import type { ActionSettings, DestinationSettings, StepSettings } from "../domain/settings.ts";
import type { Config, Destination } from "./load.ts";
import { safetyOf } from "./rules.ts";
import type { FindConfig, HttpDestinationConfig, StepConfig } from "./schema.ts";

const DEFAULT_KEY_VALID_MS = 24 * 3_600_000;

/** The ledger is done at once: nothing of this is ever used for it. */
const LEDGER_SETTINGS = {
  concurrency: 1,
  rate: null,
  timeoutMs: 20_000,
  leaseMs: 60_000,
  retry: { firstMs: 1_000, maxMs: 900_000, giveUpAfterMs: 604_800_000 },
  steps: {},
};

/** @param fingerprintOf of the destination with its secrets' values; see `fingerprint` */
export function destinationSettings(
  config: Config,
  fingerprintOf: (destination: Destination) => string,
): DestinationSettings[] {
  return config.destinations.map((destination) => {
    const { name, config: settings } = destination;
    const identity = {
      key: asDestinationKey(destination.key),
      name,
      fingerprint: fingerprintOf(destination),
    };
    if (settings.kind === "ledger") return { ...identity, kind: "ledger" as const, ...LEDGER_SETTINGS };
    return {
      ...identity,
      kind: "http" as const,
      concurrency: settings.concurrency,
      rate: settings.rate ?? null,
      timeoutMs: settings.timeout,
      leaseMs: settings.lease,
      retry: retryOf(settings),
      steps: {
        lead: stepSettings(settings, settings.lead),
        ...(settings.note === undefined ? {} : { note: stepSettings(settings, settings.note) }),
      },
    };
  });
}

function retryOf({ retry }: HttpDestinationConfig): DestinationSettings["retry"] {
  return { firstMs: retry.first, maxMs: retry.max, giveUpAfterMs: retry.give_up_after };
}

function stepSettings(destination: HttpDestinationConfig, step: StepConfig): StepSettings {
  const safety = safetyOf(destination, step);
  return {
    safety,
    keyValidForMs: safety === "idempotency-key" ? (destination.key_valid_for ?? DEFAULT_KEY_VALID_MS) : null,
    unknownWaitMs: destination.unknown_wait,
    retry: retryOf(destination),
    checksMs: destination.reconcile.checks,
    assumeAbsentAfterMs: destination.reconcile.assume_absent_after ?? null,
    onUnknown: step.on_unknown ?? "reconcile",
    canFind: step.find !== undefined,
  };
}

/** @param proxy resolved: it may hold a password */
export function httpSettings(
  name: string,
  config: HttpDestinationConfig,
  proxy: string | null,
): HttpDestinationSettings {
  return {
    name,
    baseUrl: config.base_url ?? null,
    headers: config.headers,
    secretNames: Object.keys(config.secrets),
    timeoutMs: config.timeout,
    proxy,
    probe: config.probe ?? null,
    steps: {
      lead: httpStep(config, config.lead),
      ...(config.note === undefined ? {} : { note: httpStep(config, config.note) }),
    },
  };
}

function httpStep(destination: HttpDestinationConfig, step: StepConfig): HttpStepSettings {
  const { exists } = step;
  return {
    ...request(step),
    safety: safetyOf(destination, step),
    id: step.id,
    link: step.link ?? null,
    exists:
      exists === undefined
        ? null
        : {
            status: exists.status,
            body: exists.body ?? null,
            id: exists.id ?? null,
            match: exists.match ?? null,
          },
    outcomes: step.outcomes.map(({ status, body, outcome }) => ({ status, body: body ?? null, outcome })),
    find: step.find === undefined ? null : findSettings(step.find),
    match: null,
  };
}

function findSettings(find: FindConfig): FindSettings {
  return {
    ...request(find),
    items: find.items ?? null,
    id: find.id,
    match: find.match ?? null,
    none: find.none,
  };
}

function request(
  step: StepConfig | FindConfig,
): Pick<HttpStepSettings, "method" | "url" | "headers" | "body" | "form" | "sendEmpty"> {
  return {
    method: step.method,
    url: step.url,
    headers: step.headers,
    // TOML holds nothing but what BodyValue lists; zod has checked the outer shape only.
    body: (step.body ?? null) as BodyValue | null,
    form: (step.form ?? null) as Record<string, BodyValue> | null,
    sendEmpty: step.send_empty,
  };
}

export function actionSettings(config: Config): ActionSettings[] {
  const keyOf = new Map(config.destinations.map(({ name, key }) => [name, asDestinationKey(key)]));
  return config.actions.map(({ name, key, when, to }) => ({
    name,
    key: key ?? name,
    kind: "lead" as const,
    when,
    repeat: { rule: "each" as const },
    to: (to ?? [...keyOf.keys()]).flatMap((destination) => keyOf.get(destination) ?? []),
  }));
}

/** Changes with the destination's configuration and the values of its secrets; tells neither. */
export function fingerprint(destination: Destination, secrets: Readonly<Record<string, string>>): string {
  return hash(JSON.stringify([destination, secrets]));
}

export function configHash(config: Config): string {
  return hash(JSON.stringify([config.file, config.destinations]));
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
