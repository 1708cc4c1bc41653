// The worker that the conformance suite wants, in JavaScript.

import { appendFileSync, existsSync, readFileSync, unlinkSync } from "node:fs";

import { Cancelled, EffectUnknown, ToolError, Worker, tool } from "../src/index.js";

const none = /** @type {const} */ ({ type: "object" });
const external = /** @type {const} */ ({ mode: "external", approve: false });

const echo = tool({
  name: "conform_echo",
  description: "Returns what it was given.",
  schema: /** @type {const} */ ({ type: "object", properties: { value: {} }, required: ["value"] }),
  mode: "read",
  execute: (/** @type {any} */ { value }, { key, attempt, tenant, userId }) => ({ value, key, attempt, tenant, user: userId }),
});

const fail = tool({
  name: "conform_fail",
  description: "Fails.",
  schema: none,
  mode: "read",
  execute: () => {
    throw new ToolError("it failed", { errorClass: "upstream" });
  },
});

const unknown = tool({
  name: "conform_unknown",
  description: "Does not know whether it took effect.",
  schema: none,
  ...external,
  execute: () => {
    throw new EffectUnknown("the connection broke");
  },
});

const flaky = tool({
  name: "conform_flaky",
  description: "Works the second time.",
  schema: none,
  ...external,
  key: true,
  retry: { attempts: 3, backoff: "10ms" },
  execute: (_, { key, attempt }) => {
    if (attempt === 1) throw new ToolError("busy", { errorClass: "upstream" });
    return { key, attempt };
  },
});

const ask = tool({
  name: "conform_ask",
  description: "Asks first.",
  schema: none,
  mode: "external",
  approve: true,
  preview: () => "shown",
  execute: () => "asked",
});

const slow = tool({
  name: "conform_slow",
  description: "Waits, and can be stopped.",
  schema: /** @type {const} */ ({ type: "object", properties: { ms: { type: "integer" } }, required: ["ms"] }),
  mode: "read",
  timeout: "120s",
  execute: async (/** @type {any} */ { ms }, { abortSignal, progress }) => {
    for (let left = ms; left > 0; left -= 50) {
      if (abortSignal.aborted) throw new Cancelled({ effect: "none" });
      progress({ left });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return "slept";
  },
});

const charge = tool({
  name: "conform_charge",
  description: "Writes its key into a book, and dies once if it is told to.",
  schema: /** @type {const} */ ({ type: "object", properties: { path: { type: "string" } }, required: ["path"] }),
  ...external,
  verify: (/** @type {any} */ { path }, { key }) =>
    existsSync(path) && readFileSync(path, "utf8").split("\n").includes(key) ? { key } : null,
  execute: (/** @type {any} */ { path }, { key }) => {
    appendFileSync(path, `${key}\n`);
    if (existsSync(`${path}.die`)) {
      unlinkSync(`${path}.die`);
      process.kill(process.pid, "SIGKILL");
    }
    return { key };
  },
});

await new Worker([echo, fail, unknown, flaky, ask, slow, charge]).run();
