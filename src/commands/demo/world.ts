/**
 * What the demo runs in: stand-ins for Telegram and a CRM on loopback, the real daemon between them, and a folder of its
 * own. However it ends, no process, socket or file of it is left.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StorageError } from "../../domain/errors.ts";
import { type CrmStandIn, startCrmStandIn } from "../../stand-ins/crm/index.ts";
import { type BotControl, exampleToken, startTelegramStandIn } from "../../stand-ins/telegram/index.ts";
import { Daemon } from "./daemon.ts";
import { makeProgram, type Program } from "./program.ts";

export interface World {
  bot: BotControl;
  /** Its search shows a new record only after `index()`. */
  crm: CrmStandIn;
  daemon: Daemon;
  program: Program;
}

const TOKEN = exampleToken(11111111);
/** When a lost answer is looked up, before it waits for a person. */
export const LOOK_UPS = ["500ms", "1000ms"] as const;

/** @throws the signal's reason as soon as it aborts, with everything taken down */
export async function inWorld<Result>(
  signal: AbortSignal,
  work: (world: World) => Promise<Result>,
): Promise<Result> {
  const folder = makeFolder();
  // A command that was cut off may be writing its last file.
  const takeDown = [async () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })];
  try {
    const telegram = await startTelegramStandIn({ bots: [{ token: TOKEN, username: "demo_bot" }] });
    takeDown.push(() => telegram.close());
    const crm = await startCrmStandIn({ safety: "search", searchLagMs: Number.POSITIVE_INFINITY });
    takeDown.push(() => crm.close());

    const configPath = join(folder, "service.conf");
    writeFileSync(configPath, configuration(telegram.root, crm.url));
    const program = makeProgram({ configPath, token: TOKEN, signal });
    const daemon = new Daemon(program, signal);
    takeDown.push(() => daemon.kill());
    return await Promise.race([work({ bot: telegram.bot(), crm, daemon, program }), aborted(signal)]);
  } finally {
    for (const end of takeDown.reverse()) await end();
  }
}

function makeFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "leadonce-demo-"));
  } catch (error) {
    const hint = "Set TMPDIR to a folder that can be written.";
    throw new StorageError(`the demo can't make a folder in ${tmpdir()}`, hint, error);
  }
}

async function aborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}

/** As anybody would write it for a CRM that can only be searched; the look-ups come sooner, for the sake of the show. */
function configuration(apiRoot: string, crmUrl: string): string {
  return `
[telegram]
token = "env:TELEGRAM_BOT_TOKEN"
api_root = "${apiRoot}"

[storage]
path = "data/leadonce.db"

[web]
listen = "off"

[crm.sales]
kind = "http"
base_url = "${crmUrl}"
safety = "search"
reconcile = { checks = ${JSON.stringify(LOOK_UPS)} }

[crm.sales.lead]
method = "POST"
url = "leads"
body = { external_ref = "{{ operation.id }}", name = "{{ contact.name }}", text = "{{ message.text }}" }
id = "/id"

[crm.sales.lead.find]
url = "leads?external_ref={{ operation.id | url_encode }}"
items = "/items"
id = "/id"

[[actions]]
name = "enquiry"
kind = "lead"
repeat = "each"
to = ["sales"]
`;
}
