import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { FIND, LEAD, load, onlyProblem, problemsOf, sales } from "./config-world.ts";

/** Exactly one problem, at this place, with a hint that says so. */
function refuses(t: TestContext, toml: string, path: string, hint: RegExp, value?: string): void {
  const problem = onlyProblem(t, toml);
  assert.equal(problem.path, path);
  assert.match(`${problem.message} → ${problem.hint}`, hint);
  if (value !== undefined) assert.equal(problem.value, value);
}

const stepsOf = (t: TestContext, toml: string) => load(t, { toml }).destinations[0]?.settings.steps;

const NOTE = `[crm.sales.note]
url = "leads/{{ lead.id }}/notes"
body = { text = "{{ message.text }} [{{ operation.code }}]" }
id = "/id"`;

describe("a key that is not known", () => {
  it("is told with the one that was meant", (t) => {
    refuses(t, "[telegramm]", "telegramm", /did you mean "telegram"/);
    refuses(t, '[telegram]\nprxy = "http://127.0.0.1:1"', "telegram.prxy", /did you mean "proxy"/);
    refuses(t, sales({ top: "concurency = 2" }), "crm.sales.concurency", /did you mean "concurrency"/);
    refuses(t, sales({ top: 'retry = { frist = "2s" }' }), "crm.sales.retry.frist", /did you mean "first"/);
    refuses(t, sales({ lead: `${LEAD}\nlnk = "x"` }), "crm.sales.lead.lnk", /did you mean "link"/);
    refuses(t, sales({ find: `${FIND}\nitmes = "x"` }), "crm.sales.lead.find.itmes", /did you mean "items"/);
    refuses(t, '[[actions]]\nname = "a"\nkind = "lead"\nwen = {}', "actions[0].wen", /did you mean "when"/);
  });

  it("is told with the ones that are, where none was meant", (t) => {
    refuses(t, "[storage]\nxyzzy = 1", "storage.xyzzy", /known here: path, keep_content/);
  });
});

describe("values", () => {
  const cases: [place: string, toml: string, path: string, hint: RegExp, value?: string][] = [
    [
      "poll_timeout above 50s",
      '[telegram]\npoll_timeout = "1m"',
      "telegram.poll_timeout",
      /1s to 50s/,
      '"1m"',
    ],
    ["poll_timeout of nothing", '[telegram]\npoll_timeout = "0s"', "telegram.poll_timeout", /1s to 50s/],
    ["a time without a unit", "[telegram]\npoll_timeout = 50", "telegram.poll_timeout", /"20s"/, "50"],
    ["an address that is none", '[telegram]\napi_root = "api"', "telegram.api_root", /http/, '"api"'],
    ["yes for true", '[telegram]\ntake_over_webhook = "yes"', "telegram.take_over_webhook", /true or false/],
    ["keys kept too shortly", '[storage]\nkeep_keys = "47h"', "storage.keep_keys", /48h.*24 h/, '"47h"'],
    ["an empty path", '[storage]\npath = ""', "storage.path", /path of a file/],
    ["a timeout of nothing", sales({ top: 'timeout = "0s"' }), "crm.sales.timeout", /50ms to 10m/],
    ["a rate of nothing", sales({ top: 'rate = "0/1s"' }), "crm.sales.rate", /10\/1s/, '"0/1s"'],
    ["no concurrency", sales({ top: "concurrency = 0" }), "crm.sales.concurrency", /from 1 to 100/, "0"],
    ["an unknown class", sales({ top: 'safety = "serach"' }), "crm.sales.safety", /did you mean "search"/],
    [
      "a header that is no text",
      sales({ top: "headers = { A = 1 }" }),
      "crm.sales.headers.A",
      /text in quotes/,
    ],
    [
      "a status that is none",
      sales({ lead: `${LEAD}\noutcomes = [{ status = 42, outcome = "refused" }]` }),
      "crm.sales.lead.outcomes[0].status",
      /from 100 to 599/,
      "42",
    ],
    [
      "an unknown outcome",
      sales({ lead: `${LEAD}\noutcomes = [{ status = 500, outcome = "lost" }]` }),
      "crm.sales.lead.outcomes[0].outcome",
      /"not_applied"/,
    ],
    [
      "an unknown kind",
      sales().replace('"http"', '"htpp"'),
      "crm.sales.kind",
      /did you mean "http"/,
      '"htpp"',
    ],
    ["a table that is none", "crm = 5", "crm", /\[crm\.NAME\]/],
    ["an action that is no list", "actions = {}", "actions", /\[\[actions\]\]/],
    ["a destination's name", '[crm."my crm"]\nkind = "ledger"', "crm.my crm", /begins with a letter/],
    [
      "a secret's name",
      sales({ top: 'secrets = { "a b" = "c" }' }),
      "crm.sales.secrets.a b",
      /begins with a letter/,
    ],
    [
      "an unknown chat",
      action('when = { chat = "privat" }'),
      "actions[0].when.chat",
      /did you mean "private"/,
    ],
    [
      "an unknown kind of update",
      action('when = { update = ["mesage"] }'),
      "actions[0].when.update[0]",
      /"message"/,
    ],
    ["no kind of update", action("when = { update = [] }"), "actions[0].when.update", /\["message"\]/],
    [
      "an edit",
      action('when = { update = ["edited_message"] }'),
      "actions[0].when.update[0]",
      /leave it out/,
    ],
  ];
  for (const [name, toml, path, hint, value] of cases) {
    it(`are refused: ${name}`, (t) => refuses(t, toml, path, hint, value));
  }
});

