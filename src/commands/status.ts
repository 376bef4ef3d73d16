/** `leadonce status`: is it well, and what waits for a person (P4). Needs no secret and no running daemon. */
import { EXIT, type ExitCode, unreachable } from "../domain/errors.ts";
import type { StatusReport } from "../domain/reports.ts";
import type { RunRow } from "../domain/store.ts";
import { VERSION } from "../version.ts";
import { type Context, reading } from "./context.ts";
import type { GlobalOptions } from "./invocation.ts";
import { oneLine, type Terminal } from "./terminal.ts";
import { ago, count, json, span, table } from "./text.ts";

/** The daemon gives a sign of life every minute; two may be late on a busy machine. */
const SILENT_AFTER_MS = 3 * 60_000;
/** A CRM that is down for a day leaves hundreds of alerts of one kind; the first few tell what is wrong. */
const ALERTS_SHOWN = 10;

/** Whether a daemon works on the database, judged by what it wrote last; it writes at least once a minute. */
export interface DaemonReport {
  state: "running" | "silent" | "stopped" | "never_started";
  pid: number | null;
  host: string | null;
  last_sign_at: string | null;
}

export async function statusCommand(options: GlobalOptions, context: Context): Promise<ExitCode> {
  const nowMs = context.clock.now();
  const { report, run } = await reading(options, context, async (store) => ({
    report: await store.status(VERSION, nowMs),
    run: await store.lastRun(),
  }));
  const { terminal } = context;
  const daemon = daemonReport(run, report.poller.last_completed_at, nowMs);
  if (options.json) terminal.out(json({ ...report, daemon }));
  else for (const line of statusText(report, daemon, nowMs, terminal)) terminal.out(line);
  return EXIT.ok;
}

export function daemonReport(run: RunRow | null, lastPollAt: string | null, nowMs: number): DaemonReport {
  if (run === null) return { state: "never_started", pid: null, host: null, last_sign_at: null };
  const polledAtMs = lastPollAt === null ? 0 : Date.parse(lastPollAt);
  const lastSignMs = run.endedAtMs ?? Math.max(run.startedAtMs, run.heartbeatAtMs, polledAtMs);
  const silent = nowMs - lastSignMs > SILENT_AFTER_MS;
  return {
    state: run.endedAtMs !== null ? "stopped" : silent ? "silent" : "running",
    pid: run.pid,
    host: run.host,
    last_sign_at: new Date(lastSignMs).toISOString(),
  };
}

export function statusText(
  report: StatusReport,
  daemon: DaemonReport,
  nowMs: number,
  terminal: Pick<Terminal, "style">,
): string[] {
  const label = (text: string): string => terminal.style("bold", text);
  return [
    headline(report, daemon, terminal),
    "",
    ...table([
      [label("bot"), botText(report)],
      [label("daemon"), daemonText(daemon, nowMs)],
      [label("poller"), pollerText(report, daemon, nowMs)],
      [label("updates"), updatesText(report)],
      [label("jobs"), jobsText(report)],
      ...report.destinations.map((destination, index) => [
        label(index === 0 ? "destinations" : ""),
        destinationText(destination, terminal),
      ]),
    ]),
    ...alertsText(report, nowMs, terminal),
    ...nextSteps(report, daemon),
  ];
}

function daemonText({ state, pid, host, last_sign_at }: DaemonReport, nowMs: number): string {
  const last = last_sign_at === null ? "" : ago(last_sign_at, nowMs);
  switch (state) {
    case "running":
      return `running, process ${pid} on ${host}`;
    case "silent":
      return `no sign of life, last seen ${last}: process ${pid} on ${host}`;
    case "stopped":
      return `stopped ${last}`;
    case "never_started":
      return "not started yet";
    default:
      return unreachable(state);
  }
}

function headline(report: StatusReport, daemon: DaemonReport, terminal: Pick<Terminal, "style">): string {
  const matters = report.alerts.length + (daemon.state === "running" ? 0 : 1);
  if (matters > 0) {
    return terminal.style(
      "yellow",
      `${count(matters, "matter")} ${matters === 1 ? "waits" : "wait"} for you`,
    );
  }
  const { pending, leased, blocked, needs_reconciliation } = report.jobs;
  const under = pending + leased + blocked + needs_reconciliation;
  if (under > 0) return terminal.style("cyan", `${count(under, "job")} under way, nothing waits for you`);
  if (report.updates.accepted === 0) return terminal.style("green", "all is well; no message has come yet");
  return terminal.style("green", "everything is done");
}

