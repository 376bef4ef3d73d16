/** One line of `leadonce check`: what was looked at, how it stands, and the next step where it is not well. */
import type { ConfigError, LeadonceError } from "../../domain/errors.ts";
import { oneLine, type Terminal } from "../terminal.ts";
import { count, table } from "../text.ts";

export interface CheckResult {
  /** Where it is set, in the words of the configuration: `crm.sales.lead.find`. */
  check: string;
  /** `skipped`: nobody looked, so nothing is known. */
  state: "ok" | "warning" | "problem" | "skipped";
  message: string;
  /** The next step; set for every warning and problem. */
  hint: string | null;
}

export function ok(check: string, message: string): CheckResult {
  return { check, state: "ok", message, hint: null };
}

export function warning(check: string, message: string, hint: string): CheckResult {
  return { check, state: "warning", message, hint };
}

export function problem(check: string, message: string, hint: string): CheckResult {
  return { check, state: "problem", message, hint };
}

export function skipped(check: string, message: string): CheckResult {
  return { check, state: "skipped", message, hint: null };
}

export function problemOf(check: string, { message, hint }: LeadonceError): CheckResult {
  return problem(check, message, hint ?? "Look at what it names, then run leadonce check again.");
}

/** One line for each place in the configuration that has to be mended. */
export function configProblems(check: string, error: ConfigError): CheckResult[] {
  if (error.problems.length === 0) return [problemOf(check, error)];
  return error.problems.map(({ path, value, message, hint }) =>
    problem(path, value === null ? message : `${value}: ${message}`, hint ?? "Mend it in the configuration."),
  );
}

const FORMATS = { ok: "green", warning: "yellow", problem: "red", skipped: "dim" } as const;

export function checkText(results: readonly CheckResult[], terminal: Pick<Terminal, "style">): string[] {
  const lines = table(
    results.map(({ check, state, message }) => [
      check,
      terminal.style(FORMATS[state], state),
      oneLine(message),
    ]),
  );
  return [
    ...lines.flatMap((line, index) => {
      const hint = results[index]?.hint ?? null;
      return hint === null ? [line] : [line, `    → ${oneLine(hint)}`];
    }),
    "",
    summary(results, terminal),
  ];
}

function summary(results: readonly CheckResult[], terminal: Pick<Terminal, "style">): string {
  const of = (state: CheckResult["state"]): number =>
    results.filter((result) => result.state === state).length;
  const problems = of("problem");
  const warnings = of("warning");
  const found = [
    ...(problems > 0 ? [count(problems, "problem")] : []),
    ...(warnings > 0 ? [count(warnings, "warning")] : []),
  ].join(" and ");
  if (problems > 0) return terminal.style("red", `${found}: each has its next step above`);
  if (warnings > 0) return terminal.style("yellow", `nothing is wrong, ${found}`);
  if (of("skipped") > 0) return terminal.style("green", "what was looked at is well");
  return `${terminal.style("green", "all is well")}; see the requests that a message makes: leadonce try`;
}
