// What the suites know of a `haft serve` that they start.

import { createInterface } from "node:readline";

/** Reads where a server that has just been started answers. */
export async function apiOf(server) {
  for await (const line of createInterface({ input: server.stdout })) {
    const [what, address] = line.split(/\s+/);
    if (what === "api") return address.replace(/\/v1$/, "");
  }
  throw new Error("haft serve ended");
}
