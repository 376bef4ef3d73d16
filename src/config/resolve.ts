/** Fetches the values of secrets, for the commands that use them (`run`, `check`, `try`); every missing one is told at once. */
import { ConfigError, type ConfigProblem } from "../domain/errors.ts";
import type { HttpDestinationSettings } from "../domain/http-settings.ts";
import { asDestinationKey, type DestinationKey } from "../domain/ids.ts";
import type { ActionSettings, DestinationSettings } from "../domain/settings.ts";
import type { Config, Destination } from "./load.ts";
import { resolveText } from "./secrets.ts";
import { actionSettings, configHash, destinationSettings, fingerprint, httpSettings } from "./settings.ts";

export interface ResolvedDestination {
  key: DestinationKey;
  settings: HttpDestinationSettings;
  secrets: Record<string, string>;
}

/** Everything that the daemon works with, secrets included: never print it. */
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
  /** Every secret value, for the log to redact. */
  secretValues: string[];
}

/** @throws ConfigError naming every reference that leads nowhere */
export function resolveConfig(config: Config): ResolvedConfig {
  const problems: ConfigProblem[] = [];
  const secretValues: string[] = [];
  const value = (path: string, text: string, secret: boolean): string => {
    const resolved = resolveText(path, text, config.secretSource);
    if (resolved.kind === "problem") {
      problems.push(resolved.problem);
      return "";
    }
    // Whatever is kept outside the file is taken for a secret.
    if (secret || resolved.value !== text) secretValues.push(resolved.value);
    return resolved.value;
  };
  const optional = (path: string, text: string | undefined): string | null =>
    text === undefined ? null : value(path, text, /\/\/[^/]*@/.test(text));

  const { telegram } = config.file;
  const token = value("telegram.token", telegram.token, true);
  const telegramProxy = optional("telegram.proxy", telegram.proxy);
  const secretsOf = new Map<Destination, Record<string, string>>();
  const http = config.destinations.flatMap((destination): ResolvedDestination[] => {
    const { name, key, config: settings } = destination;
    if (settings.kind === "ledger") return [];
    const secrets = Object.fromEntries(
      Object.entries(settings.secrets).map(([secret, text]) => [
        secret,
        value(`crm.${name}.secrets.${secret}`, text, true),
      ]),
    );
    secretsOf.set(destination, secrets);
    const inline = deepResolve(settings, `crm.${name}`, value);
    const proxy = optional(`crm.${name}.proxy`, settings.proxy);
    return [{ key: asDestinationKey(key), settings: httpSettings(name, inline, proxy), secrets }];
  });
  if (problems.length > 0) {
    throw new ConfigError("some values of the configuration lead nowhere:", problems, "Nothing was started.");
  }
  return {
    databasePath: config.databasePath,
    configHash: configHash(config),
    telegram: {
      token,
      apiRoot: telegram.api_root,
      proxy: telegramProxy,
      pollTimeoutMs: telegram.poll_timeout,
      takeOverWebhook: telegram.take_over_webhook,
    },
    actions: actionSettings(config),
    destinations: destinationSettings(config, (destination) =>
      fingerprint(destination, secretsOf.get(destination) ?? {}),
    ),
    http,
    secretValues: [...new Set(secretValues.filter((secret) => secret.length >= 4))],
  };
}

/** Any text of a destination may be a reference; its secrets and its proxy are resolved apart. */
function deepResolve<Value>(
  settings: Value,
  path: string,
  value: (path: string, text: string, secret: boolean) => string,
): Value {
  const walk = (part: unknown, at: string): unknown => {
    if (typeof part === "string") return value(at, part, false);
    if (Array.isArray(part)) return part.map((item, index) => walk(item, `${at}[${index}]`));
    if (typeof part !== "object" || part === null || part instanceof Date) return part;
    return Object.fromEntries(
      Object.entries(part).map(([name, inner]) =>
        at === path && (name === "secrets" || name === "proxy")
          ? [name, inner]
          : [name, walk(inner, `${at}.${name}`)],
      ),
    );
  };
  // The walk replaces texts by texts and leaves every shape as it is.
  return walk(settings, path) as Value;
}
