// Updates accepted per second at synchronous=FULL, in pages of 100 and singly: the whole of `accept`, decision included.
import { join } from "node:path";
import { asBotId } from "../../dist/domain/ids.js";
import { makeIntake } from "../../dist/domain/intake.js";
import { openStore } from "../../dist/store/index.js";
import { BOT_ID, destinations, folder, intakeSettings, messageUpdate, spread } from "./world.mjs";

async function rate(pageSize, count) {
  const home = folder();
  const store = openStore(join(home.path, "bench.db"), { mode: "create", nowMs: Date.now() });
  try {
    const botId = asBotId(BOT_ID);
    await store.bindBot(botId, "bench_bot", Date.now());
    await store.configureDestinations(destinations(1), Date.now());
    const decide = makeIntake(intakeSettings());
    const pages = [];
    for (let id = 1; id <= count; id += pageSize) {
      const elements = Array.from({ length: pageSize }, (_, index) => messageUpdate(id + index));
      pages.push({ botId, elements, nextOffset: id + pageSize, receivedAtMs: Date.now() });
    }
    const startedMs = performance.now();
    for (const page of pages) await store.accept(page, decide);
    return (pages.length * pageSize) / ((performance.now() - startedMs) / 1000);
  } finally {
    store.close();
    home.remove();
  }
}

export async function measureAccept(repetitions) {
  const pages = [];
  const singles = [];
  for (let repetition = 0; repetition <= repetitions; repetition += 1) {
    pages.push(await rate(100, 10_000));
    singles.push(await rate(1, 1_000));
  }
  // The first of each warms up.
  return [
    ["updates accepted per second, pages of 100", spread(pages.slice(1))],
    ["updates accepted per second, singly", spread(singles.slice(1))],
  ];
}
