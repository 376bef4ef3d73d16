/**
 * Where commands print and ask. Keeps P5 at the last place where it can be kept: known secrets, whatever looks like a
 * bot token or a phone number, and control characters (a CRM's answer may hold them) never reach a screen.
 */
import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { styleText } from "node:util";
import { redactor } from "../operator/log.ts";

export type Format = "bold" | "dim" | "green" | "yellow" | "red" | "cyan";

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** Colours for `out`; the plain text where it is no terminal or NO_COLOR is set. */
  style(format: Format, text: string): string;
  /** True for yes; null where nobody sits at a terminal to be asked. */
  confirm(question: string): Promise<boolean | null>;
  /** From now on these values are never printed. */
  hide(secrets: readonly string[]): void;
}

export interface Streams {
  stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  stdout: NodeJS.WritableStream & { isTTY?: boolean };
  stderr: NodeJS.WritableStream & { isTTY?: boolean };
}

/** A plus sign and the digits of an international number. */
const PHONE = /\+\d{7,15}\b/g;
/** Control characters except line ends, and escapes except the colours that `style` makes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /\u001b(?!\[\d{1,2}m)|[\u0000-\u0009\u000b-\u001a\u001c-\u001f\u007f-\u009f]/g;

export function makeTerminal(streams: Streams, env: NodeJS.ProcessEnv): Terminal {
  const { stdin, stdout, stderr } = streams;
  const coloured = stdout.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";
  let secrets: readonly string[] = [];
  let redact = redactor(secrets);

  const printer = (stream: NodeJS.WritableStream): ((text: string) => void) => {
    let gone = false;
    // The reader has left (`| head`): what is under way goes on to its end, unheard.
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      gone = true;
    });
    return (text) => {
      if (!gone) stream.write(`${redact(text).replace(PHONE, "[phone]").replace(CONTROLS, "")}\n`);
    };
  };

  return {
    out: printer(stdout),
    err: printer(stderr),
    // The stream is judged above, since Node would judge the process's own.
    style: (format, text) => (coloured ? styleText(format, text, { validateStream: false }) : text),
    confirm: async (question) => {
      if (stdin.isTTY !== true || stderr.isTTY !== true) return null;
      const lines = createInterface({ input: stdin, output: stderr });
      try {
        // Ctrl-C and the end of the input close it without an answer, which is none of the kind "yes".
        const closed = once(lines, "close").then(() => "");
        const answer = await Promise.race([lines.question(`${question} [y/N] `), closed]);
        return /^\s*y(es)?\s*$/i.test(answer);
      } finally {
        lines.close();
      }
    },
    hide: (more) => {
      secrets = [...secrets, ...more];
      redact = redactor(secrets);
    },
  };
}

/** Printable on one line: an answer of a destination may hold line ends. */
export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
