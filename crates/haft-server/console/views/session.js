/** One session: its conversation, its trace, what it may do. */

import { brief, fill, h, icon } from "../dom.js";
import "../elements/timeline.js";
import { saidCondition } from "../elements/grant-form.js";
import { exact, left } from "../time.js";
import { renderTrace } from "./trace.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../elements/timeline.js").HaftTimeline} HaftTimeline */
/** @typedef {import("../session-model.js").SessionModel} SessionModel */

/** How long a session is quiet before it is asked when it goes on. */
const LOOK_AFTER_MS = 400;

/** How near to the end still counts as being at the end. */
const END_PX = 60;

/** @param {App} app */
export async function sessionView(app) {
  const [id = "", call] = app.path;
  const [session, tools] = await Promise.all([app.haft.session(id), app.tools()]);
  new SessionPage(app, session, tools).start(call);
}

class SessionPage {
  /** @param {App} app @param {any} session @param {Map<string, any>} tools */
  constructor(app, session, tools) {
    this.app = app;
    this.session = session;
    this.timeline = /** @type {HaftTimeline} */ (document.createElement("haft-timeline"));
    const known = [...tools.values(), ...session.tools];
    this.timeline.tools = known.map((tool) => [tool.name, { ...tool, title: tool.title ?? undefined, detail: tool.detail ?? undefined }]);
    this.timeline.clientTools = demoClientTools();
    this.state = h("span", { class: "badge" });
    this.title = h("h1", {}, session.title ? brief(session.title, 80) : "Session");
    this.stop = h("button", { type: "button", class: "button small danger", hidden: true, onclick: () => void this.interrupt() }, icon("stop"), "Interrupt");
    this.trace = h("section", { "aria-label": "Trace" });
    this.facts = h("section", { "aria-label": "About this session" });
    this.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conversation" }, this.timeline);
    this.jump = h("button", { type: "button", class: "button small jump", hidden: true, onclick: () => this.toEnd() }, "Newest ↓");
    this.text = h("textarea", { class: "input", rows: 1, placeholder: "Message", "aria-label": "Message" });
    this.trouble = h("p", { class: "problem", role: "alert", hidden: true });
    this.element = h("div", { class: "session", "data-tab": "talk" }, this.header(), h("div", { class: "split" }, this.talk(), h("aside", { class: "more", "aria-label": "Trace and details" }, this.trace, this.facts)));
    this.isAtEnd = true;
    this.drawn = 0;
    /** @type {any[]} */
    this.wakes = [];
    this.lookedAt = -1;
    this.looking = 0;
  }

  header() {
    const tab = (/** @type {string} */ name, /** @type {string} */ text) => h("button", { type: "button", role: "tab", "aria-selected": String(name === "talk"), onclick: (/** @type {Event} */ event) => {
      this.element.dataset.tab = name;
      for (const other of this.element.querySelectorAll('[role="tab"]')) other.setAttribute("aria-selected", String(other === event.currentTarget));
    } }, text);
    return h("header", {}, this.title, this.state, h("span", { class: "spring" }), h("div", { class: "tabs", role: "tablist" }, tab("talk", "Conversation"), tab("more", "Trace")), this.stop);
  }

