// Clients that other people wrote for Node.js, against a real `haft serve`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { createMCPClient } from "@ai-sdk/mcp";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { AWAIT, GATED, HEADERS, Haft, PATIENCE_MS, PLAIN, handleIn, until } from "./haft.mjs";

/** Lists, calls what may run, calls what asks, has it approved and picks the result up. */
async function story(haft, { names, call }) {
  const known = await names();
  for (const name of [PLAIN, GATED, AWAIT]) assert(known.includes(name), `${name} of ${known}`);
  await call(PLAIN, {});
  const handle = handleIn(JSON.stringify(await call(GATED, { text: "hello" })));
  await haft.approve();
  // A result that takes longer than the server's patience is answered with the handle again.
  const result = await until(async () => {
    const said = JSON.stringify(await call(AWAIT, { handle }));
    return said.includes("Not done yet") ? undefined : said;
  });
  assert.match(result, /hello/);
  haft.assertOneEffect();
}

function peer(name, talk) {
  test(name, { timeout: 2 * PATIENCE_MS }, async () => {
    const haft = await Haft.start();
    try {
      await talk(haft);
    } finally {
      await haft.stop();
    }
  });
}

async function official(haft, client, transport) {
  await client.connect(transport);
  await story(haft, {
    names: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: (name, args) => client.callTool({ name, arguments: args }),
  });
  await client.close();
}

const options = { requestInit: { headers: HEADERS } };
const me = { name: "peer", version: "1" };

peer("the official TypeScript SDK, current revision", (haft) => {
  const client = new Client(me, { versionNegotiation: { mode: "auto" } });
  return official(haft, client, new StreamableHTTPClientTransport(new URL(haft.mcp), options));
});

peer("the official TypeScript SDK, as it comes", (haft) =>
  official(haft, new Client(me), new StreamableHTTPClientTransport(new URL(haft.mcp), options)));

peer("the official TypeScript SDK before that", (haft) =>
  official(haft, new ClientV1(me), new TransportV1(new URL(haft.mcp), options)));

peer("the MCP client of the AI SDK", async (haft) => {
  const transport = { type: "http", url: haft.mcp, headers: HEADERS };
  const client = await createMCPClient({ transport });
  const tools = await client.tools();
  await story(haft, {
    names: async () => Object.keys(tools),
    call: (name, args) => tools[name].execute(args, { toolCallId: name, messages: [] }),
  });
  await client.close();
});

peer("the Inspector's command line", async (haft) => {
  const require = createRequire(import.meta.url);
  const home = dirname(require.resolve("@modelcontextprotocol/inspector/package.json"));
  const { bin } = require("@modelcontextprotocol/inspector/package.json");
  const program = join(home, bin["mcp-inspector"]);
  const inspect = async (...args) => {
    const header = `Authorization: ${HEADERS.Authorization}`;
    const all = [program, "--cli", haft.mcp, "--transport", "http", "--header", header, ...args];
    const { stdout } = await promisify(execFile)(process.execPath, all, { timeout: PATIENCE_MS });
    return JSON.parse(stdout);
  };
  await story(haft, {
    names: async () => (await inspect("--method", "tools/list")).tools.map((tool) => tool.name),
    call: (name, args) => {
      const given = Object.entries(args).flatMap(([key, value]) => ["--tool-arg", `${key}=${value}`]);
      return inspect("--method", "tools/call", "--tool-name", name, ...given);
    },
  });
});
