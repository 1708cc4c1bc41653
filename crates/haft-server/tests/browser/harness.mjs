/** A browser, and a server of static pages under the console's own content security policy. */

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

import axe from "axe-core";
import { chromium } from "playwright-core";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const CONSOLE = path.join(HERE, "../../console");

/** Read from the server's source, so that what is tested here is what is served. */
export const CSP = (await readFile(path.join(HERE, "../../console/csp.txt"), "utf8")).trim().replaceAll("\n", " ");

const TYPES = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml", ".json": "application/json" };

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
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
  page.setDefaultTimeout(20_000);
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
