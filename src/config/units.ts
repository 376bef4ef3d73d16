/** Durations, rates and `env:`/`file:` references as the configuration writes them. */
import { z } from "zod";

const MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `500ms`, `20s`, `15m`, `24h`, `7d` in ms; null where it is none of them. */
export function durationMs(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim());
  const unit = MS[match?.[2] ?? ""];
  return match === null || unit === undefined ? null : Math.round(Number(match[1]) * unit);
}

export interface Bounds {
  min?: string;
  max?: string;
}

/** A duration between two others, in ms. */
export function duration({ min = "1ms", max = "3650d" }: Bounds = {}): z.ZodType<number, string> {
  return z.string().transform((text, context) => {
    const ms = durationMs(text);
    if (ms === null) {
      context.addIssue({
        code: "custom",
        message: 'is not a duration: write it like "20s", "15m", "24h" or "7d"',
      });
      return z.NEVER;
    }
    if (ms < (durationMs(min) ?? 0))
      context.addIssue({ code: "custom", message: `is too short: at least ${min}` });
    if (ms > (durationMs(max) ?? ms))
      context.addIssue({ code: "custom", message: `is too long: at most ${max}` });
    return ms;
  });
}

/** `10/1s`: so many requests in so long. */
export const rate = z.string().transform((text, context) => {
  const [count = "", per = ""] = text.split("/");
  const perMs = durationMs(/^\d/.test(per) ? per : `1${per}`);
  if (/^[1-9]\d{0,5}$/.test(count) && perMs !== null && perMs > 0) return { count: Number(count), perMs };
  context.addIssue({
    code: "custom",
    message: 'is not a rate: write it like "10/1s" (ten requests a second)',
  });
  return z.NEVER;
});

/** Marks a key that the design knows and this version does not offer yet. */
export function notBuilt(what: string, insteadHint: string): z.ZodType<never, unknown> {
  return z.unknown().transform((_value, context) => {
    context.addIssue({ code: "custom", message: `not built yet: ${what}`, params: { hint: insteadHint } });
    return z.NEVER;
  });
}
