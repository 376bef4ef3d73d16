/** The rehearsal and the TEST records as a person reads them. */
import type { Preview } from "../../crm/connectors.ts";
import { unreachable } from "../../domain/errors.ts";
import { oneLine, type Terminal } from "../terminal.ts";
import { span, table } from "../text.ts";
import type { Rehearsal, RehearsedJob, RehearsedOperation } from "./rehearsal.ts";
import type { FoundReport, SentReport, TestReport } from "./send.ts";

type Style = Pick<Terminal, "style">;

export function rehearsalText(
  { update, state, why, reason, operations }: Rehearsal,
  terminal: Style,
): string[] {
  const rows = [
    ["update", `${update.update_id ?? "without id"} (${update.kind})`],
    ["event key", update.event_key],
    ...(state === "accepted" ? [] : [[state, `${reason}: ${why}`]]),
  ];
  return [
    ...labelled(rows, terminal),
    ...operations.flatMap((operation) => ["", ...operationText(operation, terminal)]),
  ];
}

function operationText(operation: RehearsedOperation, terminal: Style): string[] {
  const rows = [
    ["action", `${operation.action}, which makes a ${operation.kind}`],
    ["message", operation.messages.join(", ")],
    ["business key", operation.business_key],
    ["operation", operation.operation_id],
    ["code", operation.code],
  ];
  const jobs = operation.jobs.flatMap((job) => ["", ...jobText(job, terminal)]);
  const none = ["", "No job at this destination: the action does not name it in to."];
  return [...labelled(rows, terminal), ...(jobs.length === 0 ? none : jobs)];
}

function jobText({ destination, step, state, request, problem }: RehearsedJob, terminal: Style): string[] {
  const title = terminal.style("bold", `${step} at ${destination}`);
  if (problem !== null) {
    return [
      `${title}: ${terminal.style("red", "the request can't be made")}`,
      `  ${problem.template}`,
      `  ${oneLine(problem.message)}`,
      "    → Mend this template; the daemon would keep such a lead as failed, and send nothing.",
    ];
  }
  if (request === null) {
    return [`${title}: ${state === "done" ? "stored with the message, nothing is sent" : state}`];
  }
  return [title, ...requestText(request).map((line) => (line === "" ? line : `  ${line}`))];
}

function requestText({ method, url, headers, body }: Preview): string[] {
  return [
    `${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === null ? [] : ["", ...readable(body).split("\n")]),
  ];
}

/** JSON with line breaks, but only where that changes nothing else. */
function readable(body: string): string {
  try {
    const value: unknown = JSON.parse(body);
    return JSON.stringify(value) === body ? JSON.stringify(value, null, 2) : body;
  } catch {
    return body; // a form or a text
  }
}

// ---- the TEST records -----------------------------------------------------------------------------------------------

export function testText(report: TestReport, terminal: Style): string[] {
  const { destination, sent, found, repeated, problems } = report;
  const rows = [
    ["operation", `${report.operation_id} (${report.code})`],
    ...(sent === null ? [] : [["sent", sentText(sent)]]),
    ...(sent?.link ? [["link", sent.link]] : []),
    ...(found === null ? [] : [["look-up", foundText(found)]]),
    ...(repeated === null ? [] : [["repeated", sentText(repeated)]]),
  ];
  const verdict =
    problems.length === 0
      ? [terminal.style("green", held(report)), ...leftBehind(report)]
      : [...problems.map((problem) => terminal.style("red", oneLine(problem))), ...leftBehind(report)];
  return [
    terminal.style("bold", `TEST ${report.step} at ${destination}`),
    ...labelled(rows, terminal),
    ...verdict,
  ].map((line, index) => (index === 0 ? line : `  ${line}`));
}

function sentText({ outcome, status, external_id }: SentReport): string {
  return [
    outcome,
    status === null ? null : `HTTP ${status}`,
    external_id === null ? null : `record ${external_id}`,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

function foundText({ look_ups, after_ms, records }: FoundReport): string {
  const times = `after ${span(after_ms)}, look-up ${look_ups}`;
  if (records === null) return `not answered (${times})`;
  if (records.length === 0) return `not found (${times})`;
  const how = records.length === 1 ? "found once" : `found ${records.length} times`;
  return `${how}: ${records.join(", ")} (${times})`;
}

/** What was seen to hold, and no more than that. */
function held({ safety, sent, found, operation_id }: TestReport): string {
  const seen = found === null ? "one record was made" : "one record was made, and the look-up finds it";
  switch (safety) {
    case "idempotency-key":
    case "external-id":
      // Where our reference is the id, two records would have the same one.
      if (found === null && sent?.external_id === operation_id) {
        return "the request was taken twice; whether that made one record, only a look into the CRM can tell";
      }
      return `${seen}; the same request again made no second one`;
    case "search":
      return seen;
    case "none":
      return `${seen}; a lost answer will wait for you, as safety = "none" says`;
    default:
      return unreachable(safety);
  }
}

/** Only what the CRM says that these requests made: a look-up may have found somebody else's record. */
function leftBehind({ sent, repeated }: TestReport): string[] {
  const ids = [sent, repeated].flatMap((one) => (one?.outcome === "confirmed" ? [one.external_id] : []));
  const records = [...new Set(ids.filter((id) => id !== null))];
  return records.length === 0 ? [] : [`→ When you have seen it, delete it in the CRM: ${records.join(", ")}`];
}

function labelled(rows: readonly (readonly string[])[], terminal: Style): string[] {
  return table(rows.map(([label = "", ...cells]) => [terminal.style("bold", label), ...cells]));
}
