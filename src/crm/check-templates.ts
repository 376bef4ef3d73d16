/**
 * Everything that can be told of a destination's requests before the first customer writes, all at once: each template
 * where it stands, JSON Pointers, methods, header names and addresses.
 */
import type { ConfigProblem } from "../domain/errors.ts";
import type {
  BodyValue,
  FindSettings,
  HttpDestinationSettings,
  HttpRequestSettings,
  HttpStepSettings,
} from "../domain/http-settings.ts";
import type { Step } from "../domain/jobs.ts";
import { isPointer } from "./pointer.ts";
import { compileGet, compileShared, renderTarget } from "./render.ts";
import { SAMPLE_CONTEXT } from "./samples.ts";
import { compile, renderValue, TemplateError } from "./template.ts";
import { checkTemplate, type Place } from "./template-check.ts";
import { knownNames, variablesOf } from "./variables.ts";

export interface ListedTemplate {
  path: string;
  source: string;
  kind: Place["kind"];
}

/** @returns every problem, each with its path in the configuration file */
export function checkTemplates(destination: HttpDestinationSettings): ConfigProblem[] {
  const path = `crm.${destination.name}`;
  const shared: ListedTemplate[] = [
    ...listed(`${path}.base_url`, destination.baseUrl, "url"),
    ...listed(`${path}.probe`, destination.probe, "url"),
    ...headerTemplates(path, destination.headers),
  ];
  const problems = [
    ...checkAll(shared, null, destination),
    ...Object.keys(destination.headers).flatMap((name) => checkHeaderName(`${path}.headers.${name}`, name)),
    ...steps(destination).flatMap(([step, settings]) =>
      checkStep(`${path}.${step}`, step, settings, destination),
    ),
    ...checkAddresses(path, destination),
  ];
  // A template that can't be read fails as a template and again as an address.
  const told = new Set<string>();
  return problems.filter(({ path: where, message }) => {
    const key = `${where} ${message}`;
    return !told.has(key) && told.add(key);
  });
}

/** Every template of a request, with the path where it stands. */
export function requestTemplates(path: string, request: HttpRequestSettings): ListedTemplate[] {
  return [
    ...listed(`${path}.url`, request.url, "url"),
    ...headerTemplates(path, request.headers),
    ...bodyTemplates(`${path}.body`, request.body),
    ...bodyTemplates(`${path}.form`, request.form),
  ];
}

function checkStep(
  path: string,
  step: Step,
  settings: HttpStepSettings,
  destination: HttpDestinationSettings,
): ConfigProblem[] {
  const lookUps = [
    ...(settings.find === null ? [] : [[`${path}.find`, settings.find] as const]),
    ...(settings.match === null ? [] : [[`${path}.match`, settings.match] as const]),
  ];
  const requests = [[path, settings] as const, ...lookUps];
  const templates = [
    ...requests.flatMap(([where, request]) => requestTemplates(where, request)),
    ...listed(`${path}.link`, settings.link, "link"),
  ];
  return [
    ...checkAll(templates, step, destination),
    ...requests.flatMap(([where, request]) => checkRequestLine(where, request)),
    ...checkId(`${path}.id`, settings.id),
    ...checkPointer(`${path}.exists.id`, settings.exists?.id ?? null),
    ...checkPointer(`${path}.exists.match`, settings.exists?.match ?? null),
    ...lookUps.flatMap(([where, find]) => checkLookUp(where, find)),
  ];
}

function checkAll(
  templates: readonly ListedTemplate[],
  step: Step | null,
  destination: HttpDestinationSettings,
): ConfigProblem[] {
  return templates.flatMap(({ path, source, kind }) => {
    const place = { kind, names: knownNames(step), secrets: destination.secretNames };
    const problems = checkTemplate(path, source, place);
    return problems.length > 0 ? problems : tryOut(path, source, destination);
  });
}

/** What only shows when a filter meets a value, such as a wrong argument. */
function tryOut(path: string, source: string, destination: HttpDestinationSettings): ConfigProblem[] {
  return problemsOf(() => renderValue(compile(path, source), sampleVariables(destination)));
}

