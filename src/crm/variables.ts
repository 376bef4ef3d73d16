/**
 * The variables of design §8: which names a template may use, and what stands there for one operation. They always
 * exist; null means unknown. A customer's text is made safe for any CRM here: NUL is removed and lone surrogates become
 * U+FFFD, because parsers and databases choke on them; everything else stays exactly what was written.
 */
import type { StepContext } from "../domain/connector.ts";
import type { Step } from "../domain/jobs.ts";
import type { InputContact } from "../domain/operation.ts";
import type { KnownValues } from "./mask.ts";
import type { Variables } from "./template.ts";

/** Null: a value by itself; else its members. */
export type KnownNames = Readonly<Record<string, readonly string[] | null>>;

const EVERYWHERE = {
  operation: ["id", "key", "code", "created_at"],
  contact: ["id", "name", "first_name", "last_name", "username", "phone", "language", "link", "record_id"],
  message: ["text", "kind", "date", "ref", "link"],
  source: ["first", "last"],
  bot: ["id", "username"],
  action: null,
} as const satisfies KnownNames;

const LEAD = { lead: ["id", "link"] } as const satisfies KnownNames;

/** @param step null for what every request shares: the base URL and the headers of the destination */
export function knownNames(step: Step | null): KnownNames {
  return step === "note" || step === "update" || step === null ? { ...EVERYWHERE, ...LEAD } : EVERYWHERE;
}

/** @param mark what stands for secrets in stored bodies; a text that holds it must not ask for one */
export function variablesOf(context: StepContext, mark: string): Variables {
  const { input, operation, bot, lead } = context;
  const { contact } = input;
  // Of several messages the texts are joined; everything else is that of the first, which opened the conversation.
  const [first] = input.messages;
  const own = (text: string | null | undefined) => (text ? clean(text).replaceAll(mark, "") : (text ?? null));
  return {
    operation: {
      id: operation.id,
      key: operation.key,
      code: operation.code,
      created_at: isoSeconds(operation.createdAtMs),
    },
    contact: {
      id: contact.userId,
      name: own(contactName(contact)),
      first_name: own(contact.firstName),
      last_name: own(contact.lastName),
      username: own(contact.username),
      phone: own(contact.phone),
      language: own(contact.language),
      link: own(contactLink(contact)),
      record_id: own(context.contactRecordId),
    },
    message: {
      text: first === undefined ? null : own(input.messages.map(({ text }) => text).join("\n")),
      kind: own(first?.kind),
      date: first === undefined ? null : isoSeconds(first.date * 1000),
      ref: own(first?.ref),
      link: own(first?.link),
    },
    source: { first: own(input.source.first), last: own(input.source.last) },
    lead: { id: own(lead.id), link: own(lead.link) },
    bot: { id: bot.id, username: bot.username },
    action: context.action,
  };
}

/** What an answer might quote of this operation and nobody else may read. */
export function personalValues(context: StepContext): Omit<KnownValues, "secrets"> {
  const { contact, messages } = context.input;
  const names = [contactName(contact), contact.firstName, contact.lastName, contact.username];
  return {
    phones: present([contact.phone]),
    names: present(names).filter((name) => name !== String(contact.userId)),
    texts: messages.map(({ text }) => text),
  };
}

export function clean(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD").replaceAll("\u0000", "");
}

/** `JSON.stringify` with every text clean; filters such as `split` can cut a surrogate pair. */
export function cleanJson(value: unknown): string {
  const json = JSON.stringify(value);
  // What has to be cleaned stands there escaped; nearly always there is nothing.
  if (!/\\u(?:0000|d[89a-f])/.test(json)) return json;
  return JSON.stringify(value, (_, member) => (typeof member === "string" ? clean(member) : member));
}

/** First and last name, else the username, else the id: a record always has something to be called by. */
function contactName(contact: InputContact): string | null {
  const full = present([contact.firstName, contact.lastName]).join(" ");
  return full || contact.username || (contact.userId === null ? null : String(contact.userId));
}

function contactLink(contact: InputContact): string | null {
  if (contact.username) return `https://t.me/${contact.username}`;
  return contact.userId === null ? null : `tg://user?id=${contact.userId}`;
}

function present(values: readonly (string | null)[]): string[] {
  return values.flatMap((value) => (value === null || value.trim() === "" ? [] : [value]));
}

function isoSeconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
