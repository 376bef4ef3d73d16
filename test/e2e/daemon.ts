/** `leadonce` as a process of its own: started, listened to line by line, killed, and never left behind. */
import { type ChildProcess, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const PROGRAM = join(ROOT, "dist/cli.js");
/** A guard against waiting for ever; less than the half minute after which the daemon looks around unasked. */
const WAIT_LIMIT_MS = 28_000;

export interface Surroundings {
  /** Working directory. */
  folder: string;
  env: NodeJS.ProcessEnv;
}

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Finished extends Exit {
  stdout: string;
  stderr: string;
  /** What `--json` printed; the shapes are checked in `commands.test.ts`. */
  json<Shape>(): Shape;
}

/** A line of the log. */
export interface LogLine {
  event: string;
  level: string;
  message: string;
  [field: string]: unknown;
}

function launch(argv: readonly string[], { folder, env }: Surroundings): ChildProcess {
  return spawn(process.execPath, [PROGRAM, ...argv], {
    cwd: folder,
    // Nothing of the tests' own environment: what the program sees is what the test gave it.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** A command that ends by itself. */
export function finished(argv: readonly string[], surroundings: Surroundings): Promise<Finished> {
  const child = launch(argv, surroundings);
  const written = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      written[name] += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      // Whoever asks for JSON names the shape of what was asked for.
      resolve({ ...written, code, signal, json: <Shape>() => JSON.parse(written.stdout) as Shape });
    });
  });
}

/** `leadonce run`. */
export class Daemon {
  readonly lines: LogLine[] = [];
  /** Settles whenever that may be; a test awaits `ended()`. */
  readonly exit: Promise<Exit>;
  readonly #child: ChildProcess;
  readonly #watchers = new Set<() => void>();
  #output = "";
  #ended: Exit | null = null;

  constructor(argv: readonly string[], surroundings: Surroundings) {
    this.#child = launch(argv, surroundings);
    this.#read(this.#child.stdout, (line) => this.lines.push(line));
    this.#read(this.#child.stderr, () => undefined);
    this.exit = new Promise((resolve, reject) => {
      this.#child.once("error", reject);
      this.#child.once("close", (code, signal) => {
        this.#ended = { code, signal };
        this.#notify();
        resolve(this.#ended);
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get running(): boolean {
    return this.#ended === null;
  }

  /** Both streams, as they came. */
  get output(): string {
    return this.#output;
  }

  /** The lines of this event so far. */
  of(event: string): LogLine[] {
    return this.lines.filter((line) => line.event === event);
  }

  /** The nth line of this event, now or later. */
  line(event: string, nth = 1): Promise<LogLine> {
    return this.until(() => this.of(event)[nth - 1], `line ${nth} of ${event}`);
  }

  /** The next line of this event, from now on. */
  next(event: string): Promise<LogLine> {
    return this.line(event, this.of(event).length + 1);
  }

  /** Looks at `condition` now and after every line; resolves with its first value but false and undefined. */
  until<T>(condition: () => T | false | undefined, what: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        this.#watchers.delete(look);
        clearTimeout(limit);
        settle();
      };
      const giveUp = (why: string): void => {
        finish(() =>
          reject(new Error(`Waited in vain for ${what}: ${why}. The end of the log:\n${this.#tail()}`)),
        );
      };
      const look = (): void => {
        try {
          const value = condition();
          if (value !== false && value !== undefined) finish(() => resolve(value));
          else if (this.#ended !== null) giveUp(`the process ended with ${JSON.stringify(this.#ended)}`);
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const limit = setTimeout(() => giveUp(`${WAIT_LIMIT_MS} ms have passed`), WAIT_LIMIT_MS);
      this.#watchers.add(look);
      look();
    });
  }

  /** The process is gone. */
  ended(): Promise<Exit> {
    return this.until(() => this.#ended ?? undefined, "the end of the process");
  }

  kill(signal: NodeJS.Signals): void {
    if (this.running) this.#child.kill(signal);
  }

  /** SIGTERM, and what became of it. */
  async stop(): Promise<Exit> {
    this.kill("SIGTERM");
    return this.ended();
  }

  #read(stream: NodeJS.ReadableStream | null, keep: (line: LogLine) => void): void {
    if (stream === null) return;
    createInterface({ input: stream }).on("line", (text) => {
      this.#output += `${text}\n`;
      const line = logLine(text);
      if (line !== null) keep(line);
      this.#notify();
    });
  }

  #notify(): void {
    for (const look of [...this.#watchers]) look();
  }

  #tail(): string {
    return this.#output.split("\n").slice(-15).join("\n");
  }
}

function logLine(text: string): LogLine | null {
  try {
    const line: unknown = JSON.parse(text);
    // The log writes nothing else as a JSON object on one line.
    return typeof line === "object" && line !== null && "event" in line ? (line as LogLine) : null;
  } catch {
    return null;
  }
}
