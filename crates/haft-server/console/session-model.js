/**
 * What a session's events add up to, for whoever shows it: the conversation in order, each call's
 * state, and the spans of a trace. A fold like the server's own: the same events give the same view.
 */

/** @typedef {import("./haft.js").Entry} Entry */
/** @typedef {import("./haft.js").HaftEvent} HaftEvent */
/** @typedef {import("./haft.js").Pending} Pending */
/** @typedef {import("./haft.js").Decision} Decision */

/**
 * @typedef {object} Call
 * @property {string} id
 * @property {string} tool The canonical name.
 * @property {string} called What the session calls it.
 * @property {string} executor
 * @property {any} contract
 * @property {Record<string, unknown>} arguments What runs, or would: an approver's edit replaces what was proposed.
 * @property {Record<string, unknown> | null} proposedArguments Set when an approver changed them.
 * @property {import("./haft.js").Derivation | null} derivation
 * @property {string} state A word of `STATES`.
 * @property {any} wait The current or last suspension.
 * @property {Decision[]} decisions
 * @property {any} outcome
 * @property {any} rejection
 * @property {number} attempt
 * @property {string[]} notes What else happened to it, in words.
 * @property {unknown} progress
 * @property {string | null} changes
 * @property {string | null} barred
 * @property {number} turn
 * @property {any} permit
 * @property {number} proposedAt
 */

/**
 * @typedef {{ key: string, kind: "message", at: number, from: import("./haft.js").Actor, content: any[] }
 *   | { key: string, kind: "answer", at: number, turn: number, content: any[] }
 *   | { key: string, kind: "call", at: number, call: Call }
 *   | { key: string, kind: "note", at: number, tone: string, text: string }} Item
 */

/** @typedef {{ key: string, kind: "turn" | "model" | "call" | "wait" | "run", name: string, from: number, to: number | null, tone: string, item: string | null }} Span */

/** @type {Record<string, string>} */
const CLASS_STATES = { denied: "denied", expired: "expired", cancelled: "cancelled" };

export class SessionModel {
  /** @param {string} session */
  constructor(session) {
    this.session = session;
    /** @type {Item[]} */
    this.items = [];
    /** @type {Map<string, Call>} */
    this.calls = new Map();
    /** @type {Span[]} */
    this.spans = [];
    /** @type {Map<string, any>} */
    this.grants = new Map();
    /** @type {any} */
    this.config = null;
    this.status = "unopened";
    this.turn = 0;
    this.seq = 0;
    this.first = 0;
    this.last = 0;
    /** @type {Map<string, Span>} */
    this.open = new Map();
    /** @type {Set<string>} */
    this.touched = new Set();
  }

  /** Takes entries and returns the keys of the items that are new or changed. @param {Entry[]} entries */
  apply(entries) {
    this.touched = new Set();
    for (const entry of entries) this.take(entry);
    return this.touched;
  }

  /** What a running call says about how far it is. @param {{ call: string, progress: unknown }} said */
  progress({ call, progress }) {
    const known = this.calls.get(call);
    if (!known || known.outcome) return false;
    known.progress = progress;
    return true;
  }

  /** The calls that run right now (document 004's `in_flight_tools`). */
  inFlight() {
    return [...this.calls.values()].filter((call) => ["ready", "queued", "running", "verifying", "retrying", "previewing"].includes(call.state));
  }

  /** The calls that wait for someone (document 004's `pending`). */
  waiting() {
    return [...this.calls.values()].filter((call) => call.state === "waiting");
  }

  /** What the session calls a tool. @param {string} tool @returns {string} */
  called(tool) {
    const names = Object.entries(this.config?.toolset?.names ?? {});
    return names.find(([, canonical]) => canonical === tool)?.[0] ?? tool;
  }

  /** @param {Entry} entry */
  take({ seq, at, event }) {
    this.seq = seq;
    this.first ||= at;
    this.last = at;
    const handler = HANDLERS[event.type];
    // What a newer server says and this page does not know is shown in the events, not here.
    handler?.(this, event, at);
  }

  /** @param {Item} item */
  add(item) {
    this.items.push(item);
    this.touched.add(item.key);
  }

  /** @param {number} at @param {string} text @param {string} [tone] */
  note(at, text, tone = "") {
    this.add({ key: `note-${this.seq}`, kind: "note", at, tone, text });
  }

  /** @param {string} id */
  call(id) {
    const call = this.calls.get(id);
    if (call) this.touched.add(id);
    return call;
  }

  /** @param {string} key @param {Span["kind"]} kind @param {string} name @param {number} at @param {{ item?: string | null, tone?: string }} [more] */
  begin(key, kind, name, at, { item = null, tone = "" } = {}) {
    const span = { key, kind, name, from: at, to: null, tone, item };
    this.spans.push(span);
    this.open.set(key, span);
  }

