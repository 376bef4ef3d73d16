/**
 * One destination of kind `http`, compiled: makes requests for operations and knows what must never be read in what
 * comes back (P5). It sends nothing.
 */
import type { StepContext } from "../domain/connector.ts";
import type { FindSettings, HttpDestinationSettings, HttpStepSettings } from "../domain/http-settings.ts";
import type { Step } from "../domain/jobs.ts";
import { requestTemplates } from "./check-templates.ts";
import type { HttpRequest } from "./http-client.ts";
import { maskedDetail } from "./mask.ts";
import {
  type CompiledRequest,
  compileGet,
  compileRequest,
  compileShared,
  fillBody,
  renderBody,
  renderOrigin,
  renderTarget,
  type SharedParts,
} from "./render.ts";
import { IMPOSSIBLE_CONTEXT } from "./samples.ts";
import { SecretPlaceholders, type Secrets } from "./secrets.ts";
import {
  atPath,
  compile,
  namedVariables,
  renderText,
  type Template,
  TemplateError,
  type Variables,
} from "./template.ts";
import { personalValues, variablesOf } from "./variables.ts";

export interface CompiledStep {
  settings: HttpStepSettings;
  request: CompiledRequest;
  link: Template | null;
  find: CompiledLookUp | null;
  match: CompiledLookUp | null;
}

export interface CompiledLookUp {
  settings: FindSettings;
  request: CompiledRequest;
  /** Every variable that its templates name. */
  names: readonly (readonly unknown[])[];
}

export interface Preview {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | null;
}

export class HttpDestination {
  readonly #path: string;
  readonly #settings: HttpDestinationSettings;
  readonly #secrets: Secrets;
  readonly #mark: string;
  readonly #placeholders: SecretPlaceholders;
  readonly #shared: SharedParts;
  readonly #steps: ReadonlyMap<Step, CompiledStep>;
  readonly #knownSecrets: readonly string[];

  /** Errors: `TemplateError` where a template can't be read; `checkTemplates` tells them all beforehand. */
  constructor(settings: HttpDestinationSettings, secrets: Secrets, mark: string) {
    this.#path = `crm.${settings.name}`;
    this.#settings = settings;
    this.#secrets = secrets;
    this.#mark = mark;
    this.#placeholders = new SecretPlaceholders(mark, secrets);
    this.#shared = compileShared(this.#path, settings);
    this.#steps = compileSteps(this.#path, settings, this.#shared);
    this.#knownSecrets = this.#secretsInAllSpellings();
  }

  /** Errors: `TemplateError` where the configuration has no such step. */
  step(step: Step): CompiledStep {
    const compiled = this.#steps.get(step);
    if (compiled !== undefined) return compiled;
    throw new TemplateError(`${this.#path}.${step}`, "the configuration has no such step");
  }

