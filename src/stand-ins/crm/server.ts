/**
 * A small CRM on 127.0.0.1 that misbehaves on request. Owns the sockets and the faults; the records and the rules of
 * the safety classes are `api.ts`. The demo, the drill and the tests look here to see what really came to be (P2).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { CrmApi, type Mood, type SafetyClass } from "./api.ts";
import { Exchange, flatHeaders, readBody } from "./exchange.ts";
import { type Fault, FaultLine, type Scheduled } from "./faults.ts";
import { Journal, type LoggedRequest } from "./journal.ts";
import type { ApiAnswer } from "./messages.ts";
import type { CrmRecord } from "./records.ts";

export interface CrmOptions {
  safety: SafetyClass;
  /** Where set, every request needs `Authorization: Bearer` with it. */
  token?: string;
  /** 0 (default): any free one. */
  port?: number;
  /** How long an idempotency key is honoured; for ever where not given. */
  keyValidForMs?: number;
  /** How long the search stays blind to a new record; `Infinity`: until `index()`. 0 where not given. */
  searchLagMs?: number;
  /** Milliseconds since the epoch; tests move it instead of waiting. */
  now?: () => number;
}

/** A fault that was ordered: what it has taken so far, and how to let go what it holds. */
export interface FaultHandle {
  readonly requests: readonly LoggedRequest[];
  /** Resolves with the first request once the fault has begun to treat it: held, or carried out and left hanging. */
  whenTaken(): Promise<LoggedRequest>;
  /** Resolves once the client of the first request has given up. */
  whenClientGone(): Promise<LoggedRequest>;
  /** Resolves once the first request's effect and answer are both known. */
  whenFinished(): Promise<LoggedRequest>;
  /** Lets go on what it holds now; when this returns, it has happened. */
  release(): void;
  /** Takes no further request. */
  withdraw(): void;
}

interface Held {
  scheduled: Scheduled;
  exchange: Exchange;
  timer: NodeJS.Timeout | undefined;
  goOn: () => void;
}

export async function startCrmStandIn(options: CrmOptions): Promise<CrmStandIn> {
  const standIn = new CrmStandIn(options);
  await standIn.comeUp();
  return standIn;
}

export class CrmStandIn {
  readonly #api: CrmApi;
  readonly #faults = new FaultLine();
  readonly #journal = new Journal();
  readonly #searchLagMs: number;
  readonly #open = new Set<Exchange>();
  readonly #held = new Set<Held>();
  readonly #connections = new WeakMap<Socket, number>();
  #connectionCount = 0;
  #server: Server | null = null;
  #port: number;

