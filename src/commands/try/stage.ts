/** Everything that a rehearsal plays with: the bot, the actions, and the connectors of the chosen destinations. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { AppSettings } from "../../app.ts";
import { createConnector } from "../../crm/connectors.ts";
import { LeadonceError, UsageError } from "../../domain/errors.ts";
import type { BotId, DestinationKey } from "../../domain/ids.ts";
import { openStore } from "../../store/index.ts";
import { botIdOfToken } from "../../telegram/token.ts";
import type { Stage } from "./rehearsal.ts";

/** Where nobody has asked Telegram yet. */
const UNKNOWN_USERNAME = "your_bot";

/**
 * The caller closes its connectors.
 * @param only the name of the one destination to show; null: all of them
 * @throws UsageError where there is no such destination; ConfigError where an address that is a secret is wrong
 */
export async function makeStage(settings: AppSettings, only: string | null, nowMs: number): Promise<Stage> {
  const names = chosen(settings, only);
  const secretMark = randomBytes(12).toString("hex");
  const id = botIdOfToken(settings.telegram.token);
  const username = await usernameOf(id, settings.databasePath, nowMs);
  const { actions, destinations } = settings;
  return {
    intake: { bot: { id, username: username ?? UNKNOWN_USERNAME }, actions, destinations },
    names,
    connectors: new Map(
      settings.http
        .filter(({ key }) => names.has(key))
        .map(({ key, settings: http, secrets }) => [
          key,
          createConnector({ settings: http, secrets, secretMark }),
        ]),
    ),
    nowMs,
  };
}

function chosen({ destinations }: AppSettings, only: string | null): Map<DestinationKey, string> {
  const named = destinations.filter(({ name }) => only === null || name === only);
  if (named.length === 0) {
    const known = destinations.map(({ name }) => name).join(", ");
    throw new UsageError(`there is no destination ${only}`, `The configuration names: ${known}`);
  }
  return new Map(named.map(({ key, name }) => [key, name]));
}

/** As Telegram told the daemon; null where it has not run yet. */
async function usernameOf(id: BotId, databasePath: string, nowMs: number): Promise<string | null> {
  if (!existsSync(databasePath)) return null;
  try {
    const store = openStore(databasePath, { mode: "read", nowMs });
    try {
      const bot = await store.bot();
      return bot?.botId === id ? bot.username : null;
    } finally {
      store.close();
    }
  } catch (error) {
    // The rehearsal needs no database, and leadonce check tells what is wrong with it.
    if (error instanceof LeadonceError) return null;
    throw error;
  }
}
