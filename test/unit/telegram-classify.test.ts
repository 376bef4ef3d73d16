/** What the client library throws, and what it means. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { classify } from "../../src/telegram/classify.ts";

const SERVER = "api.telegram.org";

/** Has the fields of the library's error of the same name. */
function apiError(errorCode: unknown, description?: string, parameters?: object): Error {
  const message = `${errorCode}: ${description}`;
  return Object.assign(new Error(message), { code: "ETELEGRAM", errorCode, description, parameters });
}

function networkError(code: "EFETCH" | "ETIMEOUT", cause?: unknown): Error {
  return Object.assign(new Error("Network request failed: getUpdates", { cause }), { code });
}

function caused(...codes: string[]): Error {
  return codes.reduceRight<Error>(
    (cause, code) => Object.assign(new Error(code, { cause }), { code }),
    new Error("the innermost"),
  );
}

test("each refusal of Telegram has its kind", () => {
  const cases: [number, string, string][] = [
    [401, "Unauthorized", "unauthorised"],
    [404, "Not Found", "unauthorised"],
    [400, "Bad Request: something", "refused"],
    [403, "Forbidden: bot was blocked by the user", "refused"],
    [429, "Too Many Requests: retry after 5", "throttled"],
    [500, "Internal Server Error: restart", "server"],
    [
      409,
      "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
      "conflict",
    ],
    [
      409,
      "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
      "webhook",
    ],
    [409, "Conflict: terminated by setWebhook request", "webhook"],
    [409, "Conflict: something new", "conflict"],
  ];
  for (const [code, description, kind] of cases) {
    assert.equal(classify(apiError(code, description), SERVER).kind, kind, description);
  }
});

test("retry_after counts only when it is a number of seconds", () => {
  const asked = (retry_after: unknown): number | null =>
    classify(apiError(429, "Too Many Requests", { retry_after }), SERVER).retryAfterMs;
  assert.equal(asked(7), 7_000);
  assert.equal(asked(3e6), 3e9);
  for (const silly of [undefined, null, "7", -1, 0, Number.NaN, {}]) assert.equal(asked(silly), null);
  assert.equal(classify(apiError(429, "Too Many Requests"), SERVER).retryAfterMs, null);
});

test("an envelope without its members, broken JSON and surprises of the library are invalid answers", () => {
  const parse = Object.assign(new Error("Invalid JSON in response to getUpdates"), {
    code: "EPARSE",
    responseText: "a customer's words",
    cause: new SyntaxError("Unexpected token 'a', \"a customer's words\" is not valid JSON"),
  });
  for (const error of [
    apiError(undefined),
    parse,
    new TypeError("Cannot read properties of null"),
    "text",
    null,
  ]) {
    const { kind, message } = classify(error, SERVER);
    assert.equal(kind, "invalid_answer");
    assert.doesNotMatch(message, /customer/);
  }
});

test("a failed connection is named by the code that is deepest known, also behind an AggregateError", () => {
  const happyEyeballs = Object.assign(new AggregateError([caused("ENETUNREACH"), caused("ECONNREFUSED")]), {
    code: "ECONNREFUSED",
  });
  const cases: [unknown, RegExp][] = [
    [
      new TypeError("fetch failed", { cause: caused("ENOTFOUND") }),
      /^api\.telegram\.org: DNS does not know.*\(ENOTFOUND\)$/,
    ],
    [new TypeError("fetch failed", { cause: happyEyeballs }), /refused \(ECONNREFUSED\)/],
    [new TypeError("fetch failed", { cause: caused("UND_ERR_SOCKET") }), /connection broke/],
    [caused("CERT_NOT_YET_VALID"), /check this machine's clock/],
    [caused("SELF_SIGNED_CERT_IN_CHAIN"), /not one that this machine trusts/],
    [caused("REDIRECTED"), /never followed/],
    [caused("NEVER_SEEN"), /can't be reached \(NEVER_SEEN\)/],
    [new Error("without any code"), /can't be reached$/],
  ];
  for (const [cause, message] of cases) {
    const error = classify(networkError("EFETCH", cause), SERVER);
    assert.equal(error.kind, "network");
    assert.match(error.message, message);
  }
});

test("a time-out of the library is one, unless a connection error is behind it", () => {
  const own = Object.assign(new DOMException("The operation was aborted due to timeout", "TimeoutError"));
  assert.equal(classify(networkError("ETIMEOUT", own), SERVER).kind, "timeout");
  assert.equal(classify(networkError("ETIMEOUT", caused("UND_ERR_ABORTED")), SERVER).kind, "network");
});

test("HTTP 5xx without a Telegram body is told with its status", () => {
  const error = Object.assign(new Error("Server error 502 on getUpdates"), { code: "EFETCH" });
  assert.deepEqual(
    [classify(error, SERVER).kind, classify(error, SERVER).message],
    ["server", "api.telegram.org or something on the way answered HTTP 502"],
  );
});

test("a chain of causes that bites its own tail ends", () => {
  const error: Error & { cause?: unknown } = caused("NEVER_SEEN");
  error.cause = error;
  assert.equal(classify(networkError("EFETCH", error), SERVER).kind, "network");
});
