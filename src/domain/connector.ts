/**
 * The contract between the worker and a kind of CRM. A connector renders a request, sends it, looks a record up and
 * probes; it answers in the words of design §6 and never throws across the port.
 */
import type { OperationCode, OperationId } from "./ids.ts";
import type { Step } from "./jobs.ts";
import type { OperationInput } from "./operation.ts";
import type { LookUp, Outcome, Probe } from "./outcome.ts";

/** Everything that a template may ask for (design §8), apart from secrets. */
export interface StepContext {
  step: Step;
  operation: { id: OperationId; key: string; code: OperationCode; createdAtMs: number };
  input: OperationInput;
  action: string;
  bot: { id: number; username: string };
  /** The record of the lead that a note follows. */
  lead: { id: string | null; link: string | null };
  /** The record of the person where the destination keeps people apart from deals. */
  contactRecordId: string | null;
}

export type Prepared =
  | {
      kind: "ready";
      /** What is stored and sent again unchanged; secrets in it are placeholders. Null: no body. */
      body: string | null;
      send(signal: AbortSignal): Promise<Outcome>;
    }
  /** An error at rendering, or an empty value in the URL's path: nothing can be sent. */
  | { kind: "unrenderable"; template: string; message: string };

export interface Connector {
  /**
   * Renders body, URL and headers. Pure and synchronous: it runs inside the transaction that commits the attempt.
   * @param storedBody the body of an earlier attempt, which is reused byte for byte; undefined to render anew
   */
  prepare(context: StepContext, storedBody: string | null | undefined): Prepared;
  /** Looks the record up by our reference. `not_answered` where no look-up is configured. */
  find(context: StepContext, signal: AbortSignal): Promise<LookUp>;
  probe(signal: AbortSignal): Promise<Probe>;
  close(): Promise<void>;
}
