/**
 * Every way in which a network fails, against real sockets on loopback: what certainly did not arrive is
 * `not_applied`, everything else `unknown`, and the request is never sent a second time (P2, P3).
 */
import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, describe, it } from "node:test";
import { Agent, type Dispatcher, errors } from "undici";
import type { HttpDestinationSettings } from "../../src/domain/http-settings.ts";
import type { Outcome } from "../../src/domain/outcome.ts";
import { connector, context, message, send, TOKEN } from "./http-connector-settings.ts";

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {}); // a reset is what these tests are about
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A CRM that takes whole requests and then does what `answer` says; counts what it was sent. */
async function rawCrm(answer: (socket: Socket, whole: string) => void) {
  const requests: string[] = [];
  const address = await listen(
    createServer((socket) => {
      let received = "";
      socket.on("data", (chunk) => {
        received += chunk;
        if (!isWhole(received)) return;
        requests.push(received);
        answer(socket, received);
        received = "";
      });
    }),
  );
  return { baseUrl: `http://${address}/api`, requests };
}

function isWhole(request: string): boolean {
  const [head, body] = request.split("\r\n\r\n");
  const length = /content-length: (\d+)/i.exec(head ?? "")?.[1] ?? "0";
  return body !== undefined && Buffer.byteLength(body) >= Number(length);
}

async function outcomeOf(
  over: Partial<HttpDestinationSettings>,
  dispatcher?: Dispatcher,
  signal?: AbortSignal,
): Promise<Outcome> {
  const made = connector(over, dispatcher === undefined ? {} : { dispatcher });
  closers.push(() => made.close());
  const outcome = await send(made, context(), signal);
  assert.doesNotMatch(outcome.detail ?? "", new RegExp(TOKEN));
  return outcome;
}

async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

function failingLookUp(error: NodeJS.ErrnoException): Agent {
  const agent = new Agent({ connect: { lookup: (_host, _options, callback) => callback(error, "", 4) } });
  closers.push(() => agent.destroy());
  return agent;
}

