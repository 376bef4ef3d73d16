// The built daemon as a process: cold start to the first poll, and resident memory idle and after 10,000 leads.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startTelegramStandIn } from "../../dist/stand-ins/telegram/index.js";
import { folder, messageUpdate, spread, TOKEN, tinyCrm } from "./world.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));
const LEADS = 10_000;

function configuration(telegram, crm) {
  return `[telegram]
token = "${TOKEN}"
api_root = "${telegram.root}"
[crm.sales]
kind = "http"
base_url = "${crm.url}"
safety = "idempotency-key"
concurrency = 50
rate = "off"
[crm.sales.lead]
url = "leads"
headers = { Idempotency-Key = "{{ operation.key }}" }
body = { external_ref = "{{ operation.id }}", name = "{{ contact.name }}", text = "{{ message.text }}" }
id = "/id"
`;
}

function residentMiB(pid) {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kib) / 1024;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function oneRun(leads) {
  const home = folder();
  const telegram = await startTelegramStandIn({ bots: [{ token: TOKEN, username: "bench_bot" }] });
  const crm = await tinyCrm(0);
  writeFileSync(join(home.path, "service.conf"), configuration(telegram, crm));
  const startedMs = performance.now();
  const daemon = spawn(process.execPath, [CLI, "run"], {
    cwd: home.path,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = new Promise((resolve) => daemon.once("exit", resolve));
  await telegram.bot().whenPolled();
  const startMs = performance.now() - startedMs;
  await pause(2_000);
  const idleMiB = residentMiB(daemon.pid);
  for (let n = 1; n <= leads; n += 1) telegram.bot().push({ message: messageUpdate(n).message });
  while (crm.made() < leads) await pause(50);
  await pause(leads > 0 ? 2_000 : 0);
  const afterMiB = residentMiB(daemon.pid);
  daemon.kill("SIGTERM");
  await exited;
  await crm.close();
  await telegram.close();
  home.remove();
  return { startMs, idleMiB, afterMiB };
}

export async function measureProcess(repetitions) {
  const starts = [];
  for (let repetition = 0; repetition < repetitions; repetition += 1) starts.push(await oneRun(0));
  const loaded = await oneRun(LEADS);
  return [
    ["cold start of run to first poll, ms", spread(starts.map(({ startMs }) => startMs))],
    ["resident memory idle, MiB", spread(starts.map(({ idleMiB }) => idleMiB))],
    [`resident memory after ${LEADS.toLocaleString("en")} leads, MiB`, loaded.afterMiB.toFixed(0)],
  ];
}
