/** Takes the lock of the database given as argument, says so, and holds it until it is killed. */
import { takeLock } from "../../src/store/index.ts";

const lock = takeLock(process.argv[2] ?? "");
process.stdout.write(lock === null ? "refused\n" : "held\n");
if (lock !== null) setInterval(() => {}, 60_000);
