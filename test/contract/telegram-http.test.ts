/** The HTTP side of the stand-in: how calls come in, how they are refused, what the simple methods answer, what is logged. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import {
  FIRST_ID,
  failureOf,
  idsOf,
  OneConnection,
  PERSON,
  post,
  read,
  resultOf,
  startStill,
  TOKEN,
} from "./telegram-client.ts";

describe("parameters", () => {
  it("they are taken from a query, a URL-encoded form, a multipart form or JSON, by GET or POST", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const url = `${telegram.root}/bot${TOKEN}/sendMessage`;
    const fields = { chat_id: "5550101", text: "Grüße & 1+1 👋" };
    const query = new URLSearchParams(fields);
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("document", new Blob(["no parameter"]), "file.txt");

    await fetch(`${url}?${query}&text=the+first+value+counts`);
    await fetch(`${url}?${query}`, { method: "POST" });
    await fetch(url, { method: "POST", body: query });
    await fetch(url, { method: "POST", body: form });
    await ask("sendMessage", { ...fields, chat_id: 5_550_101 });
    assert.deepEqual(
      bot.requests.map((request) => request.parameters),
      Array(5).fill(fields),
    );
    assert.deepEqual(
      bot.sent.map((message) => message.delivered),
      Array(5).fill(true),
    );
  });

  it("JSON keeps its text for what is no string, and what is no JSON object counts as nothing", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    await ask("getUpdates", { allowed_updates: ["message"], limit: 1 });
    assert.deepEqual(bot.requests[0]?.parameters, { allowed_updates: '["message"]', limit: "1" });
    const answer = await fetch(`${telegram.root}/bot${TOKEN}/getMe`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: "{no JSON",
    });
    assert.equal(answer.status, 200);
  });

  it("a number is its leading digits, or 0", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.fill(3);
    assert.equal(idsOf(await ask("getUpdates", { limit: "2 please" })).length, 2);
    assert.equal(idsOf(await ask("getUpdates", { limit: "please", offset: 1 })).length, 1);
  });

  it("more than 1 MiB is answered by 413, without a body and on a connection that closes", async (t) => {
    const { ask } = await startStill(t);
    const answer = await ask("sendMessage", { chat_id: 1, text: "x".repeat(1 << 20) });
    assert.equal(answer.status, 413);
    assert.equal(answer.text, "");
    assert.equal(answer.headers.get("connection"), "close");
  });
});

describe("refusals before any method", () => {
  it("a path that is not /bot…, a malformed token, an unknown token, an unknown method", async (t) => {
    const { telegram, ask } = await startStill(t);
    const get = async (path: string): Promise<string> => {
      const { status, text } = await read(await fetch(`${telegram.root}${path}`));
      return `${status} ${text}`;
    };
    assert.equal(await get("/"), '404 {"ok":false,"error_code":404,"description":"Not Found"}');
    assert.equal(
      await get("/botnonsense/getMe"),
      '401 {"ok":false,"error_code":401,"description":"Unauthorized: invalid token specified"}',
    );
    assert.equal(
      await get(`/bot${TOKEN}%20/getMe`),
      '401 {"ok":false,"error_code":401,"description":"Unauthorized: invalid token specified"}',
    );
    assert.equal(
      await get("/bot7001:AnotherSecretThatIsNotRight/getMe"),
      '401 {"ok":false,"error_code":401,"description":"Unauthorized"}',
    );
    assert.equal(failureOf(await ask("getMee")).description, "Not Found: method not found");
  });

  it("other HTTP methods and encoded content get an empty body", async (t) => {
    const { telegram } = await startStill(t);
    const url = `${telegram.root}/bot${TOKEN}/getMe`;
    const put = await read(await fetch(url, { method: "PUT" }));
    assert.deepEqual([put.status, put.text], [501, ""]);
    const headers = { "Content-Encoding": "br" };
    const encoded = await read(await fetch(url, { method: "POST", headers, body: "x" }));
    assert.deepEqual([encoded.status, encoded.text], [415, ""]);
  });

  it("what is no HTTP gets 400 and the end of the connection", async (t) => {
    const { telegram } = await startStill(t);
    const socket = connect(telegram.port, "127.0.0.1");
    socket.end("hello\r\n\r\n");
    let answer = "";
    for await (const chunk of socket) answer += chunk;
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.match(answer, /\r\n\r\n$/);
  });

  it("after its token was replaced a bot is found under the new one alone", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const newToken = "7001:the-token-that-came-after-it";
    bot.fill(1);
    telegram.replaceToken(TOKEN, newToken);
    assert.equal((await ask("getUpdates")).status, 401);
    assert.deepEqual(idsOf(await post(`${telegram.root}/bot${newToken}/getUpdates`, {})), [FIRST_ID]);
    assert.equal(telegram.bot(newToken), bot);
  });
});

describe("answers", () => {
  it("everything outside ASCII is escaped, emoji as surrogate pairs", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.say({ from: PERSON, text: "é👋\u0000\u2028" });
    const { text, headers } = await ask("getUpdates");
    assert.match(text, /"text":"\\u00e9\\ud83d\\udc4b\\u0000\\u2028"/);
    assert.match(text, /^\{"ok":true,"result":\[\{"update_id":40000001,\n"message":\{/);
    assert.equal(headers.get("content-type"), "application/json");
    assert.equal(headers.get("connection"), "keep-alive");
  });

  it("method names are taken in any case; getMe tells who the bot is", async (t) => {
    const { ask } = await startStill(t, { first_name: "Example" });
    assert.deepEqual(resultOf(await ask("GETME")), {
      id: 7001,
      is_bot: true,
      first_name: "Example",
      username: "example_bot",
      can_join_groups: true,
      can_read_all_group_messages: false,
      supports_inline_queries: false,
      can_connect_to_business: false,
      has_main_web_app: false,
    });
  });

  it("each bot has a queue of its own", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const otherToken = "7002:another-token-that-opens-nothing";
    const other = telegram.addBot({ token: otherToken, username: "other_bot", firstUpdateId: 9 });
    bot.fill(1);
    other.fill(1);
    assert.deepEqual(idsOf(await ask("getUpdates")), [FIRST_ID]);
    assert.deepEqual(idsOf(await post(`${telegram.root}/bot${otherToken}/getUpdates`, {})), [9]);
  });
});

describe("chats", () => {
  it("a sent message is answered as the server shapes it, and can be edited once changed", async (t) => {
    const { bot, ask } = await startStill(t);
    bot.say({ from: PERSON, text: "hello" });
    const buttons = { inline_keyboard: [[{ text: "Link", callback_data: "link" }]] };
    const sent = await ask("sendMessage", { chat_id: PERSON.id, text: " hi ", reply_markup: buttons });
    assert.deepEqual(resultOf(sent), bot.message(PERSON.id, 2));
    assert.equal(bot.message(PERSON.id, 2)?.text, "hi");
    assert.deepEqual(bot.message(PERSON.id, 2)?.reply_markup, buttons);

    const place = { chat_id: PERSON.id, message_id: 2 };
    const same = { ...place, text: "hi", reply_markup: buttons };
    assert.match(failureOf(await ask("editMessageText", same)).description, /message is not modified/);
    assert.equal((await ask("editMessageText", { ...place, text: "done" })).status, 200);
    assert.equal(bot.message(PERSON.id, 2)?.text, "done");
    assert.equal(bot.message(PERSON.id, 2)?.reply_markup, undefined);
    assert.match(
      failureOf(await ask("editMessageReplyMarkup", place)).description,
      /message is not modified/,
    );
    assert.match(
      failureOf(await ask("editMessageText", { ...place, message_id: 99, text: "x" })).description,
      /message to edit not found/,
    );
  });

  it("what cannot be sent is refused in the server's words", async (t) => {
    const { bot, ask } = await startStill(t);
    const refusal = async (parameters: Record<string, unknown>): Promise<unknown> =>
      failureOf(await ask("sendMessage", parameters)).description;
    assert.equal(await refusal({ text: "x" }), "Bad Request: chat_id is empty");
    assert.equal(await refusal({ chat_id: 1 }), "Bad Request: message text is empty");
    assert.equal(await refusal({ chat_id: 1, text: "x".repeat(4097) }), "Bad Request: message is too long");
    bot.blockedBy(PERSON.id);
    assert.equal(await refusal({ chat_id: PERSON.id, text: "x" }), "Forbidden: bot was blocked by the user");
    bot.unblockedBy(PERSON.id);
    assert.equal((await ask("sendMessage", { chat_id: PERSON.id, text: "x" })).status, 200);
    bot.migrated(-500, -1_000_000_000_500);
    assert.deepEqual(failureOf(await ask("sendMessage", { chat_id: -500, text: "x" })), {
      ok: false,
      error_code: 400,
      description: "Bad Request: group chat was upgraded to a supergroup chat",
      parameters: { migrate_to_chat_id: -1_000_000_000_500 },
    });
  });

  it("a tap can be answered for 150 s", async (t) => {
    const { telegram, bot, ask } = await startStill(t);
    const { id } = bot.tap({ from: PERSON, data: "yes", message: 1 }).callback_query;
    assert.equal((await ask("answerCallbackQuery", { callback_query_id: id, text: "ok" })).status, 200);
    assert.deepEqual(bot.answeredTaps, [{ id, text: "ok" }]);
    telegram.advance(150_001);
    for (const callback_query_id of [id, "1"]) {
      assert.match(failureOf(await ask("answerCallbackQuery", { callback_query_id })).description, /too old/);
    }
  });
});

describe("the request log", () => {
  it("it tells method, parameters, time, connection, status and end of every request", async (t) => {
    const { telegram, bot } = await startStill(t);
    const client = new OneConnection(t, telegram.root);
    await client.get("getMe");
    telegram.advance(5000);
    await client.get("getUpdates?limit=3");
    const [first, second] = bot.requests;
    assert.ok(first !== undefined && second !== undefined);
    assert.deepEqual(second, {
      botId: 7001,
      method: "getUpdates",
      parameters: { limit: "3" },
      at: first.at + 5000,
      connection: first.connection,
      fault: undefined,
      end: "answered",
      status: 200,
      deliveredMessageId: undefined,
    });
  });

  it("no token appears in it, wherever a client put one", async (t) => {
    const { telegram, ask } = await startStill(t);
    const unknownToken = "7009:AnotherSecretThatIsNotInUse_1";
    await ask("sendMessage", { chat_id: 1, text: `my token is ${TOKEN}`, [TOKEN]: unknownToken });
    await fetch(`${telegram.root}/bot${unknownToken}/getMe?token=${TOKEN}`);
    await fetch(`${telegram.root}/bot${TOKEN}/bot${TOKEN}/getMe`);
    await fetch(`${telegram.root}/bot${TOKEN}`);
    assert.equal(telegram.requests.length, 4);
    const log = JSON.stringify(telegram.requests);
    assert.ok(!log.includes("stand-in-token") && !log.includes("AnotherSecret"));
    assert.match(log, /my token is <token>/);
    assert.throws(
      () => telegram.bot(unknownToken),
      (error: Error) => !error.message.includes("AnotherSecret"),
    );
  });
});