function action(line: string): string {
  return `[[actions]]\nname = "enquiry"\nkind = "lead"\n${line}`;
}

describe("what a table can't do without", () => {
  it("is named: a step's url and id, kinds and names", (t) => {
    const lead = '[crm.sales.lead]\nbody = "{{ operation.id }}"';
    const paths = problemsOf(t, {
      toml: `${sales({ lead })}\n[crm.two]\n[[actions]]\n[[actions]]\nkind = "lead"`,
    });
    assert.deepEqual(
      paths.map(({ path, message }) => [path, message]),
      [
        "crm.sales.lead.url",
        "crm.sales.lead.id",
        "crm.two.kind",
        "actions[0].kind",
        "actions[1].name",
        "actions[0].name",
        "crm.two.lead",
      ].map((path) => [path, "it is missing"]),
    );
  });

  it("is a lead at a destination of kind http", (t) => {
    refuses(t, '[crm.sales]\nkind = "http"', "crm.sales.lead", /it is missing.*url and id/);
  });

  it("is a base_url where an address is relative", (t) => {
    const toml = sales().replace(/base_url = .*/, "");
    refuses(t, toml, "crm.sales.lead.url", /no base_url.*crm\.sales\.base_url/);
  });
});

describe("times of a destination", () => {
  it("lease exceeds timeout by 10s", (t) => {
    refuses(t, sales({ top: 'timeout = "55s"' }), "crm.sales.lease", /"65s" or more/, '"1m"');
    refuses(t, sales({ top: 'timeout = "20s"\nlease = "29s"' }), "crm.sales.lease", /"30s" or more/, '"29s"');
    load(t, { toml: sales({ top: 'timeout = "20s"\nlease = "30s"' }) });
  });

  it("the first wait is not longer than the longest", (t) => {
    refuses(t, sales({ top: 'retry = { first = "20m" }' }), "crm.sales.retry.first", /max \(15m\)/, '"20m"');
  });

  it("look-ups come one after another", (t) => {
    refuses(
      t,
      sales({ top: 'reconcile = { checks = ["1m", "1m"] }' }),
      "crm.sales.reconcile.checks",
      /longer/,
    );
    load(t, { toml: sales({ top: "reconcile = { checks = [] }" }) });
  });

  it("absence is not assumed while the request may still be running", (t) => {
    const top = 'reconcile = { assume_absent_after = "20s" }';
    refuses(t, sales({ top }), "crm.sales.reconcile.assume_absent_after", /exceed timeout \(20s\)/, '"20s"');
  });
});

