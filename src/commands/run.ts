/** `leadonce run`: the daemon in the foreground, until a signal ends it. */
import { type App, type AppEvents, startApp } from "../app.ts";
import { EXIT, type ExitCode, LeadonceError } from "../domain/errors.ts";
import type { Log } from "../domain/ports.ts";
import { makeLog } from "../operator/log.ts";
import { crashHook, systemClock, systemRandom } from "../system.ts";
import { VERSION } from "../version.ts";
import { settingsFor } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { RunOptions } from "./invocation.ts";

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
/** Whatever hangs then: what is not written is redelivered, or taken back as unknown at the next start. */
const END_WITHIN_MS = 9_500;
/** One Ctrl-C arrives twice under npm: from the terminal, and passed on by npm. `timeout` does the same with SIGTERM. */
const SAME_WISH_MS = 1_000;

export async function runCommand(options: RunOptions, context: Context): Promise<ExitCode> {
  const { terminal, env } = context;
  const settings = settingsFor(options, context);
  const people = process.stdout.isTTY === true;
  const log = makeLog({ secrets: settings.secretValues, terminal: people, stream: process.stdout });
  const stopAsked = firstSignal();

  log.info("run.starting", { version: VERSION, pid: process.pid, database: settings.databasePath });
  const ports = { clock: systemClock, random: systemRandom, log, crash: crashHook(env.LEADONCE_CRASH_AT) };
  const app = await startApp(settings, ports, people ? greetings(context) : {});

  try {
    const signal = await Promise.race([stopAsked, app.ended]);
    log.info("run.stopping", { signal: signal ?? null, message: "finishing what is in hand" });
  } catch (error) {
    // It can't go on, and half of it must not: a poller without a dispatcher looks well and does nothing.
    log.error("run.failed", { message: "an error that does not pass by itself; finishing what is in hand" });
    await stopInTime(app, log, error instanceof LeadonceError ? error.exitCode : EXIT.bug);
    throw error;
  }
  await stopInTime(app, log, EXIT.ok);
  if (people) terminal.out("Stopped. Nothing is lost: Telegram keeps what comes meanwhile, for 24 hours.");
  return EXIT.ok;
}

/** @param exitCode for an end by force, when something hangs */
async function stopInTime(app: App, log: Log, exitCode: ExitCode): Promise<void> {
  const forced = setTimeout(() => {
    log.warn("run.cut_off", { message: "something hung; nothing is lost, the next start goes on from here" });
    process.exit(exitCode);
  }, END_WITHIN_MS);
  try {
    await app.stop();
  } finally {
    clearTimeout(forced);
  }
  log.info("run.stopped", {});
}

/** The first one asks; a second one means it, unless it is an echo of the first. */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let askedAt: number | null = null;
    for (const name of SIGNALS) {
      process.on(name, () => {
        const now = systemClock.monotonic();
        askedAt ??= now;
        if (now - askedAt > SAME_WISH_MS) process.exit(EXIT.ok);
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
