/**
 * `leadonce demo`: the main job with nothing to sign up for. A scripted morning on stand-ins, with lost answers, repeats
 * and a crash, and at its end a balance that shows P1 and P2 kept.
 */
import { EXIT, type ExitCode } from "../domain/errors.ts";
import { systemClock } from "../system.ts";
import type { Context } from "./context.ts";
import { type Balance, balanceText, isEven, takeBalance, verdict } from "./demo/balance.ts";
import { Morning } from "./demo/morning.ts";
import { Stage } from "./demo/stage.ts";
import { inWorld } from "./demo/world.ts";
import type { DemoOptions } from "./invocation.ts";
import type { Terminal } from "./terminal.ts";
import { json } from "./text.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export async function demoCommand(options: DemoOptions, { terminal }: Context): Promise<ExitCode> {
  const stopping = new AbortController();
  const stop = (signal: NodeJS.Signals): void => stopping.abort(signal);
  for (const signal of SIGNALS) process.on(signal, stop);
  try {
    const balance = options.json
      ? await show({ ...terminal, out: () => {} }, false, stopping.signal)
      : await show(terminal, process.stdout.isTTY === true, stopping.signal);
    if (options.json) terminal.out(json(balance));
    return isEven(balance) ? EXIT.ok : EXIT.found;
  } catch (error) {
    if (!stopping.signal.aborted) throw error;
    // All is taken down. Ending by the signal itself tells a shell or a script why.
    for (const signal of SIGNALS) process.off(signal, stop);
    if (stopping.signal.reason === "SIGINT") terminal.err("Stopped; nothing of the demo is left.");
    process.kill(process.pid, stopping.signal.reason);
    return EXIT.ok;
  }
}

/** @param people somebody watches: with time to read, and the next steps */
async function show(terminal: Terminal, people: boolean, signal: AbortSignal): Promise<Balance> {
  const stage = new Stage(terminal, async (ms) => {
    if (people) await systemClock.sleep(ms, signal);
    signal.throwIfAborted();
  });
  stage.say(
    stage.style("bold", "leadonce demo: a morning in half a minute"),
    "The daemon and the commands are the real ones; Telegram and the CRM are stand-ins on this machine.",
    "The CRM recognises no repeats, it can only be searched: the hard case when an answer gets lost.",
  );
  const balance = await inWorld(signal, async (world) => {
    const morning = new Morning(world, stage);
    await morning.play();
    await world.daemon.stop();
    return takeBalance(world, morning.sent);
  });
  await stage.scene("The balance");
  stage.say(...balanceText(balance, terminal).map((line) => `  ${line}`), "");
  stage.say(terminal.style("bold", terminal.style(isEven(balance) ? "green" : "red", verdict(balance))));
  // A script reads the verdict from the last line; what comes next is for people.
  if (people) stage.say("", ...nextSteps(terminal));
  return balance;
}

function nextSteps({ style }: Pick<Terminal, "style">): string[] {
  return [
    `Your own bot:  ${style("cyan", "TELEGRAM_BOT_TOKEN=… npm start")}   a token comes from https://t.me/BotFather`,
    'Your own CRM:  README.md, "Adding a CRM by configuration alone"',
  ];
}
