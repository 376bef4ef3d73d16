/** Operations that never were: one that has everything, to try templates out, and one that nothing can match. */
import type { StepContext } from "../domain/connector.ts";
import { asOperationId, operationCode } from "../domain/ids.ts";

const nil = asOperationId("00000000-0000-0000-0000-000000000000");

export const SAMPLE_CONTEXT: StepContext = {
  step: "lead",
  operation: { id: nil, key: nil, code: operationCode(nil), createdAtMs: 0 },
  input: {
    messages: [
      {
        ref: "1:1:1",
        messageId: 1,
        kind: "text",
        text: "A sample message",
        date: 0,
        link: "https://t.me/c/1/1",
      },
    ],
    contact: {
      userId: 1,
      firstName: "Test",
      lastName: "Person",
      username: "test_person",
      language: "en",
      phone: "+12025550100",
    },
    source: { first: "sample", last: "sample" },
  },
  action: "sample",
  bot: { id: 1, username: "sample_bot" },
  lead: { id: "1", link: "https://crm.example/leads/1" },
  contactRecordId: "1",
};

/** For probes: the nil UUID is the id of no operation, and nobody's details go along. */
export const IMPOSSIBLE_CONTEXT: StepContext = {
  ...SAMPLE_CONTEXT,
  input: {
    messages: [],
    contact: {
      userId: null,
      firstName: null,
      lastName: null,
      username: null,
      language: null,
      phone: null,
    },
    source: { first: null, last: null },
  },
  action: "probe",
  bot: { id: 0, username: "" },
  lead: { id: null, link: null },
  contactRecordId: null,
};
