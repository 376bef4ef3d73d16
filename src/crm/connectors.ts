/** Makes the connector of a destination. The ledger needs none: it is the operations table itself. */
import { ConfigError } from "../domain/errors.ts";
import { checkTemplates } from "./check-templates.ts";
import { HttpConnector, type HttpConnectorOptions } from "./http-connector.ts";

export { checkTemplates } from "./check-templates.ts";
export type { Preview } from "./destination.ts";
export type { HttpConnector, HttpConnectorOptions } from "./http-connector.ts";
export { TemplateError } from "./template.ts";

/** Errors: `ConfigError` with every problem of the destination's templates. */
export function createConnector(options: HttpConnectorOptions): HttpConnector {
  const problems = checkTemplates(options.settings);
  if (problems.length > 0) {
    throw new ConfigError(`the destination "${options.settings.name}" can't be used as configured`, problems);
  }
  return new HttpConnector(options);
}
