/**
 * The loop that fetches updates (design §3.1, reference §10). Owns the offset in memory and when the next call is sent;
 * what a failure means is in `failures.ts`, who is told in `alarms.ts`, the clocks are looked after by `watchdog.ts`.
 *
 * 1. P1: the next call, which confirms a page to Telegram, leaves only after `store.accept` has resolved for that page.
 * 2. P1: the first call of a process has no offset, later ones the one of the page before; it is never read from the
 *    database. Telegram sends again what is unconfirmed, and the store's unique keys absorb it (P2).
 * 3. P4: whatever Telegram or the disk do, it goes on trying and says what is wrong. It ends by `stop()` or by a bug.
 */
import { ConfigError } from "../domain/errors.ts";
import type { BotId } from "../domain/ids.ts";
import type { Clock, CrashHook, Log, Random } from "../domain/ports.ts";
import { backoffMs } from "../domain/retry.ts";
import { UPDATE_KINDS } from "../domain/settings.ts";
import type { Accepted, Decide, IntakeStore, PollerState } from "../domain/store.ts";
import { type AlarmOptions, Alarms } from "./alarms.ts";
import { type BotProfile, CALL_DEADLINE_MS, type TelegramClient } from "./client.ts";
import { Condition } from "./condition.ts";
import { TelegramError } from "./errors.ts";
import { type Failure, failureOf, waitAfter } from "./failures.ts";
import { absenceMessage, gapMessage, jumpBefore } from "./gaps.ts";
import { backlogWarning, groupPrivacyWarning, identify } from "./identify.ts";
import { offsetAfter } from "./page.ts";
import { watch } from "./watchdog.ts";

export interface PollerOptions extends AlarmOptions {
  /** For this poller alone, which closes it at the end. */
  client: TelegramClient;
  store: Pick<IntakeStore, "bot" | "accept" | "recordPoller">;
  /** From the token. */
  botId: BotId;
  /** Clamped to 1-50 s, what Telegram takes. */
  pollTimeoutMs: number;
  /** What actions need beyond the kinds that are always asked for. */
  updateKinds: readonly string[];
  /** Whether an action takes updates from groups. */
  takesGroups: boolean;
  takeOverWebhook: boolean;
  clock: Clock;
  random: Pick<Random, "fraction">;
  log: Log;
  crash: CrashHook;
  /**
   * Called once, when Telegram has said who the bot is and before the first poll: binds the database to it and gives
   * what decides. Storage that is unavailable is tried again; any other error ends the poller.
   */
  identified(me: BotProfile): Promise<Decide>;
  /** After each commit of a page. */
  onAccepted(accepted: Accepted): void;
  /** After each poll that was answered and stored, also an empty one. */
  onCompleted(): void;
}

export interface PollerStatus {
  state: PollerState;
  /** Null until this process has stored a page. */
  nextOffset: number | null;
  lastCompletedAtMs: number | null;
  /** Health is a recent completed poll, whatever else the process does. */
  lastCompletedMonotonicMs: number | null;
  lastError: string | null;
}

const PAGE_LIMIT = 100;
/** After an answer that came early and brought nothing: Telegram may answer `[]` at once, any number of times. */
const SPACING_MS = 250;
const WEBHOOK_WAIT = { firstMs: 60_000, maxMs: 60_000 };

export class Poller {
  readonly #options: PollerOptions;
  readonly #alarms: Alarms;
  readonly #condition: Condition;
  readonly #allowedUpdates: readonly string[];
  readonly #timeoutS: number;
  readonly #stalledAfterMs: number;
  readonly #end = new AbortController();
  /** Cuts short what the loop waits for now; replaced for each wait. */
  #cut = new AbortController();
  #running: Promise<void> | null = null;

  #decide: Decide | null = null;
  #offset: number | null = null;
  /** The id that should come next, by what is stored: for telling gaps, never for polling. */
  #expectedId: number | null = null;
  #limit = PAGE_LIMIT;
  #pageStored = false;

  #startedMs = 0;
  /** Telegram's last sign of life, or when a long wait that is intended ends. */
  #aliveMs = 0;

  constructor(options: PollerOptions) {
    this.#options = options;
    this.#alarms = new Alarms(options);
    this.#condition = new Condition(options);
    this.#allowedUpdates = [...new Set([...UPDATE_KINDS, ...options.updateKinds])];
    this.#timeoutS = Math.min(50, Math.max(1, Math.floor(options.pollTimeoutMs / 1000)));
    this.#stalledAfterMs = 2 * (this.#timeoutS * 1000 + CALL_DEADLINE_MS);
  }

