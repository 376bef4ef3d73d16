/**
 * `leadonce reconcile list`: what is unknown, with everything a person needs to decide it (P3, P4): why it is parked,
 * what is safe, what the look-ups saw, whether another one comes by itself, whom to compare with, and the exact commands.
 */
import { EXIT, type ExitCode } from "../domain/errors.ts";
import { reasonText } from "../domain/explain.ts";
import type { ReconciliationReport } from "../domain/reports.ts";
import { type Context, reading } from "./context.ts";
import type { GlobalOptions } from "./invocation.ts";
import { oneLine, type Terminal } from "./terminal.ts";
import { ago, count, json, table, until } from "./text.ts";

/** The last look-ups tell most; all of them stand in the JSON. */
const LOOK_UPS_SHOWN = 5;

export async function reconcileListCommand(options: GlobalOptions, context: Context): Promise<ExitCode> {
  const open = await reading(options, context, (store) => store.openReconciliations());
  const { terminal, clock } = context;
  if (options.json) terminal.out(json(open));
  else for (const line of reconciliationsText(open, clock.now(), terminal)) terminal.out(line);
  return EXIT.ok;
}

export function reconciliationsText(
  open: readonly ReconciliationReport[],
  nowMs: number,
  terminal: Pick<Terminal, "style">,
): string[] {
  if (open.length === 0) return ["Nothing is unknown. Is all well? leadonce status"];
  const byItself = open.filter(({ next_check_at }) => next_check_at !== null).length;
  return [
    ...open.flatMap((row) => [...reconciliationText(row, nowMs, terminal), ""]),
    `${count(open.length, "job")} unknown: ${open.length - byItself} for you to decide, ` +
      `${byItself} still looked up by themselves.`,
  ];
}

function reconciliationText(
  row: ReconciliationReport,
  nowMs: number,
  terminal: Pick<Terminal, "style">,
): string[] {
  const { why, safe } = reasonText(row.reason);
  const title = `job ${row.job_id}  ${row.code}  ${row.step} at ${row.destination}`;
  const lines = [
    ["why", why],
    ["safe", safe],
    ...lookUps(row, nowMs),
    ["contact", row.contact ?? "wrote in a chat's name"],
    ...commands(row).map((command, index) => [index === 0 ? "next" : "", command]),
  ];
  return [
    `${terminal.style("bold", title)}, parked ${ago(row.opened_at, nowMs)}`,
    ...table(lines.map(([label = "", text = ""]) => [terminal.style("dim", label), text])).map(
      (line) => `  ${line}`,
    ),
  ];
}

function lookUps(row: ReconciliationReport, nowMs: number): string[][] {
  const seen = row.evidence.slice(-LOOK_UPS_SHOWN).map(({ at, found, detail }) => {
    const saw = found === null ? null : found.length === 0 ? "found nothing" : `found ${found.join(", ")}`;
    const text = [saw, detail].filter((part) => part !== null).map(oneLine);
    return `${ago(at, nowMs)}: ${text.join(", ")}`;
  });
  const comes =
    row.next_check_at === null
      ? "no automatic look-up is left: it waits for you"
      : `the next automatic look-up is due ${until(row.next_check_at, nowMs)}`;
  return [...seen, comes].map((line, index) => [index === 0 ? "look-ups" : "", line]);
}

/** Records that a look-up found are named, so that nobody has to copy them; then a second one is no way out any more. */
function commands(row: ReconciliationReport): string[] {
  const found = row.evidence.findLast((seen) => (seen.found ?? []).length > 0)?.found ?? [];
  const link = (id: string): string => `leadonce reconcile link ${row.job_id} ${id}`;
  return [
    ...(found.length > 0
      ? found.map((id) => link(shellWord(id)))
      : [link("ID"), `leadonce reconcile recreate ${row.job_id}`]),
    `leadonce reconcile dismiss ${row.job_id} --why "…"`,
  ];
}

/** What a person copies into a shell must mean what it shows, whatever the destination calls its records. */
function shellWord(text: string): string {
  return /^[\w.:@/-]+$/.test(text) ? text : `'${oneLine(text).replaceAll("'", "'\\''")}'`;
}
