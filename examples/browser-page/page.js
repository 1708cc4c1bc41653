/** A page whose visitor is asked with a form, and one of whose functions is a tool. */

import { Haft } from "/console/haft.js";
import "/console/elements/elicitation.js";

// The address has it behind the `#`, which no server is sent.
const given = new URLSearchParams(location.hash.slice(1));
const haft = new Haft({ base: given.get("base") ?? "", key: given.get("key") ?? "" });
const { session } = await haft.openSession({ agent: given.get("agent") ?? "", message: "Write a note." });

haft.follow(session, {
  // Runs here while this page is open. What it returns is the call's result.
  tools: { get_browser_language: () => ({ language: navigator.language, zone: Intl.DateTimeFormat().resolvedOptions().timeZone }) },
  onEntry: ({ event }) => {
    if (event.type === "turn.answered") event.content.forEach((/** @type {any} */ block) => say(block.text));
    if (event.type === "call.finished") say(`(${event.outcome.tool} ${event.outcome.result.err ? "failed" : "done"})`);
  },
});

// A question becomes a form, made from the schema of its answer.
haft.watchPending(async () => {
  const question = (await haft.pending()).data.find((wait) => wait.session === session && wait.kind === "elicitation");
  const place = document.getElementById("asked");
  if (!question || !place || place.dataset.call === question.call) return;
  place.dataset.call = question.call;
  const form = /** @type {any} */ (document.createElement("haft-elicitation"));
  form.client = haft;
  form.pending = question;
  place.replaceChildren(form);
});

/** @param {string} text */
function say(text) {
  const line = document.createElement("li");
  line.textContent = text;
  document.getElementById("said")?.append(line);
}
