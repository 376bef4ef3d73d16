/** Everything that was written to a stream until now: newer Node versions give back one piece for each write. */
import type { PassThrough } from "node:stream";

export function written(stream: PassThrough): string {
  let text = "";
  for (let piece: unknown = stream.read(); piece !== null; piece = stream.read()) text += String(piece);
  return text;
}