  talk() {
    const send = () => void this.say();
    return h("div", { class: "talk" }, this.scroll, this.jump, h("div", { class: "compose" }, this.trouble,
      h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
        (this.text.addEventListener("keydown", (event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }), this.text),
        h("button", { class: "button primary", type: "submit" }, icon("send"), "Send"))));
  }

  /** @param {string | undefined} call */
  start(call) {
    const { app, timeline } = this;
    fill(app.main, this.element);
    timeline.addEventListener("haft-changed", () => this.schedule());
    timeline.addEventListener("haft-refused", (event) => app.failed(/** @type {CustomEvent} */ (event).detail));
    timeline.client = app.haft;
    timeline.session = this.session.id;
    this.scroll.addEventListener("scroll", () => {
      this.isAtEnd = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < END_PX;
      this.jump.hidden = this.isAtEnd;
    }, { passive: true });
    const grown = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    grown.observe(timeline);
    const tick = setInterval(() => timeline.model?.status === "working" && this.schedule(), 1000);
    app.onLeave(() => {
      grown.disconnect();
      clearInterval(tick);
      cancelAnimationFrame(this.drawn);
      clearTimeout(this.looking);
    });
    if (call) this.revealLater(call);
  }

  /** @param {string} call */
  revealLater(call) {
    this.isAtEnd = false;
    const look = () => {
      if (this.timeline.places.has(call)) return this.timeline.reveal(call);
      setTimeout(look, 100);
    };
    look();
  }

  toEnd() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  /** Draws what is beside the conversation, at most once a frame. */
  schedule() {
    cancelAnimationFrame(this.drawn);
    this.drawn = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const model = this.timeline.model;
    if (!model) return;
    const waiting = model.waiting().length;
    const status = waiting > 0 ? `waiting for ${waiting}` : model.status;
    this.state.textContent = status;
    this.state.className = `badge ${waiting > 0 ? "warn" : model.status === "working" ? "accent" : ""}`;
    this.stop.hidden = model.status !== "working";
    const first = model.items.find((item) => item.kind === "message");
    if (!this.session.title && first?.kind === "message") this.title.textContent = brief(first.content.map((block) => block.text ?? "").join(" "), 80);
    fill(this.trace, h("h2", {}, "Trace"), renderTrace(model, (key) => this.show(key)));
    this.drawFacts(model);
    clearTimeout(this.looking);
    this.looking = window.setTimeout(() => void this.look(model.seq).catch(() => {}), LOOK_AFTER_MS);
  }

  /** @param {string} key */
  show(key) {
    this.isAtEnd = false;
    this.element.dataset.tab = "talk";
    this.timeline.reveal(key);
  }

  /** @param {SessionModel} model */
  drawFacts(model) {
    const grants = [...model.grants.values()];
    fill(this.facts, h("h2", {}, "About"),
      h("dl", { class: "facts" },
        h("dt", {}, "Id"), h("dd", { class: "mono" }, this.session.id),
        this.session.agent ? [h("dt", {}, "Agent"), h("dd", {}, this.session.agent)] : [],
        h("dt", {}, "Level"), h("dd", {}, model.config?.level ?? "cautious"),
        h("dt", {}, "Opened"), h("dd", {}, exact(model.first)),
        h("dt", {}, "Events"), h("dd", {}, model.seq)),
      h("p", {}, h("a", { href: `#/audit/${this.session.id}` }, icon("chain"), " Journal")),
      this.wakes.length === 0 ? [] : [h("h2", {}, "Goes on by itself"), h("ul", { class: "rows", "aria-label": "Wakes" }, this.wakes.map((wake) => this.wake(wake)))],
      h("h2", {}, "Standing permissions"),
      grants.length === 0 ? h("p", { class: "hint" }, "None in this session.") : h("ul", { class: "rows" }, grants.map((grant) => this.grant(grant))));
  }

  /** Reads when the session goes on by itself; it changes with its log. @param {number} seq */
  async look(seq) {
    if (seq === this.lookedAt) return;
    this.lookedAt = seq;
    this.wakes = (await this.app.haft.get(`/wakes?session=${this.session.id}`)).data;
    if (this.timeline.model) this.drawFacts(this.timeline.model);
  }

  /** @param {{ state: string, wake: any }} queued */
  wake({ state, wake }) {
    const cancel = () => void this.act(() => this.app.haft.delete(`/wakes/${this.session.id}/${wake.id}`));
    return h("li", {}, h("div", { class: "line" }, h("span", { class: "grow", title: wake.note ?? "" }, wake.reason),
      h("span", { class: "aside", title: exact(wake.due) }, state === "due" ? "due" : `in ${left(wake.due - Date.now())}`),
      state === "queued" ? h("button", { type: "button", class: "button small quiet", onclick: cancel }, "Cancel") : null));
  }

  /** @param {any} grant */
  grant(grant) {
    const bounds = [...(grant.when ?? []).map(saidCondition), grant.uses_left === undefined ? null : `${grant.uses_left} uses given`,
      grant.expires_at ? `ends in ${left(grant.expires_at - Date.now())}` : null].filter(Boolean).join(", ");
    return h("li", {}, h("div", { class: "line" }, h("span", { class: "grow", title: bounds }, h("code", {}, this.timeline.model?.called(grant.tool) ?? grant.tool), ` ${bounds || "any arguments"}`),
      h("button", { type: "button", class: "button small quiet", onclick: () => void this.act(() => this.app.haft.delete(`/sessions/${this.session.id}/grants/${grant.id}`)) }, "Revoke")));
  }

  async say() {
    const text = this.text.value.trim();
    if (!text) return;
    const isSent = await this.act(() => this.app.haft.say(this.session.id, text));
    if (isSent) this.text.value = "";
    this.isAtEnd = true;
    this.toEnd();
  }

  async interrupt() {
    await this.act(() => this.app.haft.interrupt(this.session.id));
  }

  /** @param {() => Promise<unknown>} what */
  async act(what) {
    try {
      await what();
      this.trouble.hidden = true;
      return true;
    } catch (error) {
      this.trouble.hidden = false;
      fill(this.trouble, icon("alert"), /** @type {Error} */ (error).message);
      return false;
    }
  }
}

/** What this page can do for a session that asks its client. */
function demoClientTools() {
  return {
    get_browser_language: () => ({ language: navigator.language, time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone }),
  };
}
