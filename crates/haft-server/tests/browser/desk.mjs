/** What the tests of the console share: a place in it, its buttons, pictures for the docs. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { open } from "./harness.mjs";
import { KEY } from "./server.mjs";

const SHOTS = path.join(import.meta.dirname, "../../../../docs/console");

/** Pictures for the docs, when they are asked for. */
export async function shot(page, name) {
  if (!process.env.HAFT_SHOTS) return;
  await mkdir(SHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
}

/** Prints what was measured, and writes it into the docs when pictures are made too. */
export async function measured(name, text) {
  console.log(text.replaceAll(/^/gm, "# "));
  if (!process.env.HAFT_SHOTS) return;
  const page = path.join(SHOTS, "../console.md");
  const between = new RegExp(`(<!-- measured: ${name} -->\n)[^]*?(<!-- /measured -->)`);
  const docs = await readFile(page, "utf8");
  if (!between.test(docs)) throw new Error(`docs/console.md has no place for "${name}"`);
  await writeFile(page, docs.replace(between, (_, start, end) => `${start}${text}\n${end}`));
}

/** The console of a server, signed in, at a place. */
export async function consoleAt(browser, server, place, options = {}) {
  const page = await open(browser, server.base, { deviceScaleFactor: 1, ...options });
  await page.evaluate((key) => sessionStorage.setItem("haft.key", key), KEY);
  await page.goto(`${server.base}/#${place}`);
  await page.reload();
  return page;
}

export const button = (page, name) => page.getByRole("button", { name, exact: true });

/** How the waits of a session ended, in order. */
export async function decisions(server, session) {
  const events = await server.events(session);
  return events.filter(({ event }) => event.type === "call.resolved").map(({ event }) => event.decision.type);
}
