/** Accepts one page (JSON, second argument) into the database (first argument) as soon as a line comes in. */
import { once } from "node:events";
import { makeIntake } from "../../src/domain/intake.ts";
import { openStore } from "../../src/store/index.ts";
import { BOT, intakeSettings, T0 } from "./fixtures.ts";

const [path = "", page = "[]"] = process.argv.slice(2);
const elements: unknown[] = JSON.parse(page);
const store = openStore(path, { mode: "write", nowMs: T0 });
process.stdout.write("ready\n");
await once(process.stdin, "data");
const accepted = await store.accept(
  { botId: BOT, elements, nextOffset: 1, receivedAtMs: T0 },
  makeIntake(intakeSettings()),
);
store.close();
const operations = accepted.updates.flatMap((update) => update.operations).length;
process.stdout.write(JSON.stringify({ operations, duplicates: accepted.duplicates }));
process.exit(0);
