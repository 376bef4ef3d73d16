/** The configuration: found, checked, and turned into plain values (design §8). */
export { type Config, type Destination, type LoadOptions, loadConfig } from "./load.ts";
export { formatConfigError } from "./problems.ts";
export { type ResolvedConfig, type ResolvedDestination, resolveConfig } from "./resolve.ts";
export { safetyOf } from "./rules.ts";
export { actionSettings, configHash, httpSettings } from "./settings.ts";