  /** As it is stored, with placeholders for secrets; null: the request has no body. */
  storableBody(request: CompiledRequest, context: StepContext): string | null {
    return renderBody(request, this.#variables(context, this.#placeholders.variables));
  }

  /** @param body as it is stored; URL and headers are rendered anew */
  request(request: CompiledRequest, context: StepContext, body: string | null): Omit<HttpRequest, "fresh"> {
    return this.#filled(request, context, body, this.#secrets, this.#placeholders);
  }

  lookUp({ request }: CompiledLookUp, context: StepContext): Omit<HttpRequest, "fresh"> {
    return this.request(request, context, this.storableBody(request, context));
  }

  /** The configured address, else a look-up that can't hit, else the origin; never a create. */
  probe(): Omit<HttpRequest, "fresh"> {
    if (this.#settings.probe !== null) {
      const request = compileGet(`${this.#path}.probe`, this.#settings.probe, this.#shared);
      return this.request(request, IMPOSSIBLE_CONTEXT, null);
    }
    for (const [step, { find }] of this.#steps) {
      try {
        if (find !== null) return this.lookUp(find, { ...IMPOSSIBLE_CONTEXT, step });
      } catch (error) {
        // The look-up of notes, for one, needs a lead: another one may do.
        if (!(error instanceof TemplateError)) throw error;
      }
    }
    const variables = this.#variables(IMPOSSIBLE_CONTEXT, this.#secrets);
    const { request } = this.#steps.get("lead") ?? [...this.#steps.values()][0] ?? this.step("lead");
    const shared = { ...this.#shared, baseUrl: null };
    const origin = compileGet(request.url.path, renderOrigin(request, variables), shared);
    return this.request(origin, IMPOSSIBLE_CONTEXT, null);
  }

  link({ link }: CompiledStep, context: StepContext, externalId: string | null): string | null {
    if (link === null || externalId === null) return null;
    try {
      return renderText(link, { ...variablesOf(context, this.#mark), id: externalId }) || null;
    } catch (error) {
      // The record is there: a link that can't be made must not turn it into something unknown.
      if (error instanceof TemplateError) return null;
      throw error;
    }
  }

  /** A search for an empty phone number would find whoever has none. */
  hasAllValues({ names }: CompiledLookUp, context: StepContext): boolean {
    const variables = this.#variables(context, this.#secrets);
    return names.every((segments) => {
      const value = atPath(variables, segments.map(String));
      return value !== null && value !== undefined && value !== "";
    });
  }

  /** The request as a person may see it. Errors: `TemplateError`. */
  preview(context: StepContext): Preview {
    const { request } = this.step(context.step);
    const shown = Object.fromEntries(Object.keys(this.#secrets).map((name) => [name, "[secret]"]));
    const { method, url, headers, body } = this.#filled(
      request,
      context,
      this.storableBody(request, context),
      shown,
      new SecretPlaceholders(this.#mark, shown),
    );
    return { method, url: url.href.replaceAll("%5Bsecret%5D", "[secret]"), headers, body };
  }

  masked(text: string, context: StepContext): string {
    return maskedDetail(text, { secrets: this.#knownSecrets, ...personalValues(context) });
  }

  #filled(
    request: CompiledRequest,
    context: StepContext,
    body: string | null,
    secrets: Secrets,
    placeholders: SecretPlaceholders,
  ): Omit<HttpRequest, "fresh"> {
    const { url, headers } = renderTarget(request, this.#variables(context, secrets));
    const filled = body === null ? null : fillBody(request, body, placeholders);
    const defaults = {
      accept: "application/json",
      "accept-encoding": "identity",
      "user-agent": "leadonce",
      ...(filled === null ? {} : { "content-type": filled.type }),
    };
    return {
      method: request.method,
      url,
      headers: { ...defaults, ...headers },
      body: filled?.content ?? null,
    };
  }

  #variables(context: StepContext, secrets: Variables): Variables {
    return { ...variablesOf(context, this.#mark), secrets };
  }

  /** As they stand, as a URL spells them, and joined or encoded in headers (`Basic …`). */
  #secretsInAllSpellings(): string[] {
    const plain = Object.values(this.#secrets);
    const variables = this.#variables(IMPOSSIBLE_CONTEXT, this.#secrets);
    const inHeaders = [this.#shared, ...[...this.#steps.values()].map(({ request }) => request)]
      .flatMap(({ headers }) => headers)
      .filter(({ value }) => namedVariables(value.parts).some(([root]) => root === "secrets"))
      .flatMap(({ value }) => renderText(value, variables).split(/\s+/).slice(-1));
    const { proxy } = this.#settings;
    const proxyPassword = proxy !== null && URL.canParse(proxy) ? [new URL(proxy).password] : [];
    return [...plain, ...plain.map(encodeURIComponent), ...inHeaders, ...proxyPassword].filter(
      (secret) => secret !== "",
    );
  }
}

function compileSteps(
  path: string,
  settings: HttpDestinationSettings,
  shared: SharedParts,
): ReadonlyMap<Step, CompiledStep> {
  // Object.entries loses the key's type; the keys of `steps` are steps by its declaration.
  const entries = Object.entries(settings.steps) as [Step, HttpStepSettings][];
  return new Map(
    entries.map(([step, own]) => [
      step,
      {
        settings: own,
        request: compileRequest(`${path}.${step}`, own, shared),
        link: own.link === null ? null : compile(`${path}.${step}.link`, own.link),
        find: compileLookUp(`${path}.${step}.find`, own.find, shared),
        match: compileLookUp(`${path}.${step}.match`, own.match, shared),
      },
    ]),
  );
}

function compileLookUp(
  path: string,
  settings: FindSettings | null,
  shared: SharedParts,
): CompiledLookUp | null {
  if (settings === null) return null;
  const templates = requestTemplates(path, settings).map(({ path: at, source }) => compile(at, source));
  return {
    settings,
    request: compileRequest(path, settings, shared),
    names: templates.flatMap(({ parts }) => namedVariables(parts)),
  };
}
