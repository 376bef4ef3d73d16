/** What has to hold after any number of crashes, once the daemon was left in peace: P1, P2, P3 and the order per contact. */
import assert from "node:assert/strict";
import type { SafetyClass } from "../../src/stand-ins/crm/index.ts";
import type { MessageUpdate } from "../../src/stand-ins/telegram/index.ts";
import type { World } from "../e2e/world.ts";

/** One destination of each class that can do without a person. */
export const CRMS: Readonly<Record<string, SafetyClass>> = {
  keyed: "idempotency-key",
  unique: "external-id",
  searched: "search",
};

export async function assertPromises(w: World, said: readonly MessageUpdate[]): Promise<void> {
  const leads = await w.leads();
  assert.deepEqual(
    leads.map(({ event_keys }) => event_keys.map(updateIdOf)).sort(),
    said.map(({ update_id }) => [update_id]).sort(),
    "every message has exactly one lead",
  );
  const jobs = await w.jobs();
  assert.equal(jobs.length, said.length * Object.keys(CRMS).length);
  for (const { job_id, operation_id, destination, state, external_id, reason } of jobs) {
    const records = w.crms.get(destination)?.leads ?? [];
    const ids = records.filter(({ external_ref }) => external_ref === operation_id).map(({ id }) => id);
    const what = `job ${job_id} at ${destination}`;
    if (state === "needs_reconciliation" && destination === "searched") {
      assert.deepEqual(ids, [], `${what} would have been found`);
      assert.ok(reason !== null, `${what} says why it waits`);
    } else {
      assert.equal(state, "done", what);
      assert.deepEqual(ids, [external_id], what);
    }
  }
  for (const [name, crm] of w.crms) {
    assert.ok(
      crm.leads.every(({ external_ref }) => leads.some((lead) => lead.operation_id === external_ref)),
    );
    for (const chat of new Set(said.map(({ message }) => message.chat.id))) {
      const order = crm.leads.flatMap(({ body }) => messageOf(String(body.message), chat));
      const sorted = [...order].sort((a, b) => a - b);
      assert.deepEqual(order, sorted, `the messages of one contact arrive at ${name} in their order`);
    }
  }
  const waiting = jobs.filter(({ state }) => state === "needs_reconciliation");
  const told = (await w.status()).alerts.filter(({ kind }) => kind === "needs_reconciliation");
  assert.deepEqual(
    told.map(({ subject }) => subject).sort(),
    waiting.map(({ job_id }) => String(job_id)).sort(),
    "a person is told of each job that waits for one",
  );
}

function updateIdOf(eventKey: string): number {
  return Number(eventKey.split(":")[2]);
}

/** The message's number, where `ref` (`bot:chat:message`) is of this chat. */
function messageOf(ref: string, chat: number): number[] {
  const [, refChat, message] = ref.split(":").map(Number);
  return refChat === chat && message !== undefined ? [message] : [];
}
