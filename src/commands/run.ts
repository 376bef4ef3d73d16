/** `leadonce run`: the daemon in the foreground, until a signal ends it. */
import { type AppEvents, startApp } from "../app.ts";
import { EXIT, type ExitCode } from "../domain/errors.ts";
import { makeLog } from "../operator/log.ts";
import { crashHook, systemClock, systemRandom } from "../system.ts";
import { VERSION } from "../version.ts";
import { settingsFor } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { RunOptions } from "./invocation.ts";

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
/** Whatever hangs then: what is not written is redelivered, or taken back as unknown at the next start. */
const END_WITHIN_MS = 9_500;

export async function runCommand(options: RunOptions, context: Context): Promise<ExitCode> {
  const { terminal, env } = context;
  const settings = settingsFor(options, context);
  const people = process.stdout.isTTY === true;
  const log = makeLog({ secrets: settings.secretValues, terminal: people, stream: process.stdout });
  const stopAsked = firstSignal();

  log.info("run.starting", { version: VERSION, pid: process.pid, database: settings.databasePath });
  const ports = { clock: systemClock, random: systemRandom, log, crash: crashHook(env.LEADONCE_CRASH_AT) };
  const app = await startApp(settings, ports, people ? greetings(context) : {});

  const signal = await Promise.race([stopAsked, app.ended]);
  log.info("run.stopping", { signal: signal ?? null, message: "finishing what is in hand" });
  const forced = setTimeout(() => {
    log.warn("run.cut_off", { message: "something hung; nothing is lost, the next start goes on from here" });
    process.exit(EXIT.ok);
  }, END_WITHIN_MS);
  await app.stop();
  clearTimeout(forced);
  log.info("run.stopped", {});
  if (people) terminal.out("Stopped. Nothing is lost: Telegram keeps what comes meanwhile, for 24 hours.");
  return EXIT.ok;
}

/** The first one asks; a second one means it. */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let asked = false;
    for (const name of SIGNALS) {
      process.on(name, () => {
        if (asked) process.exit(EXIT.ok);
        asked = true;
        resolve(name);
      });
    }
  });
}

/** On a terminal: where to write, and what to do next. */
function greetings({ terminal }: Context): AppEvents {
  return {
    onIdentified: ({ username }) => {
      const where = username === null ? "your bot" : `https://t.me/${username}`;
      terminal.out(
        [
          `${terminal.style("bold", "leadonce is listening.")} Write to ${terminal.style("cyan", where)}`,
          "Then, in another terminal:  leadonce leads   ·   leadonce status   (in a clone: npm run leadonce -- leads)",
        ].join("\n"),
      );
    },
  };
}
