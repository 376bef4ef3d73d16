/**
 * From a configured request and the variables of one operation to what goes over the wire. Body, URL and headers are
 * rendered apart, because only the body is stored: URL and headers hold secrets and are made anew each time (P5).
 *
 * - A table nests as it does in TOML. A member that renders to nothing (null or an empty text) is left out, and so is
 *   a table or list that loses everything that way; `send_empty` keeps all of it.
 * - A header that renders to nothing is left out.
 * - A body given as text is sent as it stands.
 */
import type { BodyValue, HttpRequestSettings } from "../domain/http-settings.ts";
import { MissingSecretError, type SecretPlaceholders } from "./secrets.ts";
import {
  compile,
  renderText,
  renderUrlText,
  renderValue,
  type Template,
  TemplateError,
  type Variables,
} from "./template.ts";
import { clean, cleanJson } from "./variables.ts";

/** What every request of a destination shares. */
export interface SharedParts {
  baseUrl: Template | null;
  headers: readonly HeaderTemplate[];
}

export interface CompiledRequest {
  /** Where the request stands in the configuration: `crm.sales.lead`. */
  path: string;
  method: string;
  url: Template;
  shared: SharedParts;
  headers: readonly HeaderTemplate[];
  body: CompiledBody;
}

export interface HeaderTemplate {
  name: string;
  value: Template;
}

type CompiledBody =
  | { kind: "none" }
  | { kind: "json" | "form"; render: ValueRenderer }
  | { kind: "text"; template: Template };

/** Undefined: it rendered to nothing. */
type ValueRenderer = (variables: Variables) => unknown;

export interface Target {
  url: URL;
  headers: Record<string, string>;
}

export function compileShared(
  path: string,
  settings: { baseUrl: string | null; headers: Readonly<Record<string, string>> },
): SharedParts {
  return {
    baseUrl: settings.baseUrl === null ? null : compile(`${path}.base_url`, settings.baseUrl),
    headers: compileHeaders(`${path}.headers`, settings.headers),
  };
}

export function compileRequest(
  path: string,
  settings: HttpRequestSettings,
  shared: SharedParts,
): CompiledRequest {
  return {
    path,
    method: settings.method,
    url: compile(`${path}.url`, settings.url),
    shared,
    headers: compileHeaders(`${path}.headers`, settings.headers),
    body: compileBody(path, settings),
  };
}

/** A look at an address, with what every request of the destination carries. */
export function compileGet(path: string, url: string, shared: SharedParts): CompiledRequest {
  return { path, method: "GET", url: compile(path, url), shared, headers: [], body: { kind: "none" } };
}

/** Errors: `TemplateError` where a value is missing or the result is no URL or header. */
export function renderTarget(request: CompiledRequest, variables: Variables): Target {
  return { url: renderUrl(request, variables), headers: renderHeaders(request, variables) };
}

/** Where the request would go, whatever its path still lacks. */
export function renderOrigin({ url, shared }: CompiledRequest, variables: Variables): string {
  const own = renderText(url, variables).trim();
  const text =
    isAbsolute(own) || shared.baseUrl === null ? own : renderText(shared.baseUrl, variables).trim();
  if (!URL.canParse(text))
    throw new TemplateError(url.path, "it does not make an http:// or https:// address");
  return new URL(text).origin;
}

/** @returns the body as it is stored, with placeholders for secrets; null: no body */
export function renderBody({ body }: CompiledRequest, variables: Variables): string | null {
  switch (body.kind) {
    case "none":
      return null;
    case "json":
      return cleanJson(body.render(variables) ?? {});
    case "form":
      return formEncoded(body.render(variables) ?? {});
    case "text":
      return clean(renderText(body.template, variables));
  }
}

/** The stored body with its secrets filled in, and the content type that it has unless a header says otherwise. */
export function fillBody(
  { path, body }: CompiledRequest,
  stored: string,
  placeholders: SecretPlaceholders,
): { content: string; type: string } {
  const form = body.kind === "form";
  // What a table was rendered to needs no second look; a stored body may be older than the configuration, though.
  const json = !form && ((body.kind === "json" && stored.startsWith("{")) || isJson(stored));
  const encode = form ? encodeFormText : json ? encodeJsonText : (secret: string) => secret;
  const type = form
    ? "application/x-www-form-urlencoded"
    : json
      ? "application/json"
      : "text/plain; charset=utf-8";
  try {
    return { content: placeholders.fill(stored, encode), type };
  } catch (error) {
    if (error instanceof MissingSecretError) throw new TemplateError(`${path}.body`, error.message, error);
    throw error;
  }
}

