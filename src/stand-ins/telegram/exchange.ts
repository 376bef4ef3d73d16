/**
 * One HTTP request under way: how its answer travels back, whole or spoiled by a fault, and how it ended.
 */
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Answer } from "./answers.ts";
import type { Timers } from "./clock.ts";
import type { Fault } from "./faults.ts";
import type { RequestEnd } from "./request-log.ts";

export class Exchange {
  readonly #response: ServerResponse;
  readonly #timers: Timers;
  readonly #onEnd: (end: RequestEnd) => void;
  #ended = false;

  /** `onEnd` is called once. */
  constructor(response: ServerResponse, timers: Timers, onEnd: (end: RequestEnd) => void) {
    this.#response = response;
    this.#timers = timers;
    this.#onEnd = onEnd;
    response.once("finish", () => this.#end("answered"));
    response.once("close", () => this.#end("abandoned"));
  }

  send(answer: Answer, fault?: Fault): void {
    if (this.#ended) return;
    switch (fault?.kind) {
      case "apply-then-drop":
        this.drop();
        break;
      case "apply-then-hang":
        break;
      case "delay":
        this.#timers.after(fault.ms, () => this.#sendWhole(answer));
        break;
      case "cut":
        this.#sendCut(answer, fault.bytes);
        break;
      case "slow":
        this.#sendHead(answer);
        this.#sendSlowly(answer.body, fault.bytes, fault.ms);
        break;
      case "close-idle": {
        const { socket } = this.#response;
        this.#response.once("finish", () => socket?.destroySoon());
        this.#sendWhole(answer);
        break;
      }
      default:
        this.#sendWhole(answer);
    }
  }

  /** Ends the connection without an answer. */
  drop(reset = false): void {
    const { socket } = this.#response;
    this.#end("dropped");
    if (reset) socket?.resetAndDestroy();
    else socket?.destroy();
  }

  /** The client is gone already. */
  abandon(): void {
    this.#end("abandoned");
  }

  #sendWhole(answer: Answer): void {
    if (this.#ended) return;
    this.#sendHead(answer);
    this.#response.end(answer.body);
  }

  #sendHead(answer: Answer): void {
    this.#response.sendDate = false;
    this.#response.writeHead(answer.status, this.#headers(answer));
  }

  #headers(answer: Answer): Record<string, string | number> {
    return {
      "Content-Type": answer.contentType,
      "Content-Length": answer.body.length,
      Connection: this.#response.shouldKeepAlive ? "keep-alive" : "close",
      ...answer.headers,
    };
  }

  /** Written past Node's response, which would not let a body be shorter than promised. */
  #sendCut(answer: Answer, bytes: number): void {
    const { socket } = this.#response;
    this.#end("dropped");
    const head = Object.entries(this.#headers(answer)).map(([name, value]) => `${name}: ${value}\r\n`);
    socket?.write(`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n${head.join("")}\r\n`);
    socket?.write(answer.body.subarray(0, bytes));
    socket?.destroySoon();
  }

  #sendSlowly(rest: Buffer, bytes: number, ms: number): void {
    if (this.#ended) return;
    if (rest.length === 0) {
      this.#response.end();
      return;
    }
    this.#response.write(rest.subarray(0, bytes));
    this.#timers.after(ms, () => this.#sendSlowly(rest.subarray(bytes), bytes, ms));
  }

  #end(end: RequestEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd(end);
  }
}
