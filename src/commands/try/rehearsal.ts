/**
 * What the daemon would make of one update, with the very functions that it uses, on a bot that never saw the person
 * before. Nothing is stored and nothing is sent; secrets in the requests are masked by the connector (P5).
 */
import type { HttpConnector, Preview } from "../../crm/connectors.ts";
import { TemplateError } from "../../crm/connectors.ts";
import type { StepContext } from "../../domain/connector.ts";
import {
  type BotId,
  type DestinationKey,
  type EventKey,
  eventKey,
  idempotencyKey,
  type OperationCode,
  type OperationId,
} from "../../domain/ids.ts";
import { makeIntake } from "../../domain/intake.ts";
import type { JobState, Step } from "../../domain/jobs.ts";
import type { Facts, PlannedOperation } from "../../domain/operation.ts";
import type { IntakeSettings } from "../../domain/settings.ts";
import { kindOf, MalformedUpdateError, parseUpdate, updateIdOf } from "../../domain/update.ts";
import { ignoredText } from "./ignored.ts";

/** As `--json` prints it. */
export interface Rehearsal {
  update: { update_id: number | null; kind: string; event_key: EventKey };
  state: "accepted" | "ignored" | "quarantined";
  reason: string | null;
  /** The reason for people. */
  why: string | null;
  operations: RehearsedOperation[];
}

export interface RehearsedOperation {
  action: string;
  kind: string;
  business_key: string;
  operation_id: OperationId;
  code: OperationCode;
  /** Message identities. */
  messages: string[];
  jobs: RehearsedJob[];
}

export interface RehearsedJob {
  destination: string;
  step: Step;
  state: JobState;
  /** Null for the ledger, which is the database itself, and where the request could not be made. */
  request: Preview | null;
  problem: { template: string; message: string } | null;
}

/** The destinations that the rehearsal shows, and what each is called. */
export interface Stage {
  intake: IntakeSettings;
  names: ReadonlyMap<DestinationKey, string>;
  connectors: ReadonlyMap<DestinationKey, HttpConnector>;
  nowMs: number;
}

export interface Rehearsed {
  rehearsal: Rehearsal;
  /** What the rehearsal shows of them is for people; these are whole. */
  operations: readonly PlannedOperation[];
}

const NEVER_SEEN: Facts = { contact: null, takenMessages: new Map(), knownBusinessKeys: new Set() };

export function rehearse(element: unknown, stage: Stage): Rehearsed {
  const { intake, nowMs } = stage;
  const update = {
    update_id: updateIdOf(element),
    kind: kindOf(element),
    event_key: eventKey(intake.bot.id, updateIdOf(element), JSON.stringify(element)),
  };
  try {
    const { state, reason, operations } = makeIntake(intake).decide(parseUpdate(element), NEVER_SEEN, nowMs);
    const why = reason === null ? null : ignoredText(reason, intake.actions);
    const shown = operations.map((operation) => rehearsedOperation(operation, stage));
    return { rehearsal: { update, state, reason, why, operations: shown }, operations };
  } catch (error) {
    if (!(error instanceof MalformedUpdateError)) throw error;
    const why =
      "it is not as Telegram documents it: the daemon would keep it, tell you, and go on with the next";
    const reason = `malformed: ${error.message}`;
    return { rehearsal: { update, state: "quarantined", reason, why, operations: [] }, operations: [] };
  }
}

/** What a template would be given for the first attempt of a job. */
export function contextOf(
  { id, code, input, action }: Pick<PlannedOperation, "id" | "code" | "input" | "action">,
  step: Step,
  bot: { id: BotId; username: string },
  nowMs: number,
): StepContext {
  return {
    step,
    operation: { id, key: idempotencyKey(id, 1), code, createdAtMs: nowMs },
    input,
    action,
    bot,
    lead: { id: null, link: null },
    contactRecordId: null,
  };
}

function rehearsedOperation(operation: PlannedOperation, stage: Stage): RehearsedOperation {
  const { action, kind, businessKey, id, code, messages, jobs } = operation;
  return {
    action,
    kind,
    business_key: businessKey,
    operation_id: id,
    code,
    messages: [...messages],
    jobs: jobs.flatMap(({ destination, step, state }) => {
      const name = stage.names.get(destination);
      const connector = stage.connectors.get(destination);
      if (name === undefined) return [];
      const context = contextOf(operation, step, stage.intake.bot, stage.nowMs);
      return [{ destination: name, step, state, ...requestOf(connector, context) }];
    }),
  };
}

function requestOf(
  connector: HttpConnector | undefined,
  context: StepContext,
): Pick<RehearsedJob, "request" | "problem"> {
  if (connector === undefined) return { request: null, problem: null };
  try {
    return { request: connector.preview(context), problem: null };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { request: null, problem: { template: error.path, message: error.message } };
  }
}
