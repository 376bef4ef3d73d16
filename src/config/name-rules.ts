/** Names and keys: what they must not share, and that whoever is named exists. */
import { LEDGER } from "../domain/ids.ts";
import { wordHint } from "./fields.ts";
import type { Finding } from "./rules.ts";
import type { Document } from "./schema.ts";

/** What leadonce itself calls so (design §2). */
const BUILT_IN = [LEDGER, "telegram"];

export function* destinationNameRules({ crm }: Document): Generator<Finding> {
  const owners = new Map<string, string>();
  for (const [name, { kind, key }] of Object.entries(crm)) {
    const reads = [`crm.${name}.kind`];
    for (const word of key === null ? [name] : [name, key]) {
      if (!BUILT_IN.includes(word) || (word === LEDGER && kind === "ledger")) continue;
      const message = `"${word}" is a destination of leadonce itself`;
      const path = word === name ? `crm.${name}` : `crm.${name}.key`;
      yield { path, value: null, message, hint: "choose another name", reads };
    }
    const identity = key ?? name;
    const owner = owners.get(identity);
    if (owner === undefined) {
      owners.set(identity, name);
      continue;
    }
    yield {
      path: key === null ? `crm.${name}` : `crm.${name}.key`,
      value: key === null ? null : `"${key}"`,
      message: `crm.${owner} has the identity "${identity}" already`,
      hint: "a key is what tells destinations apart in the database: give each its own",
      reads: [`crm.${owner}.key`],
    };
  }
}

/** @param names those of the destinations in the file, the faulty ones too */
export function* actionRules({ actions }: Document, names: readonly string[]): Generator<Finding> {
  const destinations = [...new Set([...names, LEDGER])];
  const taken = { name: new Set<string>(), key: new Set<string>() };
  for (const [index, { name, key, to }] of actions.entries()) {
    const path = `actions[${index}]`;
    for (const [of, word] of [["name", name] as const, ["key", key ?? name] as const]) {
      // A key that is the name was told with the name.
      const isTold = of === "key" && key === null && taken.name.has(name);
      if (taken[of].has(word) && !isTold) {
        yield {
          path: `${path}.${of === "key" && key === null ? "name" : of}`,
          value: `"${word}"`,
          message: `another action has this ${of} already`,
          hint: "give each action its own: leads are told apart by it",
          reads: [],
        };
      }
    }
    taken.name.add(name);
    taken.key.add(key ?? name);
    for (const [position, destination] of (to ?? []).entries()) {
      if (destinations.includes(destination) && to?.indexOf(destination) === position) continue;
      const isKnown = destinations.includes(destination);
      yield {
        path: `${path}.to[${position}]`,
        value: JSON.stringify(destination),
        message: isKnown ? "it is named twice" : "there is no such destination",
        hint: isKnown
          ? "leave it out"
          : (wordHint(destination, destinations) ?? `there are: ${destinations.join(", ")}`),
        reads: [],
      };
    }
  }
}
