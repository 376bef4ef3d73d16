/** One log line per transition (design §10): the same fields wherever it happens. */
import type { LogFields } from "./ports.ts";
import type { Transition } from "./store.ts";

export function transitionFields(transition: Transition): LogFields {
  const { jobId, operationId, destination, step, from, to, reason, externalId, late } = transition;
  return {
    job: jobId,
    operation: operationId,
    destination,
    step,
    from,
    to,
    reason,
    record: externalId,
    late,
  };
}
