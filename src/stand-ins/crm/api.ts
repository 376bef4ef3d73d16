/**
 * The CRM behind the sockets: its routes, its sign-in and the four safety classes of design §6. Synchronous, so that
 * each request is atomic like a transaction; everything that goes wrong on the way is the server's business.
 */
import { type ApiAnswer, type ApiRequest, answer, parseBody, problem, Refusal } from "./messages.ts";
import { asItem, Collection, type CrmRecord, externalRef } from "./records.ts";

export type SafetyClass = "idempotency-key" | "external-id" | "search" | "none";

/** What a request is after, by its route. */
export type RequestKind =
  | "create"
  | "find"
  | "read"
  | "update"
  | "note"
  | "find-notes"
  | "contact"
  | "find-contacts"
  | "probe"
  | "other";

/** How the CRM behaves for one request when it does not behave well. */
export interface Mood {
  /** Makes the record without looking for a twin, as a CRM does that looked before the request got stuck. */
  blind: boolean;
  /** How long the search stays blind to what the request makes; `Infinity`: until `index()`. */
  searchLagMs: number;
  /** What a search shows beside each record it finds. */
  twins: "none" | "same-id" | "other-id";
}

export interface ApiOptions {
  safety: SafetyClass;
  /** How long an idempotency key is honoured; `Infinity` where not given. */
  keyValidForMs?: number;
  now: () => number;
}

interface Call {
  request: ApiRequest;
  /** The variable segment of the path: an id or an external reference. */
  param: string;
  mood: Mood;
}

interface Route {
  method: string;
  path: RegExp;
  kind: RequestKind;
  answer: (call: Call) => ApiAnswer;
}

export class CrmApi {
  readonly leads = new Collection("L");
  readonly notes = new Collection("N");
  readonly contacts = new Collection("C");
  /** What `Authorization: Bearer` must carry; null: the door is open. */
  token: string | null;
  readonly #options: ApiOptions;
  readonly #routes: Route[];
  readonly #answersByKey = new Map<string, { body: string; atMs: number; answer: ApiAnswer }>();

