/**
 * `leadonce check`, one CRM over the network: does it answer, does it take the credentials, can it be searched? No
 * request creates anything: the probe and a look-up for a reference that no record can have.
 */
import type { AppSettings } from "../../app.ts";
import { createConnector, type HttpConnector } from "../../crm/connectors.ts";
import { IMPOSSIBLE_CONTEXT } from "../../crm/samples.ts";
import { ConfigError, unreachable } from "../../domain/errors.ts";
import type { HttpDestinationSettings } from "../../domain/http-settings.ts";
import { type CheckResult, configProblems, ok, problem, skipped, warning } from "./result.ts";

/** @param mark stands for secrets in bodies while they are made; 16 or more letters and digits */
export async function checkDestination(
  { settings, secrets }: AppSettings["http"][number],
  mark: string,
): Promise<CheckResult[]> {
  let connector: HttpConnector | null = null;
  try {
    connector = createConnector({ settings, secrets, secretMark: mark });
    const reached = await checkProbe(connector, settings);
    return [reached, ...(await checkLookUps(connector, settings, reached.state !== "problem"))];
  } catch (error) {
    // An address that is a secret could not be judged before.
    if (error instanceof ConfigError) return configProblems(`crm.${settings.name}`, error);
    throw error;
  } finally {
    await connector?.close();
  }
}

async function checkProbe(connector: HttpConnector, settings: HttpDestinationSettings): Promise<CheckResult> {
  const check = `crm.${settings.name}`;
  const { kind, status, detail } = await connector.probe(new AbortController().signal);
  switch (kind) {
    case "good":
      return goodProbe(check, settings, status);
    case "refused":
      return problem(
        check,
        `it refuses the credentials: ${detail ?? `HTTP ${status}`}`,
        `Compare [${check}.secrets] and [${check}] headers with what the CRM's documentation asks for.`,
      );
    case "bad":
      return problem(
        check,
        status === null
          ? `it can't be reached: ${detail}`
          : `it is in trouble: ${detail ?? `HTTP ${status}`}`,
        `Is [${check}] base_url right, and does the CRM work? Leads that come meanwhile wait and are not lost.`,
      );
    default:
      return unreachable(kind);
  }
}

function goodProbe(check: string, settings: HttpDestinationSettings, status: number | null): CheckResult {
  const answered = `it answers (HTTP ${status})`;
  if (settings.probe !== null && status !== null && (status < 200 || status >= 300)) {
    return warning(
      check,
      `${answered}, but not as an address that is there: the credentials may not have been tried`,
      `Set [${check}] probe to an address that answers 200 with the right credentials.`,
    );
  }
  if (settings.probe === null && !(settings.steps.lead?.find ?? null)) {
    return warning(
      check,
      `${answered}, but the credentials could not be tried without making a record`,
      `Set [${check}] probe = "…", an address that needs them, or try with a record: leadonce try --send`,
    );
  }
  return ok(check, `${answered} and does not refuse the credentials`);
}

async function checkLookUps(
  connector: HttpConnector,
  { name, steps }: HttpDestinationSettings,
  reached: boolean,
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  if ((steps.lead?.find ?? null) !== null) {
    const check = `crm.${name}.lead.find`;
    results.push(
      reached ? await checkLookUp(connector, check) : skipped(check, "not asked before the CRM answers"),
    );
  }
  if ((steps.note?.find ?? null) !== null) {
    results.push(skipped(`crm.${name}.note.find`, "a look-up of notes can be tried on a real lead only"));
  }
  return results;
}

async function checkLookUp(connector: HttpConnector, check: string): Promise<CheckResult> {
  const context = { ...IMPOSSIBLE_CONTEXT, step: "lead" as const };
  const found = await connector.find(context, new AbortController().signal);
  if (found.kind === "not_answered") {
    return problem(
      check,
      `the look-up does not work, so a lost lead would never be found: ${found.detail}`,
      `Compare [${check}] url, items and none with the CRM's documentation of its search.`,
    );
  }
  if (found.records.length > 0) {
    return problem(
      check,
      "it finds records for a reference that none can have: any record would be taken for ours",
      `Does the CRM know the field in [${check}] url? Many ignore a filter they don't know. match = "/…" judges each hit.`,
    );
  }
  return ok(check, "it is answered, and finds nothing where nothing is");
}