  /** Resolves after `stop()`. Rejects on a bug, a damaged database or a wrong configuration, never for trouble that passes. */
  run(): Promise<void> {
    this.#running ??= this.#run();
    return this.#running;
  }

  /**
   * Cuts the poll short, lets the transaction in hand finish, and resolves. No last call is sent to confirm it: that call
   * could evict the next process's poll, and the unique keys absorb what comes again.
   */
  async stop(): Promise<void> {
    this.#end.abort();
    this.#cut.abort();
    // How it ended is told to whoever called run().
    await Promise.allSettled([this.#running]);
  }

  status(): PollerStatus {
    return {
      state: this.#condition.state,
      nextOffset: this.#offset,
      lastCompletedAtMs: this.#condition.completedAtMs,
      lastCompletedMonotonicMs: this.#condition.completedMonotonicMs,
      lastError: this.#condition.lastError,
    };
  }

  async #run(): Promise<void> {
    const { client, clock } = this.#options;
    this.#startedMs = clock.monotonic();
    this.#aliveMs = this.#startedMs;
    const watchdog = {
      clock,
      stalledAfterMs: this.#stalledAfterMs,
      aliveMs: () => this.#aliveMs,
      onResume: (sleptMs: number) => this.#resumed(sleptMs),
      onStall: (silentMs: number) => this.#stalled(silentMs),
    };
    const watching = watch(watchdog, this.#end.signal);
    try {
      await this.#condition.record();
      while (!this.#end.signal.aborted) await this.#step();
    } finally {
      this.#end.abort();
      await watching;
      await client.close();
      await this.#condition.stopped();
    }
  }

  async #step(): Promise<void> {
    try {
      if (this.#decide === null) this.#decide = await this.#begin();
      await this.#poll(this.#decide);
    } catch (error) {
      // By stop(), which the loop sees, or by the watchdog, after which the same call is sent again.
      if (error instanceof TelegramError && error.kind === "aborted") {
        await this.#condition.record();
        return;
      }
      const failure = failureOf(error);
      if (failure === null) throw error;
      if (error instanceof TelegramError && error.kind === "timeout") {
        // A page may be too big for a slow line; a smaller one gets through.
        this.#limit = Math.max(1, Math.floor(this.#limit / 2));
      }
      await this.#waitOut(failure);
    }
  }

  async #begin(): Promise<Decide> {
    const { client, store, botId, identified, takesGroups } = this.#options;
    const identity = await identify(client, this.#cuttable());
    const { me } = identity;
    if (me.id !== botId) {
      throw new ConfigError(`the token begins with ${botId}, but Telegram calls its bot ${me.id}`);
    }
    const stored = await store.bot();
    this.#expectedId = stored?.nextOffset ?? null;
    this.#condition.completedBefore(stored?.lastCompletedAtMs ?? null);
    const decide = await identified(me);
    this.#alarms.tell("backlog", backlogWarning(identity));
    this.#alarms.tell("group_privacy", groupPrivacyWarning(identity, takesGroups));
    return decide;
  }

  /** One call of getUpdates and what it brings. */
  async #poll(decide: Decide): Promise<void> {
    const { client, clock, crash } = this.#options;
    const { state } = this.#condition;
    if (state === "webhook" && (await this.#webhookStands())) return;
    if (this.#pageStored) crash("poll.before_next");
    this.#pageStored = false;

    // The first call, and one after trouble, does not wait for updates: it shows at once that all is well again. In a
    // conflict it has to wait, since only a waiting call finds out whether the other program is still there.
    const timeoutS = state === "polling" || state === "conflict" ? this.#timeoutS : 0;
    const startedMs = clock.monotonic();
    const request = {
      offset: this.#offset,
      limit: this.#limit,
      timeoutS,
      allowedUpdates: this.#allowedUpdates,
    };
    const elements = await client.getUpdates(request, this.#cuttable());
    this.#aliveMs = clock.monotonic();
    const news = elements.length > 0 && (await this.#accept(elements, decide));
    await this.#completed();
    const early = clock.monotonic() - startedMs < Math.max(timeoutS * 1000, SPACING_MS);
    if (early && !news) await clock.sleep(SPACING_MS, this.#cuttable());
  }

  /** Says whether anything was new. */
  async #accept(elements: readonly unknown[], decide: Decide): Promise<boolean> {
    const { store, botId, clock, crash, log, onAccepted } = this.#options;
    const nextOffset = offsetAfter(elements);
    if (nextOffset === null) {
      throw new TelegramError(
        "invalid_answer",
        "the answer to getUpdates has no element with a valid update_id",
      );
    }
    crash("poll.received");
    const page = { botId, elements, nextOffset, receivedAtMs: clock.now() };
    const accepted = await store.accept(page, decide);
    this.#offset = nextOffset;
    this.#pageStored = true;
    const { updates, duplicates } = accepted;
    log.info("poller.page_stored", { new: updates.length, duplicates, next_offset: nextOffset });
    if (updates.length > 0) {
      this.#tellGap(accepted);
      this.#expectedId = nextOffset;
    }
    onAccepted(accepted);
    return updates.length > 0;
  }

  async #completed(): Promise<void> {
    const { clock, onCompleted } = this.#options;
    this.#alarms.tell("absence", absenceMessage(this.#condition.completedAtMs, clock.now()));
    this.#limit = Math.min(PAGE_LIMIT, this.#limit * 2);
    const recorded = await this.#condition.completed();
    this.#alarms.pollCompleted(clock.monotonic(), recorded);
    onCompleted();
  }

  /** True while the webhook of another program takes the updates. */
  async #webhookStands(): Promise<boolean> {
    const { client, log, random, takeOverWebhook } = this.#options;
    const { host } = await client.getWebhookInfo(this.#cuttable());
    if (host === null) return false;
    if (takeOverWebhook) {
      await client.deleteWebhook(this.#cuttable());
      log.warn("poller.webhook_deleted", { host });
      return false;
    }
    const message =
      `a webhook at ${host} takes this bot's updates, so none come here. Remove it in the tool that set it, or set ` +
      "take_over_webhook = true in [telegram]. Nothing that waits at Telegram is dropped by either.";
    this.#condition.explain(message);
    this.#alarms.raise("webhook", message);
    await this.#condition.record();
    await this.#pause(backoffMs(WEBHOOK_WAIT, 1, random.fraction()));
    return true;
  }

  async #waitOut(failure: Failure): Promise<void> {
    const { clock, log, random } = this.#options;
    const { state, message } = failure;
    const failures = this.#condition.failed(state, message);
    const waitMs = waitAfter(failure, failures, random.fraction());
    log.warn("poller.failed", { state, failures, wait_ms: waitMs, message });
    if (failure.alert !== null) this.#alarms.raise(failure.alert, message);
    if (state === "conflict") this.#alarms.conflict(clock.monotonic());
    if (state === "retrying" || state === "webhook") this.#raiseIfDeaf();
    await this.#condition.record();
    if (failure.reached) await this.#pause(waitMs);
    else await clock.sleep(waitMs, this.#cuttable());
  }

  /** A wait that is intended, however long: the watchdog must not take it for a stall. */
  async #pause(waitMs: number): Promise<void> {
    const { clock } = this.#options;
    this.#aliveMs = clock.monotonic() + waitMs;
    await clock.sleep(waitMs, this.#cuttable());
  }

  #resumed(sleptMs: number): void {
    const { client, log } = this.#options;
    log.info("poller.resumed", { message: "the machine slept or its clock was set", slept_ms: sleptMs });
    client.rebuildConnections();
    this.#cut.abort();
  }

  #stalled(silentMs: number): void {
    const { client, clock, log } = this.#options;
    log.warn("poller.stalled", { message: "no answer for long; connecting anew", silent_ms: silentMs });
    if (this.#condition.lastError === null) this.#condition.failed("retrying", "a call to Telegram hangs");
    this.#raiseIfDeaf();
    this.#aliveMs = clock.monotonic();
    client.rebuildConnections();
    this.#cut.abort();
  }

  #raiseIfDeaf(): void {
    const silentMs =
      this.#options.clock.monotonic() - (this.#condition.completedMonotonicMs ?? this.#startedMs);
    if (silentMs <= this.#stalledAfterMs) return;
    const why = this.#condition.lastError ?? "Telegram does not answer";
    this.#alarms.raise(
      "unreachable",
      `no updates could be fetched for ${Math.round(silentMs / 60_000)} minutes: ${why}. They wait at Telegram, for 24 ` +
        "hours at most; it is tried again by itself.",
    );
  }

  #tellGap({ updates }: Accepted): void {
    const jump = jumpBefore(this.#expectedId, updates);
    if (jump.kind === "gap") this.#alarms.tell("gap", gapMessage(jump.missing));
    if (jump.kind === "renumbered") {
      this.#options.log.info("poller.renumbered", { message: "Telegram numbers this bot's updates anew" });
    }
  }

  /** A signal for the next wait, which stop() and the watchdog abort. */
  #cuttable(): AbortSignal {
    this.#cut = new AbortController();
    if (this.#end.signal.aborted) this.#cut.abort();
    return this.#cut.signal;
  }
}