describe("the class of safety", () => {
  const withoutFind = (top: string, lead = LEAD) => sales({ top, lead, find: "" });

  it("is search where there is a find, else none", (t) => {
    assert.equal(stepsOf(t, sales())?.lead?.safety, "search");
    assert.equal(stepsOf(t, withoutFind(""))?.lead?.safety, "none");
  });

  it("is a step's own before that of the destination", (t) => {
    const toml = sales({ top: 'safety = "none"', lead: `${LEAD}\nsafety = "search"` });
    assert.equal(stepsOf(t, toml)?.lead?.safety, "search");
  });

  it("search needs find", (t) => {
    refuses(
      t,
      withoutFind('safety = "search"'),
      "crm.sales.safety",
      /\[crm\.sales\.lead\.find\]/,
      '"search"',
    );
    const lead = `${LEAD}\nsafety = "search"`;
    refuses(t, withoutFind("", lead), "crm.sales.lead.safety", /\[crm\.sales\.lead\.find\]/, '"search"');
  });

  it("external-id with POST needs exists or find, with PUT or PATCH neither", (t) => {
    const top = 'safety = "external-id"';
    refuses(
      t,
      withoutFind(top),
      "crm.sales.safety",
      /method POST.*exists.*find.*PUT or PATCH/,
      '"external-id"',
    );
    load(t, { toml: sales({ top }) });
    load(t, { toml: withoutFind(top, `${LEAD}\nexists = { status = 409, match = "/ref" }`) });
    for (const method of ["PUT", "patch"])
      load(t, { toml: withoutFind(top, `${LEAD}\nmethod = "${method}"`) });
  });

  it("rests on a reference that the request sends", (t) => {
    const silent = '[crm.sales.lead]\nurl = "leads"\nid = "/id"\nbody = { a = "{{ contact.name }}" }';
    refuses(t, sales({ lead: silent }), "crm.sales.lead", /operation\.id/);
    refuses(t, withoutFind('safety = "idempotency-key"', silent), "crm.sales.lead", /operation\.key.*header/);
    load(t, { toml: withoutFind("", silent) });
    const inHeader = 'safety = "idempotency-key"\nheaders = { Key = "{{ operation.key }}" }';
    load(t, { toml: withoutFind(inHeader, silent) });
  });

  it("has key_valid_for with idempotency-key alone, 24h where nothing is said", (t) => {
    refuses(t, sales({ top: 'key_valid_for = "1h"' }), "crm.sales.key_valid_for", /idempotency-key/, '"1h"');
    const top = 'safety = "idempotency-key"\nheaders = { Key = "{{ operation.key }}" }';
    assert.equal(stepsOf(t, sales({ top }))?.lead?.keyValidForMs, 86_400_000);
    const hour = stepsOf(t, sales({ top: `${top}\nkey_valid_for = "1h"` }))?.lead;
    assert.equal(hour?.keyValidForMs, 3_600_000);
    const ofStep = sales({
      top: 'key_valid_for = "1h"\nheaders = { Key = "{{ operation.key }}" }',
      lead: `${LEAD}\nsafety = "idempotency-key"`,
    });
    assert.equal(stepsOf(t, ofStep)?.lead?.keyValidForMs, 3_600_000);
  });

  it("of a note is the destination's only where it holds for notes too", (t) => {
    const ofNote = (top: string, note = NOTE) => stepsOf(t, sales({ top, rest: note }))?.note?.safety;
    assert.equal(ofNote('safety = "search"'), "none");
    assert.equal(ofNote('safety = "external-id"'), "none");
    assert.equal(
      ofNote('safety = "external-id"', NOTE.replace("id =", 'method = "PUT"\nid =')),
      "external-id",
    );
    const keyed = 'safety = "idempotency-key"';
    const withKey = LEAD.replace("id =", 'headers = { Key = "{{ operation.key }}" }\nid =');
    const keyInLead = stepsOf(t, sales({ top: keyed, lead: withKey, rest: NOTE }));
    assert.deepEqual([keyInLead?.lead?.safety, keyInLead?.note?.safety], ["idempotency-key", "none"]);
    assert.equal(ofNote(`${keyed}\nheaders = { Key = "{{ operation.key }}" }`), "idempotency-key");
    assert.equal(ofNote('safety = "none"'), "none");
    const found = `${NOTE}\nfind = { url = "notes?q={{ operation.code }}", items = "/items", id = "/id" }`;
    assert.equal(ofNote('safety = "external-id"', found), "search");
    assert.equal(ofNote('safety = "external-id"', `${NOTE}\nsafety = "none"`), "none");
  });
});

