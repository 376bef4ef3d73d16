/**
 * The log (design §10): one line per transition, JSON unless it goes to a terminal. Keeps P5 at the last place where it
 * can be kept: every known secret, and whatever looks like a bot token, is replaced by value before it is written.
 */
import { styleText } from "node:util";
import winston from "winston";
import type { Log, LogFields } from "../domain/ports.ts";

export interface LogOptions {
  secrets: readonly string[];
  /** Readable, coloured lines instead of JSON. */
  terminal: boolean;
  stream: NodeJS.WritableStream;
}

const BOT_TOKEN = /\b\d{5,}:[A-Za-z0-9_-]{24,}/g;

export function redactor(secrets: readonly string[]): (text: string) => string {
  const values = secrets.filter((secret) => secret.length > 0).sort((a, b) => b.length - a.length);
  return (text) =>
    values
      .reduce((line, secret) => line.replaceAll(secret, "[secret]"), text)
      .replaceAll(BOT_TOKEN, "[secret]");
}

export function makeLog({ secrets, terminal, stream }: LogOptions): Log {
  const redact = redactor(secrets);
  const logger = winston.createLogger({
    level: "info",
    format: winston.format.combine(
      winston.format.timestamp(),
      winston.format.printf((info) => redact(terminal ? forPeople(info) : forMachines(info))),
    ),
    transports: [new winston.transports.Stream({ stream })],
  });
  const write =
    (level: "info" | "warn" | "error") =>
    (event: string, fields: LogFields = {}): void => {
      const { message = event, ...rest } = fields;
      logger.log({ level, event, message: String(message), ...rest });
    };
  return { info: write("info"), warn: write("warn"), error: write("error") };
}

/** Without the sentence where there is none but the event's name. */
function forMachines({ event, message, ...fields }: winston.Logform.TransformableInfo): string {
  return JSON.stringify({ ...fields, event, ...(message === event ? {} : { message }) });
}

/** `12:30:01 job.settled  job=7 to=done …`; the sentence instead of the event where there is one. */
function forPeople(info: winston.Logform.TransformableInfo): string {
  const { level, timestamp, event, message, ...fields } = info;
  const time = styleText("gray", String(timestamp).slice(11, 19));
  const colour = level === "error" ? "red" : level === "warn" ? "yellow" : "green";
  const details = Object.entries(fields)
    .filter(([, value]) => value !== null && value !== false && typeof value !== "object")
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
  const text = message === event ? String(event) : `${String(event)}  ${String(message)}`;
  return `${time} ${styleText(colour, text)}${details === "" ? "" : ` ${styleText("gray", details)}`}`;
}
