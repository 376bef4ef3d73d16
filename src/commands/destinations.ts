/** `leadonce pause` and `leadonce resume`: a person stops a destination and starts it again (design §6). */
import { EXIT, type ExitCode, UsageError } from "../domain/errors.ts";
import { LEDGER } from "../domain/ids.ts";
import type { DestinationRow } from "../domain/store.ts";
import type { Store } from "../store/index.ts";
import { type Context, deciding, operatorOf } from "./context.ts";
import type { DestinationOptions } from "./invocation.ts";
import { count, json } from "./text.ts";

export async function pauseCommand(options: DestinationOptions, context: Context): Promise<ExitCode> {
  return deciding(options, context, async (store) => {
    const { key, name } = await destinationNamed(options.name, store);
    if (key === LEDGER) {
      throw new UsageError(
        "the ledger is the database itself, so it can't be paused",
        "To stop taking messages, stop the daemon: Telegram keeps them for 24 hours.",
      );
    }
    await store.pause(key, operatorOf(options.why, context.env), context.clock.now());
    const waiting = (await store.jobs({ state: "pending", destination: name })).length;
    return report(
      `${name} is paused: nothing more is sent to it, what is under way is finished. ` +
        `${count(waiting, "job")} ${waiting === 1 ? "waits" : "wait"}. Go on with: leadonce resume ${name}`,
      name,
      store,
      options,
      context,
    );
  });
}

export async function resumeCommand(options: DestinationOptions, context: Context): Promise<ExitCode> {
  return deciding(options, context, async (store) => {
    const { key, name, health } = await destinationNamed(options.name, store);
    await store.resume(key, operatorOf(options.why, context.env), context.clock.now());
    const waiting = (await store.jobs({ state: "pending", destination: name })).length;
    const was = health.state === "active" ? "was not paused" : "is active again";
    return report(
      `${name} ${was}; ${count(waiting, "job")} for it. A running daemon notices within a second. Watch it: leadonce status`,
      name,
      store,
      options,
      context,
    );
  });
}

async function report(
  text: string,
  name: string,
  store: Store,
  options: DestinationOptions,
  context: Context,
): Promise<ExitCode> {
  const { configured, health } = await destinationNamed(name, store);
  const state = configured ? health.state : "unconfigured";
  const shape = { name, state, reason: health.detail ?? health.reason };
  context.terminal.out(options.json ? json(shape) : text);
  return EXIT.ok;
}

/** By its name in the configuration, or by the key that keeps its identity. @throws UsageError */
export async function destinationNamed(text: string, store: Store): Promise<DestinationRow> {
  const known = await store.destinations();
  const found = known.find(({ name }) => name === text) ?? known.find(({ key }) => String(key) === text);
  if (found !== undefined) return found;
  const names = known.map(({ name }) => name).join(", ");
  throw new UsageError(
    "there is no destination of that name",
    names === ""
      ? "The database knows none yet. Start the daemon once: leadonce run"
      : `The database knows: ${names}. A new one is entered when the daemon starts.`,
  );
}
