/**
 * How bytes reach Telegram: a `fetch` for the client library on connections of our own. Redirects are refused, since
 * following one would post a customer's words and the token to another host (P5); an answer has a greatest size.
 * Deadlines of whole calls are the client's.
 */
import {
  Agent,
  buildConnector,
  type Dispatcher,
  ProxyAgent,
  Socks5ProxyAgent,
  fetch as undiciFetch,
} from "undici";
import { ConfigError } from "../domain/errors.ts";

/** Enough to try several addresses of a far-away host one after the other. */
const CONNECT_TIMEOUT_MS = 15_000;
/** Node's 250 ms gives up on addresses that are merely far away. */
const ADDRESS_ATTEMPT_TIMEOUT_MS = 2_500;
/** A page of updates has at most about 4 MiB of JSON. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

export interface Connections {
  fetch: typeof fetch;
  /** Calls from now on use new connections; what is under way on the old ones fails. */
  rebuild(): void;
  close(): Promise<void>;
}

export interface ConnectionOptions {
  /** `http://`, `https://` or `socks5://`, with or without user and password. */
  proxy: string | null;
  /** Other connections than ours, for tests and the simulation; called anew at each rebuild. */
  dispatcher?: () => Dispatcher;
}

/** `code` is what `classify` goes by. */
class RefusedAnswerError extends Error {
  override readonly name = "RefusedAnswerError";
  readonly code: "REDIRECTED" | "ANSWER_TOO_BIG";

  constructor(code: RefusedAnswerError["code"]) {
    super(code);
    this.code = code;
  }
}

/** @throws ConfigError when the proxy is of no kind that we know */
export function openConnections({
  proxy,
  dispatcher = () => ownDispatcher(proxy),
}: ConnectionOptions): Connections {
  let current = dispatcher();

  const fetchOnce = async (url: string, init: RequestInit): Promise<Response> => {
    const answer = await undiciFetch(url, {
      method: "POST",
      headers: [...new Headers(init.headers)],
      // Without files the library posts urlencoded text and nothing else.
      body: String(init.body ?? ""),
      signal: init.signal ?? null,
      redirect: "manual",
      dispatcher: current,
    });
    if (answer.status >= 300 && answer.status < 400) {
      await answer.body?.cancel();
      throw new RefusedAnswerError("REDIRECTED");
    }
    const bytes = await readUpTo(MAX_ANSWER_BYTES, answer.body);
    return new Response(bytes.length > 0 ? bytes : null, { status: answer.status });
  };

  return {
    fetch: (input, init = {}) => fetchOnce(input instanceof Request ? input.url : String(input), init),
    rebuild: () => {
      const old = current;
      current = dispatcher();
      // Not awaited: sockets that are dead already may take their time, and nobody needs them any more.
      void old.destroy();
    },
    close: () => current.destroy(),
  };
}

async function readUpTo(limit: number, body: AsyncIterable<Uint8Array> | null): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    // Leaving the loop cancels the body and with it the connection.
    if (size > limit) throw new RefusedAnswerError("ANSWER_TOO_BIG");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function ownDispatcher(proxy: string | null): Dispatcher {
  const connect = {
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_TIMEOUT_MS,
  };
  if (proxy === null) return new Agent({ connect });
  switch (URL.canParse(proxy) ? new URL(proxy).protocol : "") {
    case "http:":
    case "https:":
      return new ProxyAgent({ uri: proxy, proxyTls: connect, requestTls: connect });
    case "socks5:":
      return new Socks5ProxyAgent(proxy, { connect: buildConnector(connect) });
    default:
      throw new ConfigError(
        "[telegram] proxy is not a URL that starts with http://, https:// or socks5://",
        [],
        null,
      );
  }
}
