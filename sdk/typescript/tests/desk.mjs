// A worker that dies inside its effect, the first time.

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Worker, tool } from "../src/index.js";

const place = /** @type {string} */ (process.env.DESK);
const effects = join(place, "effects");
const schema = /** @type {const} */ ({ type: "object", properties: { cents: { type: "integer" } } });
const isKnown = (/** @type {string} */ key) =>
  existsSync(effects) && readFileSync(effects, "utf8").split("\n").includes(key);

/** @param {any} _ @param {any} context */
function charge(_, context) {
  if (isKnown(context.key)) return { id: context.key };
  appendFileSync(effects, `${context.key}\n`);
  const once = join(place, "once");
  if (!existsSync(once)) {
    writeFileSync(once, "");
    process.kill(process.pid, "SIGKILL");
  }
  return { id: context.key };
}

const shared = { schema, execute: charge, mode: /** @type {const} */ ("external"), approve: false };
const plain = tool({ ...shared, name: "plain", description: "Charges, and cannot be repeated." });
const keyed = tool({ ...shared, name: "keyed", description: "Charges once a key.", key: true });
const verified = tool({
  ...shared,
  name: "verified",
  description: "Charges, and can look it up.",
  verify: (_, context) => (isKnown(context.key) ? { id: context.key } : null),
});

await new Worker([plain, keyed, verified]).run();
