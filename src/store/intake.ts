/**
 * Accepting updates (design §3.2). Keeps P1: updates, operations, jobs and the offset are one durable commit. Keeps P2:
 * unique keys absorb what was stored before. One bad update is rolled back alone and quarantined.
 */
import { z } from "zod";
import { assert } from "../domain/errors.ts";
import { asBotId, asEventKey, type BotId, type EventKey, eventKey } from "../domain/ids.ts";
import type { Plan } from "../domain/operation.ts";
import type { Accepted, AcceptedUpdate, BotRow, Decide, IntakeStore } from "../domain/store.ts";
import {
  kindOf,
  MalformedUpdateError,
  type ParsedUpdate,
  parseUpdate,
  senderOf,
  updateIdOf,
  updateKind,
} from "../domain/update.ts";
import { alertBook } from "./alerts.ts";
import { isStorageTrouble } from "./database.ts";
import { actionBook } from "./operator-actions.ts";
import { planWriter } from "./plan.ts";
import { look, reader, type StoreContext, transact } from "./sql.ts";

const botRow = z
  .object({
    bot_id: z.number(),
    username: z.string().nullable(),
    next_offset: z.number().nullable(),
    last_completed_at_ms: z.number().nullable(),
  })
  .transform(
    (row): BotRow => ({
      botId: asBotId(row.bot_id),
      username: row.username,
      nextOffset: row.next_offset,
      lastCompletedAtMs: row.last_completed_at_ms,
    }),
  );

const storedUpdate = z.object({
  event_key: z.string().transform(asEventKey),
  bot_id: z.number().transform(asBotId),
  update_id: z.number().nullable(),
  state: z.enum(["accepted", "ignored", "quarantined"]),
  body: z.string().nullable(),
});

/** An update on its way into the database. */
interface Incoming {
  eventKey: EventKey;
  botId: BotId;
  updateId: number | null;
  json: string;
  receivedAtMs: number;
}

/** What is written of an update, whether it is new or decided again. */
interface Verdict {
  state: AcceptedUpdate["state"];
  reason: string | null;
  kind: string;
  chatId: number | null;
  userId: number | null;
}

