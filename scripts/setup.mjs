// What every npm command does first: check Node, install when the lock file or the Node version changed,
// compile when a source changed. The second time it costs a few hashes, so that `npm start` starts in a moment.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`leadonce needs Node 20.19 or newer; this is ${process.versions.node}.
Install a current Node (https://nodejs.org) and run the same command again.`);
  process.exit(78);
}

function run(what, command, args, hint) {
  console.error(`leadonce set-up: ${what} …`);
  // The program's own output goes to stderr: stdout belongs to the command that follows (`--json`).
  const { status } = spawnSync(command, args, { cwd: root, stdio: ["ignore", 2, 2], env: process.env });
  if (status === 0) return;
  console.error(`leadonce set-up failed while ${what}. ${hint}`);
  process.exit(70);
}

function hashOf(files) {
  const hash = createHash("sha256").update(process.versions.modules);
  for (const file of files) hash.update(file).update(readFileSync(join(root, file)));
  return hash.digest("hex");
}

/** Runs `work` unless the stamp already holds this hash; the stamp is written only after success. */
function onceFor(stamp, hash, work) {
  const path = join(root, stamp);
  if (existsSync(path) && readFileSync(path, "utf8") === hash) return;
  work();
  writeFileSync(path, hash);
}

checkNode();
onceFor("node_modules/.leadonce-installed", hashOf(["package-lock.json"]), () =>
  run(
    "installing packages (a minute where SQLite has to be compiled)",
    "npm",
    ["ci", "--no-audit", "--no-fund"],
    "If it stopped at better-sqlite3, it needs a C++ toolchain: Debian `apt install build-essential python3`, macOS `xcode-select --install`. Then run the same command again.",
  ),
);
const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(root.length + 1))
  .sort();
onceFor("dist/.leadonce-built", hashOf(["package.json", "tsconfig.json", ...sources]), () => {
  rmSync(join(root, "dist"), { recursive: true, force: true });
  run("compiling", "npm", ["run", "--silent", "build"], "The compiler's message stands above.");
});
