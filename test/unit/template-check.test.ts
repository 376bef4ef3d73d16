import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkTemplates, createConnector } from "../../src/crm/connectors.ts";
import { ConfigError, type ConfigProblem } from "../../src/domain/errors.ts";
import type { HttpDestinationSettings } from "../../src/domain/http-settings.ts";
import { find, noteStep, SECRET_MARK, settings, step } from "../contract/http-connector-settings.ts";

function problems(over: Partial<HttpDestinationSettings>): ConfigProblem[] {
  return checkTemplates(settings(over));
}

function leadBody(name: string): Partial<HttpDestinationSettings> {
  return { steps: { lead: step({ body: { name } }) } };
}

function only(found: ConfigProblem[]): ConfigProblem {
  assert.equal(found.length, 1, JSON.stringify(found));
  const [problem] = found;
  assert.ok(problem);
  return problem;
}

describe("what checkTemplates accepts", () => {
  it("the destination of the design, with lead, note, look-ups and a probe", () => {
    const destination = settings({
      probe: "me",
      steps: {
        lead: step({
          find: find(),
          exists: { status: 409, body: null, id: "/existing/id", match: "/e/ref" },
        }),
        note: noteStep({ find: find({ url: "leads/{{ lead.id }}/notes", match: "/text" }) }),
        contact: step({
          url: "contacts",
          match: find({ url: "contacts?phone={{ contact.phone | url_encode }}" }),
        }),
      },
    });
    assert.deepEqual(checkTemplates(destination), []);
  });

  const harmless = [
    "{% if contact.phone %}{{ contact.phone }}{% else %}none{% endif %}",
    "{% case message.kind %}{% when 'photo' %}P{% else %}T{% endcase %}",
    "{% unless contact.username %}no username{% endunless %}",
    "{% comment %} {{ nothing.here }} {% endcomment %}{% raw %}{{ as it stands }}{% endraw %}",
    "{{ message.date | date: '%d.%m.%Y', 'Europe/Berlin' }}",
    "{{ message.text.size }} {{ contact['name'] }} {{ source.first | default: 'none' }}",
    "{{ secrets.token }}",
    "Token {{ secrets.token }}",
    "no template at all",
  ];
  for (const source of harmless) {
    it(`in a body: ${source}`, () => {
      assert.deepEqual(problems(leadBody(source)), []);
    });
  }

  it("filters on secrets in headers and URLs", () => {
    const found = problems({
      secretNames: ["token", "user"],
      headers: {
        Authorization: "Basic {{ secrets.user | append: ':' | append: secrets.token | base64_encode }}",
      },
      steps: { lead: step({ url: "leads?key={{ secrets.token | url_encode }}" }) },
    });
    assert.deepEqual(found, []);
  });

  it("a base URL made from a secret, which can't be judged without it", () => {
    assert.deepEqual(problems({ baseUrl: "{{ secrets.token }}" }), []);
  });
});

