/** The version, read from package.json so that it stands in one place. */
import { readFileSync } from "node:fs";
import { z } from "zod";

const packageFile = new URL("../package.json", import.meta.url);

export const VERSION = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(packageFile, "utf8"))).version;