/** An address made from a secret can't be judged without it. */
function checkAddresses(path: string, destination: HttpDestinationSettings): ConfigProblem[] {
  const addresses = [
    ...listed(`${path}.probe`, destination.probe, "url"),
    ...steps(destination).flatMap(([step, { url, find, match }]) => [
      ...listed(`${path}.${step}.url`, url, "url"),
      ...listed(`${path}.${step}.find.url`, find?.url ?? null, "url"),
      ...listed(`${path}.${step}.match.url`, match?.url ?? null, "url"),
    ]),
  ];
  const { baseUrl } = destination;
  return addresses
    .filter(({ source }) => !/\bsecrets\b/.test(source + (baseUrl ?? "")))
    .flatMap(({ path: where, source }) =>
      problemsOf(() => {
        const shared = compileShared(path, { baseUrl, headers: {} });
        renderTarget(compileGet(where, source, shared), sampleVariables(destination));
      }),
    );
}

function problemsOf(attempt: () => unknown): ConfigProblem[] {
  try {
    attempt();
    return [];
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return [{ path: error.path, value: null, message: error.message, hint: null }];
  }
}

function sampleVariables({ secretNames }: HttpDestinationSettings) {
  const secrets = Object.fromEntries(secretNames.map((name) => [name, "sample"]));
  return { ...variablesOf(SAMPLE_CONTEXT, "\u0000"), secrets, id: "1" };
}

function checkLookUp(path: string, find: FindSettings): ConfigProblem[] {
  return [
    ...checkPointer(`${path}.items`, find.items),
    ...checkPointer(`${path}.match`, find.match),
    ...(find.id === "reference" ? [] : checkPointer(`${path}.id`, find.id)),
  ];
}

function checkRequestLine(path: string, { method, headers }: HttpRequestSettings): ConfigProblem[] {
  const badMethod = /^[A-Z]+$/.test(method)
    ? []
    : [{ path: `${path}.method`, value: method, message: "it is no HTTP method", hint: "for instance POST" }];
  return [
    ...badMethod,
    ...Object.keys(headers).flatMap((name) => checkHeaderName(`${path}.headers.${name}`, name)),
  ];
}

function checkHeaderName(path: string, name: string): ConfigProblem[] {
  if (["content-length", "transfer-encoding", "host", "connection"].includes(name.toLowerCase())) {
    return [
      { path, value: name, message: "this header is set by the HTTP client itself", hint: "leave it out" },
    ];
  }
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)
    ? []
    : [{ path, value: name, message: "it is no name of a header", hint: null }];
}

function checkId(path: string, id: string): ConfigProblem[] {
  return id === "reference" || /^header:\S+$/.test(id) ? [] : checkPointer(path, id);
}

function checkPointer(path: string, pointer: string | null): ConfigProblem[] {
  if (pointer === null || isPointer(pointer)) return [];
  const hint = `a JSON Pointer starts with a slash: "/${pointer}"`;
  return [{ path, value: pointer, message: "it is no JSON Pointer", hint }];
}

function headerTemplates(path: string, headers: Readonly<Record<string, string>>): ListedTemplate[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    listed(`${path}.headers.${name}`, value, "header"),
  );
}

function bodyTemplates(path: string, value: BodyValue | null): ListedTemplate[] {
  if (typeof value === "string") return listed(path, value, "body");
  if (typeof value !== "object" || value === null || value instanceof Date) return [];
  return Object.entries(value).flatMap(([name, member]) => bodyTemplates(`${path}.${name}`, member));
}

function listed(path: string, source: string | null, kind: Place["kind"]): ListedTemplate[] {
  return source === null ? [] : [{ path, source, kind }];
}

function steps(destination: HttpDestinationSettings): [Step, HttpStepSettings][] {
  // Object.entries loses the key's type; the keys of `steps` are steps by its declaration.
  return Object.entries(destination.steps) as [Step, HttpStepSettings][];
}
