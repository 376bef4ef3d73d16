/**
 * Liquid templates that cannot run code, reach a file, loop or keep state: values, filters, `if`, `unless` and `case`.
 * Owns parsing and rendering; what a template may name is `template-check.ts`, what stands there is `variables.ts`.
 *
 * Source: liquidjs 10. `keepOutputType` keeps the type of a value that is written alone.
 */
import { Liquid, LiquidError, type Template as LiquidPart, Output, TypeGuards } from "liquidjs";

export interface Template {
  /** Where it stands in the configuration: `crm.sales.lead.body.name`. */
  path: string;
  source: string;
  parts: readonly LiquidPart[];
  /** The same parts, ready to be rendered. */
  pieces: readonly Piece[];
}

/** Most of any template is text and plain `{{ contact.name }}`, which need no interpreter. */
type Piece =
  | { kind: "text"; text: string }
  | { kind: "variable"; names: readonly string[]; written: string }
  | { kind: "output" | "tag"; part: LiquidPart };

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
    const parts = engine.parse(source);
    return { path, source, parts, pieces: parts.map(pieceOf) };
  } catch (error) {
    throw templateError(path, error);
  }
}

function pieceOf(part: LiquidPart): Piece {
  if (TypeGuards.isHTMLToken(part.token)) return { kind: "text", text: part.token.getContent() };
  if (!(part instanceof Output)) return { kind: "tag", part };
  const [names, ...more] = namedVariables([part]);
  const [token, ...others] = part.value.initial.postfix;
  const plain =
    part.value.filters.length === 0 &&
    others.length === 0 &&
    TypeGuards.isPropertyAccessToken(token) &&
    more.length === 0 &&
    names?.every((name) => typeof name === "string" && name !== "size");
  if (!plain || names === undefined) return { kind: "output", part };
  return { kind: "variable", names: names.map(String), written: part.token.getText() };
}

/** Every variable that the template (or the part of it) names, as paths. */
export function namedVariables(parts: readonly LiquidPart[]): (readonly unknown[])[] {
  return engine.globalVariableSegmentsSync([...parts]);
}

/** The value itself where the template is one `{{ … }}` alone, else text. */
export function renderValue(template: Template, variables: Variables): unknown {
  const [only] = template.pieces;
  const alone = template.pieces.length === 1 && (only?.kind === "variable" || only?.kind === "output");
  return alone ? pieceValue(template.path, only, variables) : renderText(template, variables);
}

export function renderText({ path, pieces }: Template, variables: Variables): string {
  return pieces.map((piece) => asText(pieceValue(path, piece, variables))).join("");
}

/**
 * A URL or a part of one. An empty value in its path would name another resource (`leads//notes`), so it is an error;
 * in the query it is harmless.
 */
export function renderUrlText({ path, pieces }: Template, variables: Variables): string {
  let url = "";
  for (const piece of pieces) {
    const text = asText(pieceValue(path, piece, variables));
    const isValue = piece.kind === "variable" || piece.kind === "output";
    if (isValue && text.trim() === "" && !/[?#]/.test(url)) {
      const written = piece.kind === "variable" ? piece.written : piece.part.token.getText();
      throw new TemplateError(path, `${written} is empty, and the URL's path needs it`);
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

function pieceValue(path: string, piece: Piece, variables: Variables): unknown {
  switch (piece.kind) {
    case "text":
      return piece.text;
    case "variable":
      return atPath(variables, piece.names);
    case "output":
    case "tag":
      try {
        return engine.renderSync([piece.part], variables);
      } catch (error) {
        throw templateError(path, error);
      }
  }
}

/** Undefined where any name on the way is missing. */
export function atPath(variables: Variables, names: readonly string[]): unknown {
  let value: unknown = variables;
  for (const name of names) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    // An object with this own member.
    value = (value as Variables)[name];
  }
  return value;
}

function asText(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

function templateError(path: string, error: unknown): TemplateError {
  if (!LiquidError.is(error)) throw error; // a bug of ours
  const message = error.originalError?.message ?? error.message;
  return new TemplateError(path, message.split("\n")[0] ?? message, error);
}
