/**
 * The connector of kind `http`: any CRM with an HTTP API, described by the configuration alone. Owns the order of
 * things in one attempt: send, classify, and where the answer leaves it open, ask. It never throws across the port,
 * and every `detail` leaves it without secrets and personal values (P5).
 */
import type { Dispatcher } from "undici";
import type { Connector, Prepared, StepContext } from "../domain/connector.ts";
import { unreachable } from "../domain/errors.ts";
import type { HttpDestinationSettings } from "../domain/http-settings.ts";
import type { LookUp, Outcome, Probe } from "../domain/outcome.ts";
import { classify, type Found, type Reference, readFound, readProbe, type Verdict } from "./classify.ts";
import { type CompiledLookUp, type CompiledStep, HttpDestination, type Preview } from "./destination.ts";
import { createHttpClient, type HttpClient, type HttpRequest } from "./http-client.ts";
import { IMPOSSIBLE_CONTEXT } from "./samples.ts";
import type { Secrets } from "./secrets.ts";
import { TemplateError } from "./template.ts";

export interface HttpConnectorOptions {
  settings: HttpDestinationSettings;
  /** The values of `settings.secretNames`. */
  secrets: Secrets;
  /** 16 or more letters and digits, random per database: what stands for secrets in stored bodies. */
  secretMark: string;
  /** Stands in for the network in tests and the simulation; see `HttpClientOptions`. */
  dispatcher?: Dispatcher;
  /** Wall clock in ms, for a `Retry-After` that names a date. */
  now?: () => number;
}

export class HttpConnector implements Connector {
  readonly #destination: HttpDestination;
  readonly #client: HttpClient;
  readonly #now: () => number;

  /** Errors: `TemplateError` where a template can't be read; `checkTemplates` tells them all beforehand. */
  constructor({ settings, secrets, secretMark, dispatcher, now = Date.now }: HttpConnectorOptions) {
    const { timeoutMs, proxy } = settings;
    this.#destination = new HttpDestination(settings, secrets, secretMark);
    this.#client = createHttpClient({ timeoutMs, proxy, ...(dispatcher && { dispatcher }) });
    this.#now = now;
  }

