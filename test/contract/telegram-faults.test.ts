/**
 * Every fault of the stand-in, as a client meets it, and what became of the call behind it: a test that says "lost answer"
 * must be able to rely on the effect being there (P2, P3).
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { startTelegramStandIn } from "../../src/stand-ins/telegram/index.ts";
import {
  FIRST_ID,
  failureOf,
  GUARD_MS,
  idsOf,
  OneConnection,
  PERSON,
  type Setup,
  startStill,
  TOKEN,
} from "./telegram-client.ts";

const STAND_IN = new URL("../../src/stand-ins/telegram/index.ts", import.meta.url).href;
const HELLO = { chat_id: PERSON.id, text: "hello" };

/** What `sent` says of the only message: is it in the chat, and was the bot told? */
function fate({ bot }: Setup): { delivered: boolean; answered: boolean } {
  const [message] = bot.sent;
  assert.ok(message !== undefined && bot.sent.length === 1);
  return { delivered: message.delivered, answered: message.answered };
}

describe("the connection suffers", () => {
  for (const reset of [false, true]) {
    it(`drop${reset ? " with a reset" : ""}: the client sees a broken connection, nothing took effect`, async (t) => {
      const setup = await startStill(t);
      setup.telegram.fault({ method: "sendMessage", kind: "drop", reset });
      await assert.rejects(setup.ask("sendMessage", HELLO), { message: "fetch failed" });
      assert.deepEqual(fate(setup), { delivered: false, answered: false });
      assert.equal(setup.bot.requests[0]?.end, "dropped");
    });
  }

  it("apply-then-drop: the client sees a broken connection, and the message is in the chat", async (t) => {
    const setup = await startStill(t);
    setup.telegram.fault({ method: "sendMessage", kind: "apply-then-drop" });
    await assert.rejects(setup.ask("sendMessage", HELLO), { message: "fetch failed" });
    assert.deepEqual(fate(setup), { delivered: true, answered: false });
    assert.equal(setup.bot.message(PERSON.id, 1)?.text, "hello");
  });

  it("apply-then-drop on getUpdates: the updates before the offset are confirmed, the page comes again", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(3);
    await ask("getUpdates");
    telegram.fault({ method: "getUpdates", kind: "apply-then-drop" });
    await assert.rejects(ask("getUpdates", { offset: FIRST_ID + 1 }));
    await bot.whenConfirmed(FIRST_ID);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID + 1, FIRST_ID + 2]);
  });

  it("apply-then-hang: the message is in the chat, the answer never comes", async (t) => {
    const setup = await startStill(t);
    setup.telegram.fault({ kind: "apply-then-hang" });
    const client = new AbortController();
    const hanging = setup.ask("sendMessage", HELLO, client.signal);
    await setup.telegram.waitFor(() => setup.bot.sent[0]?.delivered);
    setup.telegram.advance(3_600_000);
    await setup.ask("getMe");
    assert.equal(setup.bot.requests[0]?.end, "open");
    client.abort();
    await assert.rejects(hanging);
    await setup.telegram.waitFor(() => setup.bot.requests[0]?.end === "abandoned");
    assert.deepEqual(fate(setup), { delivered: true, answered: false });
  });

  it("black-hole: nothing took effect, the answer never comes", async (t) => {
    const setup = await startStill(t);
    setup.telegram.fault({ kind: "black-hole" });
    const client = new AbortController();
    const hanging = setup.ask("sendMessage", HELLO, client.signal);
    await setup.telegram.waitFor(() => setup.bot.sent.length === 1);
    client.abort();
    await assert.rejects(hanging);
    assert.deepEqual(fate(setup), { delivered: false, answered: false });
  });

  it("delay: the message is in the chat at once, the answer comes when its time has passed", async (t) => {
    const setup = await startStill(t);
    setup.telegram.fault({ kind: "delay", ms: 20_000 });
    const answer = setup.ask("sendMessage", HELLO);
    await setup.telegram.waitFor(() => setup.bot.sent[0]?.delivered);
    setup.telegram.advance(19_999);
    await setup.ask("getMe");
    assert.deepEqual(fate(setup), { delivered: true, answered: false });
    setup.telegram.advance(1);
    assert.equal((await answer).status, 200);
    await setup.bot.whenSent();
  });

  it("cut: the client gets the head and the first bytes, then the connection ends", async (t) => {
    const { telegram, bot } = await startStill(t);
    for (const bytes of [0, 10]) {
      telegram.fault({ kind: "cut", bytes });
      const response = await fetch(`${telegram.root}/bot7001:stand-in-token-that-opens-nothing/getMe`);
      assert.equal(response.status, 200);
      assert.ok(Number(response.headers.get("content-length")) > 10);
      await assert.rejects(response.text(), { message: "terminated" });
    }
    assert.deepEqual(
      bot.requests.map((request) => request.end),
      ["dropped", "dropped"],
    );
  });

  it("slow: the body comes in pieces, one at a time, and is whole in the end", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    bot.fill(1);
    telegram.fault({ kind: "slow", bytes: 20, ms: 1000 });
    const answer = ask("getUpdates");
    await telegram.waitFor(() => bot.polls[0]?.status);
    telegram.advance(2000);
    await ask("getMe");
    assert.equal(bot.polls[0]?.end, "open");
    telegram.advance(60_000);
    assert.deepEqual(idsOf(await answer), [FIRST_ID]);
  });

  it("close-idle: the answer is good and promises to keep the connection, which is then gone", async (t) => {
    const { telegram, bot } = await startStill(t);
    const client = new OneConnection(t, telegram.root);
    await client.get("getMe");
    telegram.fault({ kind: "close-idle" });
    const { connection, socket } = await client.get("getMe");
    assert.equal(connection, "keep-alive");
    if (!socket.closed) await once(socket, "close", { signal: AbortSignal.timeout(GUARD_MS) });
    await client.get("getMe");
    const [first, second, third] = bot.requests.map((request) => request.connection);
    assert.equal(second, first);
    assert.notEqual(third, second);
  });
});

