/**
 * Reads every secret of a configuration, for the commands that need them, and tells all that is wrong with them at
 * once. No value is in any message (P5).
 */
import { ConfigError, type ConfigProblem } from "../domain/errors.ts";
import type { DestinationKey } from "../domain/ids.ts";
import type { Config } from "./config.ts";
import { masked } from "./problems.ts";
import type { Secret } from "./secret.ts";
import { UnreadableError } from "./sources.ts";

export interface Secrets {
  telegram: { token: string; proxy: string | null };
  /** One entry for each destination of kind `http`. */
  destinations: ReadonlyMap<DestinationKey, DestinationSecrets>;
  /** Every value that must not be printed. */
  values: readonly string[];
}

export interface DestinationSecrets {
  /** What templates find under `secrets`. */
  values: Record<string, string>;
  proxy: string | null;
}

/** @throws ConfigError with everything that is missing or malformed */
export function resolveSecrets(config: Config): Secrets {
  const { secrets, problems } = read(config, () => true);
  if (problems.length === 0) return secrets;
  if (config.path === null && problems.some(({ path }) => path === "telegram.token") && !hasToken(config)) {
    throw gettingStarted();
  }
  const s = problems.length === 1 ? "" : "s";
  throw new ConfigError(`${problems.length} secret${s} can't be used; nothing was started`, problems);
}

/** What is wrong with secrets that stand in the file itself: that can be told without asking the environment. */
export function literalProblems(config: Config): ConfigProblem[] {
  return read(config, (secret) => secret.isLiteral).problems;
}

/** What is wrong with any secret. */
export function secretProblems(config: Config): ConfigProblem[] {
  return read(config, () => true).problems;
}

function read(
  config: Config,
  wanted: (secret: Secret) => boolean,
): { secrets: Secrets; problems: ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  const reveal = (secret: Secret, judge: Judge): string => {
    if (!wanted(secret)) return "";
    try {
      const value = secret.reveal();
      const verdict = judge(value);
      if (verdict === null) return value;
      problems.push({ path: secret.path, value: shown(secret, value), ...verdict });
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      problems.push({ path: secret.path, value: String(secret), message: error.message, hint: error.hint });
    }
    return "";
  };
  const proxyOf = (secret: Secret | null) => (secret === null ? null : reveal(secret, judgeProxy));

  const token = reveal(config.telegram.token, judgeToken);
  const telegram = { token, proxy: proxyOf(config.telegram.proxy) };
  const destinations = new Map<DestinationKey, DestinationSecrets>();
  for (const { settings, http } of config.destinations) {
    if (http === null) continue;
    const values = Object.entries(http.secrets).map(([name, secret]) => [name, reveal(secret, judgeSecret)]);
    destinations.set(settings.key, { values: Object.fromEntries(values), proxy: proxyOf(http.proxy) });
  }
  const secrets = { telegram, destinations };
  return { secrets: { ...secrets, values: allValues(secrets) }, problems };
}

type Judge = (value: string) => Pick<ConfigProblem, "message" | "hint"> | null;

const judgeSecret: Judge = (value) =>
  value === "" ? { message: "there is nothing in it", hint: null } : null;

/** Telegram's shape of a token; the client library would send anything, a space at its end too. */
const TOKEN = /^[1-9]\d{0,15}:[A-Za-z0-9_-]{24,}$/;

const judgeToken: Judge = (value) => {
  if (TOKEN.test(value)) return null;
  return {
    message: /\s/.test(value)
      ? "there are spaces or line breaks in it"
      : "it does not look like a token of @BotFather",
    hint: "copy the token alone: a number, a colon, then 24 or more letters, digits, - and _",
  };
};

const judgeProxy: Judge = (value) => {
  const protocol = URL.canParse(value) ? new URL(value).protocol : "";
  if (["http:", "https:", "socks5:"].includes(protocol)) return null;
  return {
    message: "it is no address of a proxy",
    hint: "for instance http://127.0.0.1:3128 or socks5://127.0.0.1:1080",
  };
};

/** A reference as it is written; of a value its length alone. */
function shown(secret: Secret, value: string): string {
  return secret.isLiteral ? masked(value) : String(secret);
}

/** Shorter values are no secrets that hold, and taking `1` out of every line would make the log unreadable. */
const HIDDEN_CHARS_MIN = 6;

function allValues({ telegram, destinations }: Omit<Secrets, "values">): string[] {
  const { token } = telegram;
  const proxies = [telegram.proxy, ...[...destinations.values()].map(({ proxy }) => proxy)];
  const values = [...destinations.values()].flatMap((destination) => Object.values(destination.values));
  return [token, token.slice(token.indexOf(":") + 1), ...values, ...proxies.flatMap(proxyPassword)].filter(
    (value) => value.length >= HIDDEN_CHARS_MIN,
  );
}

function proxyPassword(proxy: string | null): string[] {
  if (proxy === null || !URL.canParse(proxy)) return [];
  const { password } = new URL(proxy);
  return [password, decoded(password)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray % sign: the password is meant as it stands
  }
}

function hasToken({ telegram }: Config): boolean {
  try {
    return telegram.token.reveal() !== "";
  } catch (error) {
    if (error instanceof UnreadableError) return false;
    throw error;
  }
}

/** Nothing is configured at all: most likely the first start of somebody new. */
function gettingStarted(): ConfigError {
  return new ConfigError(
    "leadonce needs the token of your Telegram bot, and there is neither TELEGRAM_BOT_TOKEN nor a service.conf",
    [],
    [
      "1. In Telegram, send /newbot to @BotFather: it answers with a token.",
      "2. TELEGRAM_BOT_TOKEN=123456:ABC… npm start     leads go to the built-in ledger; no file is needed",
      "3. For a CRM: cp service.example.conf service.conf, and follow what it says.",
      "To look around first, with nothing to sign up for: npm run demo",
    ].join("\n"),
  );
}
