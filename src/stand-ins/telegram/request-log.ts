/**
 * Every request that reached the stand-in, for assertions: what was asked, on which connection, and how it ended. No token
 * stands in it, wherever a client put one (P5).
 */
import type { Fault } from "./faults.ts";
import type { Parameters } from "./parameters.ts";

/**
 * - `open`: no answer yet
 * - `answered`: the whole answer was handed to the network
 * - `dropped`: the stand-in ended the connection without it, or with a part of it
 * - `abandoned`: the client was gone first
 */
export type RequestEnd = "open" | "answered" | "dropped" | "abandoned";

export interface RequestRecord {
  /** Undefined when the token was unknown. */
  readonly botId: number | undefined;
  readonly method: string;
  readonly parameters: Parameters;
  /** Milliseconds since the epoch, by the stand-in's clock. */
  readonly at: number;
  /** Counts the connections of this stand-in; the same number means a reused connection. */
  readonly connection: number;
  readonly fault: Fault["kind"] | undefined;
  readonly end: RequestEnd;
  /** Of the answer that was sent or would have been. */
  readonly status: number | undefined;
  /** The message that this call put into a chat, whether or not the answer arrived. */
  readonly deliveredMessageId: number | undefined;
}

/** The same, for those who write it. */
export type OpenRequest = { -readonly [field in keyof RequestRecord]: RequestRecord[field] };

export interface SentMessage {
  /** A number unless the bot sent something else. */
  chat_id: number | string;
  text: string;
  parameters: Parameters;
  /** Whether the message is in the chat. */
  delivered: boolean;
  /** Whether the bot was told how its call ended. */
  answered: boolean;
  message_id: number | undefined;
  at: number;
}

export function sentMessage(request: RequestRecord): SentMessage {
  const { chat_id = "", text = "" } = request.parameters;
  return {
    chat_id: /^-?\d+$/.test(chat_id) ? Number(chat_id) : chat_id,
    text,
    parameters: request.parameters,
    delivered: request.deliveredMessageId !== undefined,
    answered: request.end === "answered",
    message_id: request.deliveredMessageId,
    at: request.at,
  };
}

/** Masks everything that has the shape of a token, and the tokens in use whatever their shape. */
export function tokenMask(tokens: readonly string[]): (text: string) => string {
  return (text) =>
    tokens
      .reduce((masked, token) => masked.replaceAll(token, "<token>"), text)
      .replace(/\d+:[A-Za-z0-9_-]{24,}/g, "<token>");
}
