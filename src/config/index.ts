/** The configuration: one file, checked whole, with its secrets read apart and only on demand. */
export type { Config } from "./config.ts";
export type { DestinationConfig, HttpConfig } from "./destination.ts";
export { formatConfigError } from "./format.ts";
export { type LoadOptions, loadConfig } from "./load.ts";
export { type ResolvedConfig, type ResolvedDestination, resolveConfig } from "./resolve.ts";
export { actionSettings, configHash, destinationKeys, httpDestinations } from "./settings.ts";
export { formatDuration, parseDuration } from "./units.ts";
