/** P5: no token, secret, phone number or message text in a log, an error or a command's output. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CRM_TOKEN } from "./crm-config.ts";
import { person, TOKEN, world } from "./world.ts";

const WORDS = "a-very-private-sentence";
const PHONE = "2025550142";

function assertSecret(text: string, where: string): void {
  for (const [name, secret] of Object.entries({
    token: TOKEN,
    "the token's secret half": TOKEN.slice(TOKEN.indexOf(":") + 1),
    "the CRM's secret": CRM_TOKEN,
    "a message text": WORDS,
    "a phone number": PHONE,
  })) {
    assert.ok(!text.includes(secret), `${where} holds ${name}`);
  }
}

test("a bad morning in logs and commands shows neither secrets nor customers' words (TR-70)", async (t) => {
  const place = await world(t, { safety: "search" });
  const daemon = await place.started();
  // A CRM that quotes everything it was sent in its refusal, Telegram that fails in several ways.
  const echo = { error: `bad: +1${PHONE} ${CRM_TOKEN}`, phone: `1${PHONE}` };
  place.crm.fault({ on: "create", kind: "answer", status: 422, body: JSON.stringify(echo) });
  place.bot.say({
    from: person(1),
    contact: { phone_number: `+1${PHONE}`, first_name: "T", user_id: person(1).id },
  });
  await daemon.line("job.settled");
  place.crm.fault({ on: "create", kind: "answer", status: 422, body: `no: ${WORDS}` });
  place.bot.say({ from: person(1), text: WORDS });
  await daemon.line("job.settled", 2);
  place.crm.fault({ on: "create", kind: "apply-then-drop" });
  place.bot.say({ from: person(2), text: `${WORDS} again` });
  place.bot.pushRaw((id) => `{"update_id":${id},"message":{"message_id":"${WORDS}","text":"${WORDS}"}}`);
  place.bot.fault({
    kind: "body",
    method: "getUpdates",
    body: `{"ok":false,"error_code":500,"description":"${TOKEN}"}`,
  });
  await place.settled(daemon);

  const last = place.bot.updates.at(-1)?.updateId ?? 0;
  for (const command of [
    ["status"],
    ["leads"],
    ["jobs"],
    ["trace", `+1${PHONE}`],
    ["trace", String(last)],
    ["reconcile", "list"],
    ["check"],
  ]) {
    for (const json of [[], ["--json"]]) {
      const { stdout, stderr } = await place.run(...command, ...json);
      assert.ok(stdout.length > 0, command.join(" "));
      assertSecret(stdout + stderr, command.join(" "));
    }
  }
  await daemon.stop();
  assertSecret(daemon.output, "the log");
});

test("a token with spaces or a wrong api_root ends the start without showing the token (TR-70)", async (t) => {
  const place = await world(t);
  for (const token of [`${TOKEN} `, `Use this token: ${TOKEN}`, TOKEN.replace(":", " ")]) {
    place.env = { ...place.env, TELEGRAM_BOT_TOKEN: token };
    const refused = await place.run("run");
    assert.equal(refused.code, 78, refused.stderr);
    assertSecret(refused.stdout + refused.stderr, "the refusal");
  }
  place.env = { ...place.env, TELEGRAM_BOT_TOKEN: TOKEN };
  for (const root of ["not a url", "ftp://127.0.0.1", "http://["]) {
    place.configure({ telegram: { api_root: root } });
    const refused = await place.run("run");
    assert.equal(refused.code, 78, refused.stderr);
    assertSecret(refused.stdout + refused.stderr, "the refusal");
  }
});
