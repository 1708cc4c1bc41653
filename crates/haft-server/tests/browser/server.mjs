/** A real `haft serve`, which can be killed and started again. */

import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

import { PATIENCE_MS, endsWithUs, stopped, until, within } from "../sdk-ts/serving.mjs";

export { PATIENCE_MS };
export const KEY = "test-key";

/** The binary under test; `cargo xtask test` says where it is. */
export const BINARY = process.env.HAFT_BINARY ?? path.join(process.env.CARGO_TARGET_DIR ?? path.join(import.meta.dirname, "../../../../target"), "debug/haft");

async function freePort() {
  const probe = createServer();
  await new Promise((done) => probe.listen(0, "127.0.0.1", done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

export class Server {
  static async start(options = {}) {
    const server = new Server();
    server.data = await mkdtemp(path.join(tmpdir(), "haft-browser-"));
    server.port = await freePort();
    server.options = options;
    await server.up();
    return server;
  }

  get base() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it over the data that is there. */
  async up() {
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", this.data, "--mcp-allow-private", ...(this.options.args ?? [])];
    const env = { ...process.env, HAFT_API_KEY: KEY, OPENAI_API_KEY: "", ANTHROPIC_API_KEY: "" };
    for (const name of ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"]) delete env[name];
    this.process = endsWithUs(BINARY, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    this.process.stderr.on("data", (text) => process.env.HAFT_LOUD && process.stderr.write(text));
    const said = new Promise((done, failed) => {
      let text = "";
      this.process.stdout.on("data", (more) => {
        text += more;
        const found = /console\s+(\S+)/.exec(text);
        if (found) done(found[1]);
      });
      this.process.once("exit", (code) => failed(new Error(`haft serve ended with ${code}`)));
    });
    this.address = await within(said, "the console's address");
  }

  /** Kills it as a power cut would. */
  async kill() {
    await stopped(this.process, "SIGKILL");
  }

  async stop() {
    await this.kill();
    await rm(this.data, { recursive: true, force: true });
  }

  async call(method, path, body) {
    const headers = { authorization: `Bearer ${KEY}`, ...(body ? { "content-type": "application/json" } : {}) };
    const response = await fetch(`${this.base}${path}`, { method, headers, body: body && JSON.stringify(body) });
    return { status: response.status, body: await response.json() };
  }

  async get(path) {
    return (await this.call("GET", `/haft/v1${path}`)).body;
  }

  async post(path, body) {
    const { status, body: answer } = await this.call("POST", `/haft/v1${path}`, body);
    if (status >= 400) throw new Error(`${status}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** Every event of a session so far. */
  async events(session) {
    const found = [];
    for (;;) {
      const { data, head } = await this.get(`/sessions/${session}/events?after=${found.at(-1)?.seq ?? 0}`);
      found.push(...data);
      if (data.length === 0 || found.at(-1).seq >= head) return found;
    }
  }

  /** Waits until something holds. */
  until(what, text = "it") {
    return until(what, text);
  }

  async waiting(kind, session) {
    return this.until(async () => (await this.get(`/pending?session=${session}`)).data.find((wait) => wait.kind === kind), `a wait for ${kind}`);
  }

  /** A session of the tour that waits for its question to be answered. */
  async tour(message = "Show me what you can do.") {
    const { session } = await this.post("/sessions", { agent: "agent_demo", message });
    return session;
  }

  /** A session of the tour that waits for its edit to be approved. */
  async tourAtApproval() {
    const session = await this.tour();
    const question = await this.until(async () => (await this.get(`/pending?session=${session}`)).data.find((wait) => wait.kind === "elicitation"));
    await this.post(`/sessions/${session}/calls/${question.call}/resolve`, { type: "answer", value: { reader: "Ann", tone: "plain" } });
    await this.until(async () => (await this.get(`/pending?session=${session}`)).data.find((wait) => wait.kind === "approval"), "the approval");
    return session;
  }
}
