// The `ai` package's headless chat, unmodified, drives a session through an approval and its resend.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

import { until } from "../sdk-ts/serving.mjs";
import { ASKING, CUSTOM, headers, start, timeout } from "./server.mjs";

let server;
before(async () => void (server = await start()));
after(() => server?.stop());

/** What a framework would keep for its components. */
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) => void (this.messages = this.messages.with(at, structuredClone(message)));
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
  }
}

async function chat(tools, more) {
  const agent = await server.agent(tools);
  const api = `${server.url}/chat/${agent}`;
  const transport = new DefaultChatTransport({ api: `${api}?environment=${server.environment}`, headers });
  return { chat: new Chat({ id: randomUUID(), transport, ...more }), api };
}

const parts = (chat, type) => chat.lastMessage.parts.filter((part) => part.type === type);
const said = (chat) => parts(chat, "text").map((part) => part.text).join("");

async function settled(chat) {
  await until(() => chat.status === "ready" || chat.status === "error", "the chat to be answered");
  assert.equal(chat.status, "ready", String(chat.error));
}

for (const approved of [true, false]) {
  test(`an approval that is ${approved ? "given" : "refused"} is sent again by itself`, { timeout }, async () => {
    const { chat: it } = await chat([ASKING], {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    server.provider.willAnswer([{ tool: "bash", input: { command: "echo hi" } }], [{ text: "Done." }]);
    await it.sendMessage({ text: "say hi" });
    const [part] = parts(it, "dynamic-tool");
    assert.equal(part.state, "approval-requested", JSON.stringify(it.lastMessage));
    await it.addToolApprovalResponse({ id: part.approval.id, approved, reason: "because" });
    await settled(it);
    const [after] = parts(it, "dynamic-tool");
    assert.equal(after.state, approved ? "output-available" : "output-denied", JSON.stringify(after));
    assert.equal(said(it), "Done.");
    assert.equal(it.messages.length, 2, "one question, one answer");
  });
}

test("a tool of the client's is answered by the client", { timeout }, async () => {
  const { chat: it } = await chat([CUSTOM], {
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  });
  server.provider.willAnswer([{ tool: "pick_colour", input: { of: "door" } }], [{ text: "Green." }]);
  await it.sendMessage({ text: "which?" });
  const [part] = parts(it, "dynamic-tool");
  await it.addToolOutput({ tool: part.toolName, toolCallId: part.toolCallId, output: "green" });
  await settled(it);
  assert.equal(said(it), "Green.");
});

test("an idle chat has nothing to resume", { timeout }, async () => {
  const { chat: it, api } = await chat([], {});
  server.provider.willAnswer([{ text: "Hello." }]);
  await it.sendMessage({ text: "hello" });
  assert.equal(said(it), "Hello.");
  const resumed = await fetch(`${api}/${it.id}/stream`, { headers });
  assert.equal(resumed.status, 204);
});
