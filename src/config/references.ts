/**
 * What becomes of each text of the file, by where it stands (P5):
 *
 * - at the place of a secret (token, proxy, `secrets`): a `Secret`, read only when somebody asks for it;
 * - in a request to a CRM (`base_url`, `url`, `headers`, `body`, …): a reference becomes a secret of the destination,
 *   named by itself, so that it is masked and kept out of stored bodies like any other;
 * - anywhere else: a reference is read at once, since a command may need it.
 */
import type { ConfigProblem } from "../domain/errors.ts";
import { Secret } from "./secret.ts";
import { isReference, readReference, type Sources, UnreadableError } from "./sources.ts";
import { isTree, mapTexts, type Path, pathText, type Tree, valueAt } from "./tree.ts";

type Place = "secret" | "template" | "plain";

const DEFAULT_TOKEN = "env:TELEGRAM_BOT_TOKEN";
const TEMPLATE_KEYS = ["base_url", "probe", "url", "headers", "body", "form", "link"];
/** What an answer is compared with is no template, although it is called `body` as well. */
const ANSWER_KEYS = ["exists", "outcomes"];

export function placeOf(path: Path): Place {
  const [section, ...below] = path;
  if (section === "telegram") return below[0] === "token" || below[0] === "proxy" ? "secret" : "plain";
  if (section !== "crm") return "plain";
  const [, key] = below;
  if (key === "secrets" || key === "proxy") return "secret";
  const isAnswer = below.some((part) => ANSWER_KEYS.includes(String(part)));
  const isTemplate = below.slice(1).some((part) => TEMPLATE_KEYS.includes(String(part)));
  return isTemplate && !isAnswer ? "template" : "plain";
}

/** @returns a copy of the tree with its references followed, and a problem for each that leads nowhere */
export function followReferences(written: Tree, sources: Sources): { tree: Tree; problems: ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const inTemplates: Secret[] = [];
  const change = (text: string, path: Path): unknown => {
    const place = placeOf(path);
    if (place === "secret") return new Secret(pathText(path), text, sources);
    if (!isReference(text)) return text;
    if (place === "template") {
      const secret = new Secret(pathText(path), text, sources);
      inTemplates.push(secret);
      return asTemplate(text);
    }
    try {
      return readReference(text, sources);
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      problems.push({ path: pathText(path), value: text, message: error.message, hint: error.hint });
      return text;
    }
  };
  const tree = Object.fromEntries(
    Object.entries(withToken(written)).map(([key, value]) => [key, mapTexts(value, [key], change)]),
  );
  for (const secret of inTemplates) nameSecret(tree, secret);
  return { tree, problems };
}

/** How a template asks for the secret that a reference leads to. */
export function asTemplate(reference: string): string {
  return `{{ secrets[${JSON.stringify(reference)}] }}`;
}

function withToken(written: Tree): Tree {
  const telegram = written.telegram ?? {};
  return isTree(telegram) ? { ...written, telegram: { token: DEFAULT_TOKEN, ...telegram } } : written;
}

/** Among the destination's secrets, under the reference itself as its name. */
function nameSecret(tree: Tree, secret: Secret): void {
  const [crm = "", name = ""] = secret.path.split(".");
  const destination = valueAt(tree, [crm, name]);
  if (!isTree(destination)) return;
  destination.secrets ??= {};
  if (isTree(destination.secrets)) destination.secrets[secret.toString()] = secret;
}
