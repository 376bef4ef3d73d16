/**
 * The errors that end a command, each with the exit code of design §9, and the one for bugs. `message` is for people,
 * `hint` is the next step; neither ever holds a secret, a phone number or a message text (P5).
 */
export const EXIT = {
  ok: 0,
  found: 1,
  usage: 64,
  unreachable: 69,
  bug: 70,
  storage: 74,
  locked: 75,
  config: 78,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export class LeadonceError extends Error {
  readonly exitCode: ExitCode;
  readonly hint: string | null;

  constructor(exitCode: ExitCode, message: string, hint: string | null = null, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.exitCode = exitCode;
    this.hint = hint;
  }
}

/** One thing that is wrong with the configuration: where, what stands there (masked), and how to mend it. */
export interface ConfigProblem {
  path: string;
  value: string | null;
  message: string;
  hint: string | null;
}

/** Carries every problem at once, so that a person mends the file in one go. */
export class ConfigError extends LeadonceError {
  readonly problems: readonly ConfigProblem[];

  constructor(message: string, problems: readonly ConfigProblem[] = [], hint: string | null = null) {
    super(EXIT.config, message, hint);
    this.problems = problems;
  }
}

export class UsageError extends LeadonceError {
  constructor(message: string, hint: string | null = null) {
    super(EXIT.usage, message, hint);
  }
}

export class StorageError extends LeadonceError {
  constructor(message: string, hint: string | null = null, cause?: unknown) {
    super(EXIT.storage, message, hint, cause);
  }
}

/** The disk is full, the file is read-only or busy: nothing was written, the same call may succeed later. */
export class StorageUnavailableError extends StorageError {}

export class LockedError extends LeadonceError {
  constructor(message: string, hint: string | null = null) {
    super(EXIT.locked, message, hint);
  }
}

/** A bug of ours: crash and let the supervisor restart, never retry in place. */
export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** The `default` of an exhaustive switch. */
export function unreachable(value: never): never {
  throw new InvariantError(`unexpected value: ${JSON.stringify(value)}`);
}
