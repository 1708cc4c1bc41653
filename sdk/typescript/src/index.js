// Tools in TypeScript and JavaScript with Haft's guarantees: make a tool, give it to a Worker.

export { Client, ApiError } from "./client.js";
export { Cancelled, EffectUnknown, ToolError } from "./errors.js";
export { decideToolMode, isTerminalResult } from "./results.js";
export { UNKNOWN, argument, result, tool } from "./tool.js";
export { Worker } from "./worker.js";
