/**
 * `leadonce check`, the safety class of each step (design §6): what it promises when an answer is lost, and what in the
 * requests does not fit it. P2 and P3 rest on the class being true, and nobody but the CRM's documentation can tell.
 */
import { type DestinationConfig, formatDuration } from "../../config/index.ts";
import { type ListedTemplate, requestTemplates } from "../../crm/check-templates.ts";
import { unreachable } from "../../domain/errors.ts";
import type { HttpStepSettings } from "../../domain/http-settings.ts";
import type { Step } from "../../domain/jobs.ts";
import type { StepSettings } from "../../domain/settings.ts";
import { type CheckResult, ok, warning } from "./result.ts";

export function checkSafety({ settings, http }: DestinationConfig): CheckResult[] {
  if (http === null) return [];
  const path = `crm.${settings.name}`;
  // Object.entries loses the key's type; the keys of `steps` are steps by its declaration.
  const steps = Object.entries(http.settings.steps) as [Step, HttpStepSettings][];
  const shared = requestTemplates(path, { ...NO_REQUEST, headers: http.settings.headers });
  const keysUsed = steps.some(([, { safety }]) => safety === "idempotency-key");
  return [
    ...(keysUsed ? [] : shared.flatMap((template) => unusedKey(template, steps[0]?.[1].safety ?? "none"))),
    ...steps.flatMap(([step, own]) => {
      const behaviour = settings.steps[step];
      return behaviour === undefined ? [] : checkStep(`${path}.${step}`, step, own, behaviour, shared);
    }),
  ];
}

const NO_REQUEST = { method: "GET", url: "", body: null, form: null, sendEmpty: false };

function checkStep(
  path: string,
  step: Step,
  own: HttpStepSettings,
  behaviour: StepSettings,
  shared: readonly ListedTemplate[],
): CheckResult[] {
  const templates = requestTemplates(path, own);
  return [
    promise(`${path}.safety`, step, behaviour),
    ...missingReference(path, step, own, [...shared, ...templates]),
    ...(own.safety === "idempotency-key" ? [] : templates.flatMap((one) => unusedKey(one, own.safety))),
    ...(own.safety === "none" && own.find !== null ? [unusedLookUp(path)] : []),
  ];
}

// ---- what the class promises ----------------------------------------------------------------------------------------

function promise(check: string, step: Step, behaviour: StepSettings): CheckResult {
  const { safety, keyValidForMs, unknownWaitMs, onUnknown } = behaviour;
  const wait = formatDuration(unknownWaitMs);
  switch (safety) {
    case "idempotency-key":
      return ok(
        check,
        `idempotency-key: when an answer is lost, the same key is sent again after ${wait}, for ` +
          `${formatDuration(keyValidForMs ?? 0)}; the CRM must recognise it`,
      );
    case "external-id":
      return ok(
        check,
        `external-id: when an answer is lost, the same reference is sent again after ${wait}; the CRM must not ` +
          "make a second record with it",
      );
    case "search":
      return ok(
        check,
        `search: when an answer is lost, nothing is sent again; the ${step} is looked up ${lookUps(behaviour)}`,
      );
    case "none":
      if (onUnknown === "repeat") {
        return ok(check, `none: when an answer is lost, the ${step} is sent again and may be there twice`);
      }
      return warning(
        check,
        "none: a lost answer always waits for a person (leadonce reconcile list)",
        "Can the CRM be searched by a field of yours, or does it know unique fields or keys? Then set find or safety.",
      );
    default:
      return unreachable(safety);
  }
}

function lookUps({ checksMs, assumeAbsentAfterMs }: StepSettings): string {
  const times = `after ${checksMs.map(formatDuration).join(", ")}`;
  if (assumeAbsentAfterMs === null) return `${times}, and if it is not found a person decides`;
  return `${times}; not found after ${formatDuration(assumeAbsentAfterMs)}, it is sent again`;
}

// ---- what does not fit it -------------------------------------------------------------------------------------------

/** The configuration's own rules want a key, or anything of the operation; what else is sent may not be unique. */
function missingReference(
  path: string,
  step: Step,
  { safety, find }: HttpStepSettings,
  templates: readonly ListedTemplate[],
): CheckResult[] {
  if (safety !== "external-id" && safety !== "search") return [];
  const asked = find === null ? [] : requestTemplates(`${path}.find`, find);
  const byId = anyNames(templates, "operation.id");
  const byCode =
    anyNames(templates, "operation.code") && (step === "note" || anyNames(asked, "operation.code"));
  if (byId || byCode) return [];
  return [
    warning(
      path,
      `the class rests on our reference, and {{ operation.${step === "note" ? "code" : "id"} }} is not sent`,
      "Put it into a field of its own; what else is sent may be the same for two leads.",
    ),
  ];
}

const KEY_HEADER = /\.headers\.(x-)?(idempotency|idempotent|deduplication)(-key|-id)?$/i;

function unusedKey({ path, source }: ListedTemplate, safety: StepSettings["safety"]): CheckResult[] {
  if (!KEY_HEADER.test(path) && !names(source, "operation.key")) return [];
  return [
    warning(
      path,
      `a key is sent, and safety = "${safety}" makes no use of it`,
      'If the CRM documents that it honours the key, write safety = "idempotency-key"; else leave the key out.',
    ),
  ];
}

function unusedLookUp(path: string): CheckResult {
  return warning(
    `${path}.find`,
    'a look-up is described, and safety = "none" makes no use of it',
    'Write safety = "search", and a lost lead is looked up before a person is asked.',
  );
}

function anyNames(templates: readonly ListedTemplate[], variable: string): boolean {
  return templates.some(({ source }) => names(source, variable));
}

function names(source: string, variable: string): boolean {
  const escaped = variable.replace(".", "\\.");
  return new RegExp(`\\{[{%][^}]*\\b${escaped}\\b`).test(source);
}
