// Starts a Restate server and the service, measures, and stops both. Prints one JSON object.
//
// usage: node measure.mjs DIRECTORY
import { spawn } from "node:child_process";
import { rmSync, mkdirSync } from "node:fs";
import http from "node:http";
import net from "node:net";

const [directory] = process.argv.slice(2);
const freePort = () =>
  new Promise((resolve, reject) => {
    const server = net.createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
// One after the other would give the same one twice.
const [ingress, admin, node, service, waiting] = await Promise.all(Array.from({ length: 5 }, freePort));
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

const ask = (port, path, body) =>
  new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const request = http.request({ agent, host: "127.0.0.1", port, path, method, headers }, (response) => {
      let text = "";
      response.on("data", (data) => (text += data));
      response.on("end", () => (response.statusCode < 300 ? resolve(text) : reject(new Error(`${path}: ${response.statusCode} ${text}`))));
    });
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const until = async (what) => {
  const last = Date.now() + 60_000;
  for (;;) {
    const found = await what().catch(() => undefined);
    if (found) return found;
    if (Date.now() > last) throw new Error("Restate did not start within a minute");
    await pause(20);
  }
};

const perSecond = async (count, atOnce, work) => {
  let next = 0;
  const started = performance.now();
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return (count / (performance.now() - started)) * 1e3;
};

const roundTrip = async (number) => {
  const key = `ask-${number}`;
  const outcome = ask(ingress, "/work/ask", key);
  const id = await until(() => ask(waiting, `/${key}`));
  await ask(ingress, `/restate/awakeables/${id}/resolve`, { ok: true });
  await outcome;
};

rmSync(directory, { recursive: true, force: true });
mkdirSync(directory, { recursive: true });
const environment = {
  ...process.env,
  RESTATE_BASE_DIR: directory,
  RESTATE_LOG_FILTER: "error",
  RESTATE_DISABLE_TELEMETRY: "true",
  DO_NOT_TRACK: "1",
  RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
  RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
  RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
  RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
  SERVICE_PORT: String(service),
  WAITING_PORT: String(waiting),
};
// In a group of its own: npm's launcher would die alone and leave the server behind.
const start = (program, words) => spawn(program, words, { env: environment, stdio: "ignore", detached: true });
const started = [
  start("node_modules/.bin/restate-server", ["--node-name", "bench"]),
  start(process.execPath, ["service.mjs"]),
];
try {
  await until(() => ask(admin, "/health").then(() => true));
  await until(() => ask(admin, "/deployments", { uri: `http://127.0.0.1:${service}` }));
  await until(() => ask(ingress, "/work/steps", 1));
  const stepsEach = 10;
  const steps = (await perSecond(300, 64, () => ask(ingress, "/work/steps", stepsEach))) * stepsEach;
  const roundTrips = await perSecond(600, 64, roundTrip);
  console.log(JSON.stringify({ steps_per_second: steps, round_trips_per_second: roundTrips }));
} finally {
  for (const child of started) process.kill(-child.pid, "SIGKILL");
}
process.exit(0);
