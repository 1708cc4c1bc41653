/** Everything that waits for someone, over all sessions: calls in doubt first, then what ends first. */

import { brief, fill, h, icon } from "../dom.js";
import { exact, left } from "../time.js";
import { KINDS } from "../words.js";
import "../elements/approval.js";
import "../elements/elicitation.js";
import "../elements/settlement.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../haft.js").Pending} Pending */
/** @typedef {import("../elements/waiting.js").WaitingElement} WaitingElement */

/** @type {Record<string, string>} */
const TAGS = { approval: "haft-approval", elicitation: "haft-elicitation", settlement: "haft-settlement" };
/** @type {Record<string, string>} */
const KIND_ICONS = { approval: "shield", elicitation: "question", settlement: "alert" };

/** How long a decision stays in view before the next card takes its place. */
const READ_MS = 1500;

/** @param {App} app */
export function inboxView(app) {
  const inbox = new Inbox(app);
  app.onWaiting(() => inbox.refresh());
  const tick = setInterval(() => inbox.count(), 1000);
  const keys = (/** @type {KeyboardEvent} */ event) => inbox.key(event);
  addEventListener("keydown", keys);
  app.onLeave(() => {
    clearInterval(tick);
    removeEventListener("keydown", keys);
  });
  inbox.refresh();
}

