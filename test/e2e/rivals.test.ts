/** Other programs at the same bot (cases C): leadonce says so, waits, and loses nothing of what is left to it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { person, world } from "./world.ts";

test("a webhook left by another tool is named and waited for; nothing is dropped when it goes (TR-41, TR-42)", async (t) => {
  const place = await world(t);
  place.bot.setWebhook("https://other.example/secret-path");
  place.say(2);
  const daemon = place.start();
  const line = await daemon.line("poller.webhook");
  assert.match(line.message, /a webhook at other\.example takes this bot's updates/);
  assert.ok(!daemon.output.includes("secret-path"), "the path may hold a secret");
  assert.equal((await place.status()).poller.state, "webhook");
  assert.equal(place.bot.pending, 2);
  await daemon.stop();
  assert.notEqual(place.bot.webhookUrl, "", "it is not ours to remove");

  place.bot.deleteWebhook();
  const next = await place.started();
  await place.settled(next);
  assert.equal((await place.leads()).length, 2);
  assert.equal(place.crm.leads.length, 2);
});

test("take_over_webhook removes the webhook and drops none of the waiting messages", async (t) => {
  const place = await world(t, { config: { telegram: { take_over_webhook: true } } });
  place.bot.setWebhook("https://other.example/hook");
  place.say(3);
  const daemon = await place.started();
  await place.settled(daemon);
  assert.equal(place.crm.leads.length, 3);
  const [removal] = place.bot.requests.filter(({ method }) => method === "deleteWebhook");
  assert.ok(removal !== undefined && !("drop_pending_updates" in removal.parameters));
});

test("a second poller with the same token: leadonce goes on, and takes what the other leaves (TR-36, TR-37, TR-40)", async (t) => {
  const place = await world(t);
  const daemon = await place.started();
  await place.bot.whenWaiting();
  const rival = place.bot.rivalPoll({ timeout: 1 });
  const failed = await daemon.line("poller.failed");
  assert.equal(failed.state, "conflict");
  await rival;
  assert.equal((await place.status()).poller.state, "conflict");
  place.bot.say({ from: person(1), text: "after the quarrel" });
  await place.crm.whenCreated(1);
  await place.settled(daemon);
  assert.equal((await place.leads()).length, 1);
  assert.ok(daemon.running);
});