function botText({ bot, version }: StatusReport): string {
  if (bot.id === null) return `none yet (leadonce ${version})`;
  const name = bot.username === null ? "" : `@${bot.username}, `;
  return `${name}id ${bot.id} (leadonce ${version})`;
}

function pollerText({ poller }: StatusReport, daemon: DaemonReport, nowMs: number): string {
  return [
    daemon.state === "running" ? poller.state : `last known: ${poller.state}`,
    poller.last_completed_at === null
      ? "no poll completed yet"
      : `last poll completed ${ago(poller.last_completed_at, nowMs)}`,
    ...(poller.next_offset === null ? [] : [`next offset ${poller.next_offset}`]),
    ...(poller.last_error === null ? [] : [`last error: ${oneLine(poller.last_error)}`]),
  ].join(", ");
}

function updatesText({ updates }: StatusReport): string {
  const { accepted, ignored, quarantined, duplicates } = updates;
  return `${accepted} accepted, ${ignored} ignored, ${quarantined} quarantined, ${duplicates} absorbed as repeats`;
}

function jobsText({ jobs, oldest_pending_age_s }: StatusReport): string {
  const { done, pending, leased, blocked, failed, needs_reconciliation, cancelled } = jobs;
  const oldest = oldest_pending_age_s === null ? "" : ` (oldest ${span(oldest_pending_age_s * 1000)})`;
  return (
    `${done} done, ${pending} pending${oldest}, ${leased} being sent, ${blocked} blocked, ${failed} failed, ` +
    `${needs_reconciliation} unknown, ${cancelled} cancelled`
  );
}

function destinationText(
  { name, state, reason }: StatusReport["destinations"][number],
  terminal: Pick<Terminal, "style">,
): string {
  switch (state) {
    case "active":
      return `${name}  ${terminal.style("green", state)}`;
    case "paused":
      return `${name}  ${terminal.style("yellow", state)}: ${oneLine(reason ?? "")}`;
    case "unconfigured":
      return `${name}  ${terminal.style("yellow", state)}: its jobs stay as they are`;
    default:
      return unreachable(state);
  }
}

function alertsText({ alerts }: StatusReport, nowMs: number, terminal: Pick<Terminal, "style">): string[] {
  if (alerts.length === 0) return [];
  const more = alerts.length - ALERTS_SHOWN;
  return [
    "",
    ...alerts
      .slice(0, ALERTS_SHOWN)
      .map(
        ({ since, message, times }) =>
          `${terminal.style("yellow", "!")} ${ago(since, nowMs)}${times > 1 ? `, ${times} times` : ""}: ${oneLine(message)}`,
      ),
    ...(more > 0 ? [`… and ${more} more; all of them: leadonce status --json`] : []),
  ];
}

function nextSteps(report: StatusReport, daemon: DaemonReport): string[] {
  const { failed, needs_reconciliation } = report.jobs;
  const steps = [
    ...(daemon.state === "running" ? [] : [["start the daemon", "leadonce run"]]),
    ...report.destinations
      .filter(({ state }) => state === "paused")
      .map(({ name }) => [`go on with ${name}`, `leadonce resume ${name}`]),
    ...(needs_reconciliation === 0 ? [] : [["decide what is unknown", "leadonce reconcile list"]]),
    ...(failed === 0 ? [] : [["decide what failed", "leadonce jobs --state failed"]]),
    ...firstOrMoreLeads(report),
  ];
  return ["", "Next:", ...table(steps).map((line) => `  ${line}`)];
}

function firstOrMoreLeads({ updates, bot }: StatusReport): string[][] {
  if (updates.accepted > 0) return [["see the leads", "leadonce leads"]];
  if (bot.username === null) return [["test the set-up", "leadonce check"]];
  return [["write the first message", `https://t.me/${bot.username}`]];
}
