/** The update that `leadonce try` rehearses: one from a file, as Telegram sends it, or a sample. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../../domain/errors.ts";
import type { ActionSettings } from "../../domain/settings.ts";

const HINT =
  "It holds one update as JSON, as getUpdates gives it: curl …/getUpdates > update.json. Without --update a sample is taken.";

/** What a customer would write where the first action listens. */
export function sampleUpdate([first]: readonly ActionSettings[], nowMs: number): unknown {
  const person = {
    id: 1001,
    is_bot: false,
    first_name: "Test",
    last_name: "Person",
    username: "test_person",
    language_code: "en",
  };
  const where = first?.when.chat ?? "private";
  const chat =
    where === "group" || where === "supergroup"
      ? { id: -1001, type: where, title: "A sample group" }
      : { ...person, type: "private" };
  const date = Math.floor(nowMs / 1000);
  const text = "Hello, this is a sample message. Please call me back.";
  return { update_id: 1, message: { message_id: 1, from: person, chat, date, text } };
}

/** @throws UsageError where the file holds no single update; none of its content is in the message */
export function readUpdate(file: string, cwd: string): unknown {
  const elements = elementsOf(parsed(textOf(resolve(cwd, file), file), file));
  if (elements.length === 1) return elements[0];
  throw new UsageError(`${file} holds ${elements.length} updates, and one is tried at a time`, HINT);
}

function textOf(path: string, file: string): string {
  try {
    return readFileSync(path, "utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    throw new UsageError(
      code === "ENOENT" ? `there is no file ${file}` : `${file} can't be read (${code})`,
      HINT,
    );
  }
}

/** What the parser says quotes the text, which is a customer's (P5). */
function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`${file} is not JSON`, HINT);
  }
}

/** An update by itself, a list of them, or a whole answer of getUpdates. */
function elementsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value === "object" && value !== null && "result" in value && Array.isArray(value.result)) {
    return value.result;
  }
  return [value];
}
