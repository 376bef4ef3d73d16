import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { formatConfigError, loadConfig } from "../../src/config/index.ts";
import { EXIT } from "../../src/domain/errors.ts";
import { configErrorOf, load, problemsOf, sales, TOKEN, tempFolder } from "./config-world.ts";

describe("finding the configuration", () => {
  const marked = (key: string) => `[storage]\npath = "${key}.db"`;

  it("takes --config before LEADONCE_CONFIG before service.conf, and paths begin at the file's folder", (t) => {
    const cwd = tempFolder(t, { "service.conf": marked("third") });
    mkdirSync(join(cwd, "etc"));
    writeFileSync(join(cwd, "etc", "first.conf"), marked("first"));
    writeFileSync(join(cwd, "etc", "second.conf"), marked("second"));
    const env = { LEADONCE_CONFIG: join(cwd, "etc", "second.conf") };

    assert.equal(loadConfig({ path: "etc/first.conf", env, cwd }).databasePath, join(cwd, "etc", "first.db"));
    assert.equal(loadConfig({ env, cwd }).databasePath, join(cwd, "etc", "second.db"));
    assert.equal(loadConfig({ env: { LEADONCE_CONFIG: "" }, cwd }).databasePath, join(cwd, "third.db"));
    assert.equal(loadConfig({ env: {}, cwd }).path, join(cwd, "service.conf"));
  });

  it("names a file that is asked for and is not there", (t) => {
    const cwd = tempFolder(t, { "service.conf": "" });
    for (const asked of [{ path: "none.conf", env: {} }, { env: { LEADONCE_CONFIG: "none.conf" } }]) {
      const error = configErrorOf(() => loadConfig({ ...asked, cwd }));
      assert.equal(error.exitCode, EXIT.config);
      assert.match(error.message, /none\.conf/);
      assert.match(error.hint ?? "", /--config/);
    }
    assert.match(configErrorOf(() => loadConfig({ path: ".", env: {}, cwd })).message, /EISDIR/);
  });

  it("goes without any file: leads go to the ledger", (t) => {
    const cwd = tempFolder(t);
    const config = loadConfig({ env: {}, cwd });
    assert.equal(config.path, null);
    assert.equal(config.databasePath, join(cwd, "data", "leadonce.db"));
    assert.deepEqual(
      config.destinations.map(({ settings, http }) => [settings.key, settings.kind, http]),
      [["ledger", "ledger", null]],
    );
    assert.deepEqual(config.actions, [
      {
        name: "enquiry",
        key: "enquiry",
        kind: "lead",
        when: { update: ["message"], chat: "private" },
        repeat: { rule: "each" },
        to: ["ledger"],
      },
    ]);
  });

  it("tells where a file is not TOML, without quoting a line of it", (t) => {
    const toml = `[telegram]\ntoken = "${TOKEN}" and more\n`;
    const error = configErrorOf(() => load(t, { toml }));
    assert.equal(error.exitCode, EXIT.config);
    assert.match(error.problems[0]?.path ?? "", /^line 2, column \d+$/);
    assert.match(error.problems[0]?.hint ?? "", /quotes/);
    assert.doesNotMatch(formatConfigError(error), /AAF0/);
  });

  it("reads a file that an editor of Windows has saved", (t) => {
    assert.equal(
      load(t, { toml: "\uFEFF[telegram]\r\npoll_timeout = '5s'\r\n" }).telegram.pollTimeoutMs,
      5000,
    );
  });
});

