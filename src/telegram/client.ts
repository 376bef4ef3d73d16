/**
 * The Bot API as the rest of this folder sees it, and the only import of node-telegram-bot-api. Of the library only
 * plain calls are used: its retries would send a message twice, and its long poll dies of a 409 (reference §9).
 *
 * Every call has a deadline of its own and fails with a TelegramError alone (P5). One client has its own connections, so
 * that a poll and a message never wait for one another: the poller has one, a sender makes a second.
 */
import { Api } from "node-telegram-bot-api";
import type { Dispatcher } from "undici";
import { z } from "zod";
import { ConfigError } from "../domain/errors.ts";
import { asBotId, type BotId } from "../domain/ids.ts";
import type { Clock } from "../domain/ports.ts";
import { classify, invalidAnswer } from "./classify.ts";
import { TelegramError } from "./errors.ts";
import { openConnections } from "./fetch.ts";
import { botIdOfToken, withoutToken } from "./token.ts";

/** What a call may take beyond the time that Telegram was asked to wait. */
export const CALL_DEADLINE_MS = 15_000;

export interface TelegramClientOptions {
  token: string;
  apiRoot: string;
  proxy: string | null;
  clock: Clock;
  /** Other connections than our own, for tests and the simulation. */
  dispatcher?: () => Dispatcher;
}

export interface UpdatesRequest {
  /** Null in the first call of a process: Telegram then sends again whatever is unconfirmed. */
  offset: number | null;
  limit: number;
  timeoutS: number;
  allowedUpdates: readonly string[];
}

export interface BotProfile {
  id: BotId;
  username: string | null;
  /** False while the bot's privacy mode is on. */
  canReadAllGroupMessages: boolean;
}

export interface WebhookInfo {
  /** The host alone, since the path may hold a secret; null while no webhook is set. */
  host: string | null;
  pendingUpdateCount: number;
}

/** Every method: @throws TelegramError */
export interface TelegramClient {
  /** The elements of the page as they came; nothing is known of them but that they are in a list. */
  getUpdates(request: UpdatesRequest, signal: AbortSignal): Promise<readonly unknown[]>;
  getMe(signal: AbortSignal): Promise<BotProfile>;
  getWebhookInfo(signal: AbortSignal): Promise<WebhookInfo>;
  /** Updates that wait at Telegram stay there. */
  deleteWebhook(signal: AbortSignal): Promise<void>;
  /** From now on calls use new connections. */
  rebuildConnections(): void;
  close(): Promise<void>;
}

const botProfile = z
  .object({
    id: z.int(),
    username: z.string().optional(),
    can_read_all_group_messages: z.boolean().optional(),
  })
  .transform(
    (me): BotProfile => ({
      id: asBotId(me.id),
      username: me.username ?? null,
      canReadAllGroupMessages: me.can_read_all_group_messages ?? false,
    }),
  );

const webhookInfo = z
  .object({ url: z.string(), pending_update_count: z.number() })
  .transform(
    (info): WebhookInfo => ({ host: hostOf(info.url), pendingUpdateCount: info.pending_update_count }),
  );

/** @throws ConfigError when token, API root or proxy can't be right */
export function telegramClient(options: TelegramClientOptions): TelegramClient {
  const { token, apiRoot, proxy, clock, dispatcher } = options;
  botIdOfToken(token);
  if (!/^https?:\/\//.test(apiRoot) || !URL.canParse(apiRoot)) {
    throw new ConfigError("[telegram] api_root is not a URL that starts with https:// or http://");
  }
  const server = `${new URL(apiRoot).host}${proxy === null ? "" : " (through the proxy)"}`;
  const connections = openConnections(dispatcher === undefined ? { proxy } : { proxy, dispatcher });
  const api = new Api(token, {
    apiRoot,
    fetch: connections.fetch,
    maxRetries: 0,
    timeoutMs: CALL_DEADLINE_MS,
  });

  /** The deadline is kept by our clock, which the simulation owns; the library's own timer is a second guard. */
  async function call<Answer>(
    waitMs: number,
    signal: AbortSignal,
    send: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const deadline = new AbortController();
    const ended = new AbortController();
    void clock.sleep(waitMs + CALL_DEADLINE_MS, ended.signal).then(() => deadline.abort());
    try {
      return await send(AbortSignal.any([signal, deadline.signal]));
    } catch (error) {
      if (signal.aborted) throw new TelegramError("aborted", "the call was cut short");
      if (deadline.signal.aborted) throw new TelegramError("timeout", `${server} did not answer in time`);
      const { kind, message, retryAfterMs } = classify(error, server);
      throw new TelegramError(kind, withoutToken(message, token), retryAfterMs);
    } finally {
      ended.abort();
    }
  }

  function checked<Schema extends z.ZodType>(
    schema: Schema,
    answer: unknown,
    method: string,
  ): z.infer<Schema> {
    const result = schema.safeParse(answer);
    if (!result.success)
      throw invalidAnswer(server, `the answer to ${method} has another shape than documented`);
    return result.data;
  }

  return {
    getUpdates: async ({ offset, limit, timeoutS, allowedUpdates }, signal) => {
      const parameters = {
        ...(offset === null ? {} : { offset }),
        limit,
        timeout: timeoutS,
        allowed_updates: [...allowedUpdates],
      };
      const answer = await call(timeoutS * 1000, signal, (cut) => api.getUpdates(parameters, cut));
      return checked(z.array(z.unknown()), answer, "getUpdates");
    },
    getMe: async (signal) => checked(botProfile, await call(0, signal, (cut) => api.getMe(cut)), "getMe"),
    getWebhookInfo: async (signal) => {
      const answer = await call(0, signal, (cut) => api.getWebhookInfo(cut));
      return checked(webhookInfo, answer, "getWebhookInfo");
    },
    deleteWebhook: async (signal) => {
      await call(0, signal, (cut) => api.deleteWebhook({}, cut));
    },
    rebuildConnections: connections.rebuild,
    close: connections.close,
  };
}

function hostOf(url: string): string | null {
  if (url === "") return null;
  return URL.canParse(url) ? new URL(url).hostname : "an unknown host";
}