describe("another answer comes", () => {
  for (const status of [200, 429, 502, 504] as const) {
    it(`html ${status}: a page instead of JSON, nothing took effect`, async (t) => {
      const setup = await startStill(t);
      setup.telegram.fault({ method: "sendMessage", kind: "html", status });
      const answer = await setup.ask("sendMessage", HELLO);
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get("content-type"), "text/html");
      assert.match(answer.text, /^<html>/);
      assert.deepEqual(fate(setup), { delivered: false, answered: true });
    });
  }

  it("with apply, the method takes effect behind the other answer", async (t) => {
    const setup = await startStill(t);
    setup.telegram.fault({ method: "sendMessage", kind: "html", status: 502, apply: true });
    assert.equal((await setup.ask("sendMessage", HELLO)).status, 502);
    assert.deepEqual(fate(setup), { delivered: true, answered: true });
  });

  it("empty 413: no body, and the connection is closed", async (t) => {
    const { telegram, ask } = await startStill(t);
    telegram.fault({ kind: "empty", status: 413 });
    const answer = await ask("getUpdates");
    assert.equal(answer.status, 413);
    assert.equal(answer.text, "");
    assert.equal(answer.headers.get("connection"), "close");
  });

  for (const body of ["null", "[]", "{}", '{"ok":true}', '{"ok":true,"result":{}}', '"text"', ""]) {
    it(`body ${body || "of nothing"}: JSON of the wrong shape with status 200`, async (t) => {
      const { telegram, ask } = await startStill(t);
      telegram.fault({ kind: "body", body });
      const answer = await ask("getUpdates");
      assert.equal(answer.status, 200);
      assert.equal(answer.text, body);
    });
  }

  it("result: any JSON in the place of the result", async (t) => {
    const { telegram, ask } = await startStill(t);
    telegram.fault({ kind: "result", json: '[{"update_id":9007199254740993}]' });
    assert.equal((await ask("getUpdates")).text, '{"ok":true,"result":[{"update_id":9007199254740993}]}');
  });

  it("restart and unauthorized: the server's own words", async (t) => {
    const { telegram, ask } = await startStill(t);
    telegram.fault({ kind: "restart" });
    assert.deepEqual(failureOf(await ask("getMe")), {
      ok: false,
      error_code: 500,
      description: "Internal Server Error: restart",
    });
    telegram.fault({ kind: "unauthorized", times: 2 });
    for (let n = 0; n < 2; n += 1) {
      assert.equal((await ask("getMe")).text, '{"ok":false,"error_code":401,"description":"Unauthorized"}');
    }
    assert.equal((await ask("getMe")).status, 200);
  });

  for (const retry_after of [7, 3_000_000, "soon", undefined]) {
    it(`too-many with ${retry_after ?? "nothing"} in retry_after`, async (t) => {
      const { telegram, ask } = await startStill(t);
      telegram.fault({ kind: "too-many", retry_after });
      const answer = await ask("getUpdates");
      const { parameters, description } = failureOf(answer);
      assert.equal(answer.status, 429);
      assert.equal(answer.headers.get("retry-after"), retry_after === undefined ? null : String(retry_after));
      assert.deepEqual(parameters, retry_after === undefined ? undefined : { retry_after });
      assert.match(description, /^Too Many Requests/);
    });
  }

  it("error: any refusal, for one chat only if need be", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    telegram.fault({
      method: "sendMessage",
      match: (request) => request.parameters.chat_id === "7",
      kind: "error",
      code: 403,
      description: "Forbidden: user is deactivated",
    });
    assert.equal((await ask("sendMessage", HELLO)).status, 200);
    const refused = failureOf(await ask("sendMessage", { chat_id: 7, text: "hello" }));
    assert.equal(refused.description, "Forbidden: user is deactivated");
    assert.deepEqual(
      bot.sent.map((message) => message.delivered),
      [true, false],
    );
  });

  for (const status of [302, 308] as const) {
    it(`redirect ${status}: to another place`, async (t) => {
      const { telegram, ask } = await startStill(t);
      telegram.fault({ kind: "redirect", status, location: "http://127.0.0.1:9/portal" });
      const answer = await ask("getMe");
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get("location"), "http://127.0.0.1:9/portal");
    });
  }
});

