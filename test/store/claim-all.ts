/** Claims and gives up jobs one page at a time until none is left; prints the numbers of all that it got. */
import { once } from "node:events";
import { asLeaseToken, asRunId } from "../../src/domain/ids.ts";
import { openStore } from "../../src/store/index.ts";
import { MINUTE, SALES, T0 } from "./fixtures.ts";

const [path = "", name = ""] = process.argv.slice(2);
const store = openStore(path, { mode: "write", nowMs: T0 });
process.stdout.write("ready\n");
await once(process.stdin, "data");
const got: number[] = [];
let tokens = 0;
for (;;) {
  const claimed = await store.claim(
    [{ destination: SALES, limit: 2, leaseMs: MINUTE }],
    asRunId(name),
    () => {
      tokens += 1;
      return asLeaseToken(`${name}-${tokens}`);
    },
    T0,
  );
  if (claimed.length === 0) break;
  got.push(...claimed.map(({ jobId }) => jobId));
}
store.close();
process.stdout.write(JSON.stringify(got));
process.exit(0);
