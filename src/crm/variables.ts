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
  const variables: Variables = {
    operation: {
      id: operation.id,
      key: operation.key,
      code: operation.code,
      created_at: isoSeconds(operation.createdAtMs),
    },
    contact: {
      id: contact.userId,
      name: contactName(contact),
      first_name: contact.firstName,
      last_name: contact.lastName,
      username: contact.username,
      phone: contact.phone,
      language: contact.language,
      link: contactLink(contact),
      record_id: context.contactRecordId,
    },
    message: {
      text: first === undefined ? null : input.messages.map(({ text }) => text).join("\n"),
      kind: first?.kind ?? null,
      date: first === undefined ? null : isoSeconds(first.date * 1000),
      ref: first?.ref ?? null,
      link: first?.link ?? null,
    },
    source: { first: input.source.first, last: input.source.last },
    lead: { id: lead.id, link: lead.link },
    bot: { id: bot.id, username: bot.username },
    action: context.action,
  };
  return JSON.parse(cleanJson(variables).replaceAll(mark, ""));
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

/** `JSON.stringify` with every text clean; filters such as `truncate` can cut a surrogate pair. */
export function cleanJson(value: unknown): string {
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