describe("which call is struck", () => {
  it("nth and times count the calls of the method since the fault was planted", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    await ask("getMe");
    const planted = telegram.fault({ method: "getme", nth: 2, times: 2, kind: "restart" });
    for (let n = 0; n < 4; n += 1) {
      await ask("getMe");
      await ask("getWebhookInfo");
    }
    const statuses = bot.requests.filter(({ method }) => method === "getMe").map(({ status }) => status);
    assert.deepEqual(statuses, [200, 200, 500, 500, 200]);
    assert.equal(planted.hits, 2);
  });

  it("a fault without end strikes until it is removed, and one of a bot spares the others", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    telegram.addBot({ token: "7002:another-token-that-opens-nothing", username: "other_bot" });
    const other = telegram.bot("7002:another-token-that-opens-nothing");
    const planted = other.fault({ kind: "restart", times: Number.POSITIVE_INFINITY });
    const askOther = async (): Promise<number> =>
      (await fetch(`${telegram.root}/bot7002:another-token-that-opens-nothing/getMe`)).status;
    assert.deepEqual([await askOther(), await askOther()], [500, 500]);
    assert.equal((await ask("getMe")).status, 200);
    planted.remove();
    assert.equal(await askOther(), 200);
    assert.deepEqual(
      other.requests.map((request) => request.fault),
      ["restart", "restart", undefined],
    );
    assert.equal(bot.requests.length, 1);
  });

  it("after stop connections are refused, waiting calls break, and start takes them up again", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const waiting = ask("getUpdates", { timeout: 30 });
    await bot.whenWaiting();
    await Promise.all([telegram.stop(), assert.rejects(waiting)]);
    assert.equal(bot.polls[0]?.end, "dropped");
    await assert.rejects(ask("getMe"), (error: Error) => {
      assert.ok(error.cause instanceof Error && "code" in error.cause);
      assert.equal(error.cause.code, "ECONNREFUSED");
      return true;
    });
    await telegram.start();
    assert.equal((await ask("getMe")).status, 200);
  });

  it("a second client takes what is there, and the one that waits is ended by it", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const daemon = ask("getUpdates", { timeout: 30 });
    await bot.whenWaiting();
    const rival = bot.rivalPoll({ offset: 1, timeout: 30 });
    assert.equal((await daemon).status, 409);
    bot.say({ from: PERSON, text: "hello" });
    telegram.advance(1);
    assert.equal((await rival).status, 200);
    await bot.rivalPoll({ offset: FIRST_ID + 1 });
    assert.equal(bot.pending, 0);
  });
});

