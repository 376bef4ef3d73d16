/**
 * What can go wrong on purpose. A fault waits for its call, strikes once or several times, and is then spent.
 */
import { type Answer, emptyAnswer, failed, succeededWith, tooManyRequests } from "./answers.ts";
import type { RequestRecord } from "./request-log.ts";

/** The method takes effect, and its answer suffers. */
type Mishap =
  /** The connection ends instead of the answer. */
  | { kind: "apply-then-drop" }
  /** The connection stays open, and the answer never comes. */
  | { kind: "apply-then-hang" }
  | { kind: "delay"; ms: number }
  /** The headers promise the whole body; only the first `bytes` of it come, and the connection ends. */
  | { kind: "cut"; bytes: number }
  /** The body comes in pieces of `bytes`, one every `ms`. */
  | { kind: "slow"; bytes: number; ms: number }
  /** A good answer that promises to keep the connection, which then ends. */
  | { kind: "close-idle" };

/** The connection ends, or is held, without the method having taken effect. */
type Silence =
  /** `reset` sends a TCP reset instead of an orderly end. */
  { kind: "drop"; reset?: boolean } | { kind: "black-hole" };

/** Another answer. With `apply` the method takes effect all the same: a front end lost sight of it. */
type Substitute = { apply?: boolean } & (
  | { kind: "html"; status: 200 | 404 | 413 | 429 | 502 | 503 | 504 }
  | { kind: "empty"; status: number }
  /** Any body with any status; text for JSON that has the wrong shape. */
  | { kind: "body"; body: string | Buffer; status?: number; contentType?: string }
  /** `{"ok":true,"result":…}` around this JSON text. */
  | { kind: "result"; json: string }
  | { kind: "error"; code: number; description: string; parameters?: Record<string, unknown> }
  /** 500 of a server that is being restarted. */
  | { kind: "restart" }
  | { kind: "unauthorized" }
  /** 429. Nothing, a text or an absurd number in `retry_after` are all possible. */
  | { kind: "too-many"; retry_after?: unknown }
  | { kind: "redirect"; status: 301 | 302 | 303 | 307 | 308; location?: string }
);

export type Fault = Mishap | Silence | Substitute;

export interface FaultTarget {
  /** Any method by default. */
  method?: string;
  /** Which of the calls that follow is the first to be struck: 1, the default, is the next. */
  nth?: number;
  /** How many are struck in a row; 1 by default, `Infinity` until `remove()`. */
  times?: number;
  /** Narrows it further, for example to one chat. Calls that do not match are not counted. */
  match?: (request: RequestRecord) => boolean;
}

export interface PlantedFault {
  /** How often it has struck. */
  readonly hits: number;
  remove(): void;
}

export class Faults {
  readonly #planted = new Set<Planted>();

  plant(fault: Fault & FaultTarget): PlantedFault {
    const planted = new Planted(fault, () => this.#planted.delete(planted));
    this.#planted.add(planted);
    return planted;
  }

  /** Counts the call for every fault that waits for it; the first that is due strikes. */
  strike(request: RequestRecord): Fault | undefined {
    const due = [...this.#planted].filter((planted) => planted.counts(request));
    return due[0]?.strike();
  }
}

class Planted implements PlantedFault {
  readonly #fault: Fault & FaultTarget;
  readonly remove: () => void;
  #seen = 0;
  hits = 0;

  constructor(fault: Fault & FaultTarget, remove: () => void) {
    this.#fault = fault;
    this.remove = remove;
  }

  counts(request: RequestRecord): boolean {
    const { method, match, nth = 1 } = this.#fault;
    if (method !== undefined && method.toLowerCase() !== request.method.toLowerCase()) return false;
    if (match !== undefined && !match(request)) return false;
    this.#seen += 1;
    return this.#seen >= nth;
  }

  strike(): Fault {
    this.hits += 1;
    if (this.hits >= (this.#fault.times ?? 1)) this.remove();
    return this.#fault;
  }
}

/** The answer that takes the place of the server's own; undefined for faults that leave it alone. */
export function substituteFor(fault: Fault): Answer | undefined {
  switch (fault.kind) {
    case "html":
      return htmlPage(fault.status);
    case "empty":
      return emptyAnswer(fault.status);
    case "body":
      return {
        status: fault.status ?? 200,
        body: Buffer.from(fault.body),
        contentType: fault.contentType ?? "application/json",
        headers: {},
      };
    case "result":
      return succeededWith(Buffer.from(fault.json));
    case "error":
      return failed(fault.code, fault.description, fault.parameters);
    case "restart":
      return failed(500, "Internal Server Error: restart");
    case "unauthorized":
      return failed(401, "Unauthorized");
    case "too-many":
      return tooManyRequests(fault.retry_after);
    case "redirect":
      return { ...htmlPage(fault.status), headers: { Location: fault.location ?? "/elsewhere" } };
    case "apply-then-drop":
    case "apply-then-hang":
    case "delay":
    case "cut":
    case "slow":
    case "close-idle":
    case "drop":
    case "black-hole":
      return undefined;
  }
}

/** Whether the method runs at all. */
export function letsCallThrough(fault: Fault): boolean {
  if (fault.kind === "drop" || fault.kind === "black-hole") return false;
  return substituteFor(fault) === undefined || ("apply" in fault && fault.apply === true);
}

/** A page of a front end, a proxy or a captive portal. */
function htmlPage(status: number): Answer {
  const body = `<html>\r\n<head><title>${status}</title></head>\r\n<body><center><h1>${status}</h1></center></body>\r\n</html>\r\n`;
  return { status, body: Buffer.from(body), contentType: "text/html", headers: {} };
}
