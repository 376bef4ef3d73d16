/**
 * The configuration as the program sees it: plain values with every default filled in and ms for every length of time.
 * Secrets in it are unread (P5); `resolve.ts` reads them.
 */
import { resolve } from "node:path";
import { asDestinationKey, LEDGER } from "../domain/ids.ts";
import type { ActionSettings } from "../domain/settings.ts";
import { type DestinationConfig, destinationConfig } from "./destination.ts";
import type { ActionTable, Document } from "./schema.ts";
import type { Secret } from "./secret.ts";

export interface Config {
  /** Absolute path of the file; null where there is none and everything is a default. */
  path: string | null;
  /** Absolute. */
  databasePath: string;
  storage: { keepContentMs: number; keepKeysMs: number };
  telegram: {
    token: Secret;
    apiRoot: string;
    pollTimeoutMs: number;
    takeOverWebhook: boolean;
    /** May hold a password. */
    proxy: Secret | null;
  };
  /** Those of the file in its order, then the built-in ledger. */
  destinations: readonly DestinationConfig[];
  actions: readonly ActionSettings[];
}

/** @param folder where relative paths begin */
export function makeConfig(document: Document, path: string | null, folder: string): Config {
  const { telegram, storage, actions } = document;
  const destinations = allDestinations(document);
  return {
    path,
    databasePath: resolve(folder, storage.path),
    storage: { keepContentMs: storage.keep_content, keepKeysMs: storage.keep_keys },
    telegram: {
      token: telegram.token,
      apiRoot: telegram.api_root,
      pollTimeoutMs: telegram.poll_timeout,
      takeOverWebhook: telegram.take_over_webhook,
      proxy: telegram.proxy,
    },
    destinations,
    actions: (actions.length === 0 ? [DEFAULT_ACTION] : actions).map((action) =>
      actionSettings(action, destinations),
    ),
  };
}

function allDestinations({ crm }: Document): DestinationConfig[] {
  const configured = Object.entries(crm).map(([name, table]) => destinationConfig(name, table));
  return configured.some(({ settings }) => settings.key === LEDGER)
    ? configured
    : [...configured, destinationConfig(LEDGER, { kind: "ledger", key: null })];
}

const DEFAULT_ACTION: ActionTable = {
  kind: "lead",
  name: "enquiry",
  key: null,
  when: { update: ["message"], chat: "private" },
  repeat: { rule: "each" },
  to: null,
  gather: null,
  reply: null,
  ask_phone: null,
  reply_late_within: null,
};

function actionSettings(
  { kind, name, key, when, repeat, to }: ActionTable,
  destinations: readonly DestinationConfig[],
): ActionSettings {
  const every = destinations.map(({ settings }) => settings.key);
  const named = to?.map(
    (wanted) =>
      destinations.find(({ settings }) => settings.name === wanted)?.settings.key ?? asDestinationKey(wanted),
  );
  return { name, key: key ?? name, kind, when, repeat, to: named ?? every };
}
