/**
 * What the core needs to know of the configuration, as plain values. `config/` makes them from the file; the core never
 * sees TOML, environment variables or secrets.
 */
import type { BotId, DestinationKey } from "./ids.ts";
import type { Step } from "./jobs.ts";

export const SAFETY_CLASSES = ["idempotency-key", "external-id", "search", "none"] as const;
export type SafetyClass = (typeof SAFETY_CLASSES)[number];

export interface RetrySettings {
  firstMs: number;
  maxMs: number;
  giveUpAfterMs: number;
}

/** How one step of one destination behaves after each outcome (design §6). */
export interface StepSettings {
  safety: SafetyClass;
  /** Only with `idempotency-key`: how long the CRM remembers a key. */
  keyValidForMs: number | null;
  /** How long a repeat waits after an unknown outcome: the first request may still be running in the CRM. */
  unknownWaitMs: number;
  retry: RetrySettings;
  /** Delays of the automatic look-ups, counted from the unknown attempt. */
  checksMs: readonly number[];
  /** A counted look-up later than this that found nothing is taken as proof of absence; null: never. */
  assumeAbsentAfterMs: number | null;
  /** `repeat` accepts a second copy, `accept` accepts a lost one, without asking anybody. */
  onUnknown: "reconcile" | "repeat" | "accept";
  /** Whether a look-up is configured. */
  canFind: boolean;
}

export interface DestinationSettings {
  key: DestinationKey;
  name: string;
  kind: "ledger" | "http";
  concurrency: number;
  rate: { count: number; perMs: number } | null;
  timeoutMs: number;
  leaseMs: number;
  retry: RetrySettings;
  steps: Partial<Record<Step, StepSettings>>;
  /** Changes whenever the destination's configuration or a secret of it does; a change ends a pause. */
  fingerprint: string;
}

/** Null where the configuration no longer names the destination or the step. */
export type StepSettingsOf = (destination: DestinationKey, step: Step) => StepSettings | null;

export const UPDATE_KINDS = ["message", "edited_message", "callback_query", "my_chat_member"] as const;

export interface ActionSettings {
  name: string;
  key: string;
  kind: "lead";
  when: { update: readonly string[]; chat: ChatCondition };
  repeat: { rule: "each" };
  to: readonly DestinationKey[];
}

export const CHAT_CONDITIONS = ["private", "group", "supergroup", "channel", "any"] as const;
export type ChatCondition = (typeof CHAT_CONDITIONS)[number];

export interface IntakeSettings {
  bot: { id: BotId; username: string };
  actions: readonly ActionSettings[];
  /** Every configured destination, the ledger too. */
  destinations: readonly Pick<DestinationSettings, "key" | "kind">[];
}
