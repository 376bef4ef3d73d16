/** One request with its answer, as it goes over the socket: how it is read, logged, answered, cut and dropped. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestKind } from "./api.ts";
import type { AnswerFault, FaultKind } from "./faults.ts";
import type { LoggedRequest } from "./journal.ts";
import type { ApiAnswer, ApiRequest } from "./messages.ts";

type Entry = { -readonly [Member in keyof LoggedRequest]: LoggedRequest[Member] };

export class Exchange {
  readonly request: ApiRequest;
  readonly #entry: Entry;
  readonly #response: ServerResponse;

  constructor(
    request: ApiRequest,
    response: ServerResponse,
    about: { kind: RequestKind; connection: number; fault: FaultKind | null },
  ) {
    const { authorization, ...headers } = request.headers;
    this.request = request;
    this.#response = response;
    this.#entry = {
      ...about,
      number: request.number,
      method: request.method,
      path: request.path,
      query: Object.fromEntries(request.query),
      headers: authorization === undefined ? headers : { ...headers, authorization: "***" },
      body: request.body,
      effect: "pending",
      recordId: null,
      answer: "pending",
      status: null,
    };
  }

  get logged(): LoggedRequest {
    return this.#entry;
  }

  /** What the request did to the records is now known. */
  applied({ effect, recordId }: Pick<ApiAnswer, "effect" | "recordId">): void {
    this.#entry.effect = effect;
    this.#entry.recordId = recordId;
  }

  /** Nothing came of it, unless something already has. */
  notApplied(): void {
    if (this.#entry.effect === "pending") this.#entry.effect = "none";
  }

  // The entry is finished before a byte leaves: a client that has its answer finds the log complete.

  send(answer: ApiAnswer | AnswerFault): void {
    if (this.#entry.answer !== "pending") return; // The client is gone.
    this.#entry.answer = "sent";
    const payload = this.#begin(answer);
    this.#response.end(payload);
  }

  /** Half of the body, then the end of the connection. */
  cut(answer: ApiAnswer): void {
    if (this.#entry.answer !== "pending") return;
    this.#entry.answer = "cut";
    const payload = this.#begin(answer);
    this.#response.setHeader("Content-Length", payload.length);
    this.#response.write(payload.subarray(0, payload.length >> 1), () => this.#response.destroy());
  }

  /** The connection ends without an answer, and a request not yet carried out never will be. */
  drop(): void {
    if (this.#entry.answer === "pending") this.#entry.answer = "dropped";
    this.notApplied();
    this.#response.destroy();
  }

  clientGone(): void {
    if (this.#entry.answer === "pending") this.#entry.answer = "client-gone";
  }

  #begin(answer: ApiAnswer | AnswerFault): Buffer {
    const { body } = answer;
    this.#entry.status = answer.status;
    this.#response.statusCode = answer.status;
    if (body !== undefined) {
      const type = typeof body === "string" ? "text/plain; charset=utf-8" : "application/json";
      this.#response.setHeader("Content-Type", type);
    }
    for (const [name, value] of Object.entries(answer.headers ?? {})) this.#response.setHeader(name, value);
    if (body === undefined) return Buffer.alloc(0);
    return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  }
}

/** @returns `complete: false` with what had arrived, when the client went before its request was complete */
export async function readBody(incoming: IncomingMessage): Promise<{ body: string; complete: boolean }> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of incoming) chunks.push(chunk);
  } catch {
    return { body: Buffer.concat(chunks).toString(), complete: false };
  }
  return { body: Buffer.concat(chunks).toString(), complete: true };
}

/** A header that came several times is joined, as a proxy would. */
export function flatHeaders(incoming: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}