describe("what checkTemplates finds", () => {
  it("a misspelt member, with the name that was meant", () => {
    const problem = only(problems(leadBody("{{ contact.nmae }}")));
    assert.equal(problem.path, "crm.sales.lead.body.name");
    assert.match(problem.message, /contact\.nmae/);
    assert.match(problem.hint ?? "", /contact\.name/);
  });

  it("a misspelt variable inside a condition, a filter's argument and a branch", () => {
    for (const source of [
      "{% if contcat.phone %}x{% endif %}",
      "{{ message.text | append: mesage.date }}",
      "{% if contact.phone %}{{ sorce.first }}{% endif %}",
      "{% case kind %}{% when 'x' %}y{% endcase %}",
    ]) {
      only(problems(leadBody(source)));
    }
  });

  it("an unknown filter, with the name that was meant", () => {
    const problem = only(problems(leadBody("{{ contact.name | upcas }}")));
    assert.match(problem.message, /upcas/);
    assert.match(problem.hint ?? "", /upcase/);
  });

  it("every tag that loops, keeps state or reaches other templates", () => {
    const tags = [
      "{% for x in message.text %}{{ x }}{% endfor %}",
      "{% tablerow x in message.text %}{% endtablerow %}",
      "{% assign a = 1 %}",
      "{% capture a %}x{% endcapture %}",
      "{% increment a %}",
      "{% decrement a %}",
      "{% cycle 'a', 'b' %}",
      "{% include 'x' %}",
      "{% render 'x' %}",
      "{% layout 'x' %}",
      "{% block x %}{% endblock %}",
      "{% echo contact.name %}",
      "{% liquid assign a = 1 %}",
    ];
    for (const source of tags) {
      const name = /\w+/.exec(source)?.[0] ?? "";
      const problem = only(problems(leadBody(source)));
      assert.match(problem.message, new RegExp(`"${name}" can't be used`), source);
      assert.match(problem.message, /if, unless, case/);
    }
  });

  it("syntax that was not finished", () => {
    for (const source of ["{{ contact.name", "{{ }}", "{% if contact.phone %}x", "{% nonsense %}"]) {
      only(problems(leadBody(source)));
    }
  });

  it("two values in one pair of braces, which would render nothing", () => {
    const problem = only(problems(leadBody("{{ contact.name message.text }}")));
    assert.match(problem.message, /more than one value/);
  });

  it("a group where a value is needed, and a name that is itself a variable", () => {
    assert.match(only(problems(leadBody("{{ contact }}"))).hint ?? "", /contact\.phone/);
    assert.match(
      problems(leadBody("{{ contact[message.kind] }}"))[0]?.message ?? "",
      /can't itself be a variable/,
    );
  });

  it("a filter, a condition or an argument that works on a secret in a body", () => {
    for (const source of [
      "{{ secrets.token | upcase }}",
      "{{ 'Token ' | append: secrets.token }}",
      "{% if secrets.token %}x{% endif %}",
    ]) {
      assert.match(only(problems(leadBody(source))).message, /works on a secret/, source);
    }
  });

  it("a secret that is not configured, and any secret in a link", () => {
    assert.match(only(problems(leadBody("{{ secrets.tokn }}"))).message, /secrets\.tokn/);
    const problem = only(problems({ steps: { lead: step({ link: "https://x/{{ secrets.token }}" }) } }));
    assert.equal(problem.path, "crm.sales.lead.link");
    assert.match(problem.hint ?? "", /stored and shown/);
  });

  it("lead outside of a note and id outside of a link", () => {
    assert.match(only(problems(leadBody("{{ lead.id }}"))).hint ?? "", /note/);
    assert.match(only(problems(leadBody("{{ id }}"))).hint ?? "", /operation\.id/);
  });

  it("what only shows when a filter runs", () => {
    only(problems(leadBody("{{ message.text | where_exp: 'x', 'x +++' }}")));
  });

  it("an address that is none, wherever it stands", () => {
    assert.equal(only(problems({ baseUrl: null })).path, "crm.sales.lead.url");
    assert.equal(
      only(problems({ probe: "ftp://crm.example", baseUrl: "http://crm.example" })).path,
      "crm.sales.probe",
    );
  });

  it("JSON Pointers without a slash, wrong methods, wrong header names", () => {
    const found = problems({
      headers: { "Two Words": "x", Host: "crm.example" },
      steps: {
        lead: step({
          id: "id",
          method: "post it",
          exists: { status: 409, body: null, id: "existing", match: "ref" },
          find: find({ items: "items", id: "id", match: "ref" }),
        }),
      },
    });
    assert.deepEqual(found.map(({ path }) => path).sort(), [
      "crm.sales.headers.Host",
      "crm.sales.headers.Two Words",
      "crm.sales.lead.exists.id",
      "crm.sales.lead.exists.match",
      "crm.sales.lead.find.id",
      "crm.sales.lead.find.items",
      "crm.sales.lead.find.match",
      "crm.sales.lead.id",
      "crm.sales.lead.method",
    ]);
  });

  it("everything at once, each where it stands", () => {
    const found = problems({
      headers: { "X-Ref": "{{ operation.ids }}" },
      steps: {
        lead: step({
          body: { custom: [{ value: "{{ contact.fone }}" }], deep: { er: "{{ message.txt }}" } },
          find: find({ url: "leads?ref={{ operation.di }}" }),
        }),
        note: noteStep({ form: { text: "{{ x }}" } }),
      },
    });
    assert.deepEqual(
      found.map(({ path }) => path),
      [
        "crm.sales.headers.X-Ref",
        "crm.sales.lead.body.custom.0.value",
        "crm.sales.lead.body.deep.er",
        "crm.sales.lead.find.url",
        "crm.sales.note.form.text",
      ],
    );
  });

  it("enough to refuse the connector as a whole", () => {
    const broken = settings(leadBody("{{ contact.nmae }}{{ contact.fone }}"));
    assert.throws(
      () => createConnector({ settings: broken, secrets: { token: "x" }, secretMark: SECRET_MARK }),
      (error) => error instanceof ConfigError && error.problems.length === 2,
    );
  });
});
