// The guarantees of a tool in TypeScript, each through a real server.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { z } from "zod";

import {
  ApiError, Client, EffectUnknown, ToolError, Cancelled, Worker, decideToolMode, isTerminalResult, result, tool,
} from "../src/index.js";
import { KEY, TestNode, eventually } from "./node.mjs";

/** @type {string[]} */
const paid = [];
let balance = 1;
let isRunning = false;
/** @type {string[]} */
const keys = [];

const claimBack = tool({
  name: "claim_back",
  description: "Claims a refund back.",
  schema: z.object({ refund: z.string() }),
  mode: "external",
  approve: true,
  execute: ({ refund }) => {
    paid.splice(paid.indexOf(refund), 1);
    return "back";
  },
});

const refund = tool({
  name: "refund",
  description: "Refunds a charge.",
  schema: z.object({ cents: z.int().min(1).describe("Amount in cents") }),
  mode: "external",
  approve: true,
  preview: ({ cents }) => ({ diff: `${cents} leave`, targets: ["bank"], state: balance }),
  undo: { tool: claimBack, within: "30m", args: { refund: result("/id") } },
  cost: { amount: "cents", unit: "EUR" },
  execute: (_, context) => {
    paid.push(context.key);
    return { id: context.key };
  },
});

const slow = tool({
  name: "get_slow",
  description: "Waits.",
  schema: z.object({ ms: z.number() }),
  mode: "read",
  execute: async ({ ms }, context) => {
    isRunning = true;
    context.progress({ left: ms });
    for (let left = ms; left > 0; left -= 20) {
      if (context.abortSignal.aborted) throw new Cancelled({ effect: "none" });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return { tenant: context.tenant, user: context.userId, attempt: context.attempt };
  },
});

const flaky = tool({
  name: "flaky",
  description: "Works the second time.",
  schema: { type: "object" },
  mode: "external",
  approve: false,
  key: true,
  retry: { attempts: 3, backoff: "10ms" },
  execute: (_, context) => {
    keys.push(context.key);
    if (context.attempt === 1) throw new ToolError("busy", { errorClass: "upstream" });
    return context.attempt;
  },
});

const lose = tool({
  name: "lose_connection",
  description: "Loses the connection.",
  schema: { type: "object" },
  mode: "external",
  approve: false,
  execute: () => {
    throw new EffectUnknown("the connection broke");
  },
});

const report = tool({
  name: "get_report",
  description: "Makes a report.",
  schema: { type: "object" },
  mode: "read",
  execute: async (_, context) => {
    await context.keep("report", "x".repeat(300_000), "text/plain");
    return { success: true, message: "made", data: { pages: 3 }, nextAction: "read it" };
  },
});

/** @type {any} */
const loop = {};
loop.self = loop;
/** @type {Record<string, () => any>} */
const UNSENDABLE = {
  bigint: () => ({ cents: 5n }),
  circular: () => loop,
  throwing: () => ({ toJSON: () => assert.fail("odd") }),
  "half a character": () => "\ud800",
  "too deep": () => Array.from({ length: 200 }).reduce((inner) => [inner], []),
  "too large": () => "x".repeat(9_000_000),
};

const give = tool({
  name: "give",
  description: "Does something, and gives what cannot be sent.",
  schema: z.object({ what: z.string() }),
  mode: "external",
  approve: false,
  execute: ({ what }, context) => {
    context.progress(5n);
    if (what === "its own success") return { success: true, id: "re_1" };
    if (what === "partial") throw new ToolError("no", { partial: loop });
    return UNSENDABLE[what]();
  },
});

/** @type {Record<string, () => any>} */
const OPEN = {
  abort: () => AbortSignal.abort().throwIfAborted(),
  timeout: () => Promise.reject(new DOMException("late", "TimeoutError")),
  fetch: () => fetch("http://127.0.0.1:1/"),
};
const how = z.object({ how: z.string() });
const breakOff = tool({
  name: "break_off", description: "Does not hear of what it sent.", schema: how, mode: "external", approve: false,
  execute: (args) => OPEN[args.how](),
});
const readBroken = tool({
  name: "get_broken", description: "Does not hear of what it asked.", schema: how, mode: "read",
  execute: (args) => OPEN[args.how](),
});

const node = new TestNode();
/** @type {Worker} */
let worker;
before(async () => {
  await node.start();
  worker = await new Worker([refund, slow, flaky, lose, report, give, breakOff, readBroken], { url: node.url, key: KEY }).start();
});
after(async () => {
  await worker.stop();
  await node.remove();
});

test("a schema of Zod is the schema of the tool, which stays callable", () => {
  const schema = /** @type {any} */ (refund.definition.input_schema);
  assert.equal(schema.properties.cents.description, "Amount in cents");
  assert.deepEqual(schema.required, ["cents"]);
  assert.throws(() => tool({ name: "x", description: "", schema: { type: "object" }, execute: () => 1 }), /description/);
});

test("a call is approved by one, runs once and is taken back", async () => {
  const call = await node.client.call("refund", { cents: 5 });
  assert.equal(call.state, "waiting");
  const wait = (await node.client.pending()).find((each) => each.call === call.call);
  assert.equal(wait.preview.diff, "5 leave");
  const said = await Promise.allSettled([node.client.approve(call), node.client.approve(call)]);
  const refused = said.filter((each) => each.status === "rejected");
  assert.equal(refused.length, 1);
  assert.ok(refused[0].reason instanceof ApiError && refused[0].reason.code === "stale");
  assert.deepEqual((await node.client.wait(call)).value, { id: call.call });
  assert.deepEqual(paid, [call.call]);
  const taken = await node.client.undo(call);
  await node.client.approve(taken);
  await node.client.wait(taken);
  assert.deepEqual(paid, []);
});

test("an approval holds only for what was shown", async () => {
  const call = await node.client.call("refund", { cents: 7 });
  balance = 2;
  await node.client.approve(call);
  await eventually(async () => (await node.client.pending()).some((wait) => wait.call === call.call && wait.round > 1));
  await node.client.deny(call, "not any more");
  assert.equal((await node.client.wait(call)).error?.class, "denied");
  assert.deepEqual(paid, []);
});

test("context and cancel", async () => {
  const done = await node.client.call("get_slow", { ms: 20 });
  assert.deepEqual(done.value, { tenant: "default", user: "admin", attempt: 1 });
  isRunning = false;
  const made = node.client.call("get_slow", { ms: 60_000 });
  await eventually(async () => isRunning);
  const session = (await node.client.request("GET", "/haft/v1/sessions")).data[0].id;
  const { data } = await node.client.request("GET", `/haft/v1/sessions/${session}/events?limit=1000`);
  const { call } = data.map((/** @type {any} */ each) => each.event).find((/** @type {any} */ it) => it.type === "call.started");
  await node.client.cancel({ session, call });
  assert.equal((await made).error?.class, "cancelled");
});

test("every attempt has the same key, and a lost connection leaves a call in doubt", async () => {
  assert.equal((await node.client.call("flaky")).value, 2);
  assert.equal(new Set(keys).size, 1);
  const lost = await node.client.call("lose_connection");
  assert.equal(lost.state, "in_doubt");
  await node.client.settle(lost, "happened", "sent");
  assert.equal((await node.client.wait(lost)).value, "sent");
});

test("results and artifacts", async () => {
  const made = await node.client.call("get_report");
  assert.deepEqual(made.value, { pages: 3 });
  assert.equal(made.outcome.directives.next_action, "read it");
  assert.equal(made.outcome.result.ok.artifacts[0].bytes, 300_000);
});

for (const what of Object.keys(UNSENDABLE)) {
  test(`what ran has run, also if its result cannot be sent: ${what}`, { timeout: 60_000 }, async () => {
    const made = await node.client.call("give", { what });
    assert.ok(made.outcome?.result.ok, JSON.stringify(made));
    assert.ok([null, undefined].includes(made.value));
    assert.match(JSON.stringify(made.outcome), /the tool ran, but its result could not be sent/);
  });
}

test("a value with a success of its own is kept whole, and a failure without what cannot be sent", async () => {
  assert.deepEqual((await node.client.call("give", { what: "its own success" })).value, { success: true, id: "re_1" });
  assert.equal((await node.client.call("give", { what: "partial" })).error?.message, "no");
});

test("an exception that leaves the effect open leaves the call in doubt, unless it only reads", async () => {
  for (const how of Object.keys(OPEN)) {
    const made = await node.client.call("break_off", { how });
    assert.equal(made.state, "in_doubt", how);
    await node.client.settle(made, "give_up");
    assert.equal((await node.client.call("get_broken", { how })).state, "done");
  }
});

test("every request but GET has a key that its retries share", async () => {
  /** @type {[string | undefined, any][]} */
  const seen = [];
  const losing = createServer((request, response) => {
    seen.push([request.method, request.headers["idempotency-key"]]);
    if (seen.length === 1) request.socket.destroy();
    else response.end();
  });
  await new Promise((resolve) => losing.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {any} */ (losing.address());
  const client = new Client({ url: `http://127.0.0.1:${port}`, key: "k" });
  for (const method of ["POST", "DELETE", "GET"]) await client.request(method, "/x");
  losing.close();
  losing.closeAllConnections();
  assert.deepEqual(seen.map(([method]) => method), ["POST", "POST", "DELETE", "GET"]);
  const [first, again, other, read] = seen.map(([, key]) => key);
  assert.ok(first && first === again && other && other !== first && read === undefined);
});

test("every node is told of every job, and the one that gave it of its latest progress", async () => {
  const job = {
    lease: "lease-1", lease_ms: 10_000, kind: "run", tool: "busy", arguments: {}, key: "k", attempt: 1,
    timeout_ms: 10_000, session: "s", call: "c", tenant: "default", actor: { id: "ann" },
  };
  /** @type {any[][]} */
  const beats = [[], []];
  let isDone = false;
  const nodes = beats.map((told, index) => {
    let given = index === 0 ? [job] : [];
    return createServer(async (request, response) => {
      let text = "";
      for await (const piece of request) text += piece;
      const path = request.url ?? "";
      const answer = { since: 1, tools: {}, cancel: [], lost: [], jobs: /** @type {any[]} */ ([]) };
      if (path.endsWith("/beat")) told.push(JSON.parse(text));
      if (path.endsWith("/done")) isDone = true;
      if (path.endsWith("/poll")) {
        [answer.jobs, given] = [given, []];
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
    });
  });
  for (const each of nodes) await new Promise((resolve) => each.listen(0, "127.0.0.1", () => resolve(undefined)));
  const url = nodes.map((each) => `http://127.0.0.1:${/** @type {any} */ (each.address()).port}`);
  const busy = tool({
    name: "busy", description: "Is busy.", schema: { type: "object" }, mode: "read",
    execute: async (_, context) => {
      for (let at = 1; at <= 1000; at += 1) context.progress(at);
      await eventually(async () => beats.every((told) => told.length > 1));
    },
  });
  const both = await new Worker([busy], { url, key: "k" }).start();
  await eventually(async () => isDone);
  await both.stop();
  for (const each of nodes) each.close(), each.closeAllConnections();
  for (const told of beats) assert.ok(told.every((beat) => beat.leases.includes("lease-1")));
  const shown = beats.map((told) => told.flatMap((beat) => Object.values(beat.progress)));
  assert.deepEqual(shown, [[1000], []]);
});

test("code is told to stop when no server answers for its lease", { timeout: 60_000 }, async () => {
  const lonely = new TestNode();
  let isAt = false;
  let stopped = 0;
  const last = tool({
    name: "last", description: "Waits to be told to stop.", schema: { type: "object" }, mode: "external",
    approve: false, timeout: "60s",
    execute: (_, context) => {
      isAt = true;
      return new Promise((resolve) => {
        context.abortSignal.addEventListener("abort", () => resolve((stopped = Date.now())));
      });
    },
  });
  await lonely.start();
  const alone = await new Worker([last], { url: lonely.url, key: KEY }).start();
  lonely.client.call("last").catch(() => {});
  await eventually(async () => isAt);
  await lonely.end();
  const killed = Date.now();
  await eventually(async () => stopped);
  assert.ok(stopped - killed > 3000 && stopped - killed < 12_000, String(stopped - killed));
  await lonely.start();
  await alone.stop();
  await lonely.remove();
});

for (const name of ["plain", "keyed", "verified"]) {
  test(`a worker that dies inside the effect of a ${name} tool has it once`, { timeout: 120_000 }, async () => {
    const place = mkdtempSync(join(tmpdir(), "desk-"));
    const env = { ...process.env, DESK: place, HAFT_URL: node.url, HAFT_API_KEY: KEY, HAFT_WORKER: `desk-${name}` };
    const desk = fileURLToPath(new URL("desk.mjs", import.meta.url));
    const started = () => spawn(process.execPath, [desk], { env, stdio: "ignore" });
    const first = started();
    const died = new Promise((resolve) => first.once("exit", resolve));
    await eventually(async () => (await node.client.tools()).some((each) => each.name === name));
    const call = node.client.call(name, { cents: 5 });
    await died;
    const second = started();
    const made = await call;
    assert.equal(made.state, name === "plain" ? "in_doubt" : "done", JSON.stringify(made));
    assert.equal(readFileSync(join(place, "effects"), "utf8").trim().split("\n").length, 1);
    assert.ok(existsSync(join(place, "once")));
    const ended = new Promise((resolve) => second.once("exit", resolve));
    second.kill("SIGTERM");
    await ended;
  });
}

test("modes and terminal results", () => {
  assert.equal(decideToolMode("drop_table"), "destructive");
  assert.equal(decideToolMode("getaway"), null);
  assert.ok(isTerminalResult({ success: false }));
  assert.ok(!isTerminalResult({ success: false, needsFollowup: true }));
  assert.ok(isTerminalResult({ success: true, terminal: true }));
});
