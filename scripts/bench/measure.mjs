// `node scripts/bench/measure.mjs [REPETITIONS]`: the figures of the closing notes, on the built program. Only ratios
// within one run say something; absolute numbers belong to the machine and the hour.
import { measureAccept } from "./accept.mjs";
import { measureProcess } from "./process.mjs";
import { measureWork } from "./work.mjs";

const repetitions = Number(process.argv[2] ?? 5);
for (const measure of [measureAccept, measureWork, measureProcess]) {
  for (const [what, value] of await measure(repetitions)) console.log(`${what.padEnd(48)} ${value}`);
}