  constructor(options: ApiOptions, token: string | null) {
    this.#options = options;
    this.token = token;
    const { leads, contacts } = this;
    this.#routes = [
      route("POST", "/leads", "create", (call) => this.#create(leads, call)),
      route("PUT", "/leads/by-ref/:ref", "create", (call) => this.#upsert(leads, call)),
      route("GET", "/leads", "find", (call) => this.#search(leads, call)),
      route("GET", "/leads/by-ref/:ref", "find", (call) => this.#readByRef(leads, call)),
      route("GET", "/leads/:id", "read", (call) => this.#read(leads, call)),
      route("PATCH", "/leads/:id", "update", (call) => this.#update(leads, call)),
      route("POST", "/leads/:id/notes", "note", (call) => this.#addNote(call)),
      route("GET", "/leads/:id/notes", "find-notes", (call) => this.#listNotes(call)),
      route("POST", "/contacts", "contact", (call) => this.#create(contacts, call)),
      route("PUT", "/contacts/by-ref/:ref", "contact", (call) => this.#upsert(contacts, call)),
      route("GET", "/contacts", "find-contacts", (call) => this.#search(contacts, call)),
      route("GET", "/contacts/:id", "read", (call) => this.#read(contacts, call)),
      route("GET", "/me", "probe", () => answer("read", 200, { id: "U-1", name: "Stand-in" })),
    ];
  }

  kindOf(method: string, path: string): RequestKind {
    return this.#routeOf(method, path)?.kind ?? "other";
  }

  handle(request: ApiRequest, mood: Mood): ApiAnswer {
    try {
      if (!request.path.startsWith("/api/")) throw new Refusal(404, "not_found", "There is nothing here.");
      this.#authorise(request);
      const found = this.#routeOf(request.method, request.path);
      if (found === undefined) throw this.#noRoute(request);
      const call: Call = { request, param: found.param, mood };
      return request.method === "POST" ? this.#once(call, found.answer) : found.answer(call);
    } catch (error) {
      if (error instanceof Refusal) return error.answer;
      throw error;
    }
  }

  #authorise(request: ApiRequest): void {
    if (this.token === null || request.headers.authorization === `Bearer ${this.token}`) return;
    throw new Refusal(401, "invalid_token", "The token is missing or not valid.", "unauthorised");
  }

  #routeOf(
    method: string,
    path: string,
  ): { kind: RequestKind; answer: Route["answer"]; param: string } | undefined {
    for (const { method: wanted, path: pattern, kind, answer } of this.#routes) {
      const match = method === wanted ? pattern.exec(path) : null;
      if (match !== null) return { kind, answer, param: decodeSegment(match[1] ?? "") };
    }
    return undefined;
  }

  #noRoute(request: ApiRequest): Refusal {
    return this.#routes.some((known) => known.path.test(request.path))
      ? new Refusal(405, "method_not_allowed", `${request.method} is not allowed here.`)
      : new Refusal(404, "not_found", "There is nothing here.");
  }

  /** The idempotency key: refusals are thrown past it and so not kept, and the path belongs to the key's scope. */
  #once(call: Call, run: Route["answer"]): ApiAnswer {
    const { safety, keyValidForMs = Number.POSITIVE_INFINITY, now } = this.#options;
    const { request, mood } = call;
    const key = request.headers["idempotency-key"];
    if (safety !== "idempotency-key" || key === undefined) return run(call);

    const scoped = `${request.path} ${key}`;
    const kept = this.#answersByKey.get(scoped);
    if (kept !== undefined && now() - kept.atMs < keyValidForMs && !mood.blind) {
      if (kept.body !== request.body) {
        throw new Refusal(422, "key_reused", "This Idempotency-Key came with another body before.");
      }
      const headers = { ...kept.answer.headers, "Idempotent-Replayed": "true" };
      return { ...kept.answer, headers, effect: "replayed" };
    }
    const fresh = run(call);
    this.#answersByKey.set(scoped, { body: request.body, atMs: now(), answer: fresh });
    return fresh;
  }

  #create(collection: Collection, call: Call): ApiAnswer {
    const body = parseBody(call.request);
    const ref = externalRef(body);
    const twin = this.#options.safety === "external-id" && ref !== null ? collection.withRef(ref) : undefined;
    if (twin !== undefined && !call.mood.blind) {
      const said = problem("already_exists", "external_ref is taken.");
      const existing = { id: twin.id, external_ref: twin.external_ref };
      return answer("conflict", 409, { ...said, existing }, twin);
    }
    return this.#add(collection, body, call, call.request.path);
  }

  #upsert(collection: Collection, call: Call): ApiAnswer {
    this.#needsExternalIds();
    const body = { ...parseBody(call.request), external_ref: call.param };
    const twin = call.mood.blind ? undefined : collection.withRef(call.param);
    if (twin === undefined) {
      return this.#add(collection, body, call, call.request.path.replace(/\/by-ref\/.*$/, ""));
    }
    collection.update(twin.id, body);
    return answer("updated", 200, { id: twin.id }, twin);
  }

  #add(collection: Collection, body: Record<string, unknown>, call: Call, parentPath: string): ApiAnswer {
    const { request, mood } = call;
    const record = collection.add(body, request.number, this.#options.now(), mood.searchLagMs);
    const made = answer("created", 201, { id: record.id }, record);
    return { ...made, headers: { Location: `${parentPath}/${record.id}` } };
  }

  #update(collection: Collection, call: Call): ApiAnswer {
    const record = existing(collection, call.param);
    collection.update(record.id, parseBody(call.request));
    return answer("updated", 200, { id: record.id }, record);
  }

  #read(collection: Collection, call: Call): ApiAnswer {
    const record = existing(collection, call.param);
    return answer("read", 200, asItem(record), record);
  }

  #readByRef(collection: Collection, call: Call): ApiAnswer {
    this.#needsExternalIds();
    const record = collection.withRef(call.param);
    if (record === undefined) throw new Refusal(404, "not_found", "There is no such record.");
    return answer("read", 200, asItem(record), record);
  }

  #search(collection: Collection, call: Call): ApiAnswer {
    if (this.#options.safety === "none") throw new Refusal(404, "not_found", "This CRM cannot search.");
    return this.#list(collection, call.request.query, call.mood);
  }

  #addNote(call: Call): ApiAnswer {
    const lead = existing(this.leads, call.param);
    const body = parseBody(call.request);
    if (typeof body.text !== "string") throw new Refusal(422, "invalid", "A note needs a text.");
    return this.#add(this.notes, { ...body, lead_id: lead.id }, call, call.request.path);
  }

  #listNotes(call: Call): ApiAnswer {
    const lead = existing(this.leads, call.param);
    return this.#list(this.notes, [["lead_id", lead.id]], call.mood);
  }

  #list(collection: Collection, filters: Iterable<[string, string]>, mood: Mood): ApiAnswer {
    const items = collection.search(filters, this.#options.now()).flatMap((record) => {
      const item = asItem(record);
      if (mood.twins === "none") return [item];
      return [item, mood.twins === "same-id" ? item : { ...item, id: `${record.id}-copy` }];
    });
    return answer("read", 200, { items });
  }

  #needsExternalIds(): void {
    if (this.#options.safety === "external-id") return;
    throw new Refusal(404, "not_found", "This CRM keeps no unique external reference.");
  }
}

/** @param path below `/api`; one segment may be a `:variable` */
function route(method: string, path: string, kind: RequestKind, answer: Route["answer"]): Route {
  return { method, path: new RegExp(`^/api${path.replace(/:\w+/, "([^/]+)")}$`), kind, answer };
}

function existing(collection: Collection, id: string): CrmRecord {
  const record = collection.get(id);
  if (record === undefined) throw new Refusal(404, "not_found", "There is no such record.");
  return record;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // A lone `%`: looked up as it stands, and not found.
  }
}
