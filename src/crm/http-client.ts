/**
 * One HTTP exchange with a CRM. It never throws: what cannot be answered is told together with the one thing that
 * decides everything else, whether the request may have left (P3). Redirects are never followed and nothing is ever
 * repeated in here.
 *
 * Source: undici calls a handler's `onRequestStart` on an established connection (after DNS, TCP, TLS and a proxy's
 * CONNECT), right before it writes the first byte. Without that call nothing has left, whatever the error says.
 */
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent, Socks5ProxyAgent } from "undici";
import { assert } from "../domain/errors.ts";

export interface HttpRequest {
  method: string;
  url: URL;
  headers: Record<string, string>;
  body: string | null;
  /** A new connection for this request alone: a socket kept open may be dead without anybody knowing. */
  fresh: boolean;
}

export type Exchange =
  | { kind: "answered"; status: number; headers: Headers; body: string }
  /** No whole answer. `status` is set where the head of one had come. */
  | { kind: "failed"; left: boolean; status: number | null; reason: string };

/** Names in lower case; a repeated header is joined by a comma. */
export type Headers = Record<string, string>;

export interface HttpClient {
  exchange(request: HttpRequest, signal: AbortSignal): Promise<Exchange>;
  close(): Promise<void>;
}

export interface HttpClientOptions {
  timeoutMs: number;
  /** `http://…`, `https://…` or `socks5://…`; null: straight to the CRM. */
  proxy: string | null;
  /** Stands in for the network. It has to call `onRequestStart` before a request takes effect; it stays open. */
  dispatcher?: Dispatcher;
}

const ANSWER_BYTES_MAX = 1024 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
/** Node's own 250 ms per address is too short where every address is a continent away. */
const ADDRESS_ATTEMPT_TIMEOUT_MS = 2500;
/** Shorter than what servers and the boxes between usually allow an idle connection. */
const KEEP_ALIVE_MS = 4000;
const KEEP_ALIVE_MAX_MS = 30_000;

export function createHttpClient(options: HttpClientOptions): HttpClient {
  const own = options.dispatcher === undefined;
  const reusing = options.dispatcher ?? createDispatcher(options);
  // Its own pool: in a shared one a fresh request could be given a connection that another one left open.
  const fresh = options.dispatcher ?? createDispatcher(options);
  return {
    exchange: (request, signal) =>
      exchange(request.fresh ? fresh : reusing, request, options.timeoutMs, signal),
    async close() {
      if (own) await Promise.all([reusing.destroy(), fresh.destroy()]);
    },
  };
}

function createDispatcher({ timeoutMs, proxy }: HttpClientOptions): Dispatcher {
  const connect = {
    timeout: Math.min(CONNECT_TIMEOUT_MS, timeoutMs),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_TIMEOUT_MS,
  };
  const pool = {
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
  };
  if (proxy === null) return new Agent({ ...pool, connect });
  if (proxy.startsWith("socks")) {
    return new Socks5ProxyAgent(proxy, { ...pool, connect: buildConnector(connect) });
  }
  return new ProxyAgent({
    ...pool,
    uri: proxy,
    proxyTls: connect,
    requestTls: connect,
    clientFactory: (origin, options) => new ProxyPool(origin, options),
  });
}

/**
 * undici takes a socket error in CONNECT for one of a connection that it had, and connects again without end or
 * pause, even when nobody waits any more. Under another error it gives up at once.
 */
class ProxyPool extends Pool {
  override connect(
    options: Parameters<Pool["connect"]>[0],
    callback?: Parameters<Pool["connect"]>[1],
  ): Promise<Dispatcher.ConnectData> {
    assert(callback === undefined, "undici's ProxyAgent waits for the promise");
    return super.connect(options).catch((cause: unknown) => {
      throw new Error("the proxy made no connection", { cause });
    });
  }
}

function exchange(
  dispatcher: Dispatcher,
  request: HttpRequest,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const handler = new ExchangeHandler((result) => {
      clearTimeout(deadline);
      signal.removeEventListener("abort", onAbort);
      resolve(result);
    });
    const deadline = setTimeout(() => handler.giveUp(`no answer within ${timeoutMs} ms`), timeoutMs);
    const onAbort = () => handler.giveUp("stopped before the answer came");
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) return onAbort();
    try {
      dispatcher.dispatch(
        {
          origin: request.url.origin,
          path: request.url.pathname + request.url.search,
          method: request.method as Dispatcher.HttpMethod, // checked as a token when the configuration is read
          headers: request.headers,
          body: request.body,
          reset: request.fresh,
        },
        handler,
      );
    } catch (error) {
      handler.onResponseError(null, error instanceof Error ? error : new Error(String(error)));
    }
  });
}

/** Collects one answer; settles once, and lets the request go no further after that. */
class ExchangeHandler implements Dispatcher.DispatchHandler {
  #settle: ((exchange: Exchange) => void) | null;
  #controller: Dispatcher.DispatchController | null = null;
  #status: number | null = null;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(settle: (exchange: Exchange) => void) {
    this.#settle = settle;
  }

  /** A request that has not started by now never will: `onRequestStart` finds it settled and stops it. */
  giveUp(reason: string): void {
    this.#finish(this.#failed(reason));
    this.#controller?.abort(new Error(reason));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const again = this.#controller !== null;
    this.#controller = controller;
    // Aborted in here, the request is not written. A second start would be a repeat that nobody decided on.
    if (again) this.giveUp("the connection closed, and the request was not repeated");
    else if (this.#settle === null) controller.abort(new Error("given up before it was sent"));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.#headers[name.toLowerCase()] = [value].flat().join(", ");
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= ANSWER_BYTES_MAX) this.#chunks.push(chunk);
    else this.giveUp(`the answer is larger than ${ANSWER_BYTES_MAX} bytes`);
  }

  onResponseEnd(): void {
    const body = Buffer.concat(this.#chunks).toString("utf8");
    this.#finish(
      this.#status === null
        ? this.#failed("the answer has no status")
        : { kind: "answered", status: this.#status, headers: this.#headers, body },
    );
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#finish(this.#failed(describe(error)));
  }

  #failed(reason: string): Exchange {
    return { kind: "failed", left: this.#controller !== null, status: this.#status, reason };
  }

  #finish(exchange: Exchange): void {
    this.#settle?.(exchange);
    this.#settle = null;
  }
}

/** The innermost cause says most: `AggregateError` and undici's wrappers only say that something failed. */
function describe(error: Error): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.map((one) => (one instanceof Error ? describe(one) : String(one))))].join(
      "; ",
    );
  }
  if (error.cause instanceof Error) return describe(error.cause);
  const code = "code" in error && typeof error.code === "string" ? error.code : null;
  return code === null || error.message.includes(code) ? error.message : `${error.message} (${code})`;
}