function compileHeaders(path: string, headers: Readonly<Record<string, string>>): HeaderTemplate[] {
  return Object.entries(headers).map(([name, value]) => ({ name, value: compile(`${path}.${name}`, value) }));
}

function compileBody(path: string, settings: HttpRequestSettings): CompiledBody {
  if (settings.form !== null) {
    return { kind: "form", render: compileValue(`${path}.form`, settings.form, settings.sendEmpty) };
  }
  if (settings.body === null) return { kind: "none" };
  if (typeof settings.body === "string") {
    return { kind: "text", template: compile(`${path}.body`, settings.body) };
  }
  return { kind: "json", render: compileValue(`${path}.body`, settings.body, settings.sendEmpty) };
}

function compileValue(path: string, value: BodyValue, sendEmpty: boolean): ValueRenderer {
  if (typeof value === "string") {
    const template = compile(path, value);
    return (variables) => {
      const rendered = renderValue(template, variables) ?? null;
      return (rendered === null || rendered === "") && !sendEmpty ? undefined : rendered;
    };
  }
  if (typeof value !== "object" || value instanceof Date) return () => value;
  if (Array.isArray(value)) {
    const items = value.map((item, index) => compileValue(`${path}.${index}`, item, sendEmpty));
    return (variables) => {
      const rendered = items.map((item) => item(variables)).filter((item) => item !== undefined);
      return rendered.length === 0 && items.length > 0 ? undefined : rendered;
    };
  }
  const members = Object.entries(value).map(
    ([name, member]) => [name, compileValue(`${path}.${name}`, member, sendEmpty)] as const,
  );
  return (variables) => {
    const rendered = members
      .map(([name, member]) => [name, member(variables)] as const)
      .filter(([, member]) => member !== undefined);
    return rendered.length === 0 && members.length > 0 ? undefined : Object.fromEntries(rendered);
  };
}

/** Exactly one slash between base and URL; an absolute URL stands for itself. */
function renderUrl({ shared, url }: CompiledRequest, variables: Variables): URL {
  const own = clean(renderUrlText(url, variables)).trim();
  const text = isAbsolute(own) || shared.baseUrl === null ? own : join(base(shared.baseUrl, variables), own);
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new TemplateError(url.path, "it does not make an http:// or https:// address");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new TemplateError(url.path, "a user and password can't stand in the URL: use a header");
  }
  return parsed;
}

function base(template: Template, variables: Variables): string {
  return clean(renderUrlText(template, variables)).trim();
}

function join(baseUrl: string, url: string): string {
  if (url === "") return baseUrl;
  return url.startsWith("?")
    ? `${baseUrl}${url}`
    : `${baseUrl.replace(/\/+$/, "")}/${url.replace(/^\/+/, "")}`;
}

function isAbsolute(url: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\//i.test(url);
}

/** A step's header replaces the destination's of the same name, whatever its case. */
function renderHeaders({ shared, headers }: CompiledRequest, variables: Variables): Record<string, string> {
  const rendered: Record<string, string> = {};
  for (const { name, value } of [...shared.headers, ...headers]) {
    const text = renderText(value, variables).trim();
    if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) {
      throw new TemplateError(value.path, "it holds characters that a header can't carry");
    }
    delete rendered[name.toLowerCase()];
    if (text !== "") rendered[name.toLowerCase()] = text;
  }
  return rendered;
}

/** Nested tables and lists in the spelling that PHP and Rails read: `phones[0][value]`. */
function formEncoded(value: unknown): string {
  return formPairs("", value)
    .map(([name, text]) => `${encodeFormText(name)}=${encodeFormText(text)}`)
    .join("&");
}

function formPairs(name: string, value: unknown): [string, string][] {
  if (value instanceof Date) return [[name, value.toISOString()]];
  if (typeof value !== "object" || value === null) return [[name, value === null ? "" : String(value)]];
  return Object.entries(value).flatMap(([key, member]) =>
    formPairs(name === "" ? key : `${name}[${key}]`, member),
  );
}

function encodeFormText(text: string): string {
  return new URLSearchParams([["", clean(text)]]).toString().slice(1);
}

function encodeJsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
