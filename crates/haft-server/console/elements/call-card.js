/**
 * One call in a timeline, shown by who runs it: a card for what the server runs, a form for a
 * person, a line for the provider, and nothing for a client's, unless it failed.
 */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { simpleStatus } from "../session-model.js";
import { exact, left, took, when } from "../time.js";
import { DECISIONS, MODES, STATES, UNCLASSIFIED, sourceName, who } from "../words.js";
import { renderDiff } from "./diff.js";
import "./approval.js";
import "./elicitation.js";
import "./settlement.js";

/** @typedef {import("../session-model.js").Call} Call */
/** @typedef {import("../haft.js").Pending} Pending */
/** @typedef {import("./waiting.js").WaitingElement} WaitingElement */

export const CARD_STYLE = `
.call { border: 1px solid var(--line); border-radius: var(--radius); background: var(--surface); }
.call > summary { padding: 8px 12px; gap: 9px; color: var(--ink); min-height: 40px; }
.call > summary::before { display: none; }
.call .state { display: inline-flex; width: 20px; height: 20px; border-radius: 50%; align-items: center; justify-content: center; flex: none; background: var(--sunken); color: var(--ink-3); }
.call .state .icon { width: 12px; height: 12px; }
.call .state.good { background: var(--good-soft); color: var(--good); } .call .state.bad { background: var(--bad-soft); color: var(--bad); }
.call .state.warn { background: var(--warn-soft); color: var(--warn); } .call .state.accent { background: var(--accent-soft); color: var(--accent); }
.call .state.running::after { content: ""; width: 10px; height: 10px; border-radius: 50%; border: 2px solid var(--accent); border-right-color: transparent; animation: turn .9s linear infinite; }
.call .state.running .icon { display: none; }
@keyframes turn { to { rotate: 360deg; } }
.call .what { font-weight: 580; white-space: nowrap; }
.call .gist { color: var(--ink-3); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; flex: 1; min-width: 0; font-size: .92em; }
.call .aside { color: var(--ink-3); font-size: .86em; white-space: nowrap; font-variant-numeric: tabular-nums; }
.call .inside { padding: 4px 12px 12px; display: grid; gap: 10px; border-top: 1px solid var(--line); padding-top: 10px; }
.call .inside > * { min-width: 0; }
.call h4 { font-size: .82em; color: var(--ink-3); font-weight: 600; margin-bottom: 4px; }
.call .said { font-size: .95em; white-space: pre-wrap; overflow-wrap: anywhere; }
.call.failed { border-color: color-mix(in srgb, var(--bad) 35%, var(--line)); }
.call .facts { display: flex; flex-wrap: wrap; gap: 6px; }
.call .decided { font-size: .92em; color: var(--ink-2); display: flex; gap: 7px; align-items: baseline; overflow-wrap: anywhere; }
.call .debug { color: var(--ink-3); font-size: .86em; overflow-wrap: anywhere; }
.call meter { width: 100%; height: 8px; }
.call .row { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; }
.call .why-list { list-style: none; display: grid; gap: 3px; font-size: .9em; margin-top: 6px; }
.undone { display: flex; gap: 7px; align-items: baseline; font-size: .92em; overflow-wrap: anywhere; min-width: 0; }
.undone.good { color: var(--good); } .undone.bad { color: var(--bad); } .undone.warn { color: var(--warn); }
.affordance { display: flex; gap: 8px; align-items: center; color: var(--ink-3); font-size: .92em; padding: 2px 4px; }
.affordance .mono { color: var(--ink-2); }
@media (max-width: 560px) { .call .gist { display: none; } .call > summary .what { flex: 1; overflow: hidden; text-overflow: ellipsis; } }
`;

/** @type {Record<string, string>} */
const TAGS = { approval: "haft-approval", elicitation: "haft-elicitation", settlement: "haft-settlement" };

/** @type {Record<string, string>} */
const STATE_ICONS = { done: "check", error: "cross", denied: "cross", rejected: "cross", expired: "clock", waiting: "wait", cancelled: "stop" };

