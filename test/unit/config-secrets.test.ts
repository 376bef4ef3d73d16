import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import {
  configHash,
  formatConfigError,
  httpDestinations,
  loadConfig,
  resolveConfig,
} from "../../src/config/index.ts";
import { checkTemplates, createConnector } from "../../src/crm/connectors.ts";
import { EXIT } from "../../src/domain/errors.ts";
import {
  configErrorOf,
  LEAD,
  load,
  problemsOf,
  sales,
  TOKEN,
  tempFolder,
  type World,
} from "./config-world.ts";

const env = { TELEGRAM_BOT_TOKEN: TOKEN, CRM_TOKEN: "s3cret-of-the-crm" };
const withSecret = sales({ rest: '[crm.sales.secrets]\ntoken = "env:CRM_TOKEN"' });

describe("secrets", () => {
  it("are not needed to load a configuration, and are read from the environment when asked for", (t) => {
    const config = load(t, { toml: withSecret });
    assert.equal(config.telegram.pollTimeoutMs, 50_000);
    configErrorOf(() => resolveConfig(config));

    const resolved = resolveConfig(load(t, { toml: withSecret, env }));
    assert.equal(resolved.telegram.token, TOKEN);
    assert.deepEqual(resolved.http[0]?.secrets, { token: "s3cret-of-the-crm" });
    assert.deepEqual(resolved.http[0]?.settings.secretNames, ["token"]);
  });

  it("are told with the file's other problems by a command that reads them, and only by such a one", (t) => {
    const toml = `[telegram]\npoll_timeout = "9 s"\n${withSecret}`;
    const paths = (withSecrets: boolean) => problemsOf(t, { toml, withSecrets }).map(({ path }) => path);
    assert.deepEqual(paths(true), ["telegram.poll_timeout", "telegram.token", "crm.sales.secrets.token"]);
    assert.deepEqual(paths(false), ["telegram.poll_timeout"]);
    load(t, { toml: withSecret, withSecrets: true });
  });

  it("that are missing are told all at once, with their places", (t) => {
    const toml = `
      [telegram]
      proxy = "env:NO_PROXY_HERE"
      ${withSecret}
      other = "file:none.txt"
      empty = "env:EMPTY"
      odd = "env:NOT A NAME"`;
    const error = configErrorOf(() => resolveConfig(load(t, { toml, env: { EMPTY: "" } })));
    assert.equal(error.exitCode, EXIT.config);
    assert.deepEqual(
      error.problems.map(({ path, value }) => [path, value]),
      [
        ["telegram.token", "env:TELEGRAM_BOT_TOKEN"],
        ["telegram.proxy", "env:NO_PROXY_HERE"],
        ["crm.sales.secrets.token", "env:CRM_TOKEN"],
        ["crm.sales.secrets.other", "file:none.txt"],
        ["crm.sales.secrets.empty", "env:EMPTY"],
        ["crm.sales.secrets.odd", "env:NOT A NAME"],
      ],
    );
    assert.match(error.problems[0]?.hint ?? "", /\.env/);
    assert.match(error.problems[3]?.hint ?? "", /configuration's folder/);
  });

  it("may stand in a .env beside the configuration, and the real environment wins", (t) => {
    const files = { ".env": `TELEGRAM_BOT_TOKEN="${TOKEN}"\nCRM_TOKEN=from-the-file\n` };
    const resolve = (more: Record<string, string>) =>
      resolveConfig(load(t, { toml: withSecret, files, env: more }));
    assert.equal(resolve({}).telegram.token, TOKEN);
    assert.equal(resolve({}).http[0]?.secrets.token, "from-the-file");
    assert.equal(resolve({ CRM_TOKEN: "from-the-shell" }).http[0]?.secrets.token, "from-the-shell");
  });

  it("may stand in a file, relative to the configuration or to systemd's credentials", (t) => {
    const read = (reference: string, more: Record<string, string> = {}) => {
      const toml = sales({ rest: `[crm.sales.secrets]\ntoken = "${reference}"` });
      const files = { "token.txt": "\uFEFFbeside it\r\n" };
      return resolveConfig(load(t, { toml, files, env: { ...env, ...more } })).http[0]?.secrets.token;
    };
    const credentials = tempFolder(t, { token: "from systemd\n", "token.txt": "systemd's\n" });
    const systemd = { CREDENTIALS_DIRECTORY: credentials };
    assert.equal(read("file:token.txt"), "beside it");
    assert.equal(read(`file:${join(credentials, "token")}`), "from systemd");
    assert.equal(read("file:token", systemd), "from systemd");
    assert.equal(read("file:token.txt", systemd), "systemd's");
    assert.equal(read("file:$CREDENTIALS_DIRECTORY/token", systemd), "from systemd");
    assert.equal(read(`file:\${CREDENTIALS_DIRECTORY}/token`, systemd), "from systemd");
    const error = configErrorOf(() => read("file:$CREDENTIALS_DIRECTORY/token"));
    assert.match(error.problems[0]?.hint ?? "", /LoadCredential/);
  });

  it("can't be read from a folder, and the .env can't either", (t) => {
    const cwd = tempFolder(t, { "service.conf": '[telegram]\ntoken = "file:."' });
    assert.match(
      configErrorOf(() => resolveConfig(loadConfig({ env: {}, cwd }))).problems[0]?.message ?? "",
      /EISDIR/,
    );
    mkdirSync(join(cwd, ".env"));
    assert.match(configErrorOf(() => loadConfig({ env: {}, cwd })).message, /\.env can't be read/);
  });
});

describe("the bot's token", () => {
  const resolve = (t: Parameters<typeof load>[0], token: string, toml = "") =>
    resolveConfig(load(t, { toml, env: { TELEGRAM_BOT_TOKEN: token } }));

  it("alone is enough, without any file", (t) => {
    const cwd = tempFolder(t);
    const resolved = resolveConfig(loadConfig({ env: { TELEGRAM_BOT_TOKEN: TOKEN }, cwd }));
    assert.equal(resolved.telegram.token, TOKEN);
    assert.deepEqual(resolved.http, []);
    writeFileSync(join(cwd, ".env"), `TELEGRAM_BOT_TOKEN=${TOKEN}`);
    assert.equal(resolveConfig(loadConfig({ env: {}, cwd })).telegram.token, TOKEN);
  });

  it("is asked for in a few lines where there is no file either", (t) => {
    for (const nothing of [{}, { TELEGRAM_BOT_TOKEN: "" }]) {
      const error = configErrorOf(() => resolveConfig(loadConfig({ env: nothing, cwd: tempFolder(t) })));
      assert.equal(error.exitCode, EXIT.config);
      const text = formatConfigError(error);
      for (const part of [/@BotFather/, /TELEGRAM_BOT_TOKEN=\S+ npm start/, /npm run demo/])
        assert.match(text, part);
      assert.ok(text.split("\n").length <= 8, text);
    }
  });

  it("is refused with spaces, quotes or words around it, and never shown", (t) => {
    const wrong = [
      `${TOKEN} `,
      ` ${TOKEN}`,
      `${TOKEN}\n${TOKEN}`,
      `"${TOKEN}"`,
      `bot${TOKEN}`,
      TOKEN.slice(0, 20),
      TOKEN.replace(":", ""),
      `Use this token: ${TOKEN}`,
    ];
    for (const token of wrong) {
      const error = configErrorOf(() => resolve(t, token));
      assert.deepEqual(
        error.problems.map(({ path, value }) => [path, value]),
        [["telegram.token", "env:TELEGRAM_BOT_TOKEN"]],
      );
      assert.match(error.problems[0]?.hint ?? "", /copy the token alone/);
      assert.doesNotMatch(formatConfigError(error), /AAF0/);
    }
    assert.match(
      configErrorOf(() => resolve(t, `${TOKEN} `)).problems[0]?.message ?? "",
      /spaces or line breaks/,
    );
  });

  it("that stands in the file is judged when the file is read", (t) => {
    const error = configErrorOf(() => load(t, { toml: `[telegram]\ntoken = "${TOKEN} "` }));
    assert.equal(error.problems[0]?.path, "telegram.token");
    assert.equal(error.problems[0]?.value, `(${TOKEN.length + 1} characters, not shown)`);
  });
});

describe("a proxy", () => {
  it("is http, https or socks5, and its password is never shown", (t) => {
    const proxy = (address: string) => `[telegram]\ntoken = "${TOKEN}"\nproxy = "${address}"`;
    for (const address of [
      "http://127.0.0.1:3128",
      "https://u:pass-word@127.0.0.1",
      "socks5://127.0.0.1:1080",
    ]) {
      assert.equal(resolveConfig(load(t, { toml: proxy(address) })).telegram.proxy, address);
    }
    for (const address of ["ftp://u:pass-word@127.0.0.1", "127.0.0.1:3128", "u:pass-word@127.0.0.1"]) {
      const error = configErrorOf(() => load(t, { toml: proxy(address) }));
      assert.equal(error.problems[0]?.path, "telegram.proxy");
      assert.match(error.problems[0]?.hint ?? "", /socks5:/);
      assert.doesNotMatch(formatConfigError(error), /pass-word/);
    }
  });

  it("of a CRM is read with its secrets", (t) => {
    const toml = sales({ top: 'proxy = "env:CRM_PROXY"' });
    const { http, secretValues } = resolveConfig(
      load(t, { toml, env: { ...env, CRM_PROXY: "http://u:pass%2Dword@127.0.0.1" } }),
    );
    assert.equal(http[0]?.settings.proxy, "http://u:pass%2Dword@127.0.0.1");
    assert.ok(secretValues.includes("pass%2Dword") && secretValues.includes("pass-word"));
  });
});

describe("any text", () => {
  it("may be a reference, and is read at once where no secret is expected", (t) => {
    const lead = `${LEAD}\nexists = { status = 409, body = "env:SAYS" }`;
    const toml = `[storage]\npath = "env:DATABASE"\n${sales({ top: 'timeout = "file:timeout"', lead })}`;
    const more = { DATABASE: "/srv/leads.db", SAYS: "is known" };
    const config = load(t, { toml, env: more, files: { timeout: "5s\n" } });
    assert.equal(config.destinations[0]?.http?.settings.steps.lead?.exists?.body, "is known");
    assert.equal(config.databasePath, "/srv/leads.db");
    assert.equal(config.destinations[0]?.settings.timeoutMs, 5000);

    const error = configErrorOf(() => load(t, { toml, env: { SAYS: "x" }, files: { timeout: "never" } }));
    assert.deepEqual(
      error.problems.map(({ path, value }) => [path, value]),
      [
        ["storage.path", "env:DATABASE"],
        ["crm.sales.timeout", '"file:timeout"'],
      ],
    );
  });

  it("in a request may be one too: it is a secret, used as it stands", (t) => {
    const toml = sales({
      top: 'headers = { Authorization = "env:CRM_AUTH" }',
      lead: LEAD.replace(
        '"{{ operation.id }}"',
        '"{{ operation.id }}", pipeline = "env:PIPELINE", at = 2026-01-01',
      ),
    }).replace('"https://crm.example/api"', '"env:CRM_URL"');
    const more = { CRM_AUTH: "Bearer {{ not a template }}", PIPELINE: "p-1", CRM_URL: "https://crm.example" };
    const check = (config: ReturnType<typeof load>) =>
      httpDestinations(config).flatMap(({ settings }) => checkTemplates(settings));
    const config = load(t, { toml, env: { ...env, ...more }, checks: [check] });
    const [destination] = resolveConfig(config).http;
    assert.ok(destination);
    assert.equal(destination.settings.baseUrl, "https://crm.example");
    assert.deepEqual(destination.secrets, {
      "env:CRM_URL": more.CRM_URL,
      "env:CRM_AUTH": more.CRM_AUTH,
      "env:PIPELINE": more.PIPELINE,
    });
    assert.doesNotMatch(JSON.stringify(destination.settings), /not a template|p-1/);
    createConnector({
      settings: destination.settings,
      secrets: destination.secrets,
      secretMark: "0123456789abcdef",
    });

    // From a shell without them, a command that sends nothing still works.
    load(t, { toml, checks: [check] });
    const paths = configErrorOf(() => resolveConfig(load(t, { toml, env }))).problems.map(({ path }) => path);
    assert.deepEqual(paths, [
      "crm.sales.base_url",
      "crm.sales.headers.Authorization",
      "crm.sales.lead.body.pipeline",
    ]);
  });
});

describe("a value that must not be seen", () => {
  it("is in no error, whatever is wrong around it", (t) => {
    const secret = "s3cret-of-the-crm";
    const faulty = [
      `[telegram]\ntoken = ["${secret}"]`,
      `[telegram]\ntokn = "${secret}"`,
      `[telegram]\nproxy = "${secret}"`,
      `[telegram]\napi_root = "${TOKEN}"`,
      `[storage]\npath = ["${secret}"]\nkeep_keys = "${TOKEN}"`,
      `[crm.sales]\nkind = "${TOKEN}"`,
      sales({ top: `secrets = "${secret}"` }),
      sales({ top: `secrets = { token = ["${secret}"] }` }),
      sales({ top: `secret = { token = "${secret}" }` }),
      sales({ top: `headers = "${secret}"` }),
      sales({ top: `headers = { Authorization = ["${secret}"] }` }),
      sales({ top: `proxy = "${secret}"` }),
      sales({ lead: `[crm.sales.lead]\nurl = ["${secret}"]\nid = "/id"\nform = "${secret}"` }),
      `${sales()}\nlink = "${secret}"\n`,
      `[telegram]\ntoken = "${secret}\n`,
      `[telegram]\ntoken = ${secret}\n`,
    ];
    for (const toml of faulty) {
      const text = formatConfigError(configErrorOf(() => load(t, { toml })));
      assert.doesNotMatch(text, /s3cret|AAF0/, `${toml}\n${text}`);
    }
    const pin = configErrorOf(() => load(t, { toml: sales({ top: "secrets = { pin = 98765 }" }) }));
    assert.doesNotMatch(formatConfigError(pin), /98765/);
  });

  it("that a reference leads to is not in the error about the place that it stands at", (t) => {
    const toml = sales({ top: 'timeout = "env:CRM_TOKEN"\nsafety = "env:CRM_TOKEN"' });
    const text = formatConfigError(configErrorOf(() => load(t, { toml, env })));
    assert.match(text, /env:CRM_TOKEN/);
    assert.doesNotMatch(text, /s3cret/);
  });

  it("is not printed with the configuration, in any way", (t) => {
    const toml = `[telegram]\ntoken = "${TOKEN}"\n${sales({ rest: '[crm.sales.secrets]\na = "in the file"\nb = "env:CRM_TOKEN"' })}`;
    const config = load(t, { toml, env });
    const printed = [
      inspect(config, { depth: 9, showHidden: true }),
      JSON.stringify(config),
      `${config.telegram.token}`,
    ];
    for (const text of printed) assert.doesNotMatch(text, /AAF0|in the file|s3cret/);
    assert.match(JSON.stringify(config), /env:CRM_TOKEN/);
  });

  it("is named for the log to hide, also without the bot's number", (t) => {
    const toml = `${withSecret}\nshort = "abc"`;
    const { secretValues } = resolveConfig(load(t, { toml, env }));
    assert.deepEqual(secretValues, [TOKEN, TOKEN.slice(TOKEN.indexOf(":") + 1), "s3cret-of-the-crm"]);
  });
});

describe("the fingerprint of a destination", () => {
  const of = (t: Parameters<typeof load>[0], world: World) =>
    resolveConfig(load(t, { env, ...world })).destinations.map(({ fingerprint }) => fingerprint);

  it("is 16 hex digits, the same for the same configuration in another order", (t) => {
    const [first] = of(t, { toml: withSecret });
    assert.match(first ?? "", /^[0-9a-f]{16}$/);
    const [again] = of(t, { toml: `# a remark\n${withSecret}` });
    assert.equal(again, first);
    const ordered = (headers: string) => of(t, { toml: sales({ top: `headers = { ${headers} }` }) })[0];
    assert.equal(ordered('A = "1", B = "2"'), ordered('B = "2", A = "1"'));
  });

  it("changes with a key, with the value of a secret and with a proxy, and of that destination alone", (t) => {
    const before = of(t, { toml: withSecret });
    const after = [
      of(t, { toml: withSecret.replace("leads", "lead") }),
      of(t, { toml: withSecret, env: { ...env, CRM_TOKEN: "another" } }),
      of(t, {
        toml: withSecret.replace("[crm.sales.lead]", 'proxy = "http://127.0.0.1:1"\n[crm.sales.lead]'),
      }),
    ];
    assert.equal(new Set([before, ...after].map(([sold]) => sold)).size, 4);
    assert.equal(new Set([before, ...after].map(([, ledger]) => ledger)).size, 1);
  });
});

describe("the hash of a configuration", () => {
  it("changes with a key, and not with a secret or the file's name", (t) => {
    const cwd = tempFolder(t, { "service.conf": withSecret, "other.conf": withSecret });
    const hash = configHash(loadConfig({ env, cwd }));
    assert.match(hash, /^[0-9a-f]{16}$/);
    assert.equal(configHash(loadConfig({ path: "other.conf", env: {}, cwd })), hash);
    writeFileSync(join(cwd, "other.conf"), withSecret.replace("leads", "lead"));
    assert.notEqual(configHash(loadConfig({ path: "other.conf", env, cwd })), hash);
  });
});
