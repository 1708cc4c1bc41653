// A real server in a temporary directory.

import { spawn } from "node:child_process";
import { mkdtempSync, openSync, rmSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client } from "../src/index.js";

export const KEY = "haft_testing_key";

const slept = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @returns {Promise<number>} */
const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {any} */ (probe.address());
      probe.close(() => resolve(port));
    });
  });

/** @param {number} port */
const answers = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => (socket.destroy(), resolve(true)));
    socket.once("error", () => resolve(false));
  });

export class TestNode {
  data = mkdtempSync(join(tmpdir(), "haft-"));
  port = 0;
  /** @type {import("node:child_process").ChildProcess | undefined} */
  process;

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  get client() {
    return new Client({ url: this.url, key: KEY });
  }

  /** @param {string[]} more @param {Record<string, string>} environment */
  async start(more = [], environment = {}) {
    this.port ||= await freePort();
    const log = openSync(join(this.data, "serve.log"), "a");
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", this.data, ...more];
    const env = { ...process.env, ...environment, HAFT_API_KEY: KEY };
    this.process = spawn(process.env.HAFT ?? "haft", args, { env, stdio: ["ignore", log, log] });
    const child = this.process;
    process.once("exit", () => child.kill("SIGKILL"));
    for (let tries = 0; !(await answers(this.port)); tries += 1) {
      if (tries > 1200) throw new Error("the server did not start");
      await slept(50);
    }
    return this;
  }

  /** @param {NodeJS.Signals} signal */
  async end(signal = "SIGKILL") {
    const ended = new Promise((resolve) => this.process?.once("exit", resolve));
    this.process?.kill(signal);
    await ended;
  }

  async remove() {
    await this.end("SIGTERM");
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** @template T @param {() => Promise<T>} check @returns {Promise<NonNullable<T>>} */
export async function eventually(check) {
  for (let tries = 0; tries < 1200; tries += 1) {
    const found = await check();
    if (found) return found;
    await slept(50);
  }
  throw new Error("it did not come to that");
}