class Inbox {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Pending[]} */
    this.entries = [];
    /** @type {string | null} */
    this.selected = app.path[0] ?? null;
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.list = h("ul", { class: "rows", "aria-label": "Waiting" });
    this.more = h("button", { type: "button", class: "button quiet", hidden: true, onclick: () => void this.showMore() }, "Show more");
    this.several = h("div", { class: "several", hidden: true });
    this.detail = h("div", { class: "detail" });
    this.status = h("p", { class: "visually-hidden", role: "status" });
    this.help = helpDialog();
    /** @type {WaitingElement | null} */
    this.card = null;
    /** @type {Map<string, HTMLElement>} */
    this.times = new Map();
    this.body = h("div", { class: "inbox" }, h("div", { class: "panel list" }, this.several, this.list, this.more), this.detail);
    this.nothing = h("div", { class: "panel void" }, icon("check"), h("strong", {}, "Nothing waits for you"),
      h("p", {}, "Approvals, questions and calls in doubt of every session appear here by themselves."),
      h("a", { class: "button primary", href: "#/sessions" }, icon("chat"), "Start a session"));
    fill(app.main, h("div", { class: "page" },
      h("div", { class: "top" }, h("h1", {}, "Inbox"), h("span", { class: "spring" }),
        h("button", { type: "button", class: "button quiet small", onclick: () => this.help.showModal() }, h("kbd", {}, "?"), "Keys")),
      this.nothing, this.body, this.status, this.help));
  }

  refresh() {
    const before = this.selectedAt();
    this.entries = this.app.waiting.filter((pending) => TAGS[pending.kind]);
    const isGone = (/** @type {string} */ key) => !this.entries.some((entry) => keyOf(entry) === key);
    for (const key of [...this.chosen]) if (isGone(key)) this.chosen.delete(key);
    // Someone else's decision was seen once something else comes; one's own is read for a moment.
    if (this.card?.stage === "over" && !this.card.decision?.mine && this.entries.length > 0) this.card = null;
    // What an address names is not forgotten before anything was heard of what waits.
    if (this.entries.length > 0 && !this.card && (this.selected === null || isGone(this.selected))) {
      const next = this.entries[Math.min(Math.max(before, 0), this.entries.length - 1)];
      this.selected = next ? keyOf(next) : null;
    }
    this.more.hidden = !this.app.waitsMore;
    this.nothing.hidden = this.entries.length > 0 || this.card !== null || this.app.waitsMore;
    this.body.hidden = !this.nothing.hidden;
    this.showList();
    this.showDetail();
    if (this.card?.stage === "open" && this.selected && isGone(this.selected)) void this.tellWhatHappened(this.card);
  }

  async showMore() {
    this.more.disabled = true;
    await this.app.showMoreWaiting();
    this.more.disabled = false;
    this.status.textContent = `${this.entries.length} shown.`;
  }

  selectedAt() {
    return this.entries.findIndex((entry) => keyOf(entry) === this.selected);
  }

  /** Someone else was first while we looked. @param {WaitingElement} card */
  async tellWhatHappened(card) {
    const pending = card.pending;
    if (!pending) return;
    try {
      const { decided } = await this.app.haft.get(`/sessions/${pending.session}/calls/${pending.call}`);
      if (card.stage === "open") card.finish(decided ?? {});
    } catch {
      if (card.stage === "open") card.finish({});
    }
  }

  showList() {
    const focused = document.activeElement?.getAttribute("data-key");
    this.times.clear();
    fill(this.list, this.entries.map((entry) => this.row(entry)));
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
    this.count();
    this.showSeveral();
  }

  /** @param {Pending} entry */
  row(entry) {
    const key = keyOf(entry);
    const time = h("span", { class: "left" });
    this.times.set(key, time);
    const alike = this.alike();
    const canChoose = entry.kind === "approval" && !entry.unreadable && (alike === null || alike === entry.tool);
    const choose = h("input", { type: "checkbox", "aria-label": `Choose ${entry.title ?? entry.tool}`, ".checked": this.chosen.has(key), disabled: !canChoose, onchange: () => this.choose(key) });
    return h("li", {}, entry.kind === "approval" ? choose : null,
      h("button", { type: "button", class: "entry", "data-key": key, "aria-current": key === this.selected ? "true" : false, onclick: () => this.select(key) },
        h("span", { class: "kind", title: KINDS[entry.kind] }, icon(KIND_ICONS[entry.kind] ?? "wait")), h("span", { class: "name" }, entry.title ?? entry.tool), time,
        h("span", { class: "gist" }, brief(Object.values(entry.arguments).map((value) => brief(value, 60)).join(" · ") || KINDS[entry.kind], 90))));
  }

  alike() {
    const [first] = this.chosen;
    return this.entries.find((entry) => keyOf(entry) === first)?.tool ?? null;
  }

  /** @param {string} key */
  choose(key) {
    if (this.chosen.has(key)) this.chosen.delete(key);
    else this.chosen.add(key);
    this.showList();
  }

  showSeveral() {
    this.several.hidden = this.chosen.size < 2;
    if (this.several.hidden) return;
    fill(this.several, h("strong", {}, `${this.chosen.size} alike: ${this.alike()}`), h("span", { class: "spring" }),
      h("button", { type: "button", class: "button small danger", onclick: () => void this.decideAll("deny") }, "Deny all"),
      h("button", { type: "button", class: "button small primary", onclick: () => void this.decideAll("approve") }, `Approve all ${this.chosen.size}`));
  }

  /** @param {"approve" | "deny"} type */
  async decideAll(type) {
    const chosen = this.entries.filter((entry) => this.chosen.has(keyOf(entry)));
    this.chosen.clear();
    const done = await Promise.allSettled(chosen.map((entry) => this.app.haft.resolve(entry.session, entry.call, { type, round: entry.round })));
    const taken = done.filter(({ status }) => status === "fulfilled").length;
    this.status.textContent = `${taken} of ${chosen.length} ${type === "approve" ? "approved" : "denied"}; the others were decided before.`;
    this.card = null;
    this.refresh();
  }

  /** @param {string} key */
  select(key) {
    if (key === this.selected && this.card?.stage === "open") return;
    this.selected = key;
    this.card = null;
    this.showList();
    this.showDetail();
  }

  showDetail() {
    const entry = this.entries.find((candidate) => keyOf(candidate) === this.selected);
    if (this.card || !entry) {
      if (!this.card) fill(this.detail);
      return;
    }
    if (entry.unreadable) {
      fill(this.detail, h("p", { class: "notice bad" }, icon("alert"), `This call of ${entry.tool} cannot be shown, because its session cannot be read: ${entry.unreadable}. Run "haft audit verify".`));
      return;
    }
    const card = /** @type {WaitingElement} */ (document.createElement(/** @type {string} */ (TAGS[entry.kind])));
    card.client = this.app.haft;
    card.pending = entry;
    card.addEventListener("haft-over", () => {
      this.status.textContent = "Decided.";
      setTimeout(() => this.goOn(card), READ_MS);
    });
    this.card = card;
    fill(this.detail, h("p", { class: "context" },
      h("a", { href: `#/sessions/${entry.session}/${entry.call}` }, "Open the session"),
      h("span", { title: exact(entry.since ?? 0) }, `asked ${exact(entry.since ?? 0).slice(11, 19)} UTC`),
      h("span", {}, "decided by anyone whose key may decide")), card);
  }

  /** Shows the next one, once the last decision was read. @param {WaitingElement} card */
  goOn(card) {
    if (this.card !== card || !card.isConnected || this.entries.every((entry) => keyOf(entry) === this.selected)) return;
    this.card = null;
    this.refresh();
  }

  count() {
    const now = Date.now() + this.app.haft.clockSkew;
    for (const entry of this.entries) {
      const time = this.times.get(keyOf(entry));
      const remaining = entry.expires_at - now;
      if (!time) continue;
      time.textContent = left(remaining);
      time.className = `left ${remaining <= 15_000 ? "last" : remaining <= 60_000 ? "soon" : ""}`;
    }
  }

  /** @param {number} step */
  move(step) {
    const at = this.selectedAt();
    const next = this.entries[Math.max(0, Math.min(this.entries.length - 1, at + step))];
    if (!next) return;
    this.card = null;
    this.selected = keyOf(next);
    this.showList();
    this.showDetail();
    /** @type {HTMLElement | null} */ (this.list.querySelector('[aria-current="true"]'))?.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = event.composedPath()[0];
    const isTyping = target instanceof HTMLElement && target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    const card = /** @type {any} */ (this.card);
    const press = (/** @type {string} */ key) => /** @type {HTMLElement | null} */ (this.card?.root.querySelector(`[aria-keyshortcuts="${key}"]`))?.click();
    /** @type {Record<string, () => void>} */
    const keys = {
      j: () => this.move(1), k: () => this.move(-1), a: () => press("a"), d: () => press("d"),
      n: () => card?.note?.focus(), x: () => this.selected && this.choose(this.selected), "?": () => this.help.showModal(),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

/** @param {Pending} pending */
function keyOf(pending) {
  return `${pending.call} ${pending.round}`;
}

function helpDialog() {
  const rows = [["J", "next"], ["K", "previous"], ["A", "approve"], ["D", "deny"], ["N", "write a note"], ["X", "choose, to decide several alike"], ["?", "this help"]];
  const dialog = h("dialog", { "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "facts" }, rows.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]).flat()),
    h("p", {}, h("button", { type: "button", class: "button", autofocus: true, onclick: () => dialog.close() }, "Close")));
  return dialog;
}
