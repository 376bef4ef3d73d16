// Commits per job and jobs per second at several concurrencies with a CRM that takes 5 ms, and, idle, the time from the
// answer of getUpdates to the CRM request. The crash hook, which is called at every commit, does the counting.
import { join } from "node:path";
import { startApp } from "../../dist/app.js";
import { startTelegramStandIn } from "../../dist/stand-ins/telegram/index.js";
import { systemClock, systemRandom } from "../../dist/system.js";
import { appSettings, folder, messageUpdate, quantile, silent, spread, TOKEN, tinyCrm } from "./world.mjs";

async function world({ concurrency, crmMs, onCrash, onRequest }) {
  const home = folder();
  const telegram = await startTelegramStandIn({ bots: [{ token: TOKEN, username: "bench_bot" }] });
  const crm = await tinyCrm(crmMs, onRequest);
  const ports = { clock: systemClock, random: systemRandom, log: silent, crash: onCrash };
  const start = () =>
    startApp(appSettings(join(home.path, "bench.db"), telegram.root, crm.url, concurrency), ports);
  const close = async (app) => {
    await app.stop();
    await crm.close();
    await telegram.close();
    home.remove();
  };
  return { telegram, crm, start, close };
}

async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

async function saturated(concurrency, jobs) {
  const commits = { accept: 0, claim: 0, begin: 0, settle: 0 };
  let beganMs = 0;
  const onCrash = (point) => {
    const [what, when] = point.split(".");
    if (when === "committed" && what in commits) commits[what] += 1;
  };
  const place = await world({
    concurrency,
    crmMs: 5,
    onCrash,
    onRequest: () => (beganMs ||= performance.now()),
  });
  for (let n = 1; n <= jobs; n += 1) place.telegram.bot().push({ message: messageUpdate(n).message });
  const app = await place.start();
  await until(() => place.crm.made() >= jobs);
  const seconds = (performance.now() - beganMs) / 1000;
  await place.close(app);
  return { perJob: (commits.claim + commits.begin + commits.settle) / jobs, rate: jobs / seconds };
}

async function idleLatency(count) {
  let receivedMs = 0;
  const waits = [];
  let heard = () => {};
  const place = await world({
    concurrency: 4,
    crmMs: 0,
    onCrash: (point) => {
      if (point === "poll.received") receivedMs = performance.now();
    },
    onRequest: () => {
      waits.push(performance.now() - receivedMs);
      heard();
    },
  });
  const app = await place.start();
  const bot = place.telegram.bot();
  for (let n = 1; n <= count; n += 1) {
    await bot.whenWaiting();
    const arrived = new Promise((resolve) => {
      heard = resolve;
    });
    bot.push({ message: messageUpdate(n).message });
    await arrived;
  }
  await place.close(app);
  return waits.slice(20);
}

export async function measureWork(repetitions) {
  const rows = [];
  for (const [concurrency, jobs] of [
    [1, 150],
    [10, 1_000],
    [50, 3_000],
  ]) {
    const runs = [];
    for (let repetition = 0; repetition < repetitions; repetition += 1)
      runs.push(await saturated(concurrency, jobs));
    const perJob = spread(
      runs.map((run) => run.perJob),
      2,
    );
    const rate = spread(runs.map((run) => run.rate));
    rows.push([`commits per job, concurrency ${concurrency}`, `${perJob} at ${rate} jobs/s (CRM of 5 ms)`]);
  }
  const waits = await idleLatency(220);
  rows.push([
    "answer of getUpdates to CRM request, idle",
    `median ${quantile(waits, 0.5).toFixed(2)} ms, p99 ${quantile(waits, 0.99).toFixed(2)} ms (n=${waits.length})`,
  ]);
  return rows;
}
