/** A file system that is quickly full: a tmpfs, where the machine lets us mount one. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function mountSmallDisk(folder: string, size: string): boolean {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const options = ["-t", "tmpfs", "-o", `size=${size},mode=700`, "tmpfs", folder];
  return spawnSync("mount", options, { stdio: "ignore" }).status === 0;
}

export function unmount(folder: string): void {
  spawnSync("umount", [folder], { stdio: "ignore" });
}

/** Why a test that needs one is skipped; false where it need not be. */
export function whyNoSmallDisk(): string | false {
  const folder = mkdtempSync(join(tmpdir(), "leadonce-mount-"));
  const mounted = mountSmallDisk(folder, "64k");
  if (mounted) unmount(folder);
  rmSync(folder, { recursive: true, force: true });
  return mounted ? false : "no tmpfs can be mounted here";
}

/** Takes all the space that is left. Returns what gives it back. */
export function fill(folder: string): () => void {
  const ballast = join(folder, "ballast");
  const { bfree, bsize } = statfsSync(folder);
  writeFileSync(ballast, Buffer.alloc(bfree * bsize));
  return () => rmSync(ballast);
}