describe("waiting for something", () => {
  it("a wait in vain says what was awaited and what came instead", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    await ask("getMe");
    await assert.rejects(
      telegram.waitFor(() => false, { what: "a miracle", withinMs: 1 }),
      /Waited in vain for a miracle: 1 ms have passed\. 1 requests so far, the last: getMe 200 answered\./,
    );
    bot.fill(1);
    await ask("getUpdates", { offset: FIRST_ID + 5 });
    await assert.rejects(bot.whenConfirmed(FIRST_ID), /it is swallowed/);
  });

  it("a running clock can be moved forward too", async (t) => {
    const telegram = await startTelegramStandIn({ bots: [{ token: TOKEN, username: "example_bot" }] });
    t.after(() => telegram.close());
    const poll = telegram.bot().rivalPoll({ timeout: 50 });
    telegram.advance(50_000);
    assert.deepEqual((await poll).body, { ok: true, result: [] });
    telegram.bot().tap({ from: PERSON, data: "yes", message: 1 });
    telegram.advance(151_000);
    assert.equal(telegram.bot().pending, 0);
  });

  it("closing leaves nothing behind that keeps a process alive", async () => {
    const script = `
      import { once } from "node:events";
      import { connect } from "node:net";
      import { startTelegramStandIn } from ${JSON.stringify(STAND_IN)};
      const telegram = await startTelegramStandIn({ bots: [{ token: "7001:x", username: "example_bot" }] });
      const call = async (method) => {
        const client = connect(telegram.port, "127.0.0.1").resume();
        client.write("GET /bot7001:x/" + method + " HTTP/1.1\\r\\nHost: example\\r\\n\\r\\n");
        await once(client, "close");
      };
      const bot = telegram.bot();
      telegram.fault({ method: "getMe", kind: "delay", ms: 3_600_000 });
      const calls = [call("getMe"), call("getUpdates?timeout=50")];
      await bot.whenWaiting();
      bot.setWebhook("https://example.com/hook");
      bot.rivalPoll();
      bot.deleteWebhook();
      calls.push(call("getUpdates?timeout=50"));
      await bot.whenWaiting();
      await telegram.waitFor(() => bot.requests.length === 3);
      const wait = telegram.waitFor(() => false).catch(() => {});
      await telegram.close();
      await Promise.all([wait, ...calls]);
      const left = process.getActiveResourcesInfo().filter((kind) => /Timeout|TCP/.test(kind));
      console.log("left:", left.join());`;
    const run = promisify(execFile);
    const flags = ["--import", "tsx", "--input-type=module", "-e", script];
    const { stdout } = await run(process.execPath, flags, { timeout: 30_000 });
    assert.equal(stdout, "left: \n");
  });

  it("closing ends every wait", async (t) => {
    const { telegram, bot } = await startStill(t);
    await Promise.all([assert.rejects(bot.whenPolled(), /the stand-in was closed/), telegram.close()]);
  });
});
