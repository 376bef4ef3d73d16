/** The first two questions of a start: who is this bot, and what waits for it. Used by the poller and by `check`. */
import type { BotProfile, TelegramClient, WebhookInfo } from "./client.ts";

export interface Identity {
  me: BotProfile;
  webhook: WebhookInfo;
}

/** @throws TelegramError; nothing is retried here */
export async function identify(client: TelegramClient, signal: AbortSignal): Promise<Identity> {
  return { me: await client.getMe(signal), webhook: await client.getWebhookInfo(signal) };
}

/** Telegram holds 100,000 updates and silently refuses the newest beyond that. */
const LARGE_BACKLOG = 5_000;

/** What a person should know at a start, in plain words; null where there is nothing to tell. */
export function backlogWarning({ webhook }: Identity): string | null {
  const { pendingUpdateCount } = webhook;
  if (pendingUpdateCount < LARGE_BACKLOG) return null;
  return (
    `${pendingUpdateCount} updates wait at Telegram and are being fetched. Telegram keeps each for 24 hours at most ` +
    "and refuses new ones above 100,000, so some may be gone already; nothing can bring those back."
  );
}

/** @param takesGroups whether an action takes updates from groups */
export function groupPrivacyWarning({ me }: Identity, takesGroups: boolean): string | null {
  if (!takesGroups || me.canReadAllGroupMessages) return null;
  return (
    "An action takes messages from groups, but the bot's privacy mode is on: it sees only commands, replies to it and " +
    "messages that name it. Turn it off: @BotFather, /setprivacy, Disable; then remove the bot from each group and add it again."
  );
}