describe("a configuration that is whole", () => {
  it("has every default", (t) => {
    const [destination] = load(t, { toml: sales() }).destinations;
    assert.deepEqual(destination?.settings, {
      key: "sales",
      name: "sales",
      kind: "http",
      concurrency: 4,
      rate: { count: 10, perMs: 1000 },
      timeoutMs: 20_000,
      leaseMs: 60_000,
      retry: { firstMs: 1000, maxMs: 900_000, giveUpAfterMs: 604_800_000 },
      steps: {
        lead: {
          safety: "search",
          keyValidForMs: null,
          unknownWaitMs: 30_000,
          retry: { firstMs: 1000, maxMs: 900_000, giveUpAfterMs: 604_800_000 },
          checksMs: [15_000, 120_000, 600_000, 3_600_000],
          assumeAbsentAfterMs: null,
          onUnknown: "reconcile",
          canFind: true,
        },
      },
    });
    const request = { headers: {}, form: null, sendEmpty: false };
    assert.deepEqual(destination?.http?.settings, {
      name: "sales",
      baseUrl: "https://crm.example/api",
      headers: {},
      secretNames: [],
      timeoutMs: 20_000,
      probe: null,
      steps: {
        lead: {
          ...request,
          method: "POST",
          url: "leads",
          body: { external_ref: "{{ operation.id }}" },
          safety: "search",
          id: "/id",
          link: null,
          exists: null,
          outcomes: [],
          match: null,
          find: {
            ...request,
            method: "GET",
            url: "leads?external_ref={{ operation.id }}",
            body: null,
            items: "/items",
            id: "/id",
            match: null,
            none: [404],
          },
        },
      },
    });
  });

  it("takes every key that this version has", (t) => {
    const toml = `
      [telegram]
      token = "${TOKEN}"
      api_root = "http://127.0.0.1:8081/"
      poll_timeout = "1s"
      take_over_webhook = true
      proxy = "socks5://127.0.0.1:1080"
      [storage]
      path = "/var/lib/leadonce/leadonce.db"
      keep_content = "7d"
      keep_keys = "48h"
      keep_leads = "forever"
      [web]
      listen = "off"
      [operators]
      [crm.archive]
      kind = "ledger"
      [crm.sales]
      kind = "http"
      key = "old-name"
      base_url = "https://crm.example"
      headers = { Accept = "application/json", Idempotency-Key = "{{ operation.key }}" }
      safety = "idempotency-key"
      key_valid_for = "12h"
      timeout = "5s"
      lease = "15s"
      concurrency = 1
      rate = "off"
      unknown_wait = "0s"
      retry = { first = "2s", max = "1m", give_up_after = "1d" }
      reconcile = { checks = ["1m"], assume_absent_after = "2h" }
      probe = "me"
      proxy = "http://127.0.0.1:3128"
      secrets = { token = "not to be seen" }
      [crm.sales.lead]
      method = "put"
      url = "https://other.example/leads/{{ operation.id }}"
      headers = { X-Source = "telegram" }
      form = { name = "{{ contact.name }}", tags = ["telegram"], since = 2026-01-01 }
      id = "reference"
      link = "https://crm.example/{{ id }}"
      exists = { status = 409, body = "exists", id = "/id", match = "/ref" }
      outcomes = [{ status = 503, body = "QUERY_LIMIT", outcome = "not_applied" }]
      send_empty = true
      safety = "external-id"
      find = { method = "POST", url = "search", headers = { A = "b" }, body = "{{ operation.id }}", id = "", none = [404, 410] }
      [crm.sales.note]
      url = "notes"
      body = "{{ message.text }} [{{ operation.code }}]"
      id = "header:Location"
      on_unknown = "repeat"
      [[actions]]
      name = "enquiry"
      key = "first-name"
      kind = "lead"
      when = { update = ["message"], chat = "any" }
      repeat = { rule = "each" }
      gather = "off"
      reply = ""
      to = ["sales", "ledger"]`;
    const config = load(t, { toml });
    const [archive, sold, ledger] = config.destinations;
    assert.equal(config.databasePath, "/var/lib/leadonce/leadonce.db");
    assert.equal(config.telegram.apiRoot, "http://127.0.0.1:8081");
    assert.deepEqual(config.storage, { keepContentMs: 604_800_000, keepKeysMs: 172_800_000 });
    assert.deepEqual([archive?.settings.kind, ledger?.settings.key], ["ledger", "ledger"]);
    assert.equal(sold?.settings.rate, null);
    assert.deepEqual(
      [sold?.settings.steps.lead?.safety, sold?.settings.steps.lead?.keyValidForMs],
      ["external-id", null],
    );
    assert.deepEqual(
      [sold?.settings.steps.note?.safety, sold?.settings.steps.note?.keyValidForMs],
      ["idempotency-key", 43_200_000],
    );
    assert.equal(sold?.settings.steps.note?.onUnknown, "repeat");
    assert.equal(sold?.http?.settings.steps.lead?.method, "PUT");
    assert.deepEqual(config.actions[0]?.to, ["old-name", "ledger"]);
    assert.equal(config.actions[0]?.key, "first-name");
  });

  it("gives a lead to every destination where nothing else is said, the ledger too", (t) => {
    assert.deepEqual(load(t, { toml: sales() }).actions[0]?.to, ["sales", "ledger"]);
  });
});

