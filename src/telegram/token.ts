/** The bot's token: what it tells, and how to keep it out of texts (P5). */
import { ConfigError } from "../domain/errors.ts";
import { asBotId, type BotId } from "../domain/ids.ts";

const SHAPE = /^([1-9]\d{0,15}):[A-Za-z0-9_-]{24,}$/;

/**
 * The number before the colon is the bot's id. The token itself is in no message.
 * @throws ConfigError when it can't be a token; the client library would send anything, a trailing space too
 */
export function botIdOfToken(token: string): BotId {
  const id = SHAPE.exec(token)?.[1];
  if (id === undefined) {
    throw new ConfigError(
      "the Telegram token does not look like one: a number, a colon, then at least 24 letters and digits",
      [],
      "Copy it from @BotFather, without spaces or quotes around it.",
    );
  }
  return asBotId(Number(id));
}

/** Takes the token and its secret half out of a text. */
export function withoutToken(text: string, token: string): string {
  return text.replaceAll(token, "<token>").replaceAll(token.slice(token.indexOf(":") + 1), "<token>");
}
