/** What the core and the template checks are given of a configuration, without any secret. */
import { createHash } from "node:crypto";
import type { HttpDestinationSettings } from "../domain/http-settings.ts";
import type { ActionSettings, DestinationSettings } from "../domain/settings.ts";
import type { Config } from "./config.ts";
import { isTree } from "./tree.ts";

export function actionSettings(config: Config): ActionSettings[] {
  return [...config.actions];
}

/** Every destination, the ledger too. */
export function destinationKeys(config: Config): Pick<DestinationSettings, "key" | "kind">[] {
  return config.destinations.map(({ settings: { key, kind } }) => ({ key, kind }));
}

/** For checks of templates: no secret has its value yet. */
export function httpDestinations(config: Config): { name: string; settings: HttpDestinationSettings }[] {
  return config.destinations.flatMap(({ settings: { name }, http }) =>
    http === null ? [] : [{ name, settings: { ...http.settings, proxy: null } }],
  );
}

/** Tells one configuration from another in the record of runs; secrets count by where they come from. */
export function configHash({ path: _, ...config }: Config): string {
  return hash16(config);
}

/** 16 hex digits; the order of keys in the file does not matter. */
export function hash16(value: unknown): string {
  const canonical = JSON.stringify(value, (_, member: unknown) =>
    isTree(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member,
  );
  return createHash("sha256").update(canonical).digest("hex").slice(0, 16);
}
