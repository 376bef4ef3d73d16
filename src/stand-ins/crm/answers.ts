/**
 * Ready-made wrong answers, to be spread into a fault: `crm.fault({ on: "create", ...badGateway })`. They change
 * nothing in the CRM unless `applied: true` is added: then the request is carried out and its answer replaced.
 */
import type { AnswerFault } from "./faults.ts";

/** Any status. A string is sent as text, everything else as JSON, and without a body nothing. */
export function status(code: number, body?: unknown, headers: Record<string, string> = {}): AnswerFault {
  return { kind: "answer", status: code, headers, ...(body === undefined ? {} : { body }) };
}

/** @param retryAfter seconds, a moment (sent as an HTTP date), or any text as it stands */
export function tooManyRequests(retryAfter?: number | Date | string): AnswerFault {
  const body = { error: { code: "too_many_requests", message: "Slow down." } };
  if (retryAfter === undefined) return status(429, body);
  const value = retryAfter instanceof Date ? retryAfter.toUTCString() : String(retryAfter);
  return status(429, body, { "Retry-After": value });
}

/** @param location where the client is sent; by default a path that nothing serves, so that following it shows in the log */
export function redirect(location = "/api/moved"): AnswerFault {
  return status(302, undefined, { Location: location });
}

/** A conflict about somebody else's record: no proof that ours exists. */
export const phoneTaken = status(409, {
  error: { code: "phone_taken", message: "Another record has this phone." },
  existing: { id: "L-900", external_ref: "somebody-else" },
});

export const internalError = status(500, { error: { code: "internal", message: "Something broke." } });
export const badGateway = html(502, "502 Bad Gateway");
export const unavailable = status(503, "Service unavailable, try again later.");
/** What a captive portal or a sign-in page in front of the CRM says. */
export const htmlPage = html(200, "Please sign in");
export const withoutId = status(200, { ok: true });
export const nullBody = status(200, null);
export const foundNothing = status(200, { items: [] });

function html(code: number, title: string): AnswerFault {
  const page = `<!doctype html><title>${title}</title><h1>${title}</h1>`;
  return status(code, page, { "Content-Type": "text/html; charset=utf-8" });
}
