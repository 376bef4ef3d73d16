/**
 * What a TEST record proved about a CRM, and what it did not (pure). Each problem says what happened and how to mend the
 * configuration: the class must claim only what the CRM really keeps (P2, P3).
 */
import { unreachable } from "../../domain/errors.ts";
import type { SafetyClass } from "../../domain/settings.ts";
import type { FoundReport, SentReport, TestReport } from "./send.ts";

/** @returns what did not hold; empty where all is well */
export function judge({ destination, step, safety, sent, found, repeated }: TestReport): string[] {
  if (sent === null) return [];
  const path = `crm.${destination}.${step}`;
  if (sent.outcome !== "confirmed") return [notConfirmed(sent, found, path)];
  return [
    ...(found === null ? [] : judgeFound(found, sent, path)),
    ...(repeated === null ? [] : judgeRepeat(repeated, sent, safety, path)),
  ];
}

function notConfirmed(sent: SentReport, found: FoundReport | null, path: string): string {
  const said = saidBy(sent);
  switch (sent.outcome) {
    case "confirmed":
    case "already":
      return `the CRM says that a reference made a moment ago existed before: look at [${path}] exists and outcomes`;
    case "refused":
      return `the CRM refused it: ${said}. Compare [${path}] with what its documentation asks for`;
    case "unauthorised":
      return `the CRM refused the credentials: ${said}. leadonce check tells more`;
    case "not_applied":
      return `nothing was made: ${said}. Try again when the CRM answers`;
    case "unknown":
      return unknown(said, found?.records ?? [], path);
    default:
      return unreachable(sent.outcome);
  }
}

function unknown(said: string, records: readonly string[], path: string): string {
  const mend = `if it ends like this each time, look at [${path}] id, outcomes and timeout`;
  if (records.length > 0) {
    return `the answer does not confirm it: ${said}. The record is there (${records.join(", ")}), so ${mend}`;
  }
  return `whether a record was made is unknown: ${said}. Look in the CRM for the text TEST; ${mend}`;
}

function judgeFound({ records, detail }: FoundReport, sent: SentReport, path: string): string[] {
  if (records === null) {
    return [`the look-up was not answered: ${detail}. Look at [${path}.find] url, items and none`];
  }
  const [first, ...more] = records;
  if (first === undefined) {
    return [
      `the look-up did not find it: does the search lag, or does [${path}.find] not ask for the field that ` +
        "{{ operation.id }} was sent in? A lost lead would wait for a person",
    ];
  }
  if (more.length > 0) {
    return [
      `the look-up found ${records.length} records (${records.join(", ")}): either there are several, or ` +
        `[${path}.find] finds others too; match = "/…" judges each hit`,
    ];
  }
  if (sent.external_id === null || sent.external_id === first) return [];
  return [
    `the answer named record ${sent.external_id}, and the look-up ${first}: [${path}] id and [${path}.find] id ` +
      "must lead to the same record",
  ];
}

function judgeRepeat(repeated: SentReport, sent: SentReport, safety: SafetyClass, path: string): string[] {
  const said = saidBy(repeated);
  const same = repeated.external_id === sent.external_id;
  switch (repeated.outcome) {
    case "already":
      if (same) return [];
      return [
        `the first answer named record ${sent.external_id}, and that to the repeat ${repeated.external_id}: ` +
          `[${path}] id and exists must lead to the same record`,
      ];
    case "confirmed":
      if (same) return [];
      return [
        `this CRM made a second record (${sent.external_id} and ${repeated.external_id}) although safety = ` +
          `"${safety}": every lost answer would make one. Does the request carry what the CRM recognises? If it ` +
          'recognises nothing, write safety = "search" with a find, or "none"',
      ];
    case "refused":
      return [
        `the repeat was refused: ${said}. No second record was made, but a lead whose answer was lost would not be ` +
          `taken for done${safety === "external-id" ? `: describe this answer in [${path}] exists` : ""}`,
      ];
    case "unauthorised":
    case "not_applied":
    case "unknown":
      return [`what a repeat does could not be tried (${repeated.outcome}): ${said}`];
    default:
      return unreachable(repeated.outcome);
  }
}

function saidBy({ detail, status }: SentReport): string {
  return detail ?? `HTTP ${status}`;
}
