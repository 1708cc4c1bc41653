/**
 * What the cards of waiting calls have in common: the countdown, sending a decision once, and what
 * is shown after the wait is over.
 */

import { editable, fill, h, icon, pretty, svg } from "../dom.js";
import { legible } from "../legible.js";
import { exact, left, when } from "../time.js";
import { DECISIONS, MODES, REACHES, REASONS, UNCLASSIFIED, sourceName, who } from "../words.js";
import { DIFF_STYLE, renderDiff } from "./diff.js";
import { FORM_STYLE } from "./form.js";
import { shadow, sheet } from "./theme.js";

/** @typedef {import("../haft.js").Pending} Pending */
/** @typedef {import("../haft.js").Response} Response */
/** @typedef {import("../haft.js").Decision} Decision */

const STYLE = sheet(`
.card { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow); container-type: inline-size; }
.head { display: flex; gap: 12px; align-items: flex-start; padding: 14px 16px 10px; }
.head .title { flex: 1; min-width: 0; }
.head h3 { font-size: 1.08em; font-weight: 620; letter-spacing: -.005em; line-height: 1.35; overflow-wrap: anywhere; }
.head .name { color: var(--ink-3); font-size: .86em; overflow-wrap: anywhere; }
.badges { display: flex; flex-wrap: wrap; gap: 5px; margin-top: 6px; }
.body { display: grid; gap: 12px; padding: 2px 16px 14px; }
.body > * { min-width: 0; }
.foot { display: flex; flex-wrap: wrap; gap: 10px; align-items: center; padding: 12px 16px; border-top: 1px solid var(--line); background: var(--sunken); border-radius: 0 0 var(--radius) var(--radius); }
.foot .spring { flex: 1; }
.timer { display: inline-flex; gap: 7px; align-items: center; color: var(--ink-2); font-variant-numeric: tabular-nums; white-space: nowrap; font-size: .92em; font-weight: 550; padding-top: 2px; }
.timer svg.ring { width: 18px; height: 18px; rotate: -90deg; }
.timer .track { stroke: var(--line); } .timer .arc { stroke: var(--accent); transition: stroke-dashoffset .9s linear; }
.timer.soon { color: var(--warn); } .timer.soon .arc { stroke: var(--warn); }
.timer.last { color: var(--bad); } .timer.last .arc { stroke: var(--bad); }
.why { font-size: .92em; }
.why ol { list-style: none; display: grid; gap: 4px; margin-top: 8px; }
.why li { display: grid; grid-template-columns: 62px 1fr; gap: 8px; align-items: baseline; font-size: .94em; }
.why .source { font-weight: 550; }
.notice { display: flex; gap: 9px; align-items: flex-start; padding: 9px 12px; border-radius: 8px; background: var(--warn-soft); color: var(--warn); font-size: .93em; overflow-wrap: anywhere; }
.notice.bad { background: var(--bad-soft); color: var(--bad); } .notice.good { background: var(--good-soft); color: var(--good); } .notice.plain { background: var(--sunken); color: var(--ink-2); }
.notice .icon { margin-top: .2em; }
.arguments { display: grid; grid-template-columns: minmax(70px, max-content) 1fr; gap: 5px 14px; font-size: .93em; }
.arguments dt { color: var(--ink-3); overflow-wrap: anywhere; } .arguments dd { overflow-wrap: anywhere; white-space: pre-wrap; max-height: 14em; overflow: auto; }
.arguments dt .measure { display: block; color: var(--warn); font-size: .9em; max-width: 14em; }
.arguments dd.masked { color: var(--ink-3); font-style: italic; }
.section { display: grid; gap: 8px; }
.section > h4 { font-size: .82em; font-weight: 600; color: var(--ink-3); display: flex; align-items: center; gap: 8px; min-height: 24px; }
.over { padding: 12px 16px; border-top: 1px solid var(--line); display: flex; gap: 9px; align-items: flex-start; font-size: .95em; }
.over.good .icon { color: var(--good); } .over.bad .icon { color: var(--bad); } .over .icon { margin-top: .2em; }
.over p { overflow-wrap: anywhere; }
.over .aside { color: var(--ink-3); }
@container (max-width: 460px) { .head { flex-wrap: wrap; } .foot .button { flex: 1; } .foot .spring { display: none; } }
${DIFF_STYLE}
${FORM_STYLE}
`);

