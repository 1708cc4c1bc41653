// The TypeScript SDK's server with one trivial tool, answering in JSON.
//
// usage: node server.mjs PORT
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import * as z from "zod/v4";

const adder = () => {
  const server = new McpServer({ name: "adder", version: "0" }, { capabilities: { tools: {} } });
  const inputSchema = z.object({ a: z.number().int(), b: z.number().int() });
  server.registerTool("add", { description: "Adds two integers.", inputSchema }, async ({ a, b }) => ({
    content: [{ type: "text", text: String(a + b) }],
  }));
  return server;
};

const handler = toNodeHandler(createMcpHandler(adder, { responseMode: "json" }));
createServer((request, response) => handler(request, response)).listen(Number(process.argv[2]), "127.0.0.1");
