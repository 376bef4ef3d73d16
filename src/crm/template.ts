/**
 * Liquid templates that cannot run code, reach a file, loop or keep state: values, filters, `if`, `unless` and `case`.
 * Owns parsing and rendering; what a template may name is `template-check.ts`, what stands there is `variables.ts`.
 *
 * Source: liquidjs 10. `keepOutputType` keeps the type of a value that is written alone.
 */
import { Liquid, LiquidError, type Template as LiquidPart, Output } from "liquidjs";

export interface Template {
  /** Where it stands in the configuration: `crm.sales.lead.body.name`. */
  path: string;
  source: string;
  parts: readonly LiquidPart[];
}

export type Variables = Record<string, unknown>;

export class TemplateError extends Error {
  override readonly name = "TemplateError";
  readonly path: string;

  constructor(path: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.path = path;
  }
}

export const TAGS = ["if", "unless", "case", "comment", "raw", "#"] as const;

/** Far above any honest template, low enough that a wrong one can't hold up the daemon. */
const TEMPLATE_CHARS_MAX = 100_000;
const RENDER_MS_MAX = 2000;
const MEMORY_MAX = 10_000_000;

const engine = createEngine();

export const FILTERS: readonly string[] = Object.keys(engine.filters);

function createEngine(): Liquid {
  const liquid = new Liquid({
    strictFilters: true,
    keepOutputType: true,
    ownPropertyOnly: true,
    // The same text on every machine: neither its time zone nor its language may show in a body.
    timezoneOffset: 0,
    locale: "en-US",
    parseLimit: TEMPLATE_CHARS_MAX,
    renderLimit: RENDER_MS_MAX,
    memoryLimit: MEMORY_MAX,
    // An empty set of templates in memory stands in place of the file system.
    templates: {},
  });
  const kept: readonly string[] = TAGS;
  for (const name of Object.keys(liquid.tags)) {
    if (kept.includes(name)) continue;
    liquid.registerTag(name, {
      parse() {
        throw new Error(
          `the tag "${name}" can't be used here; templates know if, unless, case, comment and raw`,
        );
      },
      render() {},
    });
  }
  return liquid;
}

/** Errors: `TemplateError` for a syntax error, an unknown filter or tag. */
export function compile(path: string, source: string): Template {
  try {
    return { path, source, parts: engine.parse(source) };
  } catch (error) {
    throw templateError(path, error);
  }
}

/** Every variable that the template (or the part of it) names, as paths. */
export function namedVariables(parts: readonly LiquidPart[]): (readonly unknown[])[] {
  return engine.globalVariableSegmentsSync([...parts]);
}

/** The value itself where the template is one `{{ … }}` alone, else text. */
export function renderValue(template: Template, variables: Variables): unknown {
  const value = run(template.path, template.parts, variables);
  return loneOutput(template.parts) === null ? asText(value) : value;
}

export function renderText(template: Template, variables: Variables): string {
  return asText(run(template.path, template.parts, variables));
}

/**
 * A URL or a part of one. An empty value in its path would name another resource (`leads//notes`), so it is an error;
 * in the query it is harmless.
 */
export function renderUrlText(template: Template, variables: Variables): string {
  let url = "";
  for (const part of template.parts) {
    const text = asText(run(template.path, [part], variables));
    if (part instanceof Output && text.trim() === "" && !/[?#]/.test(url)) {
      throw new TemplateError(template.path, `${part.token.getText()} is empty, and the URL's path needs it`);
    }
    url += text;
  }
  return url;
}

/** The template's only part, if that is one `{{ … }}`. */
export function loneOutput(parts: readonly LiquidPart[]): Output | null {
  const [only] = parts;
  return parts.length === 1 && only instanceof Output ? only : null;
}

function run(path: string, parts: readonly LiquidPart[], variables: Variables): unknown {
  try {
    return engine.renderSync([...parts], variables);
  } catch (error) {
    throw templateError(path, error);
  }
}

function asText(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

function templateError(path: string, error: unknown): TemplateError {
  if (!LiquidError.is(error)) return new TemplateError(path, String(error), error);
  const message = error.originalError?.message ?? error.message;
  return new TemplateError(path, message.split("\n")[0] ?? message, error);
}
