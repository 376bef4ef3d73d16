/**
 * The scripted morning. Every line is told after it has happened: seen in the daemon's log, at the stand-ins or in a
 * command's answer. What goes wrong is ordered from the stand-ins, and the crash is a real SIGKILL.
 */
import { z } from "zod";
import type { MessageUpdate } from "../../stand-ins/telegram/index.ts";
import type { LogLine } from "./daemon.ts";
import { bad, good, type Outcome, type Stage, unclear, waiting } from "./stage.ts";
import { LOOK_UPS, type World } from "./world.ts";

/** A message of a customer; no two have the same text. */
export interface Sent {
  person: string;
  text: string;
  update: MessageUpdate;
}

/** One that leadonce has stored. */
interface Stored extends Sent {
  operation: string;
}

const KNOWN = good("known: no second lead");
const UNKNOWN = unclear("unknown: not sent again");
const STORED = good("stored, then confirmed");

export class Morning {
  /** What customers wrote so far. */
  readonly sent: Sent[] = [];
  readonly #world: World;
  readonly #stage: Stage;

  constructor(world: World, stage: Stage) {
    this.#world = world;
    this.#stage = stage;
  }

  async play(): Promise<void> {
    await this.#customersWrite();
    await this.#oneIsDeliveredTwice();
    await this.#anAnswerGetsLost();
    await this.#thePowerFails();
    await this.#aPersonDecides();
  }

