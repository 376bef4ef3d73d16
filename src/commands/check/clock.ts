/**
 * `leadonce check`, the clock: Telegram's dates and the CRM's keys are judged by it. Compared with the `Date` header of
 * the Bot API server, which needs no token.
 */
import type { AppSettings } from "../../app.ts";
import { createHttpClient } from "../../crm/http-client.ts";
import type { Clock } from "../../domain/ports.ts";
import { span } from "../text.ts";
import { type CheckResult, ok, warning } from "./result.ts";

const TIMEOUT_MS = 10_000;
/** More than an answer takes; less than what would make a "24h" wrong. */
const TOLERATED_MS = 60_000;

/** None where the server can't be asked: the check of the bot tells why. */
export async function checkClock(
  { apiRoot, proxy }: Pick<AppSettings["telegram"], "apiRoot" | "proxy">,
  clock: Pick<Clock, "now">,
): Promise<CheckResult[]> {
  const client = createHttpClient({ timeoutMs: TIMEOUT_MS, proxy });
  try {
    const request = { method: "GET", url: new URL("/", apiRoot), headers: {}, body: null, fresh: true };
    const exchange = await client.exchange(request, new AbortController().signal);
    if (exchange.kind === "failed") return [];
    const serverMs = Date.parse(exchange.headers.date ?? "");
    return Number.isNaN(serverMs) ? [] : [clockResult(clock.now() - serverMs)];
  } finally {
    await client.close();
  }
}

/** @param aheadMs negative where this machine's clock is behind */
function clockResult(aheadMs: number): CheckResult {
  const check = "clock";
  if (Math.abs(aheadMs) <= TOLERATED_MS) return ok(check, "it agrees with Telegram's");
  return warning(
    check,
    `this machine is ${span(Math.abs(aheadMs))} ${aheadMs > 0 ? "ahead of" : "behind"} Telegram`,
    "Set the clock; on most systems: timedatectl set-ntp true",
  );
}