/**
 * What is known of a tool beside what its calls carry.
 * @typedef {{ title?: string, detail?: string, consequence?: string, input_schema?: any, output_schema?: any, undo?: { window_ms: number } | null, gate?: string }} ToolInfo
 * @typedef {{ client: import("../haft.js").Haft | null, session: string, tool: (name: string) => ToolInfo | undefined }} Surroundings
 */

/**
 * A call that waits, as the waiting elements take it.
 * @param {Call} call
 * @param {Surroundings} around
 * @returns {Pending}
 */
export function pendingOf(call, around) {
  const tool = around.tool(call.tool);
  const last = call.decisions.at(-1);
  const isOver = call.state !== "waiting";
  return {
    session: around.session, call: call.id, tool: call.called, arguments: call.arguments, ...call.wait,
    title: tool?.title, detail: tool?.detail, consequence: tool?.consequence, mode: call.contract?.mode ?? null, reach: call.contract?.reach ?? [],
    reversal: call.contract?.reversal, input_schema: tool?.input_schema, answer_schema: tool?.output_schema, derivation: call.derivation ?? undefined,
    changes: call.changes ?? undefined, barred: call.barred ?? undefined, may_grant: !["ask_always", "ask_two"].includes(call.contract?.gate ?? ""),
    ...(isOver && last ? { decision: last } : {}),
  };
}

export class CallCard {
  /** @param {Surroundings} around */
  constructor(around) {
    this.around = around;
    this.element = h("div", { class: "call-slot" });
    /** @type {WaitingElement | null} */
    this.waiting = null;
    this.waitingFor = "";
    this.isOpen = false;
    /** @type {HTMLElement | null} */
    this.undone = null;
    this.asked = false;
  }

  /** @param {Call} call */
  update(call) {
    const isWaiting = call.state === "waiting" && TAGS[call.wait?.kind];
    if (isWaiting) return this.showWaiting(call);
    this.waiting = null;
    if (call.executor === "client" && !call.outcome?.result.err && !call.rejection) return fill(this.element);
    if (call.executor === "provider") return fill(this.element, affordance(call));
    this.showCard(call);
  }

  /** @param {Call} call */
  showWaiting(call) {
    const key = `${call.id} ${call.wait.round}`;
    if (this.waiting && this.waitingFor === key) return;
    const element = /** @type {WaitingElement} */ (document.createElement(/** @type {string} */ (TAGS[call.wait.kind])));
    element.client = this.around.client;
    element.pending = pendingOf(call, this.around);
    this.waiting = element;
    this.waitingFor = key;
    fill(this.element, element);
  }

  /** @param {Call} call */
  showCard(call) {
    const tool = this.around.tool(call.tool);
    const state = STATES[call.state] ?? STATES.proposed;
    const status = simpleStatus(call);
    const elapsed = call.outcome && call.outcome.attempt > 0 ? took(call.outcome.finished_at - call.outcome.started_at) : "";
    const details = h("details", { class: `call ${status === "error" ? "failed" : ""}`, part: "call", "data-status": status, ".open": this.isOpen, ontoggle: () => {
      this.isOpen = details.open;
      if (details.open) show();
    } },
      h("summary", {},
        h("span", { class: `state ${state?.tone} ${call.state === "running" ? "running" : ""}` }, icon(STATE_ICONS[call.state] ?? "clock")),
        h("span", { class: "what" }, tool?.title ?? call.called),
        h("span", { class: "gist mono" }, gist(call)),
        h("span", { class: "aside" }, state?.text === "Done" ? elapsed : [state?.text, elapsed].filter(Boolean).join(" · "))));
    const inside = h("div", { class: "inside" });
    const show = () => {
      if (inside.childElementCount === 0) fill(inside, this.inside(call));
    };
    if (this.isOpen) show();
    details.append(inside);
    fill(this.element, details, this.belowCard(call, tool));
  }

  /** What must be seen without opening the card. @param {Call} call @param {ToolInfo | undefined} tool */
  belowCard(call, tool) {
    const said = call.outcome?.directives?.user_message;
    const progress = call.progress === null || call.progress === undefined ? null : renderProgress(call.progress);
    const undo = this.undo(call, tool);
    return said || progress || undo ? h("div", { class: "below" }, said ? h("p", { class: "said" }, said) : null, progress, undo) : null;
  }