describe("a step", () => {
  it("exists proves by match or find that the record is ours", (t) => {
    const lead = `${LEAD}\nexists = { status = 409, id = "/id" }`;
    refuses(t, sales({ lead, find: "" }), "crm.sales.lead.exists", /match.*find/);
    load(t, { toml: sales({ lead }) });
  });

  it("sends either a body or a form", (t) => {
    refuses(t, sales({ lead: `${LEAD}\nform = { a = "b" }` }), "crm.sales.lead.form", /either form or body/);
    refuses(
      t,
      sales({ find: `${FIND}\nbody = "a"\nform = { a = "b" }` }),
      "crm.sales.lead.find.form",
      /either form or body/,
    );
  });

  it("finds by our reference", (t) => {
    const find = FIND.replace("?external_ref={{ operation.id }}", "");
    refuses(t, sales({ find }), "crm.sales.lead.find.url", /operation\.id \| url_encode/);
    load(t, { toml: sales({ find: `${find}\nmatch = "/external_ref"` }) });
    load(t, { toml: sales({ find: `${find}\nbody = { ref = "{{ operation.id }}" }` }) });
  });

  it("finds with GET, and with POST where the look-up has a body", (t) => {
    const methodOf = (find: string) =>
      load(t, { toml: sales({ find }) }).destinations[0]?.http?.settings.steps.lead?.find?.method;
    assert.equal(methodOf(FIND), "GET");
    assert.equal(methodOf(`${FIND}\nbody = { a = "b" }`), "POST");
    assert.equal(methodOf(`${FIND}\nmethod = "put"`), "PUT");
  });

  it("has none beside items nowhere", (t) => {
    refuses(t, sales({ find: `${FIND}\nnone = [404]` }), "crm.sales.lead.find.none", /items/);
    load(t, { toml: sales({ find: FIND.replace('items = "/items"', "none = [404, 410]") }) });
  });

  it("is repeated blindly only where it is a note", (t) => {
    const lead = `${LEAD}\non_unknown = "repeat"`;
    refuses(t, sales({ lead }), "crm.sales.lead.on_unknown", /only a note/, '"repeat"');
    assert.equal(stepsOf(t, sales({ rest: `${NOTE}\non_unknown = "repeat"` }))?.note?.onUnknown, "repeat");
  });
});

describe("names", () => {
  it("of actions and their keys are unique", (t) => {
    const two = (first: string, second: string) => `${action(first)}\n[[actions]]\nkind = "lead"\n${second}`;
    refuses(t, two("", 'name = "enquiry"'), "actions[1].name", /own/, '"enquiry"');
    refuses(t, two('key = "a"', 'name = "b"\nkey = "a"'), "actions[1].key", /own/, '"a"');
    refuses(t, two('key = "b"', 'name = "b"'), "actions[1].name", /key/, '"b"');
    load(t, { toml: two('key = "a"', 'name = "b"') });
  });

  it("in to are those of destinations, and of the ledger", (t) => {
    const to = (list: string) => `${sales()}\n${action(`to = ${list}`)}`;
    refuses(t, to('["sale"]'), "actions[0].to[0]", /did you mean "sales"/, '"sale"');
    refuses(t, to('["ledger", "nowhere"]'), "actions[0].to[1]", /there are: sales, ledger/, '"nowhere"');
    refuses(t, to('["sales", "sales"]'), "actions[0].to[1]", /twice/);
    refuses(t, to("[]"), "actions[0].to", /every destination/);
    refuses(t, to('[5, "sales", "nowhere"]'), "actions[0].to[0]", /text in quotes/);
    assert.deepEqual(load(t, { toml: to('["ledger"]') }).actions[0]?.to, ["ledger"]);
  });

  it("of leadonce's own destinations are not taken", (t) => {
    const other = (name: string) => sales().replaceAll("crm.sales", `crm.${name}`);
    refuses(t, other("ledger"), "crm.ledger", /another name/);
    refuses(t, other("telegram"), "crm.telegram", /another name/);
    refuses(t, sales({ top: 'key = "ledger"' }), "crm.sales.key", /another name/);
    const config = load(t, { toml: '[crm.ledger]\nkind = "ledger"' });
    assert.equal(config.destinations.length, 1);
  });

  it("of destinations stand for one identity each", (t) => {
    refuses(t, `${sales({ top: 'key = "a"' })}\n[crm.a]\nkind = "ledger"`, "crm.a", /crm\.sales/);
    const [renamed] = load(t, { toml: sales({ top: 'key = "before"' }) }).destinations;
    assert.deepEqual([renamed?.settings.key, renamed?.settings.name], ["before", "sales"]);
  });
});

