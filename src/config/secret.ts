/**
 * A value that must not be seen (P5): written in the configuration itself, or named there by `env:` or `file:`. It is
 * read only when asked for, so that a command that needs none works from any shell; printed in any way, it shows at
 * most where it comes from.
 */
import { inspect } from "node:util";
import { isReference, readReference, type Sources } from "./sources.ts";

export class Secret {
  /** Where it stands in the configuration: `crm.sales.secrets.token`. */
  readonly path: string;
  /** Written in the configuration itself, so that it can be judged without asking the environment. */
  readonly isLiteral: boolean;
  readonly #written: string;
  readonly #sources: Sources;

  constructor(path: string, written: string, sources: Sources) {
    this.path = path;
    this.isLiteral = !isReference(written);
    this.#written = written;
    this.#sources = sources;
  }

  /** @throws UnreadableError */
  reveal(): string {
    return this.isLiteral ? this.#written : readReference(this.#written, this.#sources);
  }

  toString(): string {
    return this.isLiteral ? "[secret]" : this.#written;
  }

  toJSON(): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return `Secret(${this.toString()})`;
  }
}