  /** Listens only after `comeUp()`; `startCrmStandIn` does both. */
  constructor(options: CrmOptions) {
    const { safety, token, port = 0, keyValidForMs, searchLagMs = 0, now = Date.now } = options;
    this.#api = new CrmApi(
      { safety, now, ...(keyValidForMs === undefined ? {} : { keyValidForMs }) },
      token ?? null,
    );
    this.#searchLagMs = searchLagMs;
    this.#port = port;
  }

  /** What a destination's `base_url` is set to. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}/api`;
  }

  get leads(): readonly CrmRecord[] {
    return this.#api.leads.records;
  }

  get notes(): readonly CrmRecord[] {
    return this.#api.notes.records;
  }

  get contacts(): readonly CrmRecord[] {
    return this.#api.contacts.records;
  }

  get requests(): readonly LoggedRequest[] {
    return this.#journal.requests;
  }

  fault(fault: Fault): FaultHandle {
    const scheduled = this.#faults.add(fault);
    const first = (what: string, ready: (request: LoggedRequest) => boolean) =>
      this.#journal.waitFor(() => {
        const [request] = scheduled.requests;
        return request !== undefined && ready(request) && request;
      }, `${what} (${fault.kind} on ${fault.on})`);
    return {
      requests: scheduled.requests,
      whenTaken: () => first("a request to take", () => true),
      whenClientGone: () => first("the client to give up", ({ answer }) => answer === "client-gone"),
      whenFinished: () =>
        first("a request's end", ({ effect, answer }) => effect !== "pending" && answer !== "pending"),
      release: () => this.#release((held) => held.scheduled === scheduled),
      withdraw: () => this.#faults.withdraw(scheduled),
    };
  }

  /** Lets everything go on that is held; when this returns, it has happened. */
  release(): void {
    this.#release(() => true);
  }

  /** Withdraws all faults, lets go what is held, and brings the search up to date: from here on a CRM that works. */
  calm(): void {
    this.#faults.clear();
    this.release();
    this.index();
  }

  /** The search catches up with every record. */
  index(): void {
    this.#api.leads.index();
    this.#api.notes.index();
    this.#api.contacts.index();
  }

  /** @param token null: no sign-in is asked for */
  setToken(token: string | null): void {
    this.#api.token = token;
  }

  /** Resolves with the leads once there are at least `count`. */
  whenCreated(count: number): Promise<readonly CrmRecord[]> {
    return this.waitFor(() => this.leads.length >= count && this.leads, `${count} leads`);
  }

  /** Resolves with what `look` returns once that is neither undefined, null nor false; rejects when it is closed first. */
  waitFor<Found>(
    look: (crm: CrmStandIn) => Found | undefined | null | false,
    what = "a condition",
  ): Promise<Found> {
    return this.#journal.waitFor(() => look(this), what);
  }

  /** Listens, on the same port as before. */
  async comeUp(): Promise<void> {
    if (this.#server !== null) return;
    const server = createServer((request, response) => {
      void this.#receive(request, response);
    });
    server.on("connection", (socket) => {
      this.#connectionCount += 1;
      this.#connections.set(socket, this.#connectionCount);
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.#port, "127.0.0.1", () => {
        server.off("error", reject);
        resolve();
      });
    });
    this.#server = server;
    // A server that listens on TCP has an AddressInfo; the string is for pipes.
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Connections are refused from now on. What is under way ends unanswered, what is held never happens; records stay. */
  async goDown(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    for (const { timer, exchange } of this.#held) {
      clearTimeout(timer);
      exchange.drop();
    }
    this.#held.clear();
    for (const exchange of this.#open) exchange.drop();
    this.#journal.changed();
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  /** Ends for good: no socket and no timer is left, and whoever still waits is told. */
  async close(): Promise<void> {
    await this.goDown();
    this.#journal.close();
  }

  async #receive(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", socket } = incoming;
    const { pathname: path, searchParams: query } = new URL(incoming.url ?? "/", "http://127.0.0.1");
    const kind = this.#api.kindOf(method, path);
    const scheduled = this.#faults.take(kind);
    const unread = scheduled?.fault.kind === "drop";
    const { body, complete } = unread ? { body: "", complete: true } : await readBody(incoming);

    const number = this.requests.length + 1;
    const exchange = new Exchange(
      { number, method, path, query, headers: flatHeaders(incoming), body },
      response,
      { kind, connection: this.#connections.get(socket) ?? 0, fault: scheduled?.fault.kind ?? null },
    );
    this.#journal.requests.push(exchange.logged);
    scheduled?.requests.push(exchange.logged);
    // A request that ends together with its connection, or with the stand-in, is not carried out either.
    if (complete && !socket.destroyed) {
      this.#open.add(exchange);
      response.once("close", () => this.#afterClose(exchange));
      this.#treat(exchange, scheduled);
    } else {
      exchange.clientGone();
      exchange.notApplied();
    }
    this.#journal.changed();
  }

  #afterClose(exchange: Exchange): void {
    this.#open.delete(exchange);
    exchange.clientGone();
    this.#journal.changed();
  }

  /** Synchronous, so that whoever sees a held request in the log can release it. */
  #treat(exchange: Exchange, scheduled: Scheduled | null): void {
    if (scheduled === null) {
      exchange.send(this.#apply(exchange));
      return;
    }
    const { fault } = scheduled;
    switch (fault.kind) {
      case "drop":
        exchange.drop();
        break;
      case "apply-then-drop":
        this.#apply(exchange);
        exchange.drop();
        break;
      case "apply-then-hang":
        this.#apply(exchange);
        break;
      case "apply-then-cut":
        exchange.cut(this.#apply(exchange));
        break;
      case "slow": {
        const answer = this.#apply(exchange);
        this.#hold(exchange, scheduled, fault.ms, () => exchange.send(answer));
        break;
      }
      case "land-late": {
        const mood = { blind: fault.blind ?? false };
        this.#hold(exchange, scheduled, fault.ms, () => exchange.send(this.#apply(exchange, mood)));
        break;
      }
      case "answer":
        if (fault.applied === true) this.#apply(exchange);
        else exchange.notApplied();
        exchange.send(fault);
        break;
      case "search-lag":
        exchange.send(this.#apply(exchange, { searchLagMs: fault.ms ?? Number.POSITIVE_INFINITY }));
        break;
      case "duplicate":
        exchange.send(this.#apply(exchange, { twins: fault.as }));
        break;
      default:
        unreachable(fault);
    }
  }

  #apply(exchange: Exchange, mood: Partial<Mood> = {}): ApiAnswer {
    const usual: Mood = { blind: false, searchLagMs: this.#searchLagMs, twins: "none" };
    const answer = this.#api.handle(exchange.request, { ...usual, ...mood });
    exchange.applied(answer);
    this.#journal.changed();
    return answer;
  }

  /** Puts the rest of a request off for `ms`, or until somebody releases it. */
  #hold(exchange: Exchange, scheduled: Scheduled, ms: number | undefined, rest: () => void): void {
    const held: Held = {
      scheduled,
      exchange,
      timer: ms === undefined ? undefined : setTimeout(() => held.goOn(), ms),
      goOn: () => {
        clearTimeout(held.timer);
        this.#held.delete(held);
        rest();
        this.#journal.changed();
      },
    };
    this.#held.add(held);
  }

  #release(which: (held: Held) => boolean): void {
    for (const held of this.#held) {
      if (which(held)) held.goOn();
    }
  }
}

function unreachable(fault: never): never {
  throw new Error(`no such fault: ${JSON.stringify(fault)}`);
}
