/** A `ConfigError` as a person reads it: each problem with its place, what stands there, and how to mend it. */
import type { ConfigError, ConfigProblem } from "../domain/errors.ts";

/** Several lines, without a line break at the end. */
export function formatConfigError({ message, problems, hint }: ConfigError): string {
  const blocks = [message, ...problems.map(formatProblem)];
  if (hint !== null) blocks.push(hint);
  return blocks.join("\n\n");
}

function formatProblem({ path, value, message, hint }: ConfigProblem): string {
  const lines = [
    value === null ? path : `${path} = ${value}`,
    message,
    ...(hint === null ? [] : [`→ ${hint}`]),
  ];
  return lines.map((line, index) => `${index === 0 ? "  " : "      "}${line}`).join("\n");
}
