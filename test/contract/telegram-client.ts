/** A bare client of the Bot API for the contract tests, and a stand-in whose clock stands still until a test moves it. */
import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";
import { z } from "zod";
import {
  type BotControl,
  type BotOptions,
  exampleToken,
  StandInClock,
  startTelegramStandIn,
  type TelegramStandIn,
} from "../../src/stand-ins/telegram/index.ts";

export const TOKEN = exampleToken(7001);
export const PERSON = { id: 5550101, first_name: "Test Person", username: "test_person" };
export const FIRST_ID = 40_000_001;
/** A whole second, so that expiry in whole seconds is easy to follow. */
export const START = Date.UTC(2026, 0, 15, 9, 0, 0);

/** So that a test whose answer never comes fails by its own name. */
export const GUARD_MS = 10_000;

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
}

export interface Setup {
  telegram: TelegramStandIn;
  bot: BotControl;
  ask: (method: string, parameters?: Record<string, unknown>, signal?: AbortSignal) => Promise<Reply>;
}

export async function startStill(t: TestContext, bot: Partial<BotOptions> = {}): Promise<Setup> {
  const telegram = await startTelegramStandIn({
    bots: [{ token: TOKEN, username: "example_bot", firstUpdateId: FIRST_ID, ...bot }],
    clock: new StandInClock({ frozenAt: START }),
  });
  t.after(() => telegram.close());
  const ask: Setup["ask"] = (method, parameters = {}, signal) =>
    post(`${telegram.root}/bot${TOKEN}/${method}`, parameters, signal);
  return { telegram, bot: telegram.bot(), ask };
}

export async function post(url: string, parameters: unknown, signal?: AbortSignal): Promise<Reply> {
  const guard = new AbortController();
  const timer = setTimeout(() => guard.abort(new Error(`No answer for ${GUARD_MS} ms.`)), GUARD_MS);
  signal?.addEventListener("abort", () => guard.abort(signal.reason));
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(parameters),
      redirect: "manual",
      signal: guard.signal,
    });
    return await read(response);
  } finally {
    clearTimeout(timer);
  }
}

export async function read(response: Response): Promise<Reply> {
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Calls without parameters that follow each other on one connection for as long as the server keeps it. */
export class OneConnection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #root: string;

  constructor(t: TestContext, root: string) {
    this.#root = root;
    t.after(() => this.#agent.destroy());
  }

  /** Resolves when the answer was read, with what it promises for the connection, and with the socket. */
  get(method: string): Promise<{ connection: string | undefined; socket: Socket }> {
    return new Promise((resolve, reject) => {
      const call = request(`${this.#root}/bot${TOKEN}/${method}`, { agent: this.#agent }, (response) => {
        const { socket, headers } = response;
        response.resume();
        // Until the request is closed the agent would open another connection.
        call.once("close", () => resolve({ connection: headers.connection, socket }));
      });
      call.once("error", reject);
      call.end();
    });
  }
}

const page = z.object({ ok: z.literal(true), result: z.array(z.looseObject({ update_id: z.int() })) });
const success = z.object({ ok: z.literal(true), result: z.unknown() });
const failure = z.object({
  ok: z.literal(false),
  error_code: z.int(),
  description: z.string(),
  parameters: z.looseObject({}).optional(),
});

export function idsOf(reply: Reply): number[] {
  return page.parse(JSON.parse(reply.text)).result.map((update) => update.update_id);
}

export function resultOf(reply: Reply): unknown {
  return success.parse(JSON.parse(reply.text)).result;
}

export function failureOf(reply: Reply): z.infer<typeof failure> {
  return failure.parse(JSON.parse(reply.text));
}
