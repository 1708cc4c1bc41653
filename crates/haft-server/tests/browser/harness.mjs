/** A browser, and a server of static pages under the console's own content security policy. */

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

import axe from "axe-core";
import { chromium } from "playwright-core";

import { PATIENCE_MS, until } from "../sdk-ts/serving.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const CONSOLE = path.join(HERE, "../../console");

/** Read from the server's source, so that what is tested here is what is served. */
export const CSP = (await readFile(path.join(HERE, "../../console/csp.txt"), "utf8")).trim().replaceAll("\n", " ");

const TYPES = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml", ".json": "application/json" };

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    timeout: PATIENCE_MS,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--font-render-hinting=none"],
  });
}

/** Serves the console's files, and `pages` by their path. */
export async function serveStatic(pages, { policy = CSP } = {}) {
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://x").pathname;
    const head = (type) => response.writeHead(200, { "content-type": type, "content-security-policy": policy });
    if (pages[url]) return head(url.endsWith(".js") ? "text/javascript" : "text/html").end(pages[url]);
    try {
      const body = await readFile(path.join(CONSOLE, path.normalize(url)));
      head(TYPES[path.extname(url)] ?? "text/plain").end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { base: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** What axe finds that keeps people out. */
export async function axeFindings(page) {
  // By the debugger, which the page's policy does not bind.
  await page.evaluate(`(() => { ${axe.source} })()`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.flat().join(" ")).join(" | ")}`);
}

/** Counts the requests that a page waits for, without the streams, which never end. */
function countRequests(page) {
  const open = new Set();
  page.openRequests = open;
  page.on("request", (request) => request.headers().accept !== "text/event-stream" && open.add(request));
  for (const over of ["requestfinished", "requestfailed"]) page.on(over, (request) => open.delete(request));
}

/** Waits until a page has what it asked for and draws nothing new. */
export async function settled(page) {
  let before = Number.NaN;
  await until(async () => {
    const now = page.openRequests.size === 0 ? await page.evaluate(() => new Promise((done) => {
      const nodes = (root) => [...root.querySelectorAll("*")].reduce((sum, { shadowRoot }) => sum + 1 + (shadowRoot ? nodes(shadowRoot) : 0), 0);
      requestAnimationFrame(() => requestAnimationFrame(() => done(nodes(document))));
    })) : Number.NaN;
    const same = now === before;
    before = now;
    return same && page.openRequests.size === 0;
  }, "the page to settle");
}

/** Waits until the card that is shown takes clicks: a new one takes none for a moment. */
export async function armed(page) {
  await until(async () => (await page.locator("button[aria-disabled]").count()) === 0, "the card to take clicks");
}

/**
 * Waits until a timeline has drawn all of its chunks that are near the window and none of the
 * others, and returns how many there are of each and how many nodes they have.
 */
export async function drawn(page) {
  return until(() => page.evaluate(() => {
    const MARGIN = 1_200;
    const timeline = document.querySelector("haft-timeline");
    const scroller = timeline.closest(".scroll");
    const { top, bottom } = scroller ? scroller.getBoundingClientRect() : { top: 0, bottom: innerHeight };
    const isWithin = ({ element }, margin) => {
      const box = element.getBoundingClientRect();
      return box.bottom > top - margin && box.top < bottom + margin;
    };
    const { chunks } = timeline;
    const shown = chunks.filter(({ element }) => element.childElementCount > 0);
    // A chunk whose edge is the margin's, to the pixel, may be either.
    const isSettled = chunks.length > 0 && shown.every((chunk) => isWithin(chunk, MARGIN + 1))
      && chunks.filter((chunk) => isWithin(chunk, MARGIN - 1)).every((chunk) => shown.includes(chunk));
    const nodes = timeline.shadowRoot.querySelectorAll("*").length;
    return isSettled && { shown: shown.length, chunks: chunks.length, nodes };
  }), "the timeline to draw what is near the window and no more");
}

/** Opens a page and keeps what went wrong in it. */
export async function open(browser, url, { scheme = "light", width = 1280, height = 900, ...more } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, deviceScaleFactor: 2, reducedMotion: "reduce", ...more });
  // While one writes: the files as they are, without building the binary anew.
  if (process.env.HAFT_CONSOLE_FROM_DISK) {
    await context.route("**/console/**", (route) => {
      const file = new URL(route.request().url()).pathname.replace("/console/", "");
      return route.fulfill({ path: path.join(CONSOLE, file), contentType: TYPES[path.extname(file)] });
    });
  }
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  countRequests(page);
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.troubles.push(message.text()));
  page.on("dialog", (dialog) => {
    page.troubles.push(`a dialog was opened: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return page;
}