describe("what never left is not_applied", () => {
  it("a name that does not resolve", async () => {
    const error = Object.assign(new Error("getaddrinfo ENOTFOUND crm.invalid"), { code: "ENOTFOUND" });
    const outcome = await outcomeOf({ baseUrl: "http://crm.invalid" }, failingLookUp(error));
    assert.equal(outcome.kind, "not_applied");
    assert.match(outcome.detail ?? "", /nothing was sent.*ENOTFOUND/);
  });

  it("a port where nobody listens", async () => {
    const outcome = await outcomeOf({ baseUrl: `http://${await closedPort()}` });
    assert.equal(outcome.kind, "not_applied");
    assert.match(outcome.detail ?? "", /ECONNREFUSED/);
  });

  it("two addresses where nobody listens, told by their causes", async () => {
    const [, port] = (await closedPort()).split(":");
    const agent = new Agent({
      connect: {
        lookup: (_host, _options, callback) =>
          callback(null, [
            { address: "127.0.0.1", family: 4 },
            { address: "127.0.0.2", family: 4 },
          ] as never),
        autoSelectFamily: true,
      },
    });
    closers.push(() => agent.destroy());
    const outcome = await outcomeOf({ baseUrl: `http://crm.invalid:${port}` }, agent);
    assert.equal(outcome.kind, "not_applied");
    assert.match(outcome.detail ?? "", /ECONNREFUSED/);
  });

  it("a connection that undici gives up on", async () => {
    const agent = new Agent({
      connect: (_options, callback) => callback(new errors.ConnectTimeoutError(), null),
    });
    closers.push(() => agent.destroy());
    assert.equal((await outcomeOf({}, agent)).kind, "not_applied");
  });

  it("a connection that is not there in time, and the request does not leave on it later", async () => {
    const crm = await rawCrm((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let connectNow = () => {};
    const connected = new Promise<void>((resolve) => {
      connectNow = resolve;
    });
    let socketClosed: Promise<unknown> = Promise.resolve();
    const agent = new Agent({
      connect: (_options, callback) => {
        void connected.then(() => {
          const socket = connect(Number(new URL(crm.baseUrl).port), "127.0.0.1");
          socketClosed = new Promise((resolve) => socket.once("close", resolve));
          socket.once("connect", () => callback(null, socket));
        });
      },
    });
    closers.push(() => agent.destroy());
    const outcome = await outcomeOf({ baseUrl: crm.baseUrl, timeoutMs: 50 }, agent);
    assert.equal(outcome.kind, "not_applied");
    connectNow();
    await new Promise((resolve) => setImmediate(resolve));
    await socketClosed;
    assert.equal(crm.requests.length, 0);
  });

  it("TLS with a server that speaks none", async () => {
    const address = await listen(createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")));
    assert.equal((await outcomeOf({ baseUrl: `https://${address}` })).kind, "not_applied");
  });

  it("TLS that is cut in the handshake", async () => {
    const address = await listen(createServer((socket) => socket.once("data", () => socket.destroy())));
    assert.equal((await outcomeOf({ baseUrl: `https://${address}` })).kind, "not_applied");
  });

  it("a signal that was aborted beforehand", async () => {
    const crm = await rawCrm(() => assert.fail("nothing may arrive"));
    const outcome = await outcomeOf({ baseUrl: crm.baseUrl }, undefined, AbortSignal.abort());
    assert.equal(outcome.kind, "not_applied");
  });
});

describe("a proxy that does not let it through is not_applied", () => {
  const target = { baseUrl: "http://crm.invalid/api", timeoutMs: 2000 };

  it("it is down", async () => {
    const proxy = `http://user:pr0xy-passw0rd@${await closedPort()}`;
    const outcome = await outcomeOf({ ...target, proxy });
    assert.equal(outcome.kind, "not_applied");
    assert.doesNotMatch(outcome.detail ?? "", /pr0xy/);
  });

  it("it refuses to connect", async () => {
    const server = createHttpServer();
    server.on("connect", (_request, socket) => socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"));
    assert.equal(
      (await outcomeOf({ ...target, proxy: `http://${await listen(server)}` })).kind,
      "not_applied",
    );
  });

  it("it wants another password", async () => {
    const server = createHttpServer();
    server.on("connect", (_request, socket) =>
      socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
    );
    assert.equal(
      (await outcomeOf({ ...target, proxy: `http://${await listen(server)}` })).kind,
      "not_applied",
    );
  });

  it("it closes the connection, and is not called again and again for it", async () => {
    let connections = 0;
    const address = await listen(
      createServer((socket) => {
        connections += 1;
        socket.once("data", () => socket.destroy());
      }),
    );
    const outcome = await outcomeOf({ ...target, proxy: `http://${address}` });
    assert.equal(outcome.kind, "not_applied");
    assert.equal(connections, 1);
  });

  it("a SOCKS proxy that is down or refuses", async () => {
    const down = await outcomeOf({ ...target, proxy: `socks5://${await closedPort()}` });
    assert.equal(down.kind, "not_applied");
    const address = await listen(
      createServer((socket) => socket.once("data", () => socket.end(Buffer.from([5, 0xff])))),
    );
    const refused = await outcomeOf({ ...target, proxy: `socks5://${address}` });
    assert.equal(refused.kind, "not_applied");
  });
});

describe("a proxy that lets it through", () => {
  const created = 'HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{"id":"L"}';

  it("by CONNECT", async () => {
    const crm = await rawCrm((socket) => socket.end(created));
    const server = createHttpServer();
    let asked = "";
    server.on("connect", (request, socket) => {
      asked = request.url ?? "";
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      joinTo(crm.baseUrl, socket as Socket);
    });
    const proxy = `http://${await listen(server)}`;
    const outcome = await outcomeOf({ baseUrl: "http://crm.invalid/api", proxy });
    assert.equal(outcome.kind, "confirmed");
    assert.equal(asked, "crm.invalid:80");
    assert.equal(crm.requests.length, 1);
  });

  it("by SOCKS, which is told the name and looks it up itself", async () => {
    const crm = await rawCrm((socket) => socket.end(created));
    let asked = "";
    const address = await listen(
      createServer((socket) => {
        socket.once("data", () => {
          socket.write(Buffer.from([5, 0]));
          socket.once("data", (command: Buffer) => {
            asked = command.toString("latin1", 5, command.length - 2);
            socket.write(Buffer.from([5, 0, 0, 1, 127, 0, 0, 1, 0, 80]));
            joinTo(crm.baseUrl, socket);
          });
        });
      }),
    );
    const outcome = await outcomeOf({ baseUrl: "http://crm.invalid/api", proxy: `socks5://${address}` });
    assert.equal(outcome.kind, "confirmed");
    assert.equal(asked, "crm.invalid");
    assert.equal(crm.requests.length, 1);
  });

  function joinTo(baseUrl: string, socket: Socket): void {
    const through = connect(Number(new URL(baseUrl).port), "127.0.0.1");
    through.on("error", () => socket.destroy());
    through.pipe(socket).pipe(through);
  }
});

describe("what may have left is unknown, and is sent once", () => {
  const ok = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n";
  const faults: Record<string, (socket: Socket) => void> = {
    "the connection is reset": (socket) => socket.resetAndDestroy(),
    "the connection ends without an answer": (socket) => socket.end(),
    "the answer never comes": () => {},
    "the answer stops after its head": (socket) => socket.write(`${ok}Content-Length: 12\r\n\r\n`),
    "the answer stops in its body": (socket) => socket.write(`${ok}Content-Length: 12\r\n\r\n{"id":`),
    "the answer is cut": (socket) => socket.end(`${ok}Content-Length: 12\r\n\r\n{"id":"L-1"`),
    "a chunked answer is cut": (socket) =>
      socket.end(`${ok}Transfer-Encoding: chunked\r\n\r\nc\r\n{"id":"L-1"}\r\n`),
    "the answer is reset in its body": (socket) =>
      socket.write(`${ok}Content-Length: 12\r\n\r\n{"id":`, () => socket.resetAndDestroy()),
    "the answer is no HTTP": (socket) => socket.end("SSH-2.0-OpenSSH_9.2\r\n"),
    "only an interim answer comes": (socket) => socket.end("HTTP/1.1 100 Continue\r\n\r\n"),
    "a refusal is cut": (socket) => socket.end("HTTP/1.1 422 Unprocessable\r\nContent-Length: 90\r\n\r\n{"),
    "the answer has no end": (socket) => {
      socket.write(`${ok}Content-Length: 3000000\r\n\r\n`);
      socket.write("x".repeat(1_100_000));
    },
    "the answer's head has no end": (socket) => socket.write(`${ok}X-Long: ${"x".repeat(100_000)}`),
    "an id is packed where none may be": (socket) =>
      socket.end(`${ok}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b`),
  };
  for (const [name, fault] of Object.entries(faults)) {
    it(name, async () => {
      const crm = await rawCrm(fault);
      const outcome = await outcomeOf({ baseUrl: crm.baseUrl, timeoutMs: 400 });
      assert.equal(outcome.kind, "unknown", JSON.stringify(outcome));
      if (name === "the answer has no end") assert.match(outcome.detail ?? "", /larger than/);
      assert.equal(crm.requests.length, 1);
    });
  }

  it("the caller aborts while it waits for the answer", async () => {
    const abort = new AbortController();
    const crm = await rawCrm(() => abort.abort());
    const outcome = await outcomeOf({ baseUrl: crm.baseUrl }, undefined, abort.signal);
    assert.equal(outcome.kind, "unknown");
    assert.equal(crm.requests.length, 1);
  });

  it("a large request is cut in the middle of its body", async () => {
    const address = await listen(
      createServer((socket) => socket.once("data", () => socket.resetAndDestroy())),
    );
    const made = connector({ baseUrl: `http://${address}` });
    closers.push(() => made.close());
    const large = context({ messages: [message({ text: "x".repeat(5_000_000) })] });
    assert.equal((await send(made, large)).kind, "unknown");
  });

  it("any answer may be dribbled, as long as it is whole in time", async () => {
    const crm = await rawCrm((socket) => {
      const bytes = [...`${ok}Content-Length: 12\r\n\r\n{"id":"L-1"}`];
      const next = () => {
        const byte = bytes.shift();
        if (byte === undefined) socket.end();
        else socket.write(byte, () => setImmediate(next));
      };
      next();
    });
    const outcome = await outcomeOf({ baseUrl: crm.baseUrl });
    assert.equal(outcome.kind, "confirmed");
  });
});

describe("a redirect", () => {
  for (const status of [301, 302, 303, 307, 308]) {
    it(`${status} is unknown and never followed`, async () => {
      const crm = await rawCrm((socket) =>
        socket.end(`HTTP/1.1 ${status} Moved\r\nLocation: /api/elsewhere\r\nContent-Length: 0\r\n\r\n`),
      );
      assert.equal((await outcomeOf({ baseUrl: crm.baseUrl })).kind, "unknown");
      assert.equal(crm.requests.length, 1);
    });
  }
});