  /** @param {Call} call @param {ToolInfo | undefined} tool */
  undo(call, tool) {
    if (call.state !== "done" || call.contract?.reversal !== "undo" || !this.around.client) return null;
    const until = call.outcome.finished_at + (tool?.undo?.window_ms ?? 0);
    const remaining = until - Date.now() - this.around.client.clockSkew;
    if (this.undone) return this.undone;
    if (remaining <= 0) return null;
    const slot = h("div", { class: "row undo" });
    const button = h("button", { type: "button", class: "button small", onclick: () => void this.takeBack(call, slot, button) }, icon("undo"), "Undo");
    fill(slot, button, h("span", { class: "hint" }, `possible for ${left(remaining)}`));
    if (!this.asked) {
      this.asked = true;
      void this.around.client.get(`/sessions/${this.around.session}/calls/${call.id}/undo`).then((answer) => {
        if (answer.state !== "none") this.showUndone(slot, answer);
      }).catch(() => {});
    }
    return slot;
  }

  /** @param {Call} call @param {HTMLElement} slot @param {HTMLButtonElement} button */
  async takeBack(call, slot, button) {
    button.disabled = true;
    try {
      const answer = await /** @type {import("../haft.js").Haft} */ (this.around.client).undo(this.around.session, call.id);
      this.showUndone(slot, answer);
    } catch (error) {
      button.disabled = false;
      fill(slot, button, h("span", { class: "problem", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {HTMLElement} slot @param {{ state: string, session: string, call: string, message?: string }} answer */
  showUndone(slot, answer) {
    const text = { done: "Taken back", failed: `Could not be taken back${answer.message ? `: ${answer.message}` : ""}`, waiting: "Taking it back waits for someone", in_doubt: "Taking it back is in doubt", running: "Being taken back" }[answer.state] ?? answer.state;
    const tone = answer.state === "done" ? "good" : answer.state === "failed" ? "bad" : "warn";
    fill(slot, h("p", { class: `undone ${tone}`, role: "status" }, icon("undo"), h("span", {}, text)),
      answer.session ? h("a", { class: "button quiet small", href: `#/sessions/${answer.session}` }, "Show") : null);
    this.undone = slot;
  }

  /** @param {Call} call */
  inside(call) {
    const mode = (call.contract?.mode && MODES[call.contract.mode]) || UNCLASSIFIED;
    const preview = call.wait?.preview?.diff;
    return [
      call.contract ? h("div", { class: "facts" }, h("span", { class: `badge ${mode.tone}` }, mode.text), h("span", { class: "badge" }, call.executor),
        h("span", { class: "badge" }, call.contract.ownership), call.attempt > 1 ? h("span", { class: "badge warn" }, `attempt ${call.attempt}`) : null) : null,
      section("Arguments", h("pre", { class: "block", tabindex: "0" }, pretty(call.arguments))),
      call.proposedArguments ? section("As the model proposed them", h("pre", { class: "block", tabindex: "0" }, pretty(call.proposedArguments))) : null,
      preview ? section("What was shown before", renderDiff(preview)) : null,
      ...call.decisions.map((decision) => h("p", { class: "decided" }, icon(decision.decision === "deny" ? "cross" : "person"),
        h("span", {}, `${DECISIONS[decision.decision ?? ""] ?? decision.decision} · ${who(decision.by)}`,
          decision.at ? h("span", { title: exact(decision.at) }, ` · ${when(decision.at, Date.now())}`) : null, decision.note ? ` — “${decision.note}”` : ""))),
      ...call.notes.map((note) => h("p", { class: "decided" }, icon("alert"), h("span", {}, note))),
      result(call),
      call.outcome?.directives?.next_action ? h("p", { class: "debug" }, `Next: ${call.outcome.directives.next_action}`) : null,
      artifacts(call, this.around),
      derivation(call),
      h("p", { class: "debug mono" }, call.id),
    ];
  }
}

/** @param {string} title @param {HTMLElement} content */
function section(title, content) {
  return h("div", {}, h("h4", {}, title), content);
}

/** @param {Call} call */
function gist(call) {
  const failure = call.outcome?.result.err;
  if (failure) return brief(failure.message, 120);
  if (call.rejection) return brief(call.rejection.message, 120);
  if (call.executor === "human" && call.outcome) return brief(call.outcome.result.ok.value, 120);
  const values = Object.values(call.arguments);
  return values.length === 1 ? brief(values[0], 120) : brief(Object.entries(call.arguments).map(([name, value]) => `${name}: ${brief(value, 40)}`).join("  "), 120);
}

/** @param {Call} call */
function result(call) {
  if (call.rejection) return section("Not run", h("div", {}, h("p", { class: "said" }, call.rejection.message), call.rejection.raw_arguments ? h("pre", { class: "block" }, call.rejection.raw_arguments) : null));
  if (!call.outcome) return null;
  const failure = call.outcome.result.err;
  if (failure) {
    return section("Failed", h("div", {}, h("p", { class: "said" }, failure.message, " ", h("span", { class: "badge bad" }, failure.class)),
      failure.debug ? h("p", { class: "debug" }, failure.debug) : null,
      failure.partial === undefined ? null : h("pre", { class: "block", tabindex: "0" }, pretty(failure.partial))));
  }
  const ok = call.outcome.result.ok;
  const texts = (ok.content ?? []).filter((/** @type {any} */ block) => block.type === "text").map((/** @type {any} */ block) => block.text);
  const value = ok.value === undefined ? null : pretty(ok.value);
  const shown = [...texts, ...(value !== null && value !== texts.join("\n") ? [value] : [])];
  return section(call.outcome.provenance?.trust === "untrusted" ? "Result, from outside" : "Result",
    h("div", {}, shown.length > 0 ? shown.map((text) => h("pre", { class: "block", tabindex: "0" }, text)) : h("p", { class: "hint" }, "Nothing.")));
}

/** @param {Call} call @param {Surroundings} around */
function artifacts(call, around) {
  const ok = call.outcome?.result.ok;
  const found = [...(ok?.artifacts ?? []), ...(ok?.content ?? []).filter((/** @type {any} */ block) => block.type === "artifact").map((/** @type {any} */ block) => block.artifact)];
  if (found.length === 0) return null;
  return h("div", { class: "row" }, found.map((artifact) => h("button", { type: "button", class: "button small", onclick: () => void download(around, artifact) },
    icon("file"), artifact.title ?? artifact.id, h("span", { class: "hint" }, `${artifact.bytes} bytes`))));
}

/** Saves an artifact; it is never opened in the page's own origin. @param {Surroundings} around @param {any} artifact */
async function download(around, artifact) {
  const blob = await /** @type {import("../haft.js").Haft} */ (around.client).artifact(artifact.id);
  const url = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
  const link = h("a", { href: url, download: artifact.title ?? artifact.id });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {Call} call */
function derivation(call) {
  if (!call.derivation) return null;
  return h("details", { class: "why" }, h("summary", {}, `Why it was ${{ allow: "allowed", ask: "asked about", deny: "denied" }[call.derivation.decision]}`),
    h("ol", { class: "why-list" }, call.derivation.findings.map((finding) => h("li", {},
      h("span", { class: `badge ${{ allow: "good", ask: "warn", deny: "bad" }[finding.verdict] ?? ""}` }, finding.verdict), " ",
      h("strong", {}, sourceName(finding.source)), ` — ${finding.reason}`))));
}

/** @param {unknown} progress */
function renderProgress(progress) {
  const said = /** @type {any} */ (progress);
  const share = typeof said?.fraction === "number" ? said.fraction : typeof said?.done === "number" && typeof said?.total === "number" ? said.done / said.total : null;
  const text = typeof said === "string" ? said : said?.message ?? (share === null ? brief(said, 200) : `${Math.round(share * 100)} %`);
  return h("div", { class: "progress", role: "status" }, share === null ? null : h("progress", { max: "1", value: String(share), "aria-label": "Progress" }), h("span", { class: "hint mono" }, text));
}

/** @param {Call} call */
function affordance(call) {
  const state = call.outcome?.result.err ? "failed" : call.outcome ? "done" : "working";
  return h("p", { class: "affordance", part: "provider" }, icon("globe"), h("span", {}, `The model’s provider ran `, h("span", { class: "mono" }, call.called), `, ${state}`));
}