/** How long a new card takes no click: whoever double-clicked on what stood here before did not mean it. */
const ARMING_MS = 500;

/** The moments before the end at which a screen reader is told. */
const SPOKEN = [60_000, 10_000];

export class WaitingElement extends HTMLElement {
  constructor() {
    super();
    this.root = shadow(this, STYLE);
    /** @type {Pending | null} */
    this.given = null;
    /** @type {import("../haft.js").Haft | null} */
    this.client = null;
    /** @type {Decision | null} */
    this.decision = null;
    /** @type {"open" | "sending" | "over"} */
    this.stage = "open";
    this.tick = 0;
    this.timer = h("span", { class: "timer", role: "timer", "aria-live": "off", part: "countdown" });
    this.spoken = h("span", { class: "visually-hidden", role: "status" });
    this.alert = h("div", { role: "alert" });
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
  }

  /** What waits. Setting another wait starts the card anew; the same one again changes nothing. */
  get pending() {
    return this.given;
  }

  set pending(pending) {
    const isSame = pending && this.given && pending.call === this.given.call && pending.round === this.given.round;
    if (isSame && this.stage !== "over") return;
    this.given = pending;
    this.decision = pending?.decision ?? null;
    this.stage = this.decision ? "over" : "open";
    this.alert = h("div", { role: "alert" });
    this.show();
    this.arm();
    this.count();
  }

  connectedCallback() {
    this.tick = window.setInterval(() => this.count(), 1000);
    this.count();
  }

  disconnectedCallback() {
    window.clearInterval(this.tick);
  }

  show() {
    if (!this.given) return fill(this.root);
    this.buttons = [];
    const over = this.stage === "over";
    fill(this.root, h("section", { class: "card", part: "card", role: "group", "aria-labelledby": "title" },
      this.head(this.given), h("div", { class: "body", part: "body" }, this.body(this.given), this.alert),
      over ? this.end() : h("div", { class: "foot", part: "actions" }, this.actions(this.given)), this.spoken));
  }

  /** @param {Pending} pending @returns {(HTMLElement | null)[]} */
  body(pending) {
    void pending;
    return [];
  }

  /** @param {Pending} pending @returns {HTMLElement[]} */
  actions(pending) {
    void pending;
    return [];
  }

  /** What the title says. @param {Pending} pending */
  heading(pending) {
    return pending.title ?? pending.tool;
  }

  /** @param {Pending} pending */
  head(pending) {
    return h("header", { class: "head" },
      h("div", { class: "title" },
        h("h3", { id: "title" }, legible(this.heading(pending))),
        h("p", { class: "name" }, h("code", {}, legible(pending.tool)), pending.detail ? ` · ${legible(pending.detail)}` : ""),
        this.badges(pending)),
      this.stage === "over" ? null : this.timer);
  }

  /** @param {Pending} pending */
  badges(pending) {
    const mode = (pending.mode && MODES[pending.mode]) || UNCLASSIFIED;
    const reach = (pending.reach ?? []).filter((place) => !(pending.mode === "local" && place === "local_machine"));
    return h("div", { class: "badges" },
      h("span", { class: `badge ${mode.tone}`, title: mode.hint }, mode.text),
      reach.map((place) => h("span", { class: "badge" }, REACHES[place] ?? place)),
      pending.consequence === "high" ? h("span", { class: "badge bad" }, "High consequence") : null,
      pending.reversal === "undo" ? h("span", { class: "badge" }, icon("undo"), "Can be undone") : null);
  }

