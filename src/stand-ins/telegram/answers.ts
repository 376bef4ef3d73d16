/**
 * Answers as the Bot API server words and encodes them: JSON in which every character outside ASCII is escaped, `ok`
 * first, and an HTTP status that repeats `error_code`.
 *
 * Source: tdlib/telegram-bot-api, Query.h and Query.cpp; tdlib/td, JsonBuilder.cpp.
 */

export interface Answer {
  status: number;
  body: Buffer;
  contentType: string;
  headers: Readonly<Record<string, string>>;
  /** The message that this call put into a chat. It is there even if nobody ever reads the answer. */
  deliveredMessageId?: number;
}

export type Reply = (answer: Answer) => void;

/** JSON in pure ASCII. Characters outside it are escaped as UTF-16 units, emoji as surrogate pairs. */
export function toAsciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export function succeeded(result: unknown, description?: string): Answer {
  return succeededWith(Buffer.from(toAsciiJson(result)), description);
}

/** `result` is JSON already, in bytes: an update goes out exactly as it was stored. */
export function succeededWith(result: Buffer, description?: string): Answer {
  const tail = description === undefined ? "}" : `,"description":${toAsciiJson(description)}}`;
  return json(200, Buffer.concat([Buffer.from('{"ok":true,"result":'), result, Buffer.from(tail)]));
}

export function failed(code: number, description: string, parameters?: Record<string, unknown>): Answer {
  const body = { ok: false, error_code: code, description, ...(parameters && { parameters }) };
  return json(code, Buffer.from(toAsciiJson(body)));
}

/** 429. The number of seconds stands in the description, in `parameters` and in a header; a fault may spoil it. */
export function tooManyRequests(retryAfter: unknown): Answer {
  if (retryAfter === undefined) return failed(429, "Too Many Requests");
  const answer = failed(429, `Too Many Requests: retry after ${retryAfter}`, { retry_after: retryAfter });
  return { ...answer, headers: { "Retry-After": String(retryAfter) } };
}

/** Malformed requests get no body at all, and the connection is closed. */
export function emptyAnswer(status: number): Answer {
  return { status, body: Buffer.alloc(0), contentType: "application/json", headers: { Connection: "close" } };
}

function json(status: number, body: Buffer): Answer {
  return { status, body, contentType: "application/json", headers: {} };
}
