/** What must hold between keys: checked after the shapes, all at once. */
import type { ConfigProblem } from "../domain/errors.ts";
import type { SafetyClass } from "../domain/settings.ts";
import { suggestion } from "./problems.ts";
import type { ActionConfig, HttpDestinationConfig, StepConfig } from "./schema.ts";

type Report = (path: string, message: string, hint?: string) => void;

/** The class of a step: its own, the destination's, or what the presence of a look-up allows. */
export function safetyOf(destination: HttpDestinationConfig, step: StepConfig): SafetyClass {
  return step.safety ?? destination.safety ?? (step.find === undefined ? "none" : "search");
}

export function destinationProblems(name: string, destination: HttpDestinationConfig): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const report: Report = (path, message, hint) =>
    void problems.push({ path: `crm.${name}.${path}`, value: null, message, hint: hint ?? null });
  if (destination.lease < destination.timeout + 10_000) {
    report(
      "lease",
      "must exceed timeout by 10 s",
      "Otherwise a slow answer could come after its lease was taken back.",
    );
  }
  if (destination.retry.max < destination.retry.first) report("retry.max", "is shorter than retry.first");
  const steps: [string, StepConfig | undefined][] = [
    ["lead", destination.lead],
    ["note", destination.note],
  ];
  const present = steps.flatMap(([step, config]) => (config === undefined ? [] : [{ step, config }]));
  for (const { step, config } of present)
    stepProblems(step, config, safetyOf(destination, config), destination, report);
  const keyed = present.some(({ config }) => safetyOf(destination, config) === "idempotency-key");
  if (destination.key_valid_for !== undefined && !keyed) {
    report(
      "key_valid_for",
      'is only used with safety = "idempotency-key"',
      "Set safety, or leave key_valid_for out.",
    );
  }
  return problems;
}

function stepProblems(
  step: string,
  config: StepConfig,
  safety: SafetyClass,
  destination: HttpDestinationConfig,
  report: Report,
): void {
  if (safety === "search" && config.find === undefined) {
    report(
      `${step}.find`,
      'is missing: safety = "search" looks records up',
      `Add [crm.NAME.${step}.find], or set safety = "none" for this step.`,
    );
  }
  const upsert = config.method === "PUT" || config.method === "PATCH";
  if (safety === "external-id" && !upsert && config.exists === undefined && config.find === undefined) {
    report(
      `${step}.safety`,
      'is "external-id" with a method that is no upsert',
      "Describe the conflict with `exists`, or add a `find`.",
    );
  }
  if (config.exists !== undefined && config.exists.match === undefined && config.find === undefined) {
    report(
      `${step}.exists`,
      "needs `match` or a `find`",
      "Without either, a conflict about somebody else's record would count as ours.",
    );
  }
  if (config.body !== undefined && config.form !== undefined)
    report(`${step}.form`, "can't stand beside body", "Keep one of the two.");
  const relative = (url: string): boolean => !/^(https?:\/\/|\{\{)/.test(url);
  if (destination.base_url === undefined && relative(config.url)) {
    report(`${step}.url`, "is relative, and there is no base_url", "Set base_url, or write the whole URL.");
  }
}

export function actionProblems(
  actions: readonly ActionConfig[],
  destinations: readonly string[],
): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const seen = new Map<string, number>();
  for (const [index, { name, key, to }] of actions.entries()) {
    const identity = key ?? name;
    if (seen.has(identity)) {
      problems.push({
        path: `actions[${index}].name`,
        value: JSON.stringify(identity),
        message: `is already the name of actions[${seen.get(identity)}]`,
        hint: "Give each action a name of its own.",
      });
    }
    seen.set(identity, index);
    for (const [position, destination] of (to ?? []).entries()) {
      if (destinations.includes(destination)) continue;
      problems.push({
        path: `actions[${index}].to[${position}]`,
        value: JSON.stringify(destination),
        message: "is no destination of this configuration",
        hint: suggestion(destination, destinations),
      });
    }
  }
  return problems;
}
