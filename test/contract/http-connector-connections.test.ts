/** Which connection a request takes, and that none is left behind. */
import assert from "node:assert/strict";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, describe, it } from "node:test";
import { connector, context, find, noteStep, send, step } from "./http-connector-settings.ts";

const OK = 'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"id":"L-1"}';

const cleanUp: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of cleanUp.splice(0)) await close();
});

function connectorFor(...args: Parameters<typeof connector>): ReturnType<typeof connector> {
  const made = connector(...args);
  cleanUp.push(() => made.close());
  return made;
}

/** Answers the first request on each connection and kills the connection when a second one comes on it. */
async function crmWithStaleConnections() {
  const sockets = new Set<Socket>();
  const heads: string[] = [];
  const server = createServer((socket) => {
    let requests = 0;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk) => {
      // Small requests on loopback come in one piece, head first.
      if (!/^[A-Z]+ \S+ HTTP/.test(String(chunk))) return;
      requests += 1;
      heads.push(String(chunk).split("\r\n\r\n")[0] ?? "");
      if (requests === 1) socket.write(OK);
      else socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUp.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`,
    heads,
    open: () => sockets.size,
  };
}

const active = (kind: string) => process.getActiveResourcesInfo().filter((name) => name === kind).length;

/** undici takes a connection back in the turn after the answer. */
const aTurn = () => new Promise((resolve) => setImmediate(resolve));

describe("the connection of a request", () => {
  it("is reused only where an unknown outcome may be repeated", async () => {
    const crm = await crmWithStaleConnections();
    const steps = { lead: step({ safety: "idempotency-key" }) };
    const made = connectorFor({ baseUrl: crm.baseUrl, steps });
    assert.equal((await send(made)).kind, "confirmed");
    // Also shows that the server does what the tests below are about: the kept connection dies under a request.
    const outcomes = new Set<string>();
    for (let n = 0; n < 20 && !outcomes.has("unknown"); n += 1) {
      await aTurn();
      outcomes.add((await send(made)).kind);
    }
    assert.ok(outcomes.has("unknown"));
  });

  for (const safety of ["search", "none"] as const) {
    it(`is a fresh one for a create of class ${safety}, so a stale one can't make it unknown`, async () => {
      const crm = await crmWithStaleConnections();
      const steps = { lead: step({ safety: "external-id" }), note: noteStep({ safety }) };
      const made = connectorFor({ baseUrl: crm.baseUrl, steps });
      assert.equal((await send(made)).kind, "confirmed");
      await aTurn();
      assert.equal(crm.open(), 1); // the lead's connection stays open and is stale
      const note = context({ step: "note", lead: { id: "L-1", link: null } });
      for (let n = 0; n < 3; n += 1) assert.equal((await send(made, note)).kind, "confirmed");
      assert.ok(crm.heads.slice(1).every((head) => /^connection: close$/im.test(head)));
    });
  }

  it("is a fresh one for look-ups and probes", async () => {
    const crm = await crmWithStaleConnections();
    const lead = step({ safety: "external-id", find: find({ items: null, match: null }) });
    const made = connectorFor({ baseUrl: crm.baseUrl, steps: { lead } });
    const { signal } = new AbortController();
    await send(made);
    for (let n = 0; n < 2; n += 1) {
      assert.equal((await made.find(context(), signal)).kind, "answered");
      assert.equal((await made.probe(signal)).kind, "good");
    }
  });
});

describe("close", () => {
  it("leaves no connection open and nothing that keeps the process alive", async () => {
    const crm = await crmWithStaleConnections();
    const steps = { lead: step({ safety: "idempotency-key" }) };
    const before = active("Timeout");
    const made = connectorFor({ baseUrl: crm.baseUrl, steps });
    await Promise.all([send(made), send(made), send(made)]);
    assert.ok(crm.open() > 0);
    await made.close();
    // Far fewer turns than an idle connection would live by itself.
    for (let turn = 0; turn < 1000 && active("TCPSocketWrap") > 0; turn += 1) await aTurn();
    assert.equal(active("TCPSocketWrap"), 0);
    assert.equal(active("Timeout"), before);
  });

  it("ends a request that is under way as unknown", async () => {
    let arrived = () => {};
    const received = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => arrived());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanUp.push(() => new Promise((resolve) => server.close(resolve)));
    const made = connectorFor({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    const outcome = send(made);
    await received;
    await made.close();
    assert.equal((await outcome).kind, "unknown");
  });

  it("may come twice, and what is sent afterwards was not applied", async () => {
    const made = connectorFor();
    await made.close();
    await made.close();
    assert.equal((await send(made)).kind, "not_applied");
  });
});
