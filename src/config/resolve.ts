/**
 * Everything that the daemon works with, the values of secrets included. Only commands that send something ask for it,
 * and nothing in it is ever printed (P5).
 */
import type { HttpDestinationSettings, HttpStepSettings } from "../domain/http-settings.ts";
import type { DestinationKey } from "../domain/ids.ts";
import type { Step } from "../domain/jobs.ts";
import type { ActionSettings, DestinationSettings } from "../domain/settings.ts";
import type { Config } from "./config.ts";
import type { DestinationConfig } from "./destination.ts";
import { asTemplate } from "./references.ts";
import { type DestinationSecrets, resolveSecrets, type Secrets } from "./secrets.ts";
import { actionSettings, configHash, hash16 } from "./settings.ts";

export interface ResolvedConfig {
  databasePath: string;
  configHash: string;
  telegram: {
    token: string;
    apiRoot: string;
    proxy: string | null;
    pollTimeoutMs: number;
    takeOverWebhook: boolean;
  };
  actions: ActionSettings[];
  destinations: DestinationSettings[];
  http: ResolvedDestination[];
  /** For the log, which takes them out of whatever it writes. */
  secretValues: string[];
}

export interface ResolvedDestination {
  key: DestinationKey;
  settings: HttpDestinationSettings;
  /** The values of `settings.secretNames`. */
  secrets: Record<string, string>;
}

/** @throws ConfigError with every secret that is missing or malformed */
export function resolveConfig(config: Config): ResolvedConfig {
  const secrets = resolveSecrets(config);
  const { apiRoot, pollTimeoutMs, takeOverWebhook } = config.telegram;
  return {
    databasePath: config.databasePath,
    configHash: configHash(config),
    telegram: { ...secrets.telegram, apiRoot, pollTimeoutMs, takeOverWebhook },
    actions: actionSettings(config),
    destinations: config.destinations.map((destination) => ({
      ...destination.settings,
      fingerprint: fingerprint(destination, secretsOf(destination, secrets)),
    })),
    http: config.destinations.flatMap((destination) => resolvedDestination(destination, secrets)),
    secretValues: [...secrets.values],
  };
}

/** Another one whenever the destination's configuration or a secret of it is: a pause ends then. */
export function fingerprint({ settings, http }: DestinationConfig, secrets: DestinationSecrets): string {
  return hash16({ settings, http: http?.settings ?? null, secrets });
}

function secretsOf({ settings }: DestinationConfig, { destinations }: Secrets): DestinationSecrets {
  return destinations.get(settings.key) ?? { values: {}, proxy: null };
}

function resolvedDestination(destination: DestinationConfig, secrets: Secrets): ResolvedDestination[] {
  const { settings, http } = destination;
  if (http === null) return [];
  const { values, proxy } = secretsOf(destination, secrets);
  return [
    { key: settings.key, settings: { ...withAddresses(http.settings, values), proxy }, secrets: values },
  ];
}

/** An address is checked and shown as a whole, so one that is a reference is put in as it stands. */
function withAddresses(
  settings: Omit<HttpDestinationSettings, "proxy">,
  values: Record<string, string>,
): Omit<HttpDestinationSettings, "proxy"> {
  const addresses = new Map(Object.entries(values).map(([name, value]) => [asTemplate(name), value]));
  const address = <Url extends string | null>(url: Url): Url | string =>
    url === null ? url : (addresses.get(url) ?? url);
  const steps: Partial<Record<Step, HttpStepSettings>> = {};
  // Object.entries loses the key's type; the keys of `steps` are steps by its declaration.
  for (const [name, step] of Object.entries(settings.steps) as [Step, HttpStepSettings][]) {
    const find = step.find === null ? null : { ...step.find, url: address(step.find.url) };
    steps[name] = { ...step, url: address(step.url), find };
  }
  return { ...settings, baseUrl: address(settings.baseUrl), probe: address(settings.probe), steps };
}
