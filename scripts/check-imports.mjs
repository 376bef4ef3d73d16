// The direction of imports (design §12), checked: cli → commands → app → the rooms → domain. The rooms do not know each
// other, one package has one home, and nothing outside the adapters reads a clock, randomness or the network.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const src = join(root, "src");

/** What each room may import from; a room is a folder of src or a file at its top. */
const MAY_IMPORT = {
  domain: [],
  config: ["domain"],
  store: ["domain"],
  telegram: ["domain"],
  crm: ["domain"],
  worker: ["domain"],
  reconcile: ["domain"],
  operator: ["domain"],
  "stand-ins": ["domain"],
  "system.ts": ["domain"],
  "version.ts": [],
  "app.ts": [
    "config",
    "store",
    "telegram",
    "crm",
    "worker",
    "reconcile",
    "operator",
    "domain",
    "system.ts",
    "version.ts",
  ],
  commands: [
    "app.ts",
    "config",
    "store",
    "telegram",
    "crm",
    "operator",
    "stand-ins",
    "domain",
    "system.ts",
    "version.ts",
  ],
  "cli.ts": ["commands", "domain", "config", "operator", "system.ts", "version.ts"],
};

/** Packages with one home. */
const HOME = {
  "better-sqlite3": ["store"],
  "node-telegram-bot-api": ["telegram"],
  liquidjs: ["crm"],
  "smol-toml": ["config"],
  commander: ["cli.ts", "commands"],
  winston: ["operator"],
  "p-queue": ["worker", "reconcile", "telegram"],
  undici: ["crm", "telegram"],
};

/** The domain is pure: zod, and three libraries that only compute. */
const DOMAIN_PACKAGES = ["zod", "uuid", "node:crypto", "libphonenumber-js"];

/** Reading time, randomness or the environment belongs to the adapters. */
const IMPURE =
  /\b(Date\.now|new Date\(\)|Math\.random|setTimeout|setInterval|process\.env|performance\.now)\b/;
const PURE_ROOMS = ["domain", "worker", "reconcile"];

const files = readdirSync(src, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const roomOf = (file) => relative(src, file).split("/")[0];
const problems = [];

for (const file of files) {
  const room = roomOf(file);
  const name = relative(root, file);
  const text = readFileSync(file, "utf8");
  if (MAY_IMPORT[room] === undefined) problems.push(`${name}: src/${room} is no room of the design`);
  for (const [, specifier] of text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)) {
    if (specifier.startsWith(".")) {
      const target = resolve(dirname(file), specifier);
      const other = roomOf(target);
      if (relative(src, target).startsWith("..")) {
        if (relative(root, target) !== "package.json")
          problems.push(`${name} imports ${specifier}, outside src`);
      } else if (other !== room && !MAY_IMPORT[room]?.includes(other)) {
        problems.push(`${name} (${room}) may not import from ${other}`);
      }
      continue;
    }
    const packageName = specifier
      .split("/")
      .slice(0, specifier.startsWith("@") ? 2 : 1)
      .join("/");
    const home = HOME[packageName];
    if (home !== undefined && !home.includes(room))
      problems.push(`${name}: ${packageName} belongs in ${home.join(", ")}`);
    if (room === "domain" && !DOMAIN_PACKAGES.includes(specifier))
      problems.push(`${name}: the domain may not import ${specifier}`);
  }
  if (PURE_ROOMS.includes(room)) {
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    const impure = IMPURE.exec(code);
    if (impure !== null) problems.push(`${name} uses ${impure[1]}: ask for it through domain/ports`);
  }
}

if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
console.log(`imports: ${files.length} files keep the direction`);
