/** What the stand-in can be told to do wrong, and which fault takes which request. */
import type { RequestKind } from "./api.ts";
import type { LoggedRequest } from "./journal.ts";

/** Another answer than the true one. */
export interface AnswerFault {
  kind: "answer";
  status: number;
  /** A string is sent as it stands, everything else as JSON; left out: no body. */
  body?: unknown;
  headers?: Record<string, string>;
  /** The request is carried out all the same, and only its answer replaced. */
  applied?: boolean;
}

export type Misbehaviour =
  /** The connection ends before the body is read: nothing is created. */
  | { kind: "drop" }
  /** Carried out, then the connection ends without an answer. */
  | { kind: "apply-then-drop" }
  /** Carried out, never answered. */
  | { kind: "apply-then-hang" }
  /** Carried out; the answer ends in the middle of its body. */
  | { kind: "apply-then-cut" }
  /** Carried out at once; answered after `ms`, without it on release. */
  | { kind: "slow"; ms?: number }
  /**
   * Held, and carried out after `ms` or on release, whether or not the client is still there. `blind`: without
   * another look for a twin, as CRMs do that check uniqueness in the application and then write.
   */
  | { kind: "land-late"; ms?: number; blind?: boolean }
  | AnswerFault;

export type Fault = {
  /** The first matching request it may take, counted from its registration; 1 where not given. */
  nth?: number;
  /** How many requests it takes; 1 where not given. */
  times?: number;
} & (
  | ({ on: RequestKind | "any" } & Misbehaviour)
  /** The search stays blind to what the request makes for `ms`, without it until `crm.index()`. */
  | { on: "create" | "note" | "contact"; kind: "search-lag"; ms?: number }
  /** The search shows each record twice: the very same one, or a copy under another id. */
  | { on: "find" | "find-notes" | "find-contacts"; kind: "duplicate"; as: "same-id" | "other-id" }
);

export type FaultKind = Fault["kind"];

export interface Scheduled {
  readonly fault: Fault;
  /** The requests it has taken and begun to treat. */
  readonly requests: LoggedRequest[];
  seen: number;
  left: number;
}

/**
 * Faults stand in line. Every fault counts every request that it matches; one that is due while an earlier one takes
 * the request stays due. So two faults for "the next create" take the next two, and `nth` counts what it says.
 */
export class FaultLine {
  #line: Scheduled[] = [];

  add(fault: Fault): Scheduled {
    const { nth = 1, times = 1 } = fault;
    if (nth < 1 || times < 1) throw new RangeError("a fault's nth and times count from 1");
    const scheduled = { fault, requests: [], seen: 0, left: times };
    this.#line.push(scheduled);
    return scheduled;
  }

  /** The fault that treats this request, if any. Every request must be shown here exactly once. */
  take(kind: RequestKind): Scheduled | null {
    let taken: Scheduled | null = null;
    for (const scheduled of this.#line) {
      const { on, nth = 1 } = scheduled.fault;
      if (on !== "any" && on !== kind) continue;
      scheduled.seen += 1;
      if (taken === null && scheduled.seen >= nth) taken = scheduled;
    }
    if (taken !== null) taken.left -= 1;
    this.#line = this.#line.filter(({ left }) => left > 0);
    return taken;
  }

  withdraw(scheduled: Scheduled): void {
    this.#line = this.#line.filter((other) => other !== scheduled);
  }

  clear(): void {
    this.#line = [];
  }
}
