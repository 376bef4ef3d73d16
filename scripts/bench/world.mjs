// What the measurements share: a store in a folder of its own, settings for one http destination, a tiny CRM that
// notes when requests arrive, and numbers as people read them. All of it works on the built program.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asBotId, asDestinationKey, LEDGER } from "../../dist/domain/ids.js";

export const BOT_ID = 4242;
export const TOKEN = `${BOT_ID}:bench_bench_bench_bench_bench_ben`;
export const SALES = asDestinationKey("sales");

export function folder() {
  const path = mkdtempSync(join(tmpdir(), "leadonce-bench-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

const RETRY = { firstMs: 1_000, maxMs: 900_000, giveUpAfterMs: 604_800_000 };

export function destinations(concurrency) {
  const step = {
    safety: "idempotency-key",
    keyValidForMs: 86_400_000,
    unknownWaitMs: 30_000,
    retry: RETRY,
    checksMs: [15_000],
    assumeAbsentAfterMs: null,
    onUnknown: "reconcile",
    canFind: false,
  };
  const shared = { rate: null, timeoutMs: 20_000, leaseMs: 60_000, retry: RETRY, fingerprint: "bench" };
  return [
    { key: SALES, name: "sales", kind: "http", concurrency, steps: { lead: step }, ...shared },
    { key: LEDGER, name: "ledger", kind: "ledger", concurrency: 1, steps: {}, ...shared },
  ];
}

export const ACTIONS = [
  {
    name: "enquiry",
    key: "enquiry",
    kind: "lead",
    when: { update: ["message"], chat: "private" },
    repeat: { rule: "each" },
    to: [SALES],
  },
];

export function intakeSettings() {
  return {
    bot: { id: asBotId(BOT_ID), username: "bench_bot" },
    actions: ACTIONS,
    destinations: destinations(1).map(({ key, kind }) => ({ key, kind })),
  };
}

/** A private message of about 850 bytes, each from a person of its own, so that nobody waits for anybody. */
export function messageUpdate(id) {
  return {
    update_id: id,
    message: {
      message_id: id,
      // Telegram drops messages older than a day.
      date: Math.floor(Date.now() / 1000),
      chat: {
        id: 100_000 + id,
        type: "private",
        first_name: "Test",
        last_name: `Person ${id}`,
        username: `test_${id}`,
      },
      from: {
        id: 100_000 + id,
        is_bot: false,
        first_name: "Test",
        last_name: `Person ${id}`,
        username: `test_${id}`,
        language_code: "en",
      },
      text: "Good morning, do you still have the blue one, and could you deliver it this week? ".repeat(6),
    },
  };
}

/** Answers every create after `delayMs`; `onRequest` hears of each when its head has arrived. */
export async function tinyCrm(delayMs, onRequest = () => {}) {
  let made = 0;
  const server = createServer((request, response) => {
    onRequest();
    request.resume().on("end", () => {
      const answer = () => response.end(JSON.stringify({ id: `L-${++made}` }));
      if (delayMs > 0) setTimeout(answer, delayMs);
      else answer();
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    made: () => made,
    close: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  };
}

export function httpSettings(baseUrl) {
  const body = {
    external_ref: "{{ operation.id }}",
    name: "{{ contact.name }}",
    phone: "{{ contact.phone }}",
    text: "{{ message.text }}",
  };
  const lead = {
    method: "POST",
    url: "leads",
    headers: { "Idempotency-Key": "{{ operation.key }}" },
    body,
    form: null,
    sendEmpty: false,
    safety: "idempotency-key",
    id: "/id",
    link: null,
    exists: null,
    outcomes: [],
    find: null,
    match: null,
  };
  const settings = {
    name: "sales",
    baseUrl,
    headers: {},
    secretNames: [],
    timeoutMs: 20_000,
    proxy: null,
    probe: null,
    steps: { lead },
  };
  return [{ key: SALES, settings, secrets: {} }];
}

export function appSettings(databasePath, telegramRoot, crmUrl, concurrency) {
  const telegram = {
    token: TOKEN,
    apiRoot: telegramRoot,
    proxy: null,
    pollTimeoutMs: 50_000,
    takeOverWebhook: false,
  };
  return {
    databasePath,
    configHash: "bench",
    telegram,
    actions: ACTIONS,
    destinations: destinations(concurrency),
    http: httpSettings(crmUrl),
  };
}

export const silent = { info() {}, warn() {}, error() {} };

export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export const median = (values) => quantile(values, 0.5);

export function spread(values, digits = 0) {
  const show = (value) => value.toLocaleString("en", { maximumFractionDigits: digits });
  return `${show(median(values))} (${show(Math.min(...values))}–${show(Math.max(...values))})`;
}