  /** @param {string} key @param {number} at @param {string} [tone] */
  finish(key, at, tone) {
    const span = this.open.get(key);
    if (!span) return;
    span.to = at;
    if (tone) span.tone = tone;
    this.open.delete(key);
  }
}

/** @type {Record<string, (model: SessionModel, event: HaftEvent, at: number) => void>} */
const HANDLERS = {
  "session.opened": (model, event) => {
    model.config = event.config;
    model.status = "idle";
  },
  "session.reconfigured": (model, event, at) => {
    model.config = event.config;
    model.note(at, `${event.by.id} changed how the session behaves`);
  },
  "session.interrupted": (model, event, at) => {
    model.note(at, `Interrupted by ${event.by.id}${event.note ? `: ${event.note}` : ""}`, "bad");
  },
  "session.restored": (model, _event, at) => {
    model.note(at, "The store was restored from a backup; what happened since is not known", "bad");
  },
  "session.ending": (model, event, at) => model.note(at, `${event.by.id} ends the session${event.note ? `: ${event.note}` : ""}`),
  "session.ended": (model, _event, at) => {
    model.status = "ended";
    model.note(at, "The session has ended");
  },
  "message.received": (model, event, at) => {
    model.add({ key: event.message, kind: "message", at, from: event.from, content: event.content });
  },
  "turn.started": (model, event, at) => {
    model.finish(`turn-${model.turn}`, at);
    model.turn = event.turn;
    model.status = "working";
    model.begin(`turn-${event.turn}`, "turn", `Turn ${event.turn}`, at);
    // A program drives the others: there is no model to wait for.
    if (model.config?.driver !== "caller") model.begin(`model-${event.turn}`, "model", "Model", at);
  },
  "turn.retried": (model, event, at) => {
    model.finish(`model-${event.turn}`, at, "bad");
    model.begin(`model-${event.turn}`, "model", `Model, attempt ${event.attempt}`, at);
    const why = event.failure ? "The model's answer broke off" : "The process that asked the model died";
    model.note(at, `${why}; it is asked again (attempt ${event.attempt})`, "warn");
  },
  "turn.answered": (model, event, at) => {
    model.finish(`model-${event.turn}`, at, "good");
    if (event.content.length > 0) model.add({ key: `answer-${event.turn}`, kind: "answer", at, turn: event.turn, content: event.content });
    for (const narrowed of event.narrowed ?? []) model.note(at, `${narrowed.by} left out ${narrowed.left_out} tools: ${narrowed.reason}`);
  },
  "turn.ended": (model, event, at) => {
    model.status = "idle";
    const why = event.ending.why;
    model.finish(`model-${event.turn}`, at, why === "failed" ? "bad" : "");
    model.finish(`turn-${event.turn}`, at, ["failed", "limit"].includes(why) ? "bad" : "");
    if (why === "limit") model.note(at, `Stopped at a limit: ${event.ending.limit}`, "warn");
    if (why === "failed") model.note(at, `The model could not be asked: ${event.ending.failure.message}`, "bad");
    if (why === "terminal") model.note(at, "A tool ended the run");
  },
  "call.proposed": (model, event, at) => {
    const call = { ...blank(event.call, event.contract.tool, at), called: model.called(event.contract.tool), executor: event.contract.executor, contract: event.contract,
      arguments: event.arguments.record, derivation: event.derivation, turn: model.turn };
    model.calls.set(event.call, call);
    model.add({ key: event.call, kind: "call", at, call });
    model.begin(event.call, "call", call.called, at, { item: event.call });
  },
  "call.rejected": (model, event, at) => {
    const known = model.calls.get(event.call);
    const call = known ?? { ...blank(event.call, event.name, at), turn: model.turn };
    call.state = "rejected";
    call.rejection = event.rejection;
    if (!known) {
      model.calls.set(event.call, call);
      model.add({ key: event.call, kind: "call", at, call });
      model.begin(event.call, "call", event.name, at, { item: event.call });
    }
    model.touched.add(event.call);
    model.finish(event.call, at, "bad");
  },
  "call.admitted": (model, event) => update(model, event.call, (call) => {
    call.state = "ready";
    call.permit = event.permit;
  }),
  "call.previewing": (model, event) => update(model, event.call, (call) => void (call.state = "previewing")),
  "call.suspended": (model, event, at) => update(model, event.call, (call) => {
    call.state = "waiting";
    call.wait = { round: event.round, kind: event.kind, expires_at: event.expires_at, reason: event.reason, preview: event.preview ?? call.wait?.preview ?? null, since: at };
    model.begin(`${event.call} ${event.round}`, "wait", event.kind, at, { item: event.call, tone: "warn" });
  }),
  "call.resolved": (model, event, at) => update(model, event.call, (call) => {
    call.state = "ready";
    const changed = event.decision.arguments?.record;
    if (changed) {
      call.proposedArguments = call.arguments;
      call.arguments = changed;
    }
    call.decisions.push({ decision: event.decision.type, by: event.by, at, note: event.decision.note });
    model.finish(`${event.call} ${event.round}`, at, ["deny", "expired", "client_gone"].includes(event.decision.type) ? "bad" : "warn");
  }),
  "call.queued": (model, event, at) => update(model, event.call, (call) => {
    call.state = "queued";
    model.begin(`${call.id} queue`, "wait", "queued", at, { item: call.id });
  }),
  "call.started": (model, event, at) => update(model, event.call, (call) => {
    call.state = "running";
    call.attempt = event.attempt;
    model.finish(`${call.id} queue`, at);
    model.begin(`${call.id} run`, "run", `Attempt ${event.attempt}`, at, { item: call.id });
    if (event.cause === "recovery") call.notes.push("Run again; its tool declares that repeating it is safe");
  }),
  "call.retry_scheduled": (model, event, at) => update(model, event.call, (call) => {
    call.state = "retrying";
    model.finish(`${call.id} run`, at, "bad");
    call.notes.push(`Attempt ${event.attempt} failed: ${event.failure.message}`);
  }),
  "call.interrupted": (model, event, at) => update(model, event.call, (call) => {
    model.finish(`${call.id} run`, at, "bad");
    call.state = event.plan === "verify" ? "verifying" : "ready";
    call.notes.push(event.failure ? `Attempt ${event.attempt} ended without a result: ${event.failure.message}` : `Its process died during attempt ${event.attempt}`);
  }),
  "call.verified": (model, event) => update(model, event.call, (call) => {
    call.notes.push({ applied: "Verified: it took effect", absent: "Verified: it did not take effect", unknown: "Could not be verified" }[/** @type {"applied"} */ (event.finding)] ?? event.finding);
  }),
  "call.cancelling": (model, event) => update(model, event.call, (call) => void call.notes.push("Asked to stop")),
  "call.redefined": (model, event) => update(model, event.call, (call) => {
    call.contract = event.contract;
    call.changes = event.changes;
    call.notes.push(`The tool changed while it waited: ${event.changes}`);
  }),
  "call.endorsed": (model, event) => update(model, event.call, (call) => {
    call.notes.push(`${event.by.id} said yes${event.note ? `: ${event.note}` : ""}; another person must too`);
  }),
  "call.barred": (model, event) => update(model, event.call, (call) => {
    call.barred = event.why;
    call.notes.push(`May not be run again: ${event.why}`);
  }),
  "call.finished": (model, event, at) => update(model, event.outcome.call, (call) => {
    const failure = event.outcome.result.err;
    call.outcome = event.outcome;
    call.progress = null;
    call.state = failure ? CLASS_STATES[failure.class] ?? "error" : "done";
    for (const key of [...model.open.keys()].filter((key) => key.startsWith(`${call.id} `))) model.finish(key, at, failure ? "bad" : "good");
    model.finish(call.id, at, failure ? "bad" : "good");
  }),
  "grant.added": (model, event, at) => {
    model.grants.set(event.grant.id, event.grant);
    model.note(at, `${event.grant.by.id} gave a standing permission for ${model.called(event.grant.tool)}`);
  },
  "grant.revoked": (model, event, at) => {
    model.grants.delete(event.grant);
    model.note(at, `${event.by.id} took a standing permission back`);
  },
};

/** @param {SessionModel} model @param {string} id @param {(call: Call) => void} change */
function update(model, id, change) {
  const call = model.call(id);
  if (call) change(call);
}

/** @param {string} id @param {string} tool @param {number} at @returns {Call} */
function blank(id, tool, at) {
  return { id, tool, called: tool, executor: "server", contract: null, arguments: {}, proposedArguments: null, derivation: null, state: "proposed", wait: null,
    decisions: [], outcome: null, rejection: null, attempt: 0, notes: [], progress: null, changes: null, barred: null, turn: 0, permit: null, proposedAt: at };
}

/**
 * Document 000's status of a call: pending, running, done or error.
 * @param {Call} call
 */
export function simpleStatus(call) {
  if (call.outcome) return call.outcome.result.err ? "error" : "done";
  if (call.rejection) return "error";
  return ["running", "verifying"].includes(call.state) ? "running" : "pending";
}
