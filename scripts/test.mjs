// `npm test [-- PATTERN…]`: every test/**/*.test.ts (or those whose path contains a PATTERN) under Node's runner.
// Node 20's runner takes no globs, hence the list made here. Crash campaigns and simulations have commands of their own.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const patterns = process.argv.slice(2);
const files = readdirSync(join(root, "test"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".test.ts"))
  .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
  .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)))
  .sort();

if (files.length === 0) {
  console.error(`No test file matches ${patterns.join(", ")}.`);
  process.exit(64);
}
const { status } = spawnSync(
  process.execPath,
  ["--import", "tsx", "--test", "--test-reporter=spec", "--test-concurrency=2", ...files],
  { cwd: root, stdio: "inherit" },
);
process.exit(status ?? 70);
