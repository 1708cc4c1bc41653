/** What the tests of the console share: a browser and a server, a place in the console, pictures for the docs. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before } from "node:test";

import { launch, open } from "./harness.mjs";
import { KEY, Server } from "./server.mjs";

const SHOTS = path.join(import.meta.dirname, "../../../../docs/console");

/** The browser and the server of a test file, from when its tests run. */
export let browser;
export let server;

/** Has a browser and a server there for all tests of a file. */
export function opensDesk() {
  before(async () => {
    browser = await launch();
    server = await Server.start();
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });
}

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

/** The console, signed in, at a place. */
export async function at(place, { of = server, ...options } = {}) {
  const page = await open(browser, of.base, { deviceScaleFactor: 1, ...options });
  await page.evaluate((key) => sessionStorage.setItem("haft.key", key), KEY);
  await page.goto(`${of.base}/#${place}`);
  await page.reload();
  return page;
}

/**
 * Holds back the decisions of some tabs until each of them has sent one. Otherwise a slow tab may
 * hear that another was first, and send nothing.
 */
export async function decideTogether(tabs) {
  let sent = 0;
  let release;
  const allSent = new Promise((done) => (release = done));
  for (const tab of tabs) {
    await tab.route("**/resolve", async (route) => {
      sent += 1;
      if (sent === tabs.length) release();
      await allSent;
      await route.continue();
    });
  }
}

export const button = (page, name) => page.getByRole("button", { name, exact: true });

/** How the waits of a session ended, in order. */
export async function decisions(session, of = server) {
  const events = await of.events(session);
  return events.filter(({ event }) => event.type === "call.resolved").map(({ event }) => event.decision.type);
}
