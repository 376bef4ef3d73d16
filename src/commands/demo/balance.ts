/**
 * The demo's balance. Each number is counted twice, where it happened (at the stand-ins) and by leadonce (its commands'
 * JSON), and whether a message became exactly one lead is judged by the customers' words in the CRM, not by our ids.
 */
import { z } from "zod";
import type { Terminal } from "../terminal.ts";
import { table } from "../text.ts";
import type { Sent } from "./morning.ts";
import type { World } from "./world.ts";

export interface Balance {
  rows: Row[];
  messages: number;
  /** Records in the CRM. */
  leads: number;
  /** Messages without a record. */
  lost: number;
  /** Messages with more than one. */
  double: number;
}

interface Row {
  what: string;
  outside: number;
  inside: number;
  /** How leadonce calls what it counted. */
  as: string;
}

const leadsAnswer = z.array(z.object({ destinations: z.array(z.object({ state: z.string() })) }));
const statusAnswer = z.object({
  updates: z.object({ accepted: z.number(), ignored: z.number(), duplicates: z.number() }),
  jobs: z.record(z.string(), z.number()),
});

export async function takeBalance({ bot, crm, program }: World, sent: readonly Sent[]): Promise<Balance> {
  const leads = leadsAnswer.parse(JSON.parse(await program.run("leads --json")));
  const { updates, jobs } = statusAnswer.parse(JSON.parse(await program.run("status --json")));
  const { accepted, ignored, duplicates } = updates;
  const done = leads.filter(({ destinations }) => destinations.every(({ state }) => state === "done"));
  const undone = Object.entries(jobs).reduce((sum, [state, n]) => (state === "done" ? sum : sum + n), 0);
  return {
    rows: [
      { what: "messages from customers", outside: sent.length, inside: leads.length, as: "leads" },
      {
        what: "deliveries by Telegram",
        outside: bot.updates.reduce((sum, { timesFetched }) => sum + timesFetched, 0),
        inside: accepted + ignored + duplicates,
        as: `${accepted} accepted + ${ignored} ignored + ${duplicates} redelivered`,
      },
      { what: "records in the CRM", outside: crm.leads.length, inside: done.length, as: "leads done" },
      { what: "still waiting", outside: bot.pending, inside: undone, as: "at Telegram, in leadonce" },
    ],
    messages: sent.length,
    leads: crm.leads.length,
    ...fates(
      sent.map(({ text }) => text),
      crm.leads,
    ),
  };
}

/** What became of messages, judged by their words: each must stand in one record. */
export function fates(
  words: readonly string[],
  records: readonly { body: Readonly<Record<string, unknown>> }[],
): Pick<Balance, "lost" | "double"> {
  const counts = words.map((text) => records.filter(({ body }) => body.text === text).length);
  return { lost: counts.filter((n) => n === 0).length, double: counts.filter((n) => n > 1).length };
}

export function isEven({ rows, lost, double }: Balance): boolean {
  return lost === 0 && double === 0 && rows.every(({ outside, inside }) => outside === inside);
}

export function balanceText(balance: Balance, terminal: Pick<Terminal, "style">): string[] {
  const header = ["", "stand-ins", "leadonce"];
  return table([
    header.map((title) => terminal.style("dim", title)),
    ...balance.rows.map(({ what, outside, inside, as }) => [
      what,
      String(outside).padStart(9),
      terminal.style(outside === inside ? "green" : "red", String(inside).padStart(8)),
      terminal.style("dim", as),
    ]),
  ]);
}

export function verdict({ messages, leads, lost, double }: Balance): string {
  return `${messages} messages · ${leads} leads in the CRM · lost ${lost} · double ${double}`;
}
