// What the suites share about the `haft serve` that they start, and about waiting for something.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** How long to wait for a state before the test fails. No test passes or fails by how long it takes. */
export const PATIENCE_MS = 180_000;

const running = new Set();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * Starts a program that ends when this process ends, however it ends: the kernel kills it when
 * this process is killed. A test that fails before it stops the program does not keep this
 * process alive either, so await what the program does with `within`.
 */
export function endsWithUs(program, args, options) {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", program, ...args], options);
  running.add(child);
  child.once("exit", () => running.delete(child));
  child.unref();
  for (const pipe of [child.stdout, child.stderr]) pipe?.unref();
  return child;
}

/** Waits for a promise and fails when it takes longer than `PATIENCE_MS`. */
export async function within(promise, what) {
  let timer;
  const late = new Promise((_, failed) => {
    timer = setTimeout(() => failed(new Error(`waited in vain for ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Calls `find` until it returns something, and returns that. */
export async function until(find, what = "it") {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await find();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Reads where a server that has just been started answers. */
export function apiOf(server) {
  const read = async () => {
    for await (const line of createInterface({ input: server.stdout })) {
      const [what, address] = line.split(/\s+/);
      if (what === "api") return address.replace(/\/v1$/, "");
    }
    throw new Error("haft serve ended");
  };
  return within(read(), "the server's address");
}

/** Stops a server and returns its exit code. */
export async function stopped(server, signal = "SIGTERM") {
  if (server.exitCode !== null || server.signalCode !== null) return server.exitCode;
  const ended = new Promise((done) => server.once("exit", done));
  server.kill(signal);
  return within(ended, "the server's end");
}