export function intakeStore(context: StoreContext): IntakeStore {
  const { db, crash } = context;
  const alerts = alertBook(db);
  const actions = actionBook(db);
  const plans = planWriter(db);
  const theBot = reader(db, botRow, "SELECT * FROM bots ORDER BY bound_at_ms LIMIT 1");
  const known = reader(db, storedUpdate, "SELECT * FROM updates WHERE event_key = ?");
  const quarantined = reader(
    db,
    storedUpdate,
    "SELECT * FROM updates WHERE state = 'quarantined' ORDER BY received_at_ms, rowid",
  );
  const countAgain = db.prepare("UPDATE updates SET redelivered = redelivered + 1 WHERE event_key = ?");
  const insertUpdate = db.prepare(
    `INSERT INTO updates (event_key, bot_id, update_id, kind, chat_id, user_id, state, reason, received_at_ms, body)
     VALUES (@eventKey, @botId, @updateId, @kind, @chatId, @userId, @state, @reason, @receivedAtMs, @body)
     ON CONFLICT (event_key) DO UPDATE SET kind = @kind, chat_id = coalesce(@chatId, chat_id),
       user_id = coalesce(@userId, user_id), state = @state, reason = @reason, body = @body`,
  );
  const moveOffset = db.prepare("UPDATE bots SET next_offset = ? WHERE bot_id = ?");

  function write(update: Incoming, verdict: Verdict): void {
    // The body of an ignored business message is not kept: the owner's private chats are not ours to keep.
    const keepBody = !(verdict.state === "ignored" && verdict.kind.includes("business_message"));
    const { json, ...columns } = update;
    insertUpdate.run({ ...columns, ...verdict, body: keepBody ? json : null });
  }

  /** In a savepoint of its own: whatever throws leaves no trace. */
  const decideAndApply = db.transaction((update: Incoming, decide: Decide, nowMs: number): AcceptedUpdate => {
    const parsed = parseUpdate(JSON.parse(update.json));
    const facts = plans.facts(update.botId, decide.wants(parsed));
    const plan = decide.decide(parsed, facts, nowMs);
    write(update, verdictOf(parsed, plan));
    plans.apply(plan, update.botId, update.eventKey, nowMs);
    return {
      eventKey: update.eventKey,
      updateId: update.updateId,
      state: plan.state,
      reason: plan.reason,
      operations: plan.operations.map(({ id, code, action }) => ({ id, code, action })),
    };
  });

  function acceptOne(update: Incoming, decide: Decide, nowMs: number): AcceptedUpdate {
    try {
      return decideAndApply(update, decide, nowMs);
    } catch (error) {
      // A full disk or a busy file is nobody's fault: the whole page fails and comes again.
      if (isStorageTrouble(error) || !db.inTransaction) throw error;
      const reason = quarantineReason(error);
      const kind = kindOf(JSON.parse(update.json));
      write(update, { state: "quarantined", reason, kind, chatId: null, userId: null });
      alerts.raise(
        "quarantined",
        update.eventKey,
        `an update could not be understood (${reason}); it is kept. Look at it: leadonce trace ${update.eventKey} · decide again: leadonce retry --update ${update.eventKey}`,
        nowMs,
      );
      return {
        eventKey: update.eventKey,
        updateId: update.updateId,
        state: "quarantined",
        reason,
        operations: [],
      };
    }
  }

  function summarise(updates: AcceptedUpdate[], duplicates: number): Accepted {
    return { updates, duplicates, work: updates.some(({ operations }) => operations.length > 0) };
  }

  return {
    bot: async () => look("read the bot", () => theBot.get() ?? null),

    bindBot: async (botId, username, nowMs) =>
      transact(db, "bind the database to its bot", () => {
        const bot = theBot.get();
        if (bot !== undefined && bot.botId !== botId) return { kind: "other" as const, bot };
        db.prepare(
          `INSERT INTO bots (bot_id, username, bound_at_ms) VALUES (?, ?, ?)
           ON CONFLICT (bot_id) DO UPDATE SET username = coalesce(excluded.username, username)`,
        ).run(botId, username, nowMs);
        return { kind: "bound" as const };
      }),

    accept: async (page, decide) => {
      const accepted = transact(db, "store a page of updates", () => {
        const { changes } = moveOffset.run(page.nextOffset, page.botId);
        assert(changes === 1, "a page was accepted for a bot that the database is not bound to");
        const updates: AcceptedUpdate[] = [];
        let duplicates = 0;
        for (const element of page.elements) {
          const json = asText(element);
          const updateId = updateIdOf(element);
          const key = eventKey(page.botId, updateId, json);
          if (known.get(key) !== undefined) {
            countAgain.run(key);
            duplicates += 1;
            continue;
          }
          const update = {
            eventKey: key,
            botId: page.botId,
            updateId,
            json,
            receivedAtMs: page.receivedAtMs,
          };
          updates.push(acceptOne(update, decide, page.receivedAtMs));
        }
        crash("accept.before_commit");
        return summarise(updates, duplicates);
      });
      crash("accept.committed");
      return accepted;
    },

    redecide: async (which, decide, nowMs) =>
      transact(db, "decide updates again", () => {
        const rows =
          which === "quarantined"
            ? quarantined.all()
            : [known.get(which.eventKey)].filter((row) => row !== undefined);
        const updates: AcceptedUpdate[] = [];
        for (const row of rows) {
          if (row.state === "accepted" || row.body === null) continue;
          const update = {
            eventKey: row.event_key,
            botId: row.bot_id,
            updateId: row.update_id,
            json: row.body,
            receivedAtMs: nowMs,
          };
          const result = acceptOne(update, decide, nowMs);
          if (result.state !== "quarantined") alerts.clear("quarantined", row.event_key, nowMs);
          updates.push(result);
        }
        if (which !== "quarantined" && updates.length > 0) {
          const { operator, eventKey } = which;
          actions.record(
            { operator, action: "retry update", jobId: null, subject: eventKey, detail: null },
            nowMs,
          );
        }
        return summarise(updates, 0);
      }),

    recordPoller: async (botId, report) =>
      transact(db, "record the poller's state", () => {
        db.prepare(
          `UPDATE bots SET poller_state = ?, last_completed_at_ms = coalesce(?, last_completed_at_ms), last_error = ?
           WHERE bot_id = ?`,
        ).run(report.state, report.lastCompletedAtMs, report.lastError, botId);
      }),
  };
}

/** What is nested too deeply to be written is no update of Telegram's, and must not take its page along: quarantined. */
function asText(element: unknown): string {
  try {
    return JSON.stringify(element);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return JSON.stringify("nested too deeply to be kept");
  }
}

function verdictOf(update: ParsedUpdate, plan: Plan): Verdict {
  const { content } = update;
  const message = "message" in content ? content.message : null;
  return {
    state: plan.state,
    reason: plan.reason,
    kind: updateKind(update),
    chatId: message?.chat.id ?? (content.kind === "my_chat_member" ? content.chatId : null),
    userId:
      message === null ? ("from" in content ? content.from.id : null) : (senderOf(message)?.userId ?? null),
  };
}

/** Names the kind of trouble, never a value: an error's message may hold a customer's words (P5). */
function quarantineReason(error: unknown): string {
  if (error instanceof MalformedUpdateError) return `malformed: ${error.message}`;
  if (error instanceof Error) return `error: ${"code" in error ? String(error.code) : error.name}`;
  return "error";
}
