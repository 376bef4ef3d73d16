/** What the stand-in's database holds, and what its search index already shows of it. */

/** One record that really came to be. Tests count these to see whether an effect happened once (P2). */
export interface CrmRecord {
  /** `L-1` for leads, `N-1` for notes, `C-1` for contacts. */
  readonly id: string;
  readonly external_ref: string | null;
  /** The members as they were sent; a note has its `lead_id` beside them. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** `number` of the logged request that made it. */
  readonly requestNumber: number;
}

type Stored = { -readonly [Member in keyof CrmRecord]: CrmRecord[Member] };

export class Collection {
  readonly records: CrmRecord[] = [];
  readonly #prefix: string;
  readonly #byId = new Map<string, Stored>();
  /** Records the search does not show yet, with the moment from which it will. */
  readonly #visibleFromMs = new Map<string, number>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** @param lagMs how long the search stays blind to the record; `Infinity`: until `index()` */
  add(body: Record<string, unknown>, requestNumber: number, nowMs: number, lagMs: number): CrmRecord {
    const id = `${this.#prefix}-${this.records.length + 1}`;
    const record: Stored = { id, external_ref: externalRef(body), body, createdAt: nowMs, requestNumber };
    this.records.push(record);
    this.#byId.set(id, record);
    if (lagMs > 0) this.#visibleFromMs.set(id, nowMs + lagMs);
    return record;
  }

  get(id: string): CrmRecord | undefined {
    return this.#byId.get(id);
  }

  /** Reads the table itself, as a unique index does: no lag. */
  withRef(ref: string): CrmRecord | undefined {
    return this.records.find((record) => record.external_ref === ref);
  }

  /** Adds and replaces members; the external reference stays what it was. */
  update(id: string, changes: Record<string, unknown>): void {
    const record = this.#byId.get(id);
    if (record !== undefined) record.body = { ...record.body, ...changes };
  }

  /** Records in which every filter equals the member of that name, as far as the index shows them. */
  search(filters: Iterable<[string, string]>, nowMs: number): CrmRecord[] {
    const wanted = [...filters];
    return this.records.filter(
      (record) =>
        (this.#visibleFromMs.get(record.id) ?? 0) <= nowMs &&
        wanted.every(([name, value]) => text(asItem(record)[name]) === value),
    );
  }

  /** The index catches up with everything. */
  index(): void {
    this.#visibleFromMs.clear();
  }
}

/** How the API shows a record. */
export function asItem(record: CrmRecord): Record<string, unknown> {
  return { ...record.body, id: record.id, external_ref: record.external_ref };
}

export function externalRef(body: Record<string, unknown>): string | null {
  const ref = text(body.external_ref);
  return ref === "" ? null : ref;
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : "";
}