  /** Why someone is asked, with what every source said. @param {Pending} pending */
  why(pending) {
    const findings = pending.derivation?.findings ?? [];
    const deciding = [...findings].reverse().find((finding) => finding.verdict === pending.derivation?.decision);
    const sentence = pending.reason === "asked" && deciding ? `${sourceName(deciding.source)}: ${deciding.reason}.` : REASONS[pending.reason] ?? pending.reason;
    return h("details", { class: "why", part: "why" }, h("summary", {}, h("span", {}, "Why you are asked — ", sentence)),
      h("ol", {}, findings.map((finding) => h("li", {},
        h("span", { class: `badge ${{ allow: "good", ask: "warn", deny: "bad" }[finding.verdict] ?? ""}` }, finding.verdict),
        h("span", {}, h("span", { class: "source" }, sourceName(finding.source)), ` — ${legible(finding.reason)}`)))));
  }

  /** @param {Pending} pending */
  changes(pending) {
    if (!pending.changes) return null;
    return h("p", { class: "notice" }, icon("alert"), `The tool changed since this was first asked: ${legible(pending.changes)}`);
  }

  /** @param {Pending} pending */
  preview(pending) {
    const preview = pending.preview;
    if (!preview) return null;
    const targets = preview.targets ?? [];
    return h("div", { class: "section" },
      h("h4", {}, "What it would do"),
      preview.trouble ? h("p", { class: "notice" }, icon("alert"), `No preview: ${legible(preview.trouble)}`) : null,
      preview.diff ? renderDiff(preview.diff) : null,
      !preview.diff && targets.length > 0 ? h("p", { class: "hint" }, `Touches ${targets.map(legible).join(", ")}`) : null);
  }

  /** @param {Record<string, unknown>} given */
  shownArguments(given) {
    const names = Object.keys(given);
    if (names.length === 0) return h("p", { class: "hint" }, "It takes no arguments.");
    return h("dl", { class: "arguments", part: "arguments" }, names.map((name) => [
      h("dt", {}, legible(name), measure(given[name])),
      h("dd", { class: given[name] === "[redacted]" ? "masked" : "mono", tabindex: isLong(given[name]) ? "0" : false },
        given[name] === "[redacted]" ? "secret, not shown" : pretty(given[name])),
    ]).flat());
  }

  /**
   * @param {string} text
   * @param {{ look?: string, icon?: string, key?: string, onclick: () => void }} options
   */
  button(text, { look = "", icon: name, key, onclick }) {
    const button = h("button", { type: "button", class: `button ${look}`, part: look ? `button ${look}` : "button", "aria-keyshortcuts": key, onclick: () => {
      if (this.stage === "open" && !button.hasAttribute("aria-disabled")) onclick();
    } }, name ? icon(name) : null, text);
    this.buttons.push(button);
    return button;
  }

  arm() {
    const armed = this.buttons.filter((button) => button.classList.contains("primary"));
    for (const button of armed) button.setAttribute("aria-disabled", "true");
    window.setTimeout(() => armed.forEach((button) => button.removeAttribute("aria-disabled")), ARMING_MS);
  }

  /**
   * Sends a decision once, or tells the page about it where it does that itself.
   * @param {Response} response
   */
  async send(response) {
    const pending = this.given;
    if (!pending || this.stage !== "open") return;
    const detail = { session: pending.session, call: pending.call, round: pending.round, response };
    const asked = new CustomEvent("haft-resolve", { detail, bubbles: true, composed: true, cancelable: true });
    if (!this.dispatchEvent(asked) || !this.client) return;
    this.busy("sending");
    try {
      const decision = await this.client.resolve(pending.session, pending.call, { ...response, round: pending.round });
      this.finish({ ...decision, mine: true });
    } catch (error) {
      this.refused(error);
    }
  }

  /** @param {"open" | "sending"} stage */
  busy(stage) {
    this.stage = stage;
    for (const button of this.buttons) button.disabled = stage === "sending";
  }

  /** @param {unknown} error */
  refused(error) {
    const known = /** @type {import("../haft.js").HaftError} */ (error);
    if (known.code === "stale") return this.finish({ ...known.decided, stale: true });
    this.busy("open");
    this.say(known.message ?? String(error));
  }

