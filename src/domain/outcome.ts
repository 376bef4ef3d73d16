/**
 * How an attempt ended (design §6), in one word and what is known beside it. Connectors return it; they never throw
 * across the port. P3 rests on `unknown` being chosen whenever the request may have left.
 */
export const OUTCOMES = [
  "confirmed",
  "already",
  "refused",
  "not_applied",
  "unauthorised",
  "unknown",
] as const;
export type OutcomeKind = (typeof OUTCOMES)[number];

interface Answer {
  /** HTTP status where there was an answer, else null. */
  status: number | null;
  /** For people: at most 500 characters, known personal values and secrets masked. */
  detail: string | null;
}

/** The destination holds exactly the record we asked for; `already` when it said that it was there before. */
export interface Confirmed extends Answer {
  kind: "confirmed" | "already";
  externalId: string | null;
  link: string | null;
}

export type Outcome =
  | Confirmed
  | ({ kind: "refused" } & Answer)
  | ({ kind: "not_applied"; retryAfterMs: number | null } & Answer)
  | ({ kind: "unauthorised" } & Answer)
  | ({ kind: "unknown" } & Answer);

export function isConfirmed(outcome: Outcome): outcome is Confirmed {
  return outcome.kind === "confirmed" || outcome.kind === "already";
}

/** What a look-up by our reference said. `not_answered` uses up no check (design §6). */
export type LookUp =
  | { kind: "answered"; records: { externalId: string; link: string | null }[] }
  | { kind: "not_answered"; status: number | null; detail: string };

/** `good` also lets a paused destination try one job; `refused` is 401 or 403, `bad` anything else that is not good. */
export type Probe = { kind: "good" | "refused" | "bad"; status: number | null; detail: string | null };
