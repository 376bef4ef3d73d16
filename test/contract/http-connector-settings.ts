/** Settings of an `http` destination and an operation for it, as the tests of the connector need them. */
import { Dispatcher } from "undici";
import { createConnector } from "../../src/crm/connectors.ts";
import type { HttpConnectorOptions } from "../../src/crm/http-connector.ts";
import type { StepContext } from "../../src/domain/connector.ts";
import type {
  FindSettings,
  HttpDestinationSettings,
  HttpRequestSettings,
  HttpStepSettings,
} from "../../src/domain/http-settings.ts";
import { asBusinessKey, operationCode, operationId } from "../../src/domain/ids.ts";
import type { InputContact, InputMessage } from "../../src/domain/operation.ts";
import type { Outcome } from "../../src/domain/outcome.ts";

export const SECRET_MARK = "c0ffee0123456789c0ffee0123456789";
export const TOKEN = "s3cr3t-token-value";

export function request(over: Partial<HttpRequestSettings> = {}): HttpRequestSettings {
  return { method: "POST", url: "leads", headers: {}, body: null, form: null, sendEmpty: false, ...over };
}

export function find(over: Partial<FindSettings> = {}): FindSettings {
  return {
    ...request({ method: "GET", url: "leads?external_ref={{ operation.id | url_encode }}" }),
    items: "/items",
    id: "/id",
    match: "/external_ref",
    none: [404],
    ...over,
  };
}

export function step(over: Partial<HttpStepSettings> = {}): HttpStepSettings {
  return {
    ...request({
      body: {
        external_ref: "{{ operation.id }}",
        name: "{{ contact.name }}",
        phone: "{{ contact.phone }}",
        text: "{{ message.text }}",
      },
    }),
    safety: "search",
    id: "/id",
    link: "https://crm.example/leads/{{ id }}",
    exists: null,
    outcomes: [],
    find: null,
    match: null,
    ...over,
  };
}

export const noteStep = (over: Partial<HttpStepSettings> = {}): HttpStepSettings =>
  step({
    url: "leads/{{ lead.id }}/notes",
    body: { text: "{{ message.text }} [{{ operation.code }}]" },
    link: null,
    ...over,
  });

export function settings(over: Partial<HttpDestinationSettings> = {}): HttpDestinationSettings {
  return {
    name: "sales",
    baseUrl: "http://127.0.0.1:9/api",
    headers: { Authorization: "Bearer {{ secrets.token }}" },
    secretNames: ["token"],
    timeoutMs: 5000,
    proxy: null,
    probe: null,
    steps: { lead: step() },
    ...over,
  };
}

export function connector(
  over: Partial<HttpDestinationSettings> = {},
  options: Partial<HttpConnectorOptions> = {},
) {
  return createConnector({
    settings: settings(over),
    secrets: { token: TOKEN },
    secretMark: SECRET_MARK,
    ...options,
  });
}

export function message(over: Partial<InputMessage> = {}): InputMessage {
  return {
    ref: "7:42:1",
    messageId: 1,
    kind: "text",
    text: "Two tickets for Friday, please",
    date: 1_796_083_200,
    link: null,
    ...over,
  };
}

export function contact(over: Partial<InputContact> = {}): InputContact {
  return {
    userId: 42,
    firstName: "Test",
    lastName: "Person",
    username: "test_person",
    language: "en",
    phone: "+12025550123",
    ...over,
  };
}

const id = operationId(asBusinessKey("lead:7:42:1"));

export interface ContextParts extends Partial<Omit<StepContext, "input">> {
  messages?: InputMessage[];
  contact?: InputContact;
}

export function context({ messages, contact: person, ...over }: ContextParts = {}): StepContext {
  return {
    step: "lead",
    operation: { id, key: id, code: operationCode(id), createdAtMs: 1_796_083_201_234 },
    input: {
      messages: messages ?? [message()],
      contact: person ?? contact(),
      source: { first: "spring-ad", last: null },
    },
    action: "enquiry",
    bot: { id: 7, username: "test_bot" },
    lead: { id: null, link: null },
    contactRecordId: null,
    ...over,
  };
}

export const never = (): AbortSignal => new AbortController().signal;

/** Prepares and sends; fails the test where nothing can be rendered. */
export async function send(
  made: ReturnType<typeof connector>,
  of: StepContext = context(),
  signal: AbortSignal = never(),
): Promise<Outcome> {
  const prepared = made.prepare(of, undefined);
  if (prepared.kind === "unrenderable") {
    throw new Error(`${prepared.template} can't be rendered: ${prepared.message}`);
  }
  return prepared.send(signal);
}

export function storedBody(made: ReturnType<typeof connector>, of: StepContext = context()): string | null {
  const prepared = made.prepare(of, undefined);
  if (prepared.kind === "unrenderable") throw new Error(prepared.message);
  return prepared.body;
}

/** A network without sockets: notes each request and answers it with 201 and an id. */
export class RecordingDispatcher extends Dispatcher {
  readonly requests: { url: string; method: string; headers: Record<string, string>; body: string | null }[] =
    [];

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { origin, path, method, headers, body } = options;
    this.requests.push({
      url: `${origin}${path}`,
      method,
      // The client under test hands over plain objects and texts.
      headers: headers as Record<string, string>,
      body: body as string | null,
    });
    const controller = { aborted: false, paused: false, reason: null, abort() {}, pause() {}, resume() {} };
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 201, { "content-type": "application/json" });
    handler.onResponseData?.(controller, Buffer.from('{"id":"L-1"}'));
    handler.onResponseEnd?.(controller, {});
    return true;
  }

  get last() {
    const request = this.requests.at(-1);
    if (request === undefined) throw new Error("nothing was sent");
    return request;
  }
}
