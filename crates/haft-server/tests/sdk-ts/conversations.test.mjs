// The official TypeScript SDK, unmodified, against a real `haft serve`.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import Anthropic, { BadRequestError, ConflictError, NotFoundError } from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { fakeProvider } from "./fake_provider.mjs";
import { PATIENCE_MS, apiOf, endsWithUs, stopped, until } from "./serving.mjs";

const TOOLSET = { type: "agent_toolset_20260401" };
const ASKING = { ...TOOLSET, default_config: { permission_policy: { type: "always_ask" } } };
const KEY = "test-admin-key";
const timeout = PATIENCE_MS;

let provider, server, data, client, environment;

before(async () => {
  provider = await fakeProvider();
  data = mkdtempSync(join(tmpdir(), "haft-ts-"));
  server = endsWithUs(process.env.HAFT, ["serve", "--listen", "127.0.0.1:0", "--data", data], {
    env: { ...process.env, HAFT_API_KEY: KEY, ANTHROPIC_BASE_URL: provider.url, ANTHROPIC_API_KEY: "fake" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const baseURL = await apiOf(server);
  client = new Anthropic({ baseURL, apiKey: KEY });
  environment = await client.beta.environments.create({ name: "test" });
});

after(async () => {
  const code = await stopped(server);
  provider.close();
  rmSync(data, { recursive: true });
  assert.equal(code, 0);
});

async function openSession(tools) {
  const agent = await client.beta.agents.create({ name: "test", model: "claude-opus-5-5", tools });
  return client.beta.sessions.create({ agent: agent.id, environment_id: environment.id });
}

const say = (text) => ({ type: "user.message", content: [{ type: "text", text }] });
const confirm = (id, result, more) => ({ type: "user.tool_confirmation", tool_use_id: id, result, ...more });

/** Follows a session until it is idle for a reason of this type; returns what happened. */
async function untilIdle(session, events, reason = "end_turn", params) {
  const seen = [];
  const stream = await client.beta.sessions.events.stream(session.id, params);
  await client.beta.sessions.events.send(session.id, { events });
  for await (const event of stream) {
    seen.push(event);
    if (event.type === "session.status_idle" && event.stop_reason.type === reason) return seen;
  }
  throw new Error(`the stream ended: ${seen.map((event) => event.type)}`);
}

async function all(pages) {
  const found = [];
  for await (const item of pages) found.push(item);
  return found;
}

const only = (events, kind) => {
  const found = events.filter((event) => event.type === kind);
  assert.equal(found.length, 1, `${events.map((event) => event.type)}`);
  return found[0];
};

test("an agent uses tools, and what was streamed is what is listed", { timeout }, async () => {
  const session = await openSession([TOOLSET]);
  provider.willAnswer([{ tool: "bash", input: { command: "echo from $PWD" } }], [{ text: "done" }]);
  const events = await untilIdle(session, [say("look")]);
  assert.match(only(events, "agent.tool_result").content[0].text, /from \/workspace/);
  const listed = await all(client.beta.sessions.events.list(session.id, { limit: 2 }));
  assert.deepEqual(listed.map((event) => event.id), events.map((event) => event.id));
});

test("deltas preview the message", { timeout }, async () => {
  const session = await openSession([]);
  provider.willAnswer([{ text: "hello" }]);
  const events = await untilIdle(session, [say("hi")], "end_turn", { event_deltas: ["agent.message"] });
  const message = only(events, "agent.message");
  assert.equal(only(events, "event_start").event.id, message.id);
  const deltas = events.filter((event) => event.type === "event_delta");
  assert.equal(deltas.map((event) => event.delta.content.text).join(""), "hello");
});

test("always_ask: allow, and deny with a message", { timeout }, async () => {
  const session = await openSession([ASKING]);
  provider.willAnswer(
    [{ tool: "bash", input: { command: "echo ran" } }, { tool: "bash", input: { command: "rm x" } }],
    [{ text: "done" }],
  );
  const asked = await untilIdle(session, [say("go")], "requires_action");
  const [one, two] = asked.filter((event) => event.type === "agent.tool_use");
  assert.deepEqual(asked.at(-1).stop_reason.event_ids, [one.id, two.id]);
  const then = await untilIdle(session, [confirm(one.id, "allow")], "requires_action");
  assert.match(only(then, "agent.tool_result").content[0].text, /ran/);
  const last = await untilIdle(session, [confirm(two.id, "deny", { deny_message: "never" })]);
  assert.equal(only(last, "agent.tool_result").is_error, true);
  assert.match(JSON.stringify(provider.requests[1].messages.at(-1)), /never/);
});

test("an interrupt frees a session that waits", { timeout }, async () => {
  const session = await openSession([ASKING]);
  provider.willAnswer([{ tool: "bash", input: { command: "echo x" } }]);
  const asked = await untilIdle(session, [say("go")], "requires_action");
  await untilIdle(session, [{ type: "user.interrupt" }]);
  const late = { events: [confirm(only(asked, "agent.tool_use").id, "allow")] };
  await assert.rejects(client.beta.sessions.events.send(session.id, late), BadRequestError);
});

test("a client that reconnects finds what it missed", { timeout }, async () => {
  const session = await openSession([ASKING]);
  provider.willAnswer([{ tool: "bash", input: { command: "echo x" } }], [{ text: "done" }]);
  const asked = await untilIdle(session, [say("go")], "requires_action");
  // Nobody listens while it goes on.
  const events = [confirm(only(asked, "agent.tool_use").id, "allow")];
  await client.beta.sessions.events.send(session.id, { events });
  await until(async () => {
    const listed = await all(client.beta.sessions.events.list(session.id));
    assert.deepEqual(listed.slice(0, asked.length).map((event) => event.id), asked.map((event) => event.id));
    return listed.at(-1).type === "session.status_idle" && listed.length > asked.length;
  }, "the rest of the session");
});

test("the SDK's own session tool runner runs custom tools", { timeout }, async () => {
  const inputSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const description = "The weather in a city.";
  const session = await openSession([{ type: "custom", name: "get_weather", description, input_schema: inputSchema }]);
  provider.willAnswer([{ tool: "get_weather", input: { city: "Bern" } }], [{ text: "It rains." }]);
  const run = async ({ city }) => `weather of ${city}`;
  const weather = betaTool({ name: "get_weather", description, inputSchema, run });
  await client.beta.sessions.events.send(session.id, { events: [say("weather?")] });
  const calls = [];
  const runner = client.beta.sessions.events.toolRunner(session.id, { tools: [weather], maxIdleMs: 500 });
  for await (const call of runner) calls.push(call);
  assert.equal(calls.length, 1);
  assert.match(JSON.stringify(provider.requests[1].messages.at(-1)), /weather of Bern/);
});

test("a memory is changed only as it was seen", { timeout }, async () => {
  const store = await client.beta.memoryStores.create({ name: "Notes" });
  const { memories } = client.beta.memoryStores;
  const memory = await memories.create(store.id, { path: "/a.md", content: "one" });
  const content_sha256 = createHash("sha256").update("one").digest("hex");
  assert.equal(memory.content_sha256, content_sha256);
  const precondition = { type: "content_sha256", content_sha256 };
  const change = { memory_store_id: store.id, content: "two", precondition };
  await memories.update(memory.id, change);
  await assert.rejects(memories.update(memory.id, change), (error) => {
    assert.ok(error instanceof ConflictError);
    return error.error.error.type === "memory_precondition_failed_error";
  });
  await client.beta.memoryStores.archive(store.id);
  await assert.rejects(memories.create(store.id, { path: "/b", content: "" }), BadRequestError);
});

test("files come back as they were", { timeout }, async () => {
  const file = await client.beta.files.upload({ file: new File(["content"], "a.txt", { type: "text/plain" }) });
  assert.equal(file.filename, "a.txt");
  assert.equal(await (await client.beta.files.download(file.id)).text(), "content");
});

test("archived and missing objects raise the SDK's exceptions", { timeout }, async () => {
  await assert.rejects(client.beta.sessions.retrieve("sesn_00000000000000000000000000"), NotFoundError);
  const agent = await client.beta.agents.create({ name: "x", model: "claude-opus-5-5" });
  await client.beta.agents.archive(agent.id);
  const params = { agent: agent.id, environment_id: environment.id };
  await assert.rejects(client.beta.sessions.create(params), BadRequestError);
});