  /** Shows something that keeps the decision from being taken. @param {string} message */
  say(message) {
    fill(this.alert, message ? h("p", { class: "notice bad" }, icon("alert"), message) : null);
  }

  /** Shows how the wait ended. @param {Decision} decision */
  finish(decision) {
    const hadFocus = this.root.activeElement !== null;
    this.decision = decision;
    this.stage = "over";
    this.show();
    if (hadFocus) /** @type {HTMLElement | null} */ (this.root.querySelector(".over"))?.focus();
    this.dispatchEvent(new CustomEvent("haft-over", { detail: decision, bubbles: true, composed: true }));
  }

  end() {
    const decision = this.decision ?? {};
    const kind = decision.decision;
    const isNo = kind === undefined || ["deny", "expired", "give_up", "client_gone"].includes(kind);
    const said = kind ? DECISIONS[kind] ?? kind : "no longer waiting";
    const by = decision.by && decision.by.kind !== "system" ? ` by ${decision.mine ? "you" : who(decision.by)}` : "";
    const at = decision.at ? h("span", { class: "aside", title: exact(decision.at) }, ` · ${when(decision.at, Date.now())}`) : null;
    const text = decision.stale ? `Too late: this was already ${said}${by}` : `${said.charAt(0).toUpperCase()}${said.slice(1)}${by}`;
    return h("div", { class: `over ${isNo ? "bad" : "good"}`, tabindex: "-1", role: "status", part: "over" },
      icon(isNo ? "cross" : "check"),
      h("p", {}, h("span", {}, text), at, decision.note ? h("span", { class: "aside" }, ` — “${decision.note}”`) : null));
  }

  count() {
    if (!this.given || this.stage === "over") return;
    const now = Date.now() + (this.client?.clockSkew ?? 0);
    const remaining = this.given.expires_at - now;
    if (remaining <= 0) {
      this.finish({ decision: "expired", by: { kind: "system", id: "haft" }, at: this.given.expires_at });
      return;
    }
    this.timer.className = `timer ${remaining <= 15_000 ? "last" : remaining <= 60_000 ? "soon" : ""}`;
    this.timer.title = `Expires ${exact(this.given.expires_at)}`;
    fill(this.timer, ring(remaining, this.given.expires_at - (this.given.since ?? now)), h("span", {}, left(remaining)), h("span", { class: "visually-hidden" }, " left"));
    const due = SPOKEN.find((moment) => remaining <= moment && remaining > moment - 1000);
    if (due) this.spoken.textContent = `${due / 1000} seconds left to decide about ${this.heading(this.given)}`;
  }
}

/** @param {unknown} value */
function isLong(value) {
  const text = editable(value);
  return text.length > 400 || text.split("\n").length > 8;
}

/** How large a value is that may not be in view whole. @param {unknown} value */
function measure(value) {
  if (!isLong(value)) return null;
  const text = editable(value);
  const lines = text.split("\n").length;
  const size = `${text.length.toLocaleString("en")} characters${lines > 1 ? `, ${lines.toLocaleString("en")} lines` : ""}`;
  return h("span", { class: "measure" }, `${size}; scroll to read all of it`);
}

const AROUND = 2 * Math.PI * 8;

/** @param {number} remaining @param {number} whole */
function ring(remaining, whole) {
  const share = Math.max(0, Math.min(1, remaining / Math.max(whole, 1)));
  const circle = (/** @type {string} */ name, /** @type {number} */ offset) => svg("circle", {
    class: name, cx: 10, cy: 10, r: 8, fill: "none", "stroke-width": 3,
    "stroke-dasharray": AROUND.toFixed(2), "stroke-dashoffset": offset.toFixed(2),
  });
  return svg("svg", { viewBox: "0 0 20 20", class: "ring", "aria-hidden": "true" },
    circle("track", 0), circle("arc", AROUND * (1 - share)));
}
