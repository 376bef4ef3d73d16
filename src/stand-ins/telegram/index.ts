/**
 * A stand-in for the Telegram Bot API on 127.0.0.1, for the demo, the drill and tests: the rules of the server's own queue,
 * and faults on request. It runs in the process of whoever starts it.
 */

import { type BotOptions, BotServer } from "./bot.ts";
import { BotControl } from "./bot-control.ts";
import { Changes, type WaitOptions } from "./changes.ts";
import { StandInClock } from "./clock.ts";
import { type Fault, Faults, type FaultTarget, type PlantedFault } from "./faults.ts";
import { HttpFront } from "./http-front.ts";
import type { RequestRecord } from "./request-log.ts";

export type { BotOptions } from "./bot.ts";
export type { BotControl, PollParameters } from "./bot-control.ts";
export { StandInClock } from "./clock.ts";
export type { Fault, FaultTarget, PlantedFault } from "./faults.ts";
export type { Fate, QueuedUpdate } from "./queue.ts";
export type { RequestRecord, SentMessage } from "./request-log.ts";
export type { Chat, Message, MessageUpdate, Person, Tap, Update, Words } from "./updates.ts";

export interface StandInOptions {
  bots: readonly BotOptions[];
  /** A free one by default. */
  port?: number;
  /** A running clock by default. */
  clock?: StandInClock;
}

/** A token that has the right shape and opens nothing. */
export function exampleToken(botId: number): string {
  return `${botId}:stand-in-token-that-opens-nothing`;
}

export async function startTelegramStandIn(options: StandInOptions): Promise<TelegramStandIn> {
  const standIn = new TelegramStandIn(options.clock ?? new StandInClock());
  for (const bot of options.bots) standIn.addBot(bot);
  await standIn.start(options.port ?? 0);
  return standIn;
}

export class TelegramStandIn {
  readonly clock: StandInClock;
  /** Every request, in the order in which they were complete. */
  readonly requests: readonly RequestRecord[];
  readonly #servers = new Map<string, BotServer>();
  readonly #controls = new Map<string, BotControl>();
  readonly #faults = new Faults();
  readonly #changes: Changes;
  readonly #front: HttpFront;
  #port = 0;

  constructor(clock: StandInClock) {
    const requests: RequestRecord[] = [];
    this.clock = clock;
    this.requests = requests;
    this.#changes = new Changes(() => lastRequests(requests));
    this.#front = new HttpFront({
      bots: this.#servers,
      faults: this.#faults,
      clock,
      requests,
      changed: () => this.#changes.notify(),
    });
  }

  get port(): number {
    return this.#port;
  }

  /** What a client takes as its `api_root`. */
  get root(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  addBot(options: BotOptions): BotControl {
    const server = new BotServer(options, this.clock);
    const parts = { server, faults: this.#faults, changes: this.#changes, requests: this.requests };
    const control = new BotControl(parts);
    this.#servers.set(options.token, server);
    this.#controls.set(options.token, control);
    return control;
  }

  /** The bot with this token; the first one without. */
  bot(token?: string): BotControl {
    const control = token === undefined ? [...this.#controls.values()][0] : this.#controls.get(token);
    if (control === undefined) throw new Error("The stand-in has no bot with this token.");
    return control;
  }

  /** The bot's owner makes a new token: the old one is refused with 401, everything else stays. */
  replaceToken(oldToken: string, newToken: string): void {
    const server = this.#servers.get(oldToken);
    if (server === undefined) throw new Error("The stand-in has no bot with this token.");
    this.#controls.set(newToken, this.bot(oldToken));
    this.#controls.delete(oldToken);
    this.#servers.set(newToken, server);
    this.#servers.delete(oldToken);
  }

  fault(fault: Fault & FaultTarget): PlantedFault {
    return this.#faults.plant(fault);
  }

  /** Looks at `condition` now and whenever something happens; resolves with its first value but false and undefined. */
  waitFor<T>(condition: () => T | false | undefined, options?: WaitOptions): Promise<T> {
    return this.#changes.until(condition, options);
  }

  /** Lets time pass at once, for everything that expires or waits here. */
  advance(ms: number): void {
    this.clock.advance(ms);
    this.#changes.notify();
  }

  /** Connections are refused from now on, and those that exist end. */
  async stop(): Promise<void> {
    for (const server of this.#servers.values()) server.stop();
    await this.#front.stop();
  }

  /** On the same port as before, unless told otherwise. Queues, numbering, filters, webhooks and chats are still there. */
  async start(port = this.#port): Promise<void> {
    this.#port = await this.#front.listen(port);
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Ends everything; no timer and no connection is left. */
  async close(): Promise<void> {
    this.#changes.close();
    await this.stop();
  }
}

function lastRequests(requests: readonly RequestRecord[]): string {
  const last = requests.slice(-5).map(({ method, status, end }) => `${method} ${status ?? ""} ${end}`);
  return `${requests.length} requests so far${last.length > 0 ? `, the last: ${last.join("; ")}` : ""}.`;
}
