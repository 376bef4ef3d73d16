/**
 * Secrets on their way into a request. A body is stored, so there a secret is only a placeholder, recognised by a mark
 * that is random per database; the value goes in right before the request leaves and is never written down (P5).
 */
import type { Variables } from "./template.ts";

export type Secrets = Readonly<Record<string, string>>;

export class MissingSecretError extends Error {
  override readonly name = "MissingSecretError";
}

/** Letters and digits only: it must look the same in JSON, in a form and in plain text. */
const MARK = /^[A-Za-z0-9]{16,}$/;

export class SecretPlaceholders {
  readonly #mark: string;
  readonly #secrets: Secrets;
  readonly #placeholder: RegExp;
  /** What templates of a body see under `secrets`. */
  readonly variables: Variables;

  constructor(mark: string, secrets: Secrets) {
    if (!MARK.test(mark)) throw new TypeError("the mark of secrets needs 16 or more letters and digits");
    this.#mark = mark;
    this.#secrets = secrets;
    this.#placeholder = new RegExp(`${mark}x([0-9a-f]*)x`, "g");
    this.variables = Object.fromEntries(
      Object.keys(secrets).map((name) => [name, `${mark}x${Buffer.from(name).toString("hex")}x`]),
    );
  }

  /**
   * @param encode how a text is written in this kind of body: a placeholder only ever stands inside a text, so
   *   putting the encoded value in its place equals filling the parsed value and serialising it again
   * Errors: `MissingSecretError` when a stored body asks for a secret that the configuration no longer has.
   */
  fill(body: string, encode: (secret: string) => string): string {
    if (!body.includes(this.#mark)) return body;
    return body.replace(this.#placeholder, (_, hex: string) => {
      const name = Buffer.from(hex, "hex").toString();
      const secret = Object.hasOwn(this.#secrets, name) ? this.#secrets[name] : undefined;
      if (secret === undefined) {
        throw new MissingSecretError(`the stored body needs the secret "${name}", which is not configured`);
      }
      return encode(secret);
    });
  }
}