  prepare(context: StepContext, storedBody: string | null | undefined): Prepared {
    try {
      const step = this.#destination.step(context.step);
      const body =
        storedBody === undefined ? this.#destination.storableBody(step.request, context) : storedBody;
      const request = {
        ...this.#destination.request(step.request, context, body),
        fresh: !repeatIsSafe(step),
      };
      return { kind: "ready", body, send: (signal) => this.#attempt(step, context, request, signal) };
    } catch (error) {
      // Also a bug of ours: nothing has left, and one job that fails visibly is better than a daemon that ends for all.
      const template = error instanceof TemplateError ? error.path : context.step;
      return { kind: "unrenderable", template, message: this.#unexpected(error, context) };
    }
  }

  async find(context: StepContext, signal: AbortSignal): Promise<LookUp> {
    try {
      const step = this.#destination.step(context.step);
      if (step.find === null) {
        return { kind: "not_answered", status: null, detail: "no look-up is configured" };
      }
      const found = await this.#lookUp(step.find, context, signal);
      if (found.kind === "not_answered") return found;
      const records = found.ids.map((externalId) => ({
        externalId,
        link: this.#destination.link(step, context, externalId),
      }));
      return { kind: "answered", records };
    } catch (error) {
      return { kind: "not_answered", status: null, detail: this.#unexpected(error, context) };
    }
  }

  async probe(signal: AbortSignal): Promise<Probe> {
    try {
      const request = { ...this.#destination.probe(), fresh: true };
      const probe = readProbe(await this.#client.exchange(request, signal));
      return { ...probe, detail: this.#maskedOrNull(probe.detail, IMPOSSIBLE_CONTEXT) };
    } catch (error) {
      return { kind: "bad", status: null, detail: this.#unexpected(error, IMPOSSIBLE_CONTEXT) };
    }
  }

  /** The request as a person may see it: secrets masked, nothing sent. Errors: `TemplateError`. */
  preview(context: StepContext): Preview {
    return this.#destination.preview(context);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #attempt(
    step: CompiledStep,
    context: StepContext,
    request: HttpRequest,
    signal: AbortSignal,
  ): Promise<Outcome> {
    try {
      const outcome =
        (await this.#existingCustomer(step, context, signal)) ??
        (await this.#send(step, context, request, signal));
      return { ...outcome, detail: this.#maskedOrNull(outcome.detail, context) };
    } catch (error) {
      // A bug of ours, met when the request may be on its way: only "unknown" is safe.
      return { kind: "unknown", status: null, detail: this.#unexpected(error, context) };
    }
  }

  async #send(
    step: CompiledStep,
    context: StepContext,
    request: HttpRequest,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const exchange = await this.#client.exchange(request, signal);
    const { id, exists, outcomes } = step.settings;
    const rules = { id, exists, outcomes, canFind: step.find !== null };
    const verdict = classify(exchange, rules, referenceOf(context), this.#now());
    switch (verdict.kind) {
      case "settled":
        return verdict.outcome;
      case "recorded": {
        const { as, status, externalId } = verdict;
        const link = this.#destination.link(step, context, externalId);
        return { kind: as, status, detail: null, externalId, link };
      }
      case "ask_look_up":
        return this.#settleConflict(verdict, context, signal);
      case "ask_probe":
        return this.#settleForbidden(verdict, signal);
      default:
        return unreachable(verdict);
    }
  }

  async #settleConflict(
    { status, said }: Extract<Verdict, { kind: "ask_look_up" }>,
    context: StepContext,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const found = await this.find(context, signal);
    if (found.kind === "not_answered") {
      const detail = `whether the record is ours could not be looked up (${found.detail}); ${said}`;
      return { kind: "unknown", status, detail };
    }
    const [record, ...more] = found.records;
    if (record === undefined) return { kind: "refused", status, detail: said };
    if (more.length === 0) return { kind: "already", status, detail: null, ...record };
    const ids = found.records.map(({ externalId }) => externalId).join(", ");
    return { kind: "unknown", status, detail: `several records hold our reference: ${ids}` };
  }

  async #settleForbidden(
    { status, said }: Extract<Verdict, { kind: "ask_probe" }>,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const probe = await this.probe(signal);
    switch (probe.kind) {
      case "good":
        return { kind: "refused", status, detail: said };
      case "refused":
        return { kind: "unauthorised", status, detail: said };
      case "bad":
        return { kind: "not_applied", status, detail: said, retryAfterMs: null };
    }
  }

  /** `contact.match`: exactly one hit is linked instead of created. Null: go on and create. */
  async #existingCustomer(
    step: CompiledStep,
    context: StepContext,
    signal: AbortSignal,
  ): Promise<Outcome | null> {
    const { match } = step;
    if (match === null || !this.#destination.hasAllValues(match, context)) return null;
    const found = await this.#lookUp(match, context, signal);
    if (found.kind === "not_answered") {
      const { status, detail } = found;
      if (status === 401) return { kind: "unauthorised", status, detail };
      return { kind: "not_applied", status, detail: `nothing was sent: ${detail}`, retryAfterMs: null };
    }
    const [externalId, ...more] = found.ids;
    if (externalId === undefined || more.length > 0) return null;
    const link = this.#destination.link(step, context, externalId);
    return { kind: "confirmed", status: null, detail: "an existing customer was found", externalId, link };
  }

  async #lookUp(lookUp: CompiledLookUp, context: StepContext, signal: AbortSignal): Promise<Found> {
    try {
      const request = { ...this.#destination.lookUp(lookUp, context), fresh: true };
      const exchange = await this.#client.exchange(request, signal);
      const found = readFound(exchange, lookUp.settings, referenceOf(context));
      if (found.kind === "answered") return found;
      return { ...found, detail: this.#destination.masked(found.detail, context) };
    } catch (error) {
      return { kind: "not_answered", status: null, detail: this.#unexpected(error, context) };
    }
  }

  #maskedOrNull(detail: string | null, context: StepContext): string | null {
    return detail === null ? null : this.#destination.masked(detail, context);
  }

  #unexpected(error: unknown, context: StepContext): string {
    return this.#destination.masked(error instanceof Error ? error.message : String(error), context);
  }
}

/** Only then may a connection be reused: a stale one costs an unknown, which these classes simply repeat. */
function repeatIsSafe({ settings }: CompiledStep): boolean {
  return settings.safety === "idempotency-key" || settings.safety === "external-id";
}

function referenceOf({ step, operation }: StepContext): Reference {
  return { step, id: operation.id, code: operation.code };
}
