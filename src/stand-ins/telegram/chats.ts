/**
 * What the bot says in its chats, and the taps that it answers. A message is in the chat as soon as it was accepted here;
 * whether the bot ever learns of it is another matter.
 */
import { type Answer, failed, succeeded } from "./answers.ts";
import type { Timers } from "./clock.ts";
import type { Parameters } from "./parameters.ts";
import { type Chat, type Message, type Person, privateChat } from "./updates.ts";

const MAX_TEXT_LENGTH = 4096;
/** As long as the update itself is kept; the server gives no other number. */
const TAP_LIFETIME_MS = 150_000;

export interface BotUser {
  id: number;
  is_bot: true;
  first_name: string;
  username: string;
}

export interface AnsweredTap {
  id: string;
  text: string | undefined;
}

export class Chats {
  readonly #bot: BotUser;
  readonly #timers: Timers;
  readonly #people = new Map<number, Person>();
  readonly #messages = new Map<string, Message>();
  readonly #refusals = new Map<string, Answer>();
  readonly #tapExpiresAt = new Map<string, number>();
  #lastMessageId = 0;

  readonly answeredTaps: AnsweredTap[] = [];

  constructor(bot: BotUser, timers: Timers) {
    this.#bot = bot;
    this.#timers = timers;
  }

  nextMessageId(): number {
    this.#lastMessageId += 1;
    return this.#lastMessageId;
  }

  meet(person: Person): void {
    this.#people.set(person.id, person);
  }

  /** From now on every message to this chat gets `answer`; without one they go through again. */
  refuse(chatId: number, answer: Answer | undefined): void {
    if (answer === undefined) this.#refusals.delete(String(chatId));
    else this.#refusals.set(String(chatId), answer);
  }

  tapped(callbackQueryId: string): void {
    this.#tapExpiresAt.set(callbackQueryId, this.#timers.now() + TAP_LIFETIME_MS);
  }

  message(chatId: number, messageId: number): Message | undefined {
    return this.#messages.get(`${chatId}:${messageId}`);
  }

  sendMessage(parameters: Parameters): Answer {
    const chatId = parameters.chat_id ?? "";
    const text = parameters.text ?? "";
    if (chatId === "") return failed(400, "Bad Request: chat_id is empty");
    if (!/^-?\d+$/.test(chatId)) return failed(400, "Bad Request: chat not found");
    const refusal = this.#refusals.get(chatId);
    if (refusal !== undefined) return refusal;
    const problem = problemWithText(text);
    if (problem !== undefined) return problem;
    const message: Message = {
      message_id: this.nextMessageId(),
      from: this.#bot,
      chat: this.#chat(Number(chatId)),
      date: Math.floor(this.#timers.now() / 1000),
      text: text.trim(),
      ...inlineKeyboard(parameters.reply_markup),
    };
    this.#messages.set(`${chatId}:${message.message_id}`, message);
    return { ...succeeded(message), deliveredMessageId: message.message_id };
  }

  /** editMessageText and editMessageReplyMarkup: the latter leaves the text alone. */
  editMessage(parameters: Parameters, keepsText: boolean): Answer {
    const message = this.#messages.get(`${parameters.chat_id}:${parameters.message_id}`);
    if (message === undefined) return failed(400, "Bad Request: message to edit not found");
    const text = parameters.text ?? "";
    const problem = keepsText ? undefined : problemWithText(text);
    if (problem !== undefined) return problem;

    const { reply_markup: _former, edit_date: _formerly, ...kept } = message;
    const changed = {
      ...kept,
      ...(!keepsText && { text: text.trim() }),
      ...inlineKeyboard(parameters.reply_markup),
    };
    if (isSame(changed, message)) {
      return failed(
        400,
        "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
      );
    }
    const edited = { ...changed, edit_date: Math.floor(this.#timers.now() / 1000) };
    this.#messages.set(`${parameters.chat_id}:${parameters.message_id}`, edited);
    return succeeded(edited);
  }

  answerCallbackQuery(parameters: Parameters): Answer {
    const id = parameters.callback_query_id ?? "";
    if (this.#timers.now() > (this.#tapExpiresAt.get(id) ?? 0)) {
      return failed(400, "Bad Request: query is too old and response timeout expired or query ID is invalid");
    }
    this.answeredTaps.push({ id, text: parameters.text });
    return succeeded(true);
  }

  getChat(parameters: Parameters): Answer {
    const chatId = Number(parameters.chat_id);
    if (!Number.isSafeInteger(chatId) || chatId === 0) return failed(400, "Bad Request: chat not found");
    return succeeded(this.#chat(chatId));
  }

  #chat(id: number): Chat {
    const person = this.#people.get(id);
    if (person !== undefined) return privateChat(person);
    if (id > 0) return { id, type: "private" };
    return { id, title: "Test Group", type: String(id).startsWith("-100") ? "supergroup" : "group" };
  }
}

function problemWithText(text: string): Answer | undefined {
  if (text.trim() === "") return failed(400, "Bad Request: message text is empty");
  if (text.length > MAX_TEXT_LENGTH) return failed(400, "Bad Request: message is too long");
  return undefined;
}

/** Only buttons under the message become part of it; other keyboards belong to the chat's input line. */
function inlineKeyboard(replyMarkup: string | undefined): { reply_markup?: unknown } {
  if (replyMarkup === undefined) return {};
  try {
    const markup: unknown = JSON.parse(replyMarkup);
    const isInline = typeof markup === "object" && markup !== null && "inline_keyboard" in markup;
    return isInline ? { reply_markup: markup } : {};
  } catch {
    return {};
  }
}

function isSame(changed: object, { edit_date: _, ...message }: Message): boolean {
  const sorted = (value: object): string => JSON.stringify(Object.entries(value).sort());
  return sorted(changed) === sorted(message);
}
