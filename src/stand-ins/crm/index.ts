/** The CRM stand-in as others use it. */
export * as answers from "./answers.ts";
export type { RequestKind, SafetyClass } from "./api.ts";
export type { AnswerFault, Fault, FaultKind, Misbehaviour } from "./faults.ts";
export type { LoggedRequest } from "./journal.ts";
export type { Effect } from "./messages.ts";
export type { CrmRecord } from "./records.ts";
export { type CrmOptions, CrmStandIn, type FaultHandle, startCrmStandIn } from "./server.ts";
