/** How the demo looks: one line per event, in columns that together are 100 wide, with time to read on a terminal. */
import type { Format, Terminal } from "../terminal.ts";

/** What came of an event. Only the sign is coloured: whole words in yellow can't be read on every background. */
export interface Outcome {
  sign: string;
  format: Format;
  text: string;
}

export const good = (text: string): Outcome => ({ sign: "✓", format: "green", text });
export const unclear = (text: string): Outcome => ({ sign: "?", format: "yellow", text });
export const waiting = (text: string): Outcome => ({ sign: "…", format: "dim", text });
export const bad = (text: string): Outcome => ({ sign: "✗", format: "red", text });

const NAME_WIDTH = 13;
const EVENT_WIDTH = 46;
/** Where names begin: what people type and what is printed to them stands there too. */
const INDENT = " ".repeat(9);
const READ_LINE_MS = 300;
const READ_TITLE_MS = 500;

export class Stage {
  readonly #terminal: Pick<Terminal, "out" | "style">;
  readonly #pause: (ms: number) => Promise<void>;

  /** @param pause for the eye only: nothing that happens may depend on it */
  constructor(terminal: Pick<Terminal, "out" | "style">, pause: (ms: number) => Promise<void>) {
    this.#terminal = terminal;
    this.#pause = pause;
  }

  /** Text above and below the events. */
  say(...lines: string[]): void {
    for (const line of lines) this.#terminal.out(line);
  }

  style(format: Format, text: string): string {
    return this.#terminal.style(format, text);
  }

  async scene(title: string): Promise<void> {
    this.say("", this.style("bold", title));
    await this.#pause(READ_TITLE_MS);
  }

  /** @param at the time on the clock of the scripted morning */
  async event(at: string, who: string, what: string, outcome: Outcome | null = null): Promise<void> {
    const columns = [this.style("dim", at), this.style("bold", who.padEnd(NAME_WIDTH))];
    if (outcome === null) columns.push(what);
    else
      columns.push(what.padEnd(EVENT_WIDTH), `${this.style(outcome.format, outcome.sign)} ${outcome.text}`);
    this.say(`  ${columns.join("  ")}`);
    await this.#pause(READ_LINE_MS);
  }

  async typed(command: string): Promise<void> {
    this.say(`${INDENT}$ ${this.style("bold", command)}`);
    await this.#pause(READ_TITLE_MS);
  }

  async printed(lines: readonly string[]): Promise<void> {
    for (const line of lines) this.say(`${INDENT}  ${line}`);
    await this.#pause(READ_TITLE_MS);
  }
}
