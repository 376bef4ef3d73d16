/**
 * `leadonce try --send`: makes one record marked TEST and looks whether the CRM keeps what its safety class claims. Its
 * business key is of a kind of its own and random, so it can never stand in the way of a customer's lead (P2).
 */
import type { HttpConnector } from "../../crm/connectors.ts";
import type { Prepared, StepContext } from "../../domain/connector.ts";
import { asBusinessKey, type BotId, type BusinessKey, operationCode, operationId } from "../../domain/ids.ts";
import type { Step } from "../../domain/jobs.ts";
import type { OperationInput, PlannedOperation } from "../../domain/operation.ts";
import { isConfirmed, type LookUp, type Outcome, type OutcomeKind } from "../../domain/outcome.ts";
import type { Clock } from "../../domain/ports.ts";
import type { SafetyClass, StepSettings } from "../../domain/settings.ts";
import { judge } from "./verdict.ts";

/** As `--json` prints it. */
export interface TestReport {
  destination: string;
  step: Step;
  business_key: BusinessKey;
  operation_id: string;
  code: string;
  safety: SafetyClass;
  sent: SentReport | null;
  /** Null where no look-up is configured, or nothing was sent. */
  found: FoundReport | null;
  /** The same request once more; only for classes that rest on the CRM recognising it. */
  repeated: SentReport | null;
  /** What did not hold; empty where all is well. */
  problems: string[];
  /** Nothing was sent, because the network did not get through. */
  unreachable: boolean;
}

export interface SentReport {
  outcome: OutcomeKind;
  status: number | null;
  external_id: string | null;
  link: string | null;
  detail: string | null;
}

export interface FoundReport {
  look_ups: number;
  after_ms: number;
  /** Null where the last look-up was not answered. */
  records: string[] | null;
  detail: string | null;
}

export interface TestTarget {
  destination: string;
  step: Step;
  connector: HttpConnector;
  settings: StepSettings;
}

export type TestOperation = Pick<PlannedOperation, "id" | "code" | "input" | "action" | "businessKey">;

/** @param random letters and digits that were never used before */
export function testOperation(
  { input, action }: PlannedOperation,
  botId: BotId,
  random: string,
): TestOperation {
  const businessKey = asBusinessKey(`try:${botId}:${random}`);
  const id = operationId(businessKey);
  return { id, code: operationCode(id), businessKey, action, input: markedAsTest(input, businessKey) };
}

/**
 * Everybody in the CRM sees that it is nobody's enquiry. The phone stays, because CRMs are particular about its format;
 * the message's identity does not, because some are given it as the reference.
 */
function markedAsTest({ messages, contact, source }: OperationInput, key: BusinessKey): OperationInput {
  return {
    messages: messages.map((message) => ({ ...message, ref: key, text: `TEST ${message.text}`, link: null })),
    contact: { ...contact, firstName: "TEST", lastName: "leadonce", username: null },
    source,
  };
}

export async function sendTest(
  target: TestTarget,
  operation: TestOperation,
  context: StepContext,
  clock: Clock,
): Promise<TestReport> {
  const { connector, settings } = target;
  const prepared = connector.prepare(context, undefined);
  const report: TestReport = {
    destination: target.destination,
    step: target.step,
    business_key: operation.businessKey,
    operation_id: operation.id,
    code: operation.code,
    safety: settings.safety,
    sent: null,
    found: null,
    repeated: null,
    problems: [],
    unreachable: false,
  };
  if (prepared.kind === "unrenderable") {
    return { ...report, problems: [`the request can't be made: ${prepared.template}: ${prepared.message}`] };
  }
  const outcome = await send(prepared);
  report.sent = sentReport(outcome);
  report.unreachable = outcome.kind === "not_applied" && outcome.status === null;
  const mayBeThere = isConfirmed(outcome) || outcome.kind === "unknown";
  if (mayBeThere && settings.canFind) report.found = await lookUp(target, context, clock);
  if (outcome.kind === "confirmed" && recognisesRepeats(settings.safety)) {
    report.repeated = sentReport(await repeat(connector, context, prepared.body));
    // Where the reference itself is the id, only counting tells whether a second record came to be.
    if (settings.canFind) report.found = await lookAgain(connector, context, report.found);
  }
  return { ...report, problems: judge(report) };
}

type Ready = Extract<Prepared, { kind: "ready" }>;

function send(prepared: Ready): Promise<Outcome> {
  return prepared.send(new AbortController().signal);
}

function recognisesRepeats(safety: SafetyClass): boolean {
  return safety === "idempotency-key" || safety === "external-id";
}

/** As the daemon would after a lost answer: the same body, the same key. */
async function repeat(connector: HttpConnector, context: StepContext, body: string | null): Promise<Outcome> {
  const prepared = connector.prepare(context, body);
  if (prepared.kind === "ready") return send(prepared);
  const detail = `${prepared.template}: ${prepared.message}`;
  return { kind: "refused", status: null, detail };
}

// ---- looking it up --------------------------------------------------------------------------------------------------

const LONGEST_MS = 15_000;
/** Parts of the whole time: soon at first, since most CRMs find a record at once. */
const MOMENTS = [0, 1 / 15, 1 / 5, 1 / 2, 1];

/** Until it is found, but no longer than the daemon's own look-ups go on. */
async function lookUp(
  { connector, settings }: TestTarget,
  context: StepContext,
  clock: Clock,
): Promise<FoundReport> {
  const wholeMs = Math.min(LONGEST_MS, settings.checksMs.at(-1) ?? 0);
  const startedMs = clock.monotonic();
  let report: FoundReport = { look_ups: 0, after_ms: 0, records: [], detail: null };
  for (const moment of MOMENTS) {
    await clock.sleep(startedMs + moment * wholeMs - clock.monotonic());
    const found = await connector.find(context, new AbortController().signal);
    report = foundReport(found, report.look_ups + 1, Math.round(clock.monotonic() - startedMs));
    if ((report.records?.length ?? 0) > 0) break;
  }
  return report;
}

async function lookAgain(
  connector: HttpConnector,
  context: StepContext,
  before: FoundReport | null,
): Promise<FoundReport | null> {
  // What was not found in all that time would not be now.
  if (before === null || (before.records?.length ?? 0) === 0) return before;
  const found = await connector.find(context, new AbortController().signal);
  return foundReport(found, before.look_ups + 1, before.after_ms);
}

function foundReport(found: LookUp, lookUps: number, afterMs: number): FoundReport {
  const common = { look_ups: lookUps, after_ms: afterMs };
  if (found.kind === "not_answered") return { ...common, records: null, detail: found.detail };
  return { ...common, records: found.records.map(({ externalId }) => externalId), detail: null };
}

function sentReport(outcome: Outcome): SentReport {
  const { kind, status, detail } = outcome;
  const { externalId, link } = isConfirmed(outcome) ? outcome : { externalId: null, link: null };
  return { outcome: kind, status, external_id: externalId, link, detail };
}
