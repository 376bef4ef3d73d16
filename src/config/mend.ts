/**
 * Takes the faults out of a tree, so that what is right in it can be checked further in the same run and a person sees
 * every problem at once. Nothing ever runs on a mended tree: it only finds more problems.
 */
import { closest } from "../domain/did-you-mean.ts";
import { knownKeys } from "./fields.ts";
import { builtKinds, type Issue, issuePath } from "./problems.ts";
import { isTree, mapTexts, type Path, type Tree, valueAt } from "./tree.ts";

export function mended(written: Tree, issues: readonly Issue[]): Tree {
  const tree = copyOf(written);
  for (const issue of issues) {
    const path = issuePath(issue);
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) renameOrRemove(tree, path, key, knownKeys(issue));
    } else if (path.at(-1) === "kind") {
      mendKind(tree, path, issue);
    } else if (valueAt(tree, path) === undefined) {
      standIn(tree, path);
    } else {
      remove(tree, path);
    }
  }
  return tree;
}

/** A misspelt key is read as the one that was meant, where that one is not there as well. */
function renameOrRemove(tree: Tree, path: Path, key: string, known: readonly string[]): void {
  const parent = valueAt(tree, path);
  if (!isTree(parent)) return;
  const meant = closest(key, known);
  const value = parent[key];
  delete parent[key];
  if (meant !== null && !Object.hasOwn(parent, meant)) parent[meant] = value;
}

/** What stands in for a value that its table can't do without, so that the rest of the table is looked at. */
const STAND_INS: Readonly<Record<string, (path: Path) => string>> = {
  url: () => "https://crm.example/{{ operation.id }}",
  id: () => "/id",
  name: (path) => `unnamed-${path.join("-")}`,
};

function standIn(tree: Tree, path: Path): void {
  const parent = valueAt(tree, path.slice(0, -1));
  const key = String(path.at(-1));
  const value = STAND_INS[key]?.(path);
  if (value !== undefined && isTree(parent)) parent[key] = value;
  else remove(tree, path.slice(0, -1));
}

/** Of an action of another kind its names are checked on, as if it were a lead; a destination has to go. */
function mendKind(tree: Tree, path: Path, issue: Issue): void {
  const parent = valueAt(tree, path.slice(0, -1));
  if (!isTree(parent)) return;
  const kinds = builtKinds(path);
  const [first = ""] = kinds;
  const meant = parent.kind === undefined ? first : closest(String(parent.kind), kinds);
  if (meant !== null && issue.code !== "custom") {
    parent.kind = meant;
  } else if (path[0] === "actions") {
    for (const key of Object.keys(parent)) if (key !== "name" && key !== "key") delete parent[key];
    parent.kind = first;
  } else {
    remove(tree, path.slice(0, -1));
  }
}

/** In a list what comes behind goes as well, since it would be told under another place. */
function remove(tree: Tree, path: Path): void {
  const parent = valueAt(tree, path.slice(0, -1));
  const key = path.at(-1);
  if (Array.isArray(parent)) parent.splice(Number(key));
  else if (isTree(parent) && typeof key === "string") delete parent[key];
}

function copyOf(tree: Tree): Tree {
  return Object.fromEntries(
    Object.entries(tree).map(([key, value]) => [key, mapTexts(value, [key], (text) => text)]),
  );
}
