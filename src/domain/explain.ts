/**
 * What each reason means, for people: why a job stands where it stands, and what is safe. The commands and the views of
 * the database show these texts; they are the P4 in "says why, what is safe and the exact next command".
 */
import type { JobReason } from "./policy.ts";

export interface ReasonText {
  why: string;
  safe: string;
}

const RETRY_IS_SAFE = "Nothing was created: retrying can't make a second record.";
const LOOK_FIRST =
  "Look in the CRM first. Link the record if it is there; recreate only if it certainly is not.";

export const REASONS: Readonly<Record<JobReason, ReasonText>> = {
  refused: { why: "The destination refused it for good.", safe: RETRY_IS_SAFE },
  refused_after_unknown: {
    why: "The destination refused it, but an earlier attempt may have been carried out.",
    safe: LOOK_FIRST,
  },
  gave_up: { why: "It could not be delivered within give_up_after.", safe: RETRY_IS_SAFE },
  gave_up_after_unknown: {
    why: "It was not confirmed within give_up_after, and an earlier attempt may have been carried out.",
    safe: LOOK_FIRST,
  },
  unknown_outcome: {
    why: "The request may have reached the destination, but its answer was lost.",
    safe: LOOK_FIRST,
  },
  key_expired: {
    why: "The destination no longer remembers the idempotency key of an attempt whose answer was lost.",
    safe: LOOK_FIRST,
  },
  class_forbids_repeat: {
    why: "An attempt's answer was lost, and the safety class configured now does not allow a repeat.",
    safe: LOOK_FIRST,
  },
  found_twice: {
    why: "The look-up found more than one record with our reference.",
    safe: "Keep one record in the CRM, link it here, and remove the other there.",
  },
  unrenderable: {
    why: "The request could not be made from the configuration and this lead; nothing was sent.",
    safe: "Mend the template, restart, then retry. Nothing was created by this attempt.",
  },
  lead_dismissed: {
    why: "The lead that it belongs to was dismissed.",
    safe: "Dismiss it too, or link it to a record that holds the customer's words.",
  },
  unauthorised: { why: "The destination refused our credentials; nothing was created.", safe: RETRY_IS_SAFE },
  not_applied: {
    why: "The destination could not be reached or was busy; nothing was created.",
    safe: RETRY_IS_SAFE,
  },
  repeat_unknown: {
    why: "The answer was lost; the destination recognises a repeat, so it is sent again.",
    safe: "Wait: the same reference can't make a second record.",
  },
  given_back: { why: "It was claimed but not begun; nothing was sent.", safe: "Wait: it will be sent." },
  late_evidence: { why: "Its success was reported late.", safe: "Nothing to do." },
};

const OTHER: ReasonText = { why: "A person decided.", safe: "See the job's trace." };

export function reasonText(reason: string | null): ReasonText {
  const known = Object.entries(REASONS).find(([name]) => name === reason);
  return known?.[1] ?? OTHER;
}
