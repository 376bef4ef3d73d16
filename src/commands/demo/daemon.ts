/** The real daemon as a child process, over several lives: started, killed, stopped, and its log awaited line by line. */
import { EventEmitter, once } from "node:events";
import { createInterface } from "node:readline";
import { z } from "zod";
import { EXIT, LeadonceError } from "../../domain/errors.ts";
import type { Child, Program } from "./program.ts";

/** The fields of a log line (design §10) that the demo looks at; which of them there are depends on the event. */
const logLine = z.looseObject({
  event: z.string(),
  operation: z.string().optional(),
  update: z.string().optional(),
  to: z.string().optional(),
  record: z.string().nullish(),
  found: z.number().nullish(),
  duplicates: z.number().optional(),
});
export type LogLine = z.infer<typeof logLine>;

/** Against waiting for ever; on a slow machine everything takes its time. */
const WAIT_AT_MOST_MS = 30_000;

export class Daemon {
  readonly #program: Program;
  readonly #signal: AbortSignal;
  readonly #lines: LogLine[] = [];
  readonly #news = new EventEmitter();
  #life: { child: Child; ended: Promise<void> } | null = null;
  #failure: LeadonceError | null = null;

  constructor(program: Program, signal: AbortSignal) {
    this.#program = program;
    this.#signal = signal;
  }

  start(): void {
    const child = this.#program.start("run");
    let complaint = "";
    child.stderr.on("data", (chunk: Buffer) => {
      complaint += chunk.toString();
    });
    createInterface({ input: child.stdout }).on("line", (text) => this.#read(child, text));
    const ended = once(child, "close").then(
      ([code]) => this.#hasEnded(child, `ended by itself with code ${code}`, complaint),
      (error: Error) => this.#hasEnded(child, "could not be started", error.message),
    );
    this.#life = { child, ended };
  }

  /** As a power cut ends it: from one moment to the next. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /**
   * The nth such line in all lives, now or as soon as it is written.
   * @throws LeadonceError when the daemon fails or the line never comes
   */
  async logged(event: string, matches: (line: LogLine) => boolean = () => true, nth = 1): Promise<LogLine> {
    const limit = AbortSignal.timeout(WAIT_AT_MOST_MS);
    const signal = AbortSignal.any([this.#signal, limit]);
    for (;;) {
      const line = this.#lines.filter((known) => known.event === event && matches(known))[nth - 1];
      if (line !== undefined) return line;
      if (this.#failure !== null) throw this.#failure;
      this.#signal.throwIfAborted();
      if (limit.aborted)
        throw new LeadonceError(
          EXIT.bug,
          `the demo waited in vain for ${event} in the log`,
          "Run it once more; if it stays, report the lines above.",
        );
      // An abort is told by the signals above, which say whose it was.
      await once(this.#news, "news", { signal }).catch(() => undefined);
    }
  }

  #read(child: Child, text: string): void {
    try {
      this.#lines.push(logLine.parse(JSON.parse(text)));
    } catch (error) {
      // The last line of a killed process may be half of one.
      if (this.#life?.child !== child) return;
      this.#failure ??= new LeadonceError(EXIT.bug, "the demo can't read its daemon's log", null, error);
    }
    this.#news.emit("news");
  }

  #hasEnded(child: Child, how: string, complaint: string): void {
    // Whoever ends it on purpose takes it out of `#life` first.
    if (this.#life?.child !== child) return;
    this.#failure ??= new LeadonceError(EXIT.bug, `the demo's daemon ${how}`, complaint.trim() || null);
    this.#news.emit("news");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const life = this.#life;
    this.#life = null;
    life?.child.kill(signal);
    await life?.ended;
  }
}
