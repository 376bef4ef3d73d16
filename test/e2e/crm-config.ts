/** `[crm.NAME]` for the CRM stand-in, one way for each safety class, with waits short enough for tests. */
import type { SafetyClass } from "../../src/stand-ins/crm/index.ts";

/** What a configuration file holds, as TOML has it. */
export type Table = { [key: string]: Value };
type Value = string | number | boolean | Table | Value[];

export const CRM_TOKEN = "stand-in-crm-secret-5d1f";

const LEAD = {
  method: "POST",
  url: "leads",
  body: {
    external_ref: "{{ operation.id }}",
    code: "{{ operation.code }}",
    name: "{{ contact.name }}",
    phone: "{{ contact.phone }}",
    username: "{{ contact.username }}",
    text: "{{ message.text }}",
    kind: "{{ message.kind }}",
    message: "{{ message.ref }}",
  },
  id: "/id",
};

const FIND = { url: "leads?external_ref={{ operation.id | url_encode }}", items: "/items", id: "/id" };

function leadStep(safety: SafetyClass): Table {
  switch (safety) {
    case "idempotency-key":
      return { ...LEAD, headers: { "Idempotency-Key": "{{ operation.key }}" } };
    case "external-id":
      return { ...LEAD, exists: { status: 409, id: "/existing/id", match: "/existing/external_ref" } };
    case "search":
      return { ...LEAD, find: FIND };
    case "none":
      return LEAD;
  }
}

export function crmTable(url: string, safety: SafetyClass): Table {
  return {
    kind: "http",
    base_url: url,
    safety,
    headers: { Authorization: "Bearer {{ secrets.token }}" },
    // Longer than any answer takes on a busy machine; tests about time-outs shorten it.
    timeout: "8s",
    lease: "18s",
    rate: "off",
    unknown_wait: "150ms",
    retry: { first: "100ms", max: "400ms" },
    reconcile: { checks: ["100ms", "300ms"] },
    probe: "me",
    secrets: { token: "env:CRM_TOKEN" },
    lead: leadStep(safety),
  };
}

/** Null takes a member away. */
export type Changes = { [key: string]: Value | Changes | null };

/** `changes` over `table`, member by member; lists are replaced. */
export function merged(table: Table, changes: Changes): Table {
  const result = { ...table };
  for (const [key, change] of Object.entries(changes)) {
    const before = result[key];
    if (change === null) delete result[key];
    else if (!isTable(change)) result[key] = change;
    else result[key] = merged(isTable(before) ? before : {}, change);
  }
  return result;
}

function isTable<Member>(value: Member): value is Extract<Member, Changes> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
