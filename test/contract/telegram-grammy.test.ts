/**
 * The stand-in judged by a client that none of us wrote: grammy polls it as it would poll Telegram, is killed, and comes
 * back. What it must see is what Telegram promises: each update once in calm, none missing after a crash (P1).
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { startTelegramStandIn, type TelegramStandIn } from "../../src/stand-ins/telegram/index.ts";
import { FIRST_ID, PERSON, TOKEN } from "./telegram-client.ts";

const CLIENT = fileURLToPath(new URL("./grammy-client.ts", import.meta.url));

interface Client {
  process: ChildProcess;
  taken: number[];
  hasTaken: (updateId: number) => Promise<void>;
  kill: () => Promise<void>;
}

async function start(t: TestContext): Promise<TelegramStandIn> {
  const telegram = await startTelegramStandIn({
    bots: [{ token: TOKEN, username: "example_bot", firstUpdateId: FIRST_ID }],
  });
  t.after(() => telegram.close());
  return telegram;
}

function startClient(t: TestContext, apiRoot: string, stickAt?: string): Client {
  const env = {
    ...process.env,
    BOT_TOKEN: TOKEN,
    API_ROOT: apiRoot,
    ...(stickAt !== undefined && { STICK_AT: stickAt }),
  };
  const child = spawn(process.execPath, ["--import", "tsx", CLIENT], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
  };
  t.after(kill);

  const taken: number[] = [];
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => taken.push(Number(line)));
  const hasTaken = async (updateId: number): Promise<void> => {
    while (!taken.includes(updateId)) await once(lines, "line");
  };
  return { process: child, taken, hasTaken, kill };
}

const range = (count: number): number[] => Array.from({ length: count }, (_, n) => FIRST_ID + n);

it("in calm grammy gets every update exactly once, in order, and confirms it", async (t) => {
  const telegram = await start(t);
  const bot = telegram.bot();
  bot.fill(150);
  const client = startClient(t, telegram.root);
  await client.hasTaken(FIRST_ID + 149);
  for (let n = 0; n < 10; n += 1) {
    await bot.whenWaiting();
    await bot.whenConfirmed(bot.say({ from: PERSON, text: `Grüße ${n}` }));
  }
  await client.kill();
  assert.deepEqual(client.taken, range(160));
  assert.equal(bot.pending, 0);
  assert.ok(bot.updates.every((update) => update.fate === "confirmed" && update.timesFetched === 1));
});

it("killed in the middle of a page grammy gets that page again, and no update is missing", async (t) => {
  const telegram = await start(t);
  const bot = telegram.bot();
  bot.fill(10);
  const killed = startClient(t, telegram.root, "5");
  await killed.hasTaken(FIRST_ID + 4);
  await killed.kill();
  assert.deepEqual(killed.taken, range(5));
  bot.fill(10);

  const restarted = startClient(t, telegram.root);
  await bot.whenConfirmed(FIRST_ID + 19);
  await restarted.kill();
  assert.deepEqual(restarted.taken, range(20));
});

it("killed while its poll waits grammy gets what came in the meantime, without a 409", async (t) => {
  const telegram = await start(t);
  const bot = telegram.bot();
  bot.fill(3);
  const killed = startClient(t, telegram.root);
  await bot.whenConfirmed(FIRST_ID + 2);
  await bot.whenWaiting();
  await killed.kill();
  bot.fill(3);

  const restarted = startClient(t, telegram.root);
  await bot.whenConfirmed(FIRST_ID + 5);
  await restarted.kill();
  assert.deepEqual([...killed.taken, ...restarted.taken], range(6));
  assert.deepEqual(
    bot.polls.filter((poll) => poll.status === 409),
    [],
  );
});

it("when the answer to a confirming poll is lost grammy gets the page that was in it again", async (t) => {
  const telegram = await start(t);
  const bot = telegram.bot();
  bot.fill(100);
  telegram.fault({ method: "getUpdates", nth: 2, kind: "apply-then-drop" });
  const client = startClient(t, telegram.root);
  await bot.whenConfirmed(FIRST_ID + 99);
  bot.fill(5);
  await bot.whenConfirmed(FIRST_ID + 104);
  await client.kill();
  assert.deepEqual(client.taken, range(105));
});
