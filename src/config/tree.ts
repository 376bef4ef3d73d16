/** The configuration as TOML gave it, before any check, and the places in it. */

export type Tree = { [key: string]: unknown };
/** Keys of tables and positions in lists, from the root. */
export type Path = readonly (string | number)[];

/** A table, and no date, list or secret; the TOML library makes tables without a prototype. */
export function isTree(value: unknown): value is Tree {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** As problems name a place: `crm.sales.retry.first`, `actions[0].kind`. */
export function pathText(path: Path): string {
  return path.reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : text === "" ? part : `${text}.${part}`),
    "",
  );
}

export function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, part) => {
    if (Array.isArray(value)) return value[Number(part)];
    return isTree(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  }, root);
}

/** A copy in which `change` has replaced every text; dates and numbers stay what they are. */
export function mapTexts(value: unknown, path: Path, change: (text: string, path: Path) => unknown): unknown {
  if (typeof value === "string") return change(value, path);
  if (Array.isArray(value)) return value.map((item, index) => mapTexts(item, [...path, index], change));
  if (!isTree(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, mapTexts(member, [...path, key], change)]),
  );
}
