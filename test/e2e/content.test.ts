/** What people write reaches the CRM as they wrote it, and what can't be written down stops nobody else (cases F). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { person, type World, world } from "./world.ts";

/** The one record that a message makes. */
async function recordOf(place: World, say: () => void): Promise<Record<string, unknown>> {
  const before = place.crm.leads.length;
  say();
  await place.crm.whenCreated(before + 1);
  return place.crm.leads[before]?.body ?? {};
}

test("emoji, right-to-left text and line breaks arrive unchanged; NUL and lone surrogates arrive clean (TR-81)", async (t) => {
  const place = await world(t);
  const daemon = await place.started();
  const exact = 'שלום 👨‍👩‍👧 {{ secrets.token }}\n"quoted" \\ <b>&amp;</b> ‮rtl';
  assert.equal((await recordOf(place, () => place.bot.say({ from: person(1), text: exact }))).text, exact);

  const hostile = { ...person(2), first_name: "a\u0000b", last_name: "c\ud83d" };
  const record = await recordOf(place, () => {
    place.bot.pushRaw(
      (id) =>
        `{"update_id":${id},"message":{"message_id":900,"date":${Math.floor(Date.now() / 1000)},"chat":{"id":5550002,"type":"private"},"from":${JSON.stringify(hostile)},"text":"x\\u0000y\\ud83dz"}}`,
    );
  });
  assert.equal(record.text, "xy\ufffdz");
  assert.equal(record.name, "ab c\ufffd");
  await place.settled(daemon);
  const trace = await place.run("trace", String(place.bot.updates.at(-1)?.updateId), "--json");
  assert.equal(trace.code, 0);
});

test("photos, files, voice and forwards become words, without any link to a file", async (t) => {
  const place = await world(t);
  await place.started();
  const file = { file_id: "AgAC-file-id", file_unique_id: "u", file_size: 60 * 1024 * 1024 };
  const cases: [object, RegExp][] = [
    [{ photo: [{ ...file, width: 1, height: 1 }], caption: "the door" }, /^\[photo\] the door$/],
    [{ document: { ...file, file_name: "plan.pdf" } }, /^\[document\] plan\.pdf$/],
    [{ voice: { ...file, duration: 3 } }, /^\[voice\]$/],
    [
      { text: "look", forward_origin: { type: "hidden_user", sender_user_name: "Test Person 9", date: 1 } },
      /^\[forwarded from Test Person 9\] look$/,
    ],
  ];
  for (const [content, expected] of cases) {
    const record = await recordOf(place, () => place.bot.say({ from: person(1), ...content }));
    assert.match(String(record.text), expected);
    assert.equal(record.name, "Test Person 1", "a forward belongs to whoever forwarded it (TR-88)");
    assert.ok(!JSON.stringify(record).includes("AgAC"), "no file id, no link");
  }
});

test("a shared phone is the customer's own only when the ids match (TR-54)", async (t) => {
  const place = await world(t);
  await place.started();
  const own = { phone_number: "12025550123", first_name: "Test", user_id: person(1).id };
  const record = await recordOf(place, () => place.bot.say({ from: person(1), contact: own }));
  assert.deepEqual([record.phone, record.text], ["+12025550123", "[phone] +12025550123"]);
  const foreign = { phone_number: "+1 202 555 0199", first_name: "Test", last_name: "Friend", user_id: 1 };
  const other = await recordOf(place, () => place.bot.say({ from: person(2), contact: foreign }));
  assert.deepEqual([other.phone, other.text], [undefined, "[contact] Test Friend +12025550199"]);
});

test("an update that nobody understands is kept aside, and those around it make their leads (TR-15, TR-17)", async (t) => {
  const place = await world(t);
  place.bot.say({
    from: person(1),
    text: "before",
    entities: [{ type: "never_seen", offset: 0, length: 1 }],
  });
  place.bot.pushRaw((id) => `{"update_id":${id},"message":{"message_id":"not a number"}}`);
  place.bot.pushRaw((id) => `{"update_id":${id},"brand_new":{"a":9007199254740993}}`);
  place.bot.say({ from: person(2), text: "after" });
  const daemon = await place.started();
  await place.settled(daemon);
  const { updates, alerts } = await place.status();
  assert.deepEqual([updates.accepted, updates.quarantined, updates.ignored], [2, 1, 1]);
  assert.deepEqual(place.crm.leads.map(({ body }) => body.text).sort(), ["after", "before"]);
  assert.match(alerts[0]?.message ?? "", /retry --update/);
});
