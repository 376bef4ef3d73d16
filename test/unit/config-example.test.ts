/**
 * `service.example.conf` as a person uses it: copied as it stands, then with one option after the other taken out of
 * its comment. An option is a run of lines that begin with `#` and no space.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type Config, httpDestinations, resolveConfig } from "../../src/config/index.ts";
import { checkTemplates } from "../../src/crm/connectors.ts";
import { load, TOKEN } from "./config-world.ts";

const EXAMPLE = readFileSync(new URL("../../service.example.conf", import.meta.url), "utf8");
const lines = EXAMPLE.split("\n");

const env = Object.fromEntries(
  [...EXAMPLE.matchAll(/^[^#]*"env:(\w+)"/gm)].map(([, name]) => [
    name,
    name === "TELEGRAM_BOT_TOKEN" ? TOKEN : "a secret",
  ]),
);

const checks = [
  (config: Config) => httpDestinations(config).flatMap(({ settings }) => checkTemplates(settings)),
];

interface Option {
  first: number;
  count: number;
  /** What the explanation above says that it stands in place of. */
  inPlaceOf: string | null;
}

const isOption = (line: string | undefined) => /^#[^ #]/.test(line ?? "");

function options(): Option[] {
  return lines.flatMap((line, first) => {
    if (!isOption(line) || isOption(lines[first - 1])) return [];
    const count = lines.slice(first).findIndex((later) => !isOption(later));
    const [, inPlaceOf = null] = /^# In place of (\w+)/.exec(lines[first - 1] ?? "") ?? [];
    return [{ first, count, inPlaceOf }];
  });
}

const keyOf = (line: string) => /^(\w+) = /.exec(line)?.[1] ?? null;

/** The option without its `#`; the same keys that stand in that table already give way to it. */
function withOption({ first, count, inPlaceOf }: Option): string {
  const taken = lines.slice(first, first + count).map((line) => line.slice(1));
  const replaced = [inPlaceOf, ...taken.map(keyOf)].filter((key) => key !== null);
  const start = lines.findLastIndex((line, index) => index < first && line.startsWith("["));
  const next = lines.findIndex((line, index) => index > first && line.startsWith("["));
  const end = next === -1 ? lines.length : next;
  const isNewTable = taken[0]?.startsWith("[") === true;
  const kept = (line: string, index: number) =>
    isNewTable || index <= start || index >= end || !replaced.includes(keyOf(line) ?? "");
  return [
    ...lines.slice(0, first).filter(kept),
    ...taken,
    ...lines.slice(first + count).filter((line, index) => kept(line, first + count + index)),
  ].join("\n");
}

describe("service.example.conf", () => {
  it("works as it stands: leads go to one CRM, which is searched after a lost answer", (t) => {
    assert.deepEqual(Object.keys(env), ["TELEGRAM_BOT_TOKEN", "CRM_TOKEN"]);
    const { destinations, actions, http } = resolveConfig(load(t, { toml: EXAMPLE, env, checks }));
    assert.deepEqual(
      destinations.map(({ key, kind, steps }) => [key, kind, steps.lead?.safety]),
      [
        ["sales", "http", "search"],
        ["ledger", "ledger", undefined],
      ],
    );
    assert.deepEqual(
      actions.map(({ name, to }) => [name, to]),
      [["enquiry", ["sales"]]],
    );
    assert.equal(http[0]?.settings.steps.lead?.find?.items, "/items");
  });

  it("explains itself within the width of a page", () => {
    for (const line of lines.filter((line) => line.startsWith("#"))) assert.ok(line.length <= 120, line);
  });

  it("has options to try", () => assert.ok(options().length >= 20));

  for (const option of options()) {
    const title = lines.slice(option.first, option.first + option.count).join(" ");
    it(`takes the option ${title}`, (t) => {
      const config = load(t, { toml: withOption(option), env, checks });
      resolveConfig(config);
    });
  }

  it("shows as an option what the default is, unless it says otherwise", (t) => {
    const told =
      /there is no default|For a CRM that|If the CRM|If the search|An address that|Answers that|In place of/;
    const plain = load(t, { toml: EXAMPLE, env, checks });
    for (const option of options().filter(({ first }) => !lines[first]?.startsWith("#["))) {
      const above = explanationAbove(option.first);
      if (told.test(above)) continue;
      const tried = load(t, { toml: withOption(option), env, checks });
      assert.deepEqual(comparable(tried), comparable(plain), lines[option.first]);
    }
  });
});

function explanationAbove(first: number): string {
  const start = lines.findLastIndex((line, index) => index < first && line === "");
  return lines.slice(start, first).join(" ");
}

/** Each loads from a folder of its own. */
function comparable({ path: _, databasePath, ...config }: Config): unknown {
  return JSON.parse(JSON.stringify({ ...config, database: databasePath.split("/").slice(-2) }));
}
