// The server of `haft.py`, for the clients that run on Node.js.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";

export const KEY = "peers-key";
export const [PLAIN, GATED, AWAIT] = ["sandbox_describe", "peer_echo", "await_call"];
/** How long to wait for a state before a peer fails. */
export const PATIENCE_MS = 180_000;
export const HEADERS = { Authorization: `Bearer ${KEY}` };

export async function until(find) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await find();
    if (found) return found;
    assert(Date.now() < deadline, "it did not come to that");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class Haft {
  static async start() {
    const haft = new Haft();
    haft.directory = mkdtempSync(join(tmpdir(), "haft-peers-"));
    haft.counter = join(haft.directory, "counter");
    const config = join(haft.directory, "haft.toml");
    const env = `{ COUNTER = "${haft.counter}" }`;
    const command = `["python3", "${process.env.HAFT_PEER}"]`;
    writeFileSync(config, `[mcp.servers.peer]\ncommand = ${command}\nenv = ${env}\n`);
    const args = ["serve", "--listen", "127.0.0.1:0", "--config", config, "--mcp-patience", "1s"];
    // The kernel kills the server when this process ends, however it ends.
    const withUs = ["--pdeathsig", "KILL", process.env.HAFT, ...args, "--data", join(haft.directory, "data")];
    haft.process = spawn("setpriv", withUs, {
      env: { ...process.env, HAFT_API_KEY: KEY },
      stdio: ["ignore", "pipe", "ignore"],
    });
    for await (const line of createInterface({ input: haft.process.stdout })) {
      if (line.startsWith("mcp")) {
        haft.mcp = line.split(/\s+/)[1];
        break;
      }
    }
    const isMounted = async () => (await haft.ask("mcp/servers")).data.some((s) => Object.keys(s.tools).length);
    await until(isMounted).catch((error) => {
      haft.process.kill("SIGKILL");
      throw error;
    });
    return haft;
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.directory, { recursive: true });
  }

  async ask(path, body) {
    const answer = await fetch(`${this.mcp.replace(/\/mcp$/, "")}/haft/v1/${path}`, {
      method: body ? "POST" : "GET",
      headers: { "x-api-key": KEY, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    assert(answer.ok, `${path}: ${answer.status}`);
    return answer.json();
  }

  async approve() {
    const waits = await until(async () => {
      const { data } = await this.ask("pending");
      return data.length ? data : undefined;
    });
    assert.equal(waits.length, 1);
    const { session, call } = waits[0];
    await this.ask(`sessions/${session}/calls/${call}/resolve`, { type: "approve" });
  }

  assertOneEffect() {
    const effects = existsSync(this.counter) ? readFileSync(this.counter, "utf8").split("\n") : [];
    assert.deepEqual(effects.filter(Boolean), ["echo"]);
  }
}

export function handleIn(text) {
  const found = /sesn_\w+\.call_\w+/.exec(text);
  assert(found, text);
  return found[0];
}
