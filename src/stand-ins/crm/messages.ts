/** What goes into the CRM's API and what comes out of it, apart from sockets. */
import { z } from "zod";
import type { CrmRecord } from "./records.ts";

/** What a request did to the records: the half of its fate that the client may never learn. */
export type Effect =
  | "created"
  | "updated"
  | "replayed"
  | "conflict"
  | "read"
  | "refused"
  | "unauthorised"
  | "none";

export interface ApiRequest {
  /** Running number, from 1. */
  number: number;
  method: string;
  path: string;
  query: URLSearchParams;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  body: string;
}

export interface ApiAnswer {
  status: number;
  headers: Record<string, string>;
  /** Sent as JSON. */
  body: unknown;
  effect: Effect;
  recordId: string | null;
}

export function answer(effect: Effect, status: number, body: unknown, record?: CrmRecord): ApiAnswer {
  return { status, headers: {}, body, effect, recordId: record?.id ?? null };
}

export function problem(code: string, message: string): { error: { code: string; message: string } } {
  return { error: { code, message } };
}

/** Ends a request with an answer of the CRM's own. */
export class Refusal extends Error {
  readonly answer: ApiAnswer;

  constructor(status: number, code: string, message: string, effect: Effect = "refused") {
    super(message);
    this.answer = answer(effect, status, problem(code, message));
  }
}

const JsonObject = z.record(z.string(), z.unknown());

export function parseBody(request: ApiRequest): Record<string, unknown> {
  const type = request.headers["content-type"]?.split(";")[0]?.trim().toLowerCase();
  if (type === "application/x-www-form-urlencoded") {
    return Object.fromEntries(new URLSearchParams(request.body));
  }
  if (type !== "application/json") throw new Refusal(415, "unsupported", "Send JSON or a URL-encoded form.");
  let parsed: unknown;
  try {
    parsed = JSON.parse(request.body);
  } catch {
    throw new Refusal(400, "bad_json", "The body is not JSON.");
  }
  const object = JsonObject.safeParse(parsed);
  if (!object.success) throw new Refusal(400, "bad_json", "The body is not a JSON object.");
  return object.data;
}
