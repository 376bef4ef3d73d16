/** The client over real HTTP on 127.0.0.1: what goes out, what comes back, and that no token leaks. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { type TestContext, test } from "node:test";
import { inspect } from "node:util";
import { Agent } from "undici";
import { ConfigError } from "../../src/domain/errors.ts";
import { type TelegramClient, telegramClient } from "../../src/telegram/client.ts";
import { TelegramError } from "../../src/telegram/errors.ts";
import { botIdOfToken, withoutToken } from "../../src/telegram/token.ts";
import { TestClock } from "../contract/poller-world.ts";

const TOKEN = "7001:a-token-that-opens-nothing-at-all";
const POLL = { offset: 12, limit: 100, timeoutS: 1, allowedUpdates: ["message", "callback_query"] };
const never = new AbortController().signal;

async function serve(t: TestContext, listener: RequestListener): Promise<Server> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

function rootOf(server: { address(): unknown }): string {
  // A server that listens on TCP has an address with a port.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function clientFor(
  t: TestContext,
  apiRoot: string,
  more: Partial<Parameters<typeof telegramClient>[0]> = {},
): TelegramClient {
  const client = telegramClient({ token: TOKEN, apiRoot, proxy: null, clock: new TestClock(), ...more });
  t.after(() => client.close());
  return client;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

const answer =
  (body: string, status = 200): RequestListener =>
  (request, response) => {
    request.resume();
    response.writeHead(status, { "Content-Type": "application/json" }).end(body);
  };

test("a poll names its parameters, and leaves the offset out where there is none", async (t) => {
  const asked: [string | undefined, string][] = [];
  const server = await serve(t, async (request, response) => {
    asked.push([request.url, await textOf(request)]);
    response.end('{"ok":true,"result":[{"update_id":12}]}');
  });
  const client = clientFor(t, rootOf(server));
  assert.deepEqual(await client.getUpdates(POLL, never), [{ update_id: 12 }]);
  await client.getUpdates({ ...POLL, offset: null }, never);
  const forms = asked.map(([, body]) => Object.fromEntries(new URLSearchParams(body)));
  assert.deepEqual(forms, [
    { offset: "12", limit: "100", timeout: "1", allowed_updates: '["message","callback_query"]' },
    { limit: "100", timeout: "1", allowed_updates: '["message","callback_query"]' },
  ]);
  assert.equal(asked[0]?.[0], `/bot${TOKEN}/getUpdates`);
});

test("of a webhook only the host is passed on", async (t) => {
  const url = "https://user:secret@tool.example:8443/secret-path?key=secret";
  const server = await serve(
    t,
    answer(JSON.stringify({ ok: true, result: { url, pending_update_count: 3 } })),
  );
  assert.deepEqual(await clientFor(t, rootOf(server)).getWebhookInfo(never), {
    host: "tool.example",
    pendingUpdateCount: 3,
  });
});

test("who the bot is comes as a checked value; another shape is an invalid answer", async (t) => {
  const answers = [
    '{"ok":true,"result":{"id":7001,"is_bot":true,"username":"example_bot","can_read_all_group_messages":true}}',
    '{"ok":true,"result":{"id":"7001"}}',
    '{"ok":true}',
  ];
  const server = await serve(t, (request, response) => answer(answers.shift() ?? "")(request, response));
  const client = clientFor(t, rootOf(server));
  assert.deepEqual(await client.getMe(never), {
    id: 7001,
    username: "example_bot",
    canReadAllGroupMessages: true,
  });
  await assert.rejects(client.getMe(never), { name: "TelegramError", kind: "invalid_answer" });
  await assert.rejects(client.getMe(never), { name: "TelegramError", kind: "invalid_answer" });
});

test("nothing is sent twice by itself, not after 5xx, 429 or a broken connection", async (t) => {
  let calls = 0;
  const server = await serve(t, (request, response) => {
    calls += 1;
    if (calls === 1) answer('{"ok":false,"error_code":500,"description":"x"}', 500)(request, response);
    if (calls === 2)
      answer('{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":1}}', 429)(
        request,
        response,
      );
    if (calls === 3) request.socket.destroy();
  });
  const client = clientFor(t, rootOf(server));
  await assert.rejects(client.getMe(never), { kind: "server" });
  await assert.rejects(client.getMe(never), { kind: "throttled", retryAfterMs: 1_000 });
  await assert.rejects(client.getMe(never), { kind: "network" });
  assert.equal(calls, 3);
});

test("a redirect is refused: nothing reaches the other host", async (t) => {
  let reached = 0;
  const other = await serve(t, (_, response) => {
    reached += 1;
    response.end();
  });
  const statuses = [301, 302, 303, 307, 308];
  const server = await serve(t, (request, response) => {
    request.resume();
    response.writeHead(statuses.shift() ?? 500, { Location: `${rootOf(other)}/bot${TOKEN}/getMe` }).end();
  });
  const client = clientFor(t, rootOf(server));
  while (statuses.length > 0) {
    await assert.rejects(client.getMe(never), { kind: "network", message: /never followed/ });
  }
  assert.equal(reached, 0);
});

test("an answer without end is cut off", async (t) => {
  const mebibyte = Buffer.alloc(1024 * 1024, 0x20);
  let sent = 0;
  const server = await serve(t, (request, response) => {
    request.resume();
    const more = (error?: Error | null): void => {
      if (response.destroyed || error) return;
      sent += 1;
      response.write(mebibyte, more);
    };
    more();
  });
  await assert.rejects(clientFor(t, rootOf(server)).getMe(never), {
    kind: "network",
    message: /ANSWER_TOO_BIG/,
  });
  assert.ok(sent < 100, `${sent} MiB were taken`);
});

test("a call ends by its own deadline, measured on the given clock", async (t) => {
  const server = await serve(t, (request) => void request.resume());
  const clock = new TestClock();
  const client = clientFor(t, rootOf(server), { clock });
  const polling = client.getUpdates({ ...POLL, timeoutS: 50 }, never);
  await clock.whenSleeping((ms) => ms === 65_000);
  clock.advance(65_000);
  await assert.rejects(polling, { kind: "timeout" });
  const asking = client.getMe(never);
  await clock.whenSleeping((ms) => ms === 15_000);
  clock.advance(15_000);
  await assert.rejects(asking, { kind: "timeout" });
});

test("a call can be cut short while it waits, while it connects and before it leaves", async (t) => {
  const arrived = new AbortController();
  const server = await serve(t, (request) => {
    request.resume();
    arrived.abort();
  });
  const cut = new AbortController();
  const waiting = clientFor(t, rootOf(server)).getUpdates(POLL, cut.signal);
  await new Promise((resolve) => arrived.signal.addEventListener("abort", resolve));
  cut.abort();
  await assert.rejects(waiting, { kind: "aborted" });

  const connecting = new AbortController();
  const client = clientFor(t, rootOf(server), {
    dispatcher: () => new Agent({ connect: () => connecting.abort() }),
  });
  await assert.rejects(client.getMe(connecting.signal), { kind: "aborted" });
  await assert.rejects(client.getMe(AbortSignal.abort()), { kind: "aborted" });
});

test("rebuilt connections end what is under way and serve what follows", async (t) => {
  let dead = true;
  const server = await serve(t, answer('{"ok":true,"result":[]}'));
  const client = clientFor(t, rootOf(server), {
    dispatcher: () => {
      const agent = dead ? new Agent({ connect: () => {} }) : new Agent();
      dead = false;
      return agent;
    },
  });
  const stuck = client.getUpdates(POLL, never);
  setImmediate(() => client.rebuildConnections());
  await assert.rejects(stuck, { kind: "network" });
  assert.deepEqual(await client.getUpdates(POLL, never), []);
});

test("calls go through an HTTP proxy by CONNECT; one that refuses is named", async (t) => {
  const server = await serve(t, answer('{"ok":true,"result":[]}'));
  const tunnels: string[] = [];
  const proxy = createServer();
  proxy.on("connect", (request, socket) => {
    tunnels.push(`${request.url} ${request.headers["proxy-authorization"]}`);
    if (tunnels.length > 1) {
      socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
      return;
    }
    const [host, port] = String(request.url).split(":");
    const onward = connect(Number(port), host, () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    socket.pipe(onward).pipe(socket);
    socket.on("error", () => onward.destroy());
    onward.on("error", () => socket.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  const url = rootOf(proxy).replace("//", "//me:proxy-secret@");
  assert.deepEqual(await clientFor(t, rootOf(server), { proxy: url }).getUpdates(POLL, never), []);
  const basic = Buffer.from("me:proxy-secret").toString("base64");
  assert.equal(tunnels[0], `${rootOf(server).slice("http://".length)} Basic ${basic}`);

  const refused: unknown = await clientFor(t, rootOf(server), { proxy: url })
    .getMe(never)
    .catch((error) => error);
  assert.ok(refused instanceof TelegramError);
  assert.match(refused.message, /through the proxy.*the proxy refuses/);
  assert.doesNotMatch(inspect(refused), /proxy-secret/);
});

test("calls go through a SOCKS5 proxy", async (t) => {
  const server = await serve(t, answer('{"ok":true,"result":[]}'));
  let greetings = 0;
  const proxy = createTcpServer((socket) => {
    // RFC 1928: greeting without authentication, then CONNECT; everything after that is passed through.
    socket.once("data", () => {
      greetings += 1;
      socket.write(Buffer.from([5, 0]));
      socket.once("data", () => {
        const onward = connect(Number(new URL(rootOf(server)).port), "127.0.0.1", () => {
          socket.write(Buffer.from([5, 0, 0, 1, 127, 0, 0, 1, 0, 0]));
          socket.pipe(onward).pipe(socket);
        });
        onward.on("error", () => socket.destroy());
        socket.on("error", () => onward.destroy());
      });
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  const client = clientFor(t, rootOf(server), { proxy: rootOf(proxy).replace("http:", "socks5:") });
  assert.deepEqual(await client.getUpdates(POLL, never), []);
  assert.equal(greetings, 1);
});

test("what can't work is refused before anything is sent, without the secret in the message", () => {
  const base = { token: TOKEN, apiRoot: "https://api.telegram.org", proxy: null, clock: new TestClock() };
  const wrong = [
    { ...base, token: `${TOKEN} ` },
    { ...base, token: "a-token-that-opens-nothing-at-all" },
    { ...base, apiRoot: "api.telegram.org" },
    { ...base, apiRoot: "https://[" },
    { ...base, proxy: "ftp://me:proxy-secret@127.0.0.1" },
    { ...base, proxy: "me:proxy-secret@127.0.0.1:80" },
  ];
  for (const options of wrong) {
    assert.throws(
      () => telegramClient(options),
      (error) => error instanceof ConfigError && !/opens-nothing|proxy-secret/.test(inspect(error)),
    );
  }
});

test("neither the client nor its errors show the token, whatever looks at them", async (t) => {
  const client = clientFor(t, "http://127.0.0.1:9");
  const error: unknown = await client.getMe(never).catch((reason) => reason);
  assert.ok(error instanceof TelegramError);
  for (const value of [client, error]) {
    const seen = inspect(value, { depth: 20, showHidden: true }) + JSON.stringify(value);
    assert.doesNotMatch(seen, /opens-nothing/);
  }
  assert.equal(error.cause, undefined, "the cause may hold the URL");
});

test("the bot's id is the number of its token", () => {
  assert.equal(botIdOfToken(TOKEN), 7001);
  assert.throws(() => botIdOfToken("0:a-token-that-opens-nothing-at-all"), ConfigError);
  assert.equal(
    withoutToken(`/bot${TOKEN}/getMe and ${TOKEN.slice(5)}`, TOKEN),
    "/bot<token>/getMe and <token>",
  );
});
