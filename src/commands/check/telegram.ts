/** `leadonce check`, the bot: who it is, and what stands in the way of its updates. Asks without polling. */
import type { AppSettings } from "../../app.ts";
import type { BotRow } from "../../domain/store.ts";
import { systemClock } from "../../system.ts";
import { telegramClient } from "../../telegram/client.ts";
import { TelegramError, type TelegramErrorKind } from "../../telegram/errors.ts";
import { backlogWarning, groupPrivacyWarning, type Identity, identify } from "../../telegram/identify.ts";
import { botIdOfToken } from "../../telegram/token.ts";
import { type CheckResult, ok, problem, warning } from "./result.ts";

/** @param bound the bot that the database belongs to */
export function checkToken(token: string, bound: BotRow | null): CheckResult {
  const check = "telegram.token";
  const id = botIdOfToken(token);
  if (bound === null || bound.botId === id) return ok(check, `it is that of bot ${id}`);
  const known = bound.username === null ? "" : ` (@${bound.username})`;
  return problem(
    check,
    `it is that of bot ${id}, but the database belongs to bot ${bound.botId}${known}`,
    "Use that bot's token, or give this bot a database of its own: [storage] path.",
  );
}

/** @param takesGroups whether an action takes updates from groups */
export async function checkBot(
  { token, apiRoot, proxy, takeOverWebhook }: AppSettings["telegram"],
  takesGroups: boolean,
): Promise<CheckResult[]> {
  const client = telegramClient({ token, apiRoot, proxy, clock: systemClock });
  try {
    const identity = await identify(client, new AbortController().signal);
    return [
      checkIdentity(identity, token),
      ...(takesGroups ? [checkPrivacy(identity)] : []),
      checkWebhook(identity, takeOverWebhook),
      checkBacklog(identity),
    ];
  } catch (error) {
    if (!(error instanceof TelegramError)) throw error;
    return [problem("telegram", error.message, HINTS[error.kind])];
  } finally {
    await client.close();
  }
}

function checkIdentity({ me }: Identity, token: string): CheckResult {
  const name = me.username === null ? "" : `@${me.username}, `;
  if (me.id === botIdOfToken(token)) return ok("telegram", `${name}id ${me.id}`);
  return problem(
    "telegram",
    `the server says that this is bot ${me.id}, which the token does not say`,
    "Is [telegram] api_root a Bot API server? leadonce run refuses this bot.",
  );
}

function checkPrivacy(identity: Identity): CheckResult {
  const check = "telegram.privacy";
  const told = groupPrivacyWarning(identity, true);
  if (told === null) return ok(check, "the bot sees every message of its groups");
  return warning(check, told, "Only commands would become known; then run leadonce check again.");
}

function checkWebhook({ webhook: { host } }: Identity, takeOver: boolean): CheckResult {
  const check = "telegram.webhook";
  if (host === null) return ok(check, "none is set, so updates can be fetched");
  if (takeOver) {
    return warning(
      check,
      `another tool has set one, to ${host}; leadonce run removes it`,
      "Stop that tool first: it would get nothing more, or set the webhook anew.",
    );
  }
  return problem(
    check,
    `another tool has set one, to ${host}: Telegram sends the updates there, and leadonce would get none`,
    "Stop that tool, then write take_over_webhook = true in [telegram]; what waits at Telegram stays there.",
  );
}

function checkBacklog(identity: Identity): CheckResult {
  const check = "telegram.pending";
  const { pendingUpdateCount: waiting } = identity.webhook;
  const told = backlogWarning(identity);
  if (told !== null) return warning(check, told, "Start the daemon soon: leadonce run");
  return ok(
    check,
    waiting === 0 ? "no update waits at Telegram" : `updates that wait at Telegram: ${waiting}`,
  );
}

const OFFLINE = "Is this machine online? Where Telegram is blocked, set [telegram] proxy.";
const NOT_TELEGRAM = "Look at [telegram] api_root and proxy, and whether this network wants you to sign in.";
const LATER = "Run leadonce check again in a minute.";

const HINTS: Readonly<Record<TelegramErrorKind, string>> = {
  aborted: LATER,
  network: OFFLINE,
  timeout: OFFLINE,
  server: LATER,
  invalid_answer: NOT_TELEGRAM,
  throttled: LATER,
  conflict: LATER,
  webhook: LATER,
  unauthorised: "Take the bot's current token from @BotFather into [telegram] token.",
  refused: NOT_TELEGRAM,
};
