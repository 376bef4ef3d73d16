/**
 * Waiting for the stand-in without polling: whoever changes something says so, and everybody who waits looks again.
 */

/** A guard against waiting for ever, not a measurement. */
const DEFAULT_LIMIT_MS = 15_000;

export interface WaitOptions {
  /** What is waited for, in words, for the error. */
  what?: string;
  /** Real milliseconds, whatever the stand-in's clock says. */
  withinMs?: number;
}

export class Changes {
  readonly #watchers = new Set<() => void>();
  readonly #closing = new Set<() => void>();
  readonly #describe: () => string;

  /** `describe` tells what was seen so far, for the error of a wait that was in vain. */
  constructor(describe: () => string) {
    this.#describe = describe;
  }

  notify(): void {
    for (const look of [...this.#watchers]) look();
  }

  /** Resolves with the first value of `condition` that is neither false nor undefined. */
  until<T>(condition: () => T | false | undefined, options: WaitOptions = {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const { what = "the awaited change", withinMs = DEFAULT_LIMIT_MS } = options;
      const finish = (settle: () => void): void => {
        this.#watchers.delete(look);
        this.#closing.delete(close);
        clearTimeout(limit);
        settle();
      };
      const giveUp = (why: string): void =>
        finish(() => reject(new Error(`Waited in vain for ${what}: ${why}. ${this.#describe()}`)));
      const look = (): void => {
        try {
          const value = condition();
          if (value !== false && value !== undefined) finish(() => resolve(value));
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const close = (): void => giveUp("the stand-in was closed");
      const limit = setTimeout(() => giveUp(`${withinMs} ms have passed`), withinMs);
      this.#watchers.add(look);
      this.#closing.add(close);
      look();
    });
  }

  close(): void {
    for (const close of [...this.#closing]) close();
  }
}
