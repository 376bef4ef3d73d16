/**
 * `retry --update KEY`: decides a quarantined or ignored update again with the configuration as it is now. An update
 * that made its lead is left alone; the unique keys stand behind that (P2).
 */
import { assert, EXIT, type ExitCode, UsageError } from "../domain/errors.ts";
import { asEventKey } from "../domain/ids.ts";
import { makeIntake } from "../domain/intake.ts";
import type { TraceReport } from "../domain/reports.ts";
import type { AcceptedUpdate } from "../domain/store.ts";
import type { Store } from "../store/index.ts";
import { type Context, configuredActions, deciding, operatorOf } from "./context.ts";
import type { RetryUpdateOptions } from "./invocation.ts";
import { json } from "./text.ts";

interface UpdateReport {
  applied: {
    event_key: string;
    state: AcceptedUpdate["state"];
    operations: { operation_id: string; code: string; action: string }[];
  }[];
  refused: { event_key: string; state: string; why: string }[];
}

export async function retryUpdateCommand(options: RetryUpdateOptions, context: Context): Promise<ExitCode> {
  const report = await deciding(options, context, async (store) => {
    const update = await storedUpdate(options.update, store);
    return update.state === "accepted"
      ? refusal(update, "it was accepted, and made what it makes")
      : decideAgain(update, options, context, store);
  });
  context.terminal.out(options.json ? json(report) : updateText(report));
  return report.refused.length > 0 ? EXIT.found : EXIT.ok;
}

type StoredUpdate = TraceReport["updates"][number];

/** By its event key, or by Telegram's update id where only one update has it. @throws UsageError */
async function storedUpdate(key: string, store: Store): Promise<StoredUpdate> {
  const trace = await store.trace(key);
  const found = (trace?.updates ?? []).filter(
    ({ event_key, update_id }) => event_key === key || String(update_id) === key,
  );
  const [update, ...others] = found;
  if (update === undefined) {
    throw new UsageError(
      "there is no such update",
      "Its event key begins with tg: and stands in: leadonce trace UPDATE_ID",
    );
  }
  if (others.length > 0) {
    throw new UsageError(
      "several updates have that id, since Telegram restarted its numbering",
      `Name one by its event key: ${found.map(({ event_key }) => event_key).join(", ")}`,
    );
  }
  return update;
}

async function decideAgain(
  update: StoredUpdate,
  options: RetryUpdateOptions,
  context: Context,
  store: Store,
): Promise<UpdateReport> {
  const bot = await store.bot();
  assert(bot !== null, "an update is stored, but no bot");
  const decide = makeIntake({
    ...configuredActions(options, context),
    bot: { id: bot.botId, username: bot.username ?? "" },
  });
  const { updates } = await store.redecide(
    { eventKey: asEventKey(update.event_key), operator: operatorOf(null, context.env) },
    decide,
    context.clock.now(),
  );
  const [again] = updates;
  if (again === undefined) return refusal(update, "its content is no longer kept");
  if (again.state !== "accepted") {
    return refusal(
      { ...update, state: again.state },
      `it is ${again.state} again: ${again.reason ?? "no reason"}`,
    );
  }
  const operations = again.operations.map(({ id, code, action }) => ({ operation_id: id, code, action }));
  return { applied: [{ event_key: update.event_key, state: again.state, operations }], refused: [] };
}

function refusal({ event_key, state }: StoredUpdate, why: string): UpdateReport {
  return { applied: [], refused: [{ event_key, state, why }] };
}

function updateText({ applied, refused }: UpdateReport): string {
  return [
    ...applied.map(({ event_key, operations }) => {
      const made = operations.map(({ code, action }) => `${code} (${action})`).join(", ");
      return `${event_key} is accepted now and made ${made}. Follow it: leadonce trace ${operations[0]?.code ?? event_key}`;
    }),
    ...refused.map(
      ({ event_key, state, why }) => `${event_key} left as it is: ${why}. ${nextStep(event_key, state)}`,
    ),
  ].join("\n");
}

function nextStep(eventKey: string, state: string): string {
  switch (state) {
    case "accepted":
      return `See it: leadonce trace ${eventKey}`;
    case "ignored":
      return "Which action should take it? Mend its `when` in the configuration, then repeat this command.";
    default:
      return `See it: leadonce trace ${eventKey}. A newer version decides it again by itself.`;
  }
}
