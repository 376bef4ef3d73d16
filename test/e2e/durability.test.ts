/**
 * Power loss (P1, P3): what the daemon asks of the operating system, in order. A page is confirmed to Telegram only when
 * every write of its commit has been synced to disk, and a request leaves only when its attempt row has.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { person, world } from "./world.ts";

const CALLS = "trace=write,writev,sendto,sendmsg,pwrite64,pwritev,fsync,fdatasync";
const traceable = spawnSync("strace", ["-qq", "-e", "trace=none", "true"]).status === 0;

type Call =
  /** Bytes went to the write-ahead log and may still be in the machine's memory. */
  | "wal_write"
  | "wal_sync"
  /** The first poll with a new offset: Telegram forgets the page. */
  | "confirm"
  /** A lead goes to the CRM. */
  | "create";

function callReader(): (line: string) => Call | null {
  let offset: string | undefined;
  return (line) => {
    if (/pwrite\w*\(.*-wal>/.test(line)) return "wal_write";
    if (/f(data)?sync\(.*-wal>.*= 0/.test(line)) return "wal_sync";
    if (!/^\d+ +(write|writev|sendto|sendmsg)\(/.test(line)) return null;
    if (line.includes("POST /api/leads ")) return "create";
    const next = /offset\D{1,5}(\d+)/.exec(line)?.[1];
    if (next === undefined || next === offset) return null;
    offset = next;
    return "confirm";
  };
}

/** Resolves when the process is being traced; the tracer ends with it. */
async function traced(pid: number, file: string): Promise<{ ended: Promise<unknown> }> {
  const tracer = spawn("strace", ["-f", "-yy", "-s", "600", "-o", file, "-e", CALLS, "-p", String(pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(tracer, "exit");
  await once(tracer.stderr, "data");
  return { ended };
}

test("a page is confirmed, and a request leaves, only after the write-ahead log was synced behind its last write", {
  skip: traceable ? false : "strace is missing, or may not trace here",
}, async (t) => {
  const place = await world(t, { safety: "search", config: { telegram: { poll_timeout: "2s" } } });
  const daemon = await place.started();
  const trace = join(place.folder, "trace");
  const tracer = await traced(daemon.pid, trace);
  for (let n = 1; n <= 3; n += 1) {
    await place.bot.whenConfirmed(place.bot.say({ from: person(n), text: `hello ${n}` }));
    await place.crm.whenCreated(n);
  }
  await place.settled(daemon);
  await daemon.stop();
  await tracer.ended;

  const seen = { create: 0, confirm: 0 };
  const syncedSince = { create: 0, confirm: 0 };
  const callOf = callReader();
  let unsynced = 0;
  for (const line of readFileSync(trace, "utf8").split("\n")) {
    const call = callOf(line);
    if (call === "wal_write") unsynced += 1;
    else if (call === "wal_sync") {
      syncedSince.create += unsynced;
      syncedSince.confirm += unsynced;
      unsynced = 0;
    } else if (call !== null) {
      assert.equal(unsynced, 0, `a ${call} left while ${unsynced} writes were not on disk`);
      assert.ok(syncedSince[call] > 0, `nothing was written before this ${call}`);
      syncedSince[call] = 0;
      seen[call] += 1;
    }
  }
  assert.deepEqual(seen, { create: 3, confirm: 3 });
});
