/** `leadonce leads`: the ledger, each lead with what became of it at every destination. */
import { EXIT, type ExitCode } from "../domain/errors.ts";
import type { LeadReport } from "../domain/reports.ts";
import { type Context, reading } from "./context.ts";
import type { LeadsOptions } from "./invocation.ts";
import { STATE_FORMATS } from "./jobs.ts";
import { oneLine, type Terminal } from "./terminal.ts";
import { ago, count, json, table } from "./text.ts";

export async function leadsCommand(options: LeadsOptions, context: Context): Promise<ExitCode> {
  const { leads, bot } = await reading(options, context, async (store) => ({
    leads: await store.leads(options.sinceMs),
    bot: await store.bot(),
  }));
  const { terminal, clock } = context;
  if (options.json) terminal.out(json(leads));
  else if (leads.length > 0) for (const line of leadsText(leads, clock.now(), terminal)) terminal.out(line);
  else terminal.out(noLeads(options.sinceMs !== null, bot?.username ?? null));
  return EXIT.ok;
}

export function leadsText(
  leads: readonly LeadReport[],
  nowMs: number,
  terminal: Pick<Terminal, "style">,
): string[] {
  const header = ["made", "code", "who", "action", "lead", "destination", "state", "record"];
  const last = leads.at(-1);
  return [
    ...table([
      header.map((name) => terminal.style("dim", name)),
      ...leads.flatMap((lead) => rowsOf(lead, nowMs, terminal)),
    ]),
    "",
    `${count(leads.length, "lead")}. Follow one: leadonce trace ${last?.code ?? "CODE"}`,
  ];
}

/** One row per destination; what is the same for all of them stands in the first. */
function rowsOf(lead: LeadReport, nowMs: number, terminal: Pick<Terminal, "style">): string[][] {
  const first = [ago(lead.created_at, nowMs), lead.code, lead.contact ?? "", lead.action, lead.state];
  if (lead.destinations.length === 0) return [first];
  return lead.destinations.map(({ name, state, external_id, link }, index) => [
    ...(index === 0 ? first : first.map(() => "")),
    name,
    terminal.style(STATE_FORMATS[state], state),
    [external_id, link]
      .filter((part) => part !== null)
      .map(oneLine)
      .join("  "),
  ]);
}

function noLeads(narrowed: boolean, username: string | null): string {
  if (narrowed) return "No lead in that time. All of them: leadonce leads";
  const where = username === null ? "your bot" : `https://t.me/${username}`;
  return `No lead yet. Write a message to ${where}, then look again. Is it well? leadonce status`;
}
