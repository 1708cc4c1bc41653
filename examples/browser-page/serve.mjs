/**
 * Starts `haft serve` with the agent, and the page on an origin of its own.
 *
 *     node examples/browser-page/serve.mjs
 *
 * needs `haft` on the path, or its place in $HAFT.
 */

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";

const KEY = "example-key";
const TYPES = { ".html": "text/html", ".js": "text/javascript" };
const here = (name) => path.join(import.meta.dirname, name);

/** The page is another site than the server: what it may call, the server must allow. */
export async function start(haft = process.env.HAFT ?? "haft") {
  const data = await mkdtemp(path.join(tmpdir(), "haft-example-"));
  let base = "";
  const site = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://x");
    const type = TYPES[path.extname(pathname)] ?? "text/plain";
    if (pathname === "/page.html" || pathname === "/page.js") {
      return response.writeHead(200, { "content-type": type }).end(await readFile(here(pathname)));
    }
    // The client and its elements, as the server has them.
    const found = pathname.startsWith("/console/") ? await fetch(base + pathname) : undefined;
    if (!found?.ok) return response.writeHead(404).end();
    return response.writeHead(200, { "content-type": type }).end(Buffer.from(await found.arrayBuffer()));
  });
  await new Promise((done) => site.listen(0, "127.0.0.1", () => done(undefined)));
  const origin = `http://127.0.0.1:${/** @type {any} */ (site.address()).port}`;

  const options = ["--listen", "127.0.0.1:0", "--data", data, "--allow-origin", origin];
  const server = spawn(haft, ["serve", ...options], { env: { ...process.env, HAFT_API_KEY: KEY }, stdio: ["ignore", "pipe", "inherit"] });
  const gone = new Promise((done) => server.once("exit", done));
  process.once("exit", () => server.kill());
  base = await new Promise((done, failed) => {
    let said = "";
    server.stdout.on("data", (more) => {
      said += more;
      const found = /^api\s+(\S+)\/v1$/m.exec(said);
      if (found) done(found[1]);
    });
    gone.then((code) => failed(new Error(`haft serve ended with ${code}`)));
  });
  const headers = { "x-api-key": KEY, "content-type": "application/json" };
  const post = async (where, body) => {
    const answer = await fetch(`${base}/v1/${where}`, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  await post("environments", JSON.stringify({ name: "page" }));
  const agent = await post("agents", await readFile(here("agent.json"), "utf8"));
  const given = new URLSearchParams({ base, key: KEY, agent: agent.id });
  const stop = async () => {
    site.close();
    server.kill();
    await gone;
    await rm(data, { recursive: true, force: true });
  };
  return { url: `${origin}/page.html#${given}`, stop };
}

if (process.argv[1] === import.meta.filename) {
  const { url, stop } = await start();
  console.log(url);
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
}