describe("what is not built yet", () => {
  const asked: [what: string, toml: string, path: string, hint?: RegExp][] = [
    ["the web page", '[web]\nlisten = "127.0.0.1:8470"', "web.listen"],
    ["operators in a chat", "[operators]\nchat_id = -100", "operators.chat_id"],
    ["operators by id", "[operators]\nuser_ids = [1]", "operators.user_ids"],
    ["keep_leads", '[storage]\nkeep_leads = "1d"', "storage.keep_leads"],
    ["a vendor's CRM", '[crm.a]\nkind = "hubspot"\naccess = "x"', "crm.a.kind", /kind = "http"/],
    ["the step contact", sales({ rest: '[crm.sales.contact]\nurl = "x"' }), "crm.sales.contact"],
    ["matching a contact", sales({ rest: '[crm.sales.contact.match]\nurl = "x"' }), "crm.sales.contact"],
    ["the step update", sales({ rest: '[crm.sales.update]\nurl = "x"' }), "crm.sales.update"],
    ["the step message", sales({ rest: "[crm.sales.message]" }), "crm.sales.message"],
    ["a reply", action('reply = "Thank you"'), "actions[0].reply"],
    ["a late reply", action('reply_late_within = "12h"'), "actions[0].reply_late_within"],
    ["gather", action('gather = "20s"'), "actions[0].gather"],
    ["asking for the phone", action("ask_phone = true"), "actions[0].ask_phone"],
    [
      "repeat = once",
      action('repeat = "once"'),
      "actions[0].repeat",
      /next version.*repeat = "each" or leave it out/,
    ],
    [
      "repeat = extend",
      action('repeat = { rule = "extend", within = "1h" }'),
      "actions[0].repeat",
      /next version.*repeat = "each" or leave it out/,
    ],
    ["channels", action('when = { chat = "channel" }'), "actions[0].when.chat"],
    ...["business_message", "channel_post", "poll_answer", "callback_query"].map(
      (kind): [string, string, string] => [
        kind,
        action(`when = { update = ["${kind}"] }`),
        "actions[0].when.update[0]",
      ],
    ),
    ...["registration", "vote", "order", "reward", "reminder", "reply", "ignore"].map(
      (kind): [string, string, string, RegExp] => [
        `an action of kind ${kind}`,
        `[[actions]]\nname = "a"\nkind = "${kind}"\ncapacity = 5`,
        "actions[0].kind",
        /kind = "lead"/,
      ],
    ),
  ];
  for (const [what, toml, path, hint = /leave it out/] of asked) {
    it(`is named where it is asked for: ${what}`, (t) => {
      const problem = onlyProblem(t, toml);
      assert.equal(problem.path, path);
      assert.match(problem.message, /^not built yet: /);
      assert.match(problem.hint ?? "", hint);
    });
  }

  it("is accepted where it is off", (t) => {
    const off = ['gather = "off"', "reply = false", "ask_phone = false", 'repeat = "each"'].join("\n");
    load(t, { toml: `[web]\nlisten = "off"\n[operators]\n${action(off)}` });
  });
});
