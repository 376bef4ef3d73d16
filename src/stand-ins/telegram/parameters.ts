/**
 * The parameters of one call, from wherever the client put them: query, URL-encoded form, multipart form or a JSON
 * object. To the server each one is a text; it rejects none of them but makes of it what it can.
 */

export type Parameters = Readonly<Record<string, string>>;

/** All parameters together; more is answered by 413. */
export const MAX_PARAMETER_BYTES = 1 << 20;

export function readParameters(query: string, contentType: string | undefined, body: Buffer): Parameters {
  // The first value of a name counts, and the query comes first.
  return { ...readBody(contentType ?? "", body), ...readForm(query) };
}

function readBody(contentType: string, body: Buffer): Record<string, string> {
  const type = contentType.toLowerCase();
  if (type.includes("multipart/form-data")) return readMultipart(contentType, body);
  if (type.includes("application/x-www-form-urlencoded")) return readForm(body.toString("utf8"));
  if (type.includes("application/json")) return readJson(body.toString("utf8"));
  return {};
}

function readForm(text: string): Record<string, string> {
  return Object.fromEntries([...new URLSearchParams(text)].reverse());
}

/** Strings as they are, everything else as its JSON text. What cannot be parsed counts as no parameters. */
function readJson(text: string): Record<string, string> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return {};
  const entries = Object.entries(parsed).map(([name, value]) => [
    name,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return Object.fromEntries(entries);
}

/** Fields only; the stand-in has no use for the content of files. */
function readMultipart(contentType: string, body: Buffer): Record<string, string> {
  const boundary = /boundary="?([^";]+)"?/i.exec(contentType)?.[1];
  if (boundary === undefined) return {};
  const fields: Record<string, string> = {};
  // Latin-1 maps bytes to characters one to one, so that the text can be cut and turned back into the same bytes.
  for (const part of body.toString("latin1").split(`--${boundary}`)) {
    const headEnd = part.indexOf("\r\n\r\n");
    const head = part.slice(0, headEnd);
    const name = /;\s*name="([^"]*)"/i.exec(head)?.[1];
    if (headEnd < 0 || name === undefined || /;\s*filename=/i.test(head)) continue;
    const value = part.slice(headEnd + 4).replace(/\r\n$/, "");
    fields[name] ??= Buffer.from(value, "latin1").toString("utf8");
  }
  return fields;
}

/**
 * A number as the server reads it: the leading digits, or 0 without any, wrapped to 32 bits. 4294967295 is -1, and as an
 * offset that deletes updates.
 */
export function readInt32(text: string | undefined, byDefault: number): number {
  if (text === undefined || text === "") return byDefault;
  const digits = /^-?\d+/.exec(text)?.[0] ?? "0";
  return Number(BigInt.asIntN(32, BigInt(digits)));
}

export function readClamped(text: string | undefined, byDefault: number, min: number, max: number): number {
  return Math.min(Math.max(readInt32(text, byDefault), min), max);
}

export function readBoolean(text: string | undefined): boolean {
  return /^(1|t|true|y|yes)$/i.test(text?.trim() ?? "");
}
