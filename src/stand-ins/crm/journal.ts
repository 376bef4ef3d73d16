/** The log of requests, and the promises of those who wait for something to show in it or in the records. */
import type { RequestKind } from "./api.ts";
import type { FaultKind } from "./faults.ts";
import type { Effect } from "./messages.ts";

/** A request and its fate, kept up to date while it is under way. */
export interface LoggedRequest {
  /** Running number, from 1, in the order in which requests were complete. */
  readonly number: number;
  /** Running number of the connection it came on: shows who reuses one. */
  readonly connection: number;
  readonly kind: RequestKind;
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Names in lower case; the value of `authorization` is masked. */
  readonly headers: Readonly<Record<string, string>>;
  /** As it came; empty when the connection was dropped before it was read. */
  readonly body: string;
  /** The fault that took it. */
  readonly fault: FaultKind | null;
  /** What it did to the records; `pending` while it is held. */
  readonly effect: Effect | "pending";
  /** The record it made, changed, met or read. */
  readonly recordId: string | null;
  /** What the client got of the answer. `sent` means handed to the operating system. */
  readonly answer: "pending" | "sent" | "dropped" | "cut" | "client-gone";
  /** Of the answer that was begun. */
  readonly status: number | null;
}

interface Waiter {
  /** Looks again; true when the waiter is served. */
  served: () => boolean;
  giveUp: () => void;
}

export class Journal {
  readonly requests: LoggedRequest[] = [];
  readonly #waiters = new Set<Waiter>();
  #closed = false;

  /** To be called after every change that somebody may wait for. */
  changed(): void {
    for (const waiter of this.#waiters) {
      if (waiter.served()) this.#waiters.delete(waiter);
    }
  }

  /** Resolves with what `look` returns as soon as that is neither undefined, null nor false; rejects on close. */
  waitFor<Found>(look: () => Found | undefined | null | false, what: string): Promise<Found> {
    const promise = new Promise<Found>((resolve, reject) => {
      const served = () => {
        try {
          const found = look();
          if (found === undefined || found === null || found === false) return false;
          resolve(found);
        } catch (error) {
          reject(error);
        }
        return true;
      };
      const giveUp = () => reject(new Error(`the CRM stand-in was closed while somebody waited for ${what}`));
      if (served()) return;
      if (this.#closed) giveUp();
      else this.#waiters.add({ served, giveUp });
    });
    // Whoever awaits it sees the rejection; a promise that nobody awaits any more must not end the process at close.
    promise.catch(() => undefined);
    return promise;
  }

  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiters) waiter.giveUp();
    this.#waiters.clear();
  }
}
