// A local fake of Anthropic's Messages API: answers what it was told to answer, and remembers
// what it was asked. An answer is a list of { text } and { tool, input }.

import { createServer } from "node:http";

let counter = 0;

function* streamed(answer, model) {
  const usage = { input_tokens: 10, output_tokens: 1 };
  const message = {
    id: `msg_${++counter}`, type: "message", role: "assistant", model, content: [],
    stop_reason: null, stop_sequence: null, usage,
  };
  yield { type: "message_start", message };
  for (const [index, block] of answer.entries()) {
    const isTool = "tool" in block;
    const start = isTool
      ? { type: "tool_use", id: `toolu_${++counter}`, name: block.tool, input: {} }
      : { type: "text", text: "" };
    const delta = isTool
      ? { type: "input_json_delta", partial_json: JSON.stringify(block.input) }
      : { type: "text_delta", text: block.text };
    yield { type: "content_block_start", index, content_block: start };
    yield { type: "content_block_delta", index, delta };
    yield { type: "content_block_stop", index };
  }
  const stop_reason = answer.some((block) => "tool" in block) ? "tool_use" : "end_turn";
  yield { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } };
  yield { type: "message_stop" };
}

export async function fakeProvider() {
  const fake = { answers: [], requests: [] };
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const asked = JSON.parse(body);
    fake.requests.push(asked);
    const answer = fake.answers.shift() ?? [{ text: "done" }];
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const data of streamed(answer, asked.model)) {
      response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
    }
    response.end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  // A test that fails before it closes this one ends nevertheless.
  server.unref();
  fake.url = `http://127.0.0.1:${server.address().port}`;
  fake.willAnswer = (...answers) => {
    fake.answers = answers;
    fake.requests.length = 0;
  };
  fake.close = () => server.close();
  return fake;
}
