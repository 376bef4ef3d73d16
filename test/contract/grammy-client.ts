/**
 * A bot made with grammy, a client that none of us wrote, as a process of its own that can be killed. It writes one line
 * per update that its handler has taken.
 *
 * Environment: BOT_TOKEN, API_ROOT; STICK_AT, the text of a message at which the handler never returns, so that the page
 * with it stays unconfirmed.
 */
import { Bot } from "grammy";

const { BOT_TOKEN = "", API_ROOT = "", STICK_AT } = process.env;
const bot = new Bot(BOT_TOKEN, { client: { apiRoot: API_ROOT } });

bot.use(async (ctx) => {
  process.stdout.write(`${ctx.update.update_id}\n`);
  if (STICK_AT !== undefined && ctx.message?.text === STICK_AT) await new Promise(() => {});
});
await bot.start();