  async #customersWrite(): Promise<void> {
    await this.#stage.scene("Customers write");
    this.#world.daemon.start();
    await this.#world.daemon.logged("poller.polling");
    await this.#stage.event("09:00", "leadonce", "starts, and asks Telegram for messages");
    await this.#served("09:02", "Is the oak table in stock?");
    await this.#served("09:04", "What does delivery cost?");
  }

  async #oneIsDeliveredTwice(): Promise<void> {
    const { bot, program } = this.#world;
    await this.#stage.scene("Telegram delivers a message twice");
    const { update } = await this.#served("09:11", "Do you repair chairs?");
    const again = bot.repeat(update);
    await bot.whenConfirmed(again);
    const { updates } = traceAnswer.parse(JSON.parse(await program.run(`trace ${again.update_id} --json`)));
    const isKnown = updates.some(({ reason }) => reason === "same_message");
    const outcome = isKnown ? KNOWN : bad("taken for a new one");
    await this.#stage.event("09:12", "Telegram", "delivers the same message once more", outcome);
  }

  async #anAnswerGetsLost(): Promise<void> {
    const { crm } = this.#world;
    await this.#stage.scene("The CRM's answer gets lost");
    const lost = crm.fault({ on: "create", kind: "apply-then-drop" });
    const message = await this.#arrives("09:20", "Please call me about a kitchen.");
    const { recordId } = await lost.whenFinished();
    crm.index();
    await this.#settled(message, "needs_reconciliation");
    await this.#stage.event("09:20", "CRM", `creates ${recordId}, but its answer never arrives`, UNKNOWN);
    await this.#foundAgain("09:21", message);
  }

  /** Between two moments: the CRM has created the record, and leadonce has not heard of it. */
  async #thePowerFails(): Promise<void> {
    const { bot, crm, daemon } = this.#world;
    await this.#stage.scene("The power fails");
    await bot.whenWaiting();
    const silence = bot.fault({ method: "getUpdates", kind: "black-hole" });
    const hanging = crm.fault({ on: "create", kind: "apply-then-hang" });
    const fifth = await this.#stored(this.#write("I would like two benches."));
    await this.#told("09:40", fifth, good("stored, not yet confirmed"));
    const { recordId } = await hanging.whenTaken();
    crm.index();
    await this.#stage.event("09:40", "CRM", `creates ${recordId}`, waiting("its answer is under way"));
    await daemon.kill();
    await this.#stage.event("09:40", "leadonce", "dies before the answer arrives", bad("killed (SIGKILL)"));
    silence.remove();

    const next = this.#write("Are you open on Saturday?");
    await this.#told("09:43", next, waiting("Telegram keeps it"));
    daemon.start();
    await this.#logged("job.rescued", fifth);
    await this.#stage.event("09:45", "leadonce", "starts again; a request had been under way", UNKNOWN);
    await daemon.logged("poller.page_stored", ({ duplicates }) => duplicates === 1);
    await this.#stage.event("09:45", "Telegram", `delivers ${fifth.person}'s message again`, KNOWN);
    const sixth = await this.#stored(next);
    await bot.whenConfirmed(sixth.update);
    await this.#stage.event("09:45", "Telegram", `delivers ${sixth.person}'s message`, STORED);
    await this.#created("09:45", sixth);
    await this.#foundAgain("09:46", fifth);
  }

  /** To leadonce the two look alike, and rightly so: only who looks into the CRM can tell them apart. */
  async #aPersonDecides(): Promise<void> {
    const { crm } = this.#world;
    await this.#stage.scene("Two matters for a person");
    crm.fault({ on: "create", kind: "answer", status: 502, body: "Bad Gateway", applied: true });
    const seventh = await this.#arrives("10:05", "Can you send me a catalogue?");
    await this.#settled(seventh, "needs_reconciliation");
    await this.#stage.event("10:05", "CRM", "answers 502 Bad Gateway", UNKNOWN);
    crm.fault({ on: "create", kind: "drop" });
    const eighth = await this.#arrives("10:06", "I need a shelf, 180 x 40 cm.");
    await this.#settled(eighth, "needs_reconciliation");
    await this.#stage.event("10:06", "CRM", "breaks the connection off", UNKNOWN);
    for (const message of [seventh, eighth]) {
      await this.#logged("reconciliation.checked", message, ({ found }) => found === 0, LOOK_UPS.length);
    }
    const nothing = "finds neither in the CRM, which proves nothing";
    await this.#stage.event("10:08", "leadonce", nothing, unclear("wait for a person"));

    const titles = /^\S/;
    await this.#orders("10:20", "ask what is left to decide", "reconcile list", titles);
    const jobs = await this.#parkedJobs();
    const record = crm.leads.find(({ body }) => body.text === seventh.text)?.id;
    const there = `see ${seventh.person}'s lead in the CRM: ${record}`;
    await this.#orders("10:21", there, `reconcile link ${jobs.get(seventh.operation)} ${record}`);
    const absent = `see that ${eighth.person}'s lead is certainly not there`;
    await this.#orders("10:22", absent, `reconcile recreate ${jobs.get(eighth.operation)}`);
    await this.#created("10:22", eighth);
  }

  // ---- what happens again and again ---------------------------------------------------------------------------------

  /** A message on its usual way: written, stored, confirmed, made a record. */
  async #served(at: string, text: string): Promise<Stored> {
    const message = await this.#arrives(at, text);
    await this.#created(at, message);
    return message;
  }

  async #arrives(at: string, text: string): Promise<Stored> {
    const message = await this.#stored(this.#write(text));
    await this.#world.bot.whenConfirmed(message.update);
    await this.#told(at, message, STORED);
    return message;
  }

  #write(text: string): Sent {
    const number = this.sent.length + 1;
    const name = { first_name: "Test Person", last_name: `${number}` };
    const update = this.#world.bot.say({ from: { id: 1000 + number, ...name }, text });
    const message = { person: `Test Person ${number}`, text, update };
    this.sent.push(message);
    return message;
  }

  async #stored(message: Sent): Promise<Stored> {
    const { bot, daemon } = this.#world;
    const key = `tg:${bot.id}:${message.update.update_id}:`;
    const { operation = "" } = await daemon.logged(
      "lead.stored",
      ({ update }) => update?.startsWith(key) === true,
    );
    return { ...message, operation };
  }

  async #told(at: string, { person, text }: Sent, outcome: Outcome): Promise<void> {
    await this.#stage.event(at, person, `"${text}"`, outcome);
  }

  async #created(at: string, message: Stored): Promise<void> {
    const { record } = await this.#settled(message, "done");
    await this.#stage.event(at, "CRM", `creates ${record} and says so`, good("done"));
  }

  async #foundAgain(at: string, message: Stored): Promise<void> {
    await this.#logged("reconciliation.checked", message, ({ found }) => found === 1);
    const { record } = await this.#settled(message, "done");
    await this.#stage.event(at, "leadonce", `asks the CRM for its own reference: ${record}`, good("done"));
  }

  async #settled(message: Stored, state: "done" | "needs_reconciliation"): Promise<LogLine> {
    return this.#logged("job.settled", message, ({ to }) => to === state);
  }

  async #logged(
    event: string,
    { operation }: Stored,
    matches: (line: LogLine) => boolean = () => true,
    nth = 1,
  ): Promise<LogLine> {
    const { daemon } = this.#world;
    return daemon.logged(event, (line) => line.operation === operation && matches(line), nth);
  }

  /** A person at a shell: why, the command, and what it answers. */
  async #orders(at: string, why: string, command: string, shown = /./): Promise<void> {
    await this.#stage.event(at, "You", why);
    await this.#stage.typed(`leadonce ${command}`);
    const answer = await this.#world.program.run(command);
    await this.#stage.printed(answer.split("\n").filter((line) => shown.test(line)));
  }

  /** By operation. */
  async #parkedJobs(): Promise<ReadonlyMap<string, number>> {
    const parked = listAnswer.parse(JSON.parse(await this.#world.program.run("reconcile list --json")));
    return new Map(parked.map(({ operation_id, job_id }) => [operation_id, job_id]));
  }
}

const traceAnswer = z.object({
  updates: z.array(z.object({ reason: z.string().nullable() })),
});
const listAnswer = z.array(z.object({ job_id: z.number(), operation_id: z.string() }));
