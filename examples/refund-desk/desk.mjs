// The refund desk in JavaScript: `haft serve --worker "node examples/refund-desk/desk.mjs"`.

import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

import { Worker, result, tool } from "haft";

/** Writes a line into the bank's book, on the disk before this returns. */
function enter(line) {
  const book = openSync(process.env.BANK ?? "bank.txt", "a");
  writeSync(book, `${line}\n`);
  fsyncSync(book);
  closeSync(book);
}

const claimBack = tool({
  name: "claim_back",
  description: "Claims a refund back.",
  schema: {
    type: "object",
    properties: { refund: { type: "string", description: "Refund id" } },
    required: ["refund"],
  },
  mode: "external",
  approve: true,
  execute({ refund }) {
    enter(`claimed ${refund} back`);
    return `${refund} is back`;
  },
});

const refund = tool({
  name: "refund",
  description: "Refunds a charge. Use when a customer is owed money.",
  schema: {
    type: "object",
    properties: {
      charge: { type: "string", description: "Charge id" },
      cents: { type: "integer", minimum: 1, description: "Amount in cents" },
    },
    required: ["charge", "cents"],
  },
  mode: "external",
  approve: "two",
  undo: { tool: claimBack, within: "30m", args: { refund: result("/id") } },
  execute({ charge, cents }, context) {
    enter(`paid ${cents} for ${charge}`);
    if (context.attempt === 1) process.abort(); // the money is gone, and nobody was told
    return { id: `re_${charge}` };
  },
});

await new Worker([refund, claimBack]).run();
