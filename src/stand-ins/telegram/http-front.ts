/**
 * The HTTP side of the stand-in: reads a call from a request, has its bot run it, and sends the answer, or what a fault
 * makes of it.
 *
 * Source: tdlib/telegram-bot-api, HttpConnection.cpp; tdlib/td, HttpReader.cpp.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { type Answer, emptyAnswer, failed } from "./answers.ts";
import type { BotServer } from "./bot.ts";
import { type Clock, Timers } from "./clock.ts";
import { Exchange } from "./exchange.ts";
import { type Fault, type Faults, letsCallThrough, substituteFor } from "./faults.ts";
import { MAX_PARAMETER_BYTES, type Parameters, readParameters } from "./parameters.ts";
import { type OpenRequest, type RequestRecord, tokenMask } from "./request-log.ts";

const MAX_HEADER_BYTES = 256 * 1024;
const KEEP_ALIVE_MS = 500_000;

interface Target {
  token: string;
  method: string;
  query: string;
}

export interface FrontParts {
  bots: ReadonlyMap<string, BotServer>;
  faults: Faults;
  clock: Clock;
  requests: RequestRecord[];
  changed: () => void;
}

export class HttpFront {
  readonly #parts: FrontParts;
  readonly #timers: Timers;
  readonly #connections = new WeakMap<Socket, number>();
  readonly #exchanges = new Set<Exchange>();
  #connectionCount = 0;
  #server: Server | undefined;

  constructor(parts: FrontParts) {
    this.#parts = parts;
    this.#timers = new Timers(parts.clock);
  }

  /** Returns the port; 0 takes a free one. */
  async listen(port: number): Promise<number> {
    const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, keepAliveTimeout: KEEP_ALIVE_MS });
    // A client may send its request as slowly as it likes; only tests decide how long something takes.
    server.requestTimeout = 0;
    server.on("connection", (socket: Socket) => {
      this.#connectionCount += 1;
      this.#connections.set(socket, this.#connectionCount);
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      const status =
        error.code === "HPE_HEADER_OVERFLOW" ? "431 Request Header Fields Too Large" : "400 Bad Request";
      if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      else socket.destroy();
    });
    server.on("request", (request, response) => void this.#serve(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    this.#server = server;
    // A server that listens on TCP has an address with a port.
    return (server.address() as AddressInfo).port;
  }

  /** Ends every connection at once. Until it listens again, connections are refused. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    this.#timers.clear();
    for (const exchange of this.#exchanges) exchange.drop();
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    if (body === "gone") return;
    const target = readTarget(request.url ?? "");
    const bot = this.#parts.bots.get(target?.token ?? "");
    const parameters =
      body === "too big" ? {} : readParameters(target?.query ?? "", request.headers["content-type"], body);

    const record = this.#record(request, target, bot, parameters);
    const fault = this.#parts.faults.strike(record);
    record.fault = fault?.kind;
    const exchange = this.#open(response, record);
    this.#parts.requests.push(record);
    this.#parts.changed();

    const send = (answer: Answer, spoiledBy?: Fault): void => {
      record.status = answer.status;
      exchange.send(answer, spoiledBy);
    };
    if (fault !== undefined && !letsCallThrough(fault)) {
      this.#strike(fault, exchange, send);
    } else {
      // What the method did is on record even when its answer is then replaced or lost.
      const reply = (answer: Answer): void => {
        record.deliveredMessageId = answer.deliveredMessageId;
        send((fault && substituteFor(fault)) ?? answer, fault);
        this.#parts.changed();
      };
      const refusal = refuse(request, target, bot, body);
      if (refusal !== undefined) reply(refusal);
      else bot?.call(record.method, parameters, reply);
    }
    this.#parts.changed();
  }

  #open(response: ServerResponse, record: OpenRequest): Exchange {
    const exchange = new Exchange(response, this.#timers, (end) => {
      this.#exchanges.delete(exchange);
      record.end = end;
      this.#parts.changed();
    });
    this.#exchanges.add(exchange);
    // The client may have sent its request and left; the method runs all the same.
    if (response.closed) exchange.abandon();
    return exchange;
  }

  #strike(fault: Fault, exchange: Exchange, send: (answer: Answer) => void): void {
    const substitute = substituteFor(fault);
    if (substitute !== undefined) send(substitute);
    else if (fault.kind === "drop") exchange.drop(fault.reset);
    // What remains is the black hole, which leaves the request as it is.
  }

  #record(
    request: IncomingMessage,
    target: Target | undefined,
    bot: BotServer | undefined,
    parameters: Parameters,
  ): OpenRequest {
    const mask = tokenMask([...this.#parts.bots.keys()]);
    return {
      botId: bot?.user.id,
      method: mask(target?.method ?? ""),
      parameters: Object.fromEntries(
        Object.entries(parameters).map(([name, value]) => [mask(name), mask(value)]),
      ),
      at: this.#parts.clock.now(),
      connection: this.#connections.get(request.socket) ?? 0,
      fault: undefined,
      end: "open",
      status: undefined,
      deliveredMessageId: undefined,
    };
  }
}

/** What the server says before it looks at the method. */
function refuse(
  request: IncomingMessage,
  target: Target | undefined,
  bot: BotServer | undefined,
  body: Buffer | "too big",
): Answer | undefined {
  if (request.method !== "GET" && request.method !== "POST") return emptyAnswer(501);
  if (request.headers["content-encoding"] !== undefined) return emptyAnswer(415);
  if (body === "too big") return emptyAnswer(413);
  if (target === undefined) return failed(404, "Not Found");
  if (!isTokenShaped(target.token)) return failed(401, "Unauthorized: invalid token specified");
  if (bot === undefined) return failed(401, "Unauthorized");
  return undefined;
}

/** `/bot<token>/<method>?<query>`; undefined for any other path. */
function readTarget(url: string): Target | undefined {
  const queryAt = url.indexOf("?");
  const path = decodePath(queryAt < 0 ? url : url.slice(0, queryAt));
  const [, token, method] = /^\/bot([^/]*)\/(.*)$/.exec(path) ?? [];
  if (token === undefined || method === undefined) return undefined;
  return { token, method, query: queryAt < 0 ? "" : url.slice(queryAt + 1) };
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    // The server leaves a stray percent sign as it is.
    return path;
  }
}

function isTokenShaped(token: string): boolean {
  return token.length <= 80 && /^[1-9]\d{0,15}:[^\s]+$/.test(token);
}

async function readBody(request: IncomingMessage): Promise<Buffer | "too big" | "gone"> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request) {
      size += chunk.length;
      if (size <= MAX_PARAMETER_BYTES) chunks.push(chunk);
    }
  } catch {
    // The client went away in the middle of its own request; there is nobody to answer.
    return "gone";
  }
  return size > MAX_PARAMETER_BYTES ? "too big" : Buffer.concat(chunks);
}
