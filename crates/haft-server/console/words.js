/** What the vocabulary of Haft is called where people read it. One table, so that it can be said otherwise. */

/** @type {Record<string, { text: string, tone: string, hint: string }>} */
export const MODES = {
  read: { text: "Reads", tone: "good", hint: "It only looks." },
  safe_write: { text: "Writes", tone: "accent", hint: "Its changes are bounded." },
  destructive: { text: "Irreversible", tone: "bad", hint: "It cannot simply be taken back." },
  local: { text: "Local machine", tone: "warn", hint: "It touches the machine it runs on." },
  external: { text: "Outside service", tone: "violet", hint: "It talks to a service that someone else runs." },
};

/** What is said of a tool that nothing classifies. */
export const UNCLASSIFIED = { text: "Unclassified", tone: "warn", hint: "Nothing says what it does." };

/** @type {Record<string, string>} */
export const REACHES = { local_machine: "this machine", network: "network", external_service: "outside service" };

/** @type {Record<string, string>} */
export const KINDS = { approval: "Approval", elicitation: "Question", client_exec: "Runs in a browser", settlement: "In doubt", child: "A sub-agent" };

/** @type {Record<string, string>} */
export const REASONS = {
  asked: "A rule asks for a person.",
  executor: "Someone outside produces the result.",
  world_moved: "It would now do something else than was shown; look again.",
  edited: "The arguments were edited; this is what they would do.",
  redefined: "The tool changed since it was shown.",
  in_doubt: "It ended without a result, and nobody knows whether it took effect.",
  restored: "The store was restored from a backup. The call may have run since.",
};

/** @type {Record<string, string>} */
export const DECISIONS = {
  approve: "approved", granted: "let through by a grant", deny: "denied", answer: "answered", result: "ran in a browser",
  happened: "settled: it happened", run_again: "settled: run again", give_up: "settled: left as it is",
  expired: "expired: nobody decided in time", client_gone: "no browser was there to run it",
};

/** @type {Record<string, { text: string, tone: string }>} */
export const STATES = {
  proposed: { text: "Proposed", tone: "" }, previewing: { text: "Working out a preview", tone: "" }, ready: { text: "About to run", tone: "" },
  queued: { text: "Queued", tone: "warn" }, running: { text: "Running", tone: "accent" }, waiting: { text: "Waiting", tone: "warn" }, retrying: { text: "Will try again", tone: "warn" },
  verifying: { text: "Being verified", tone: "warn" }, done: { text: "Done", tone: "good" }, error: { text: "Failed", tone: "bad" },
  denied: { text: "Denied", tone: "bad" }, expired: { text: "Expired", tone: "bad" }, cancelled: { text: "Stopped", tone: "" }, rejected: { text: "Not run", tone: "bad" },
};

/** Who acted, in a few words. @param {{ kind: string, id: string } | undefined} actor */
export function who(actor) {
  if (!actor) return "someone";
  return actor.kind === "system" ? "Haft" : actor.id;
}

/**
 * A source of permission, as it is called.
 * @param {string | Record<string, string>} source
 */
export function sourceName(source) {
  if (typeof source === "string") return /** @type {Record<string, string>} */ ({
    tool: "The tool", ownership: "Ownership", classifier: "What it does", executor: "Who runs it", exposure: "The session’s tools", floor: "The operator’s floor",
    environment: "The environment", level: "The session’s level",
  })[source] ?? source;
  const [kind, name] = Object.entries(source)[0] ?? ["", ""];
  return kind === "rule" ? `Rule “${name}”` : `Grant ${name}`;
}