describe("the problems of a configuration", () => {
  it("are all told at once, of whatever kind and however deep they lie", (t) => {
    const toml = `
      nonsense = 1
      [telegram]
      tokn = "${TOKEN}"
      poll_timeout = "51s"
      proxy = "ftp://127.0.0.1"
      [storage]
      path = "env:NO_SUCH_PATH"
      [web]
      listen = "127.0.0.1:8470"
      [crm.sales]
      kind = "http"
      timeout = "55s"
      [crm.sales.secret]
      token = "not to be seen"
      [crm.sales.lead]
      url = "https://crm.example/leads"
      body = { ref = "{{ operation.id }}" }
      [crm.sales.lead.fnd]
      url = "search"
      id = "/id"
      items = 5
      [crm.hub]
      kind = "hubspot"
      [[actions]]
      kind = "vote"
      name = "vote"
      [[actions]]
      name = "enquiry"
      kind = "lead"
      to = ["sale"]`;
    const template = { path: "crm.sales.lead.body.ref", value: null, message: "told by a check", hint: null };
    const problems = problemsOf(t, {
      toml,
      checks: [
        (config) => {
          // What was misspelt is read as it was meant, so that a check sees what it holds.
          assert.deepEqual(config.destinations[0]?.http?.settings.secretNames, ["token"]);
          return [template];
        },
      ],
    });
    assert.deepEqual(problems.map(({ path }) => path).sort(), [
      "actions[0].kind",
      "actions[1].to[0]",
      "crm.hub.kind",
      "crm.sales.lead.body.ref",
      "crm.sales.lead.find.items",
      "crm.sales.lead.find.url",
      "crm.sales.lead.fnd",
      "crm.sales.lead.id",
      "crm.sales.lease",
      "crm.sales.secret",
      "nonsense",
      "storage.path",
      "telegram.poll_timeout",
      "telegram.proxy",
      "telegram.tokn",
      "web.listen",
    ]);
  });

  it("are one each: what only follows from another is not told", (t) => {
    const faulty = sales({
      top: 'safety = "search"\ntimeout = "never"\nlease = "11s"',
      find: FIND_WITHOUT_URL,
    });
    const paths = problemsOf(t, { toml: faulty }).map(({ path }) => path);
    assert.deepEqual(paths, ["crm.sales.timeout", "crm.sales.lead.find.url"]);
  });

  it("are printed with place, value and hint, and say that nothing was started", (t) => {
    const error = configErrorOf(() => load(t, { toml: '[telegram]\npoll_timeout = "51s"' }));
    const [first, ...lines] = formatConfigError(error).split("\n");
    assert.match(first ?? "", /service\.conf has a problem; nothing was started$/);
    assert.deepEqual(lines, [
      "",
      '  telegram.poll_timeout = "51s"',
      "      it is out of bounds",
      "      → it may be 1s to 50s",
    ]);
    assert.equal(error.exitCode, EXIT.config);
  });
});

const FIND_WITHOUT_URL = '[crm.sales.lead.find]\nitems = "/items"\nid = "/id"';
