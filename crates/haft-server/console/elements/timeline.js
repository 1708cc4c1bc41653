/**
 * `<haft-timeline>`: a session as it happens. Give it a `client` and a `session`, and it follows by
 * itself; or give it a `model` and call `changed` whenever that took something in.
 *
 * Only what is near the window is in the page, in chunks that keep their height when they leave it,
 * so that a session of many thousand events scrolls like one of ten.
 */

import { fill, h, icon } from "../dom.js";
import { prose } from "../prose.js";
import { SessionModel } from "../session-model.js";
import { exact, when } from "../time.js";
import { who } from "../words.js";
import { CARD_STYLE, CallCard } from "./call-card.js";
import { DIFF_STYLE } from "./diff.js";
import { shadow, sheet } from "./theme.js";

/** @typedef {import("../session-model.js").Item} Item */

const STYLE = sheet(`
.list { display: grid; grid-template-columns: minmax(0, 1fr); }
.chunk { display: flow-root; }
.item { margin-block: 10px; }
.item:empty { margin: 0; }
.item.of-call + .item.of-call { margin-top: -4px; }
.message { max-width: min(82%, 46em); margin-left: auto; background: var(--accent-soft); border-radius: 12px 12px 3px 12px; padding: 9px 13px; width: fit-content; overflow-wrap: anywhere; }
.message .by { font-size: .82em; color: var(--ink-2); display: block; margin-bottom: 2px; }
.answer { max-width: 50em; padding: 2px 2px; overflow-wrap: anywhere; }
.note { display: flex; gap: 8px; align-items: center; color: var(--ink-3); font-size: .88em; padding: 2px 0; overflow-wrap: anywhere; }
.note::before, .note::after { content: ""; flex: 1; height: 1px; background: var(--line); min-width: 12px; }
.note.bad { color: var(--bad); } .note.warn { color: var(--warn); }
.prose { display: grid; gap: .65em; white-space: pre-wrap; }
.prose .heading { font-weight: 650; font-size: 1.05em; } .prose ul, .prose ol { padding-left: 1.4em; display: grid; gap: .2em; }
.prose code { background: var(--sunken); border: 1px solid var(--line); border-radius: 5px; padding: 0 .3em; }
.below { padding: 6px 2px 0 31px; display: grid; gap: 6px; }
.progress { display: flex; gap: 10px; align-items: center; } .progress progress { width: 160px; accent-color: var(--accent-fill); }
.row { display: flex; gap: 8px; align-items: center; }
.empty { color: var(--ink-3); text-align: center; padding: 48px 0; }
.thinking { display: flex; gap: 8px; align-items: center; color: var(--ink-3); font-size: .92em; padding: 6px 2px; }
.thinking i { width: 6px; height: 6px; border-radius: 50%; background: var(--ink-3); animation: beat 1.1s infinite ease-in-out; } .thinking i:nth-child(2) { animation-delay: .15s; } .thinking i:nth-child(3) { animation-delay: .3s; }
@keyframes beat { 0%, 80%, 100% { opacity: .25; } 40% { opacity: 1; } }
${DIFF_STYLE}
${CARD_STYLE}
`);

const CHUNK_ITEMS = 30;

/** What an item that was never in the page is taken for, in pixels. */
const ITEM_HEIGHT_GUESSED = 54;

/** How far from the window a chunk is still kept. */
const MARGIN = "1200px";

export class HaftTimeline extends HTMLElement {
  constructor() {
    super();
    this.root = shadow(this, STYLE);
    /** @type {import("../haft.js").Haft | null} */
    this.givenClient = null;
    /** @type {string | null} */
    this.givenSession = null;
    /** @type {SessionModel | null} */
    this.givenModel = null;
    /** @type {import("../haft.js").Following | null} */
    this.following = null;
    /** @type {Record<string, import("../haft.js").ClientTool>} */
    this.clientTools = {};
    /** @type {Map<string, import("./call-card.js").ToolInfo>} */
    this.toolInfos = new Map();
    /** @type {Chunk[]} */
    this.chunks = [];
    /** @type {Map<string, number>} */
    this.places = new Map();
    this.list = h("div", { class: "list", role: "log", "aria-label": "Conversation", "aria-live": "off" });
    this.tail = h("div", { class: "tail" });
    fill(this.root, this.list, this.tail);
    /** @type {IntersectionObserver | null} */
    this.observer = null;
  }

  connectedCallback() {
    const scroller = scrollParent(this);
    this.observer = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) this.chunks.find((chunk) => chunk.element === target)?.be(isIntersecting);
    }, { root: scroller, rootMargin: `${MARGIN} 0px` });
    for (const chunk of this.chunks) this.observer.observe(chunk.element);
    this.start();
  }

  disconnectedCallback() {
    this.observer?.disconnect();
    this.following?.close();
    this.following = null;
  }

  get client() {
    return this.givenClient;
  }

  set client(client) {
    this.givenClient = client;
    this.start();
  }

  get session() {
    return this.givenSession;
  }

  set session(session) {
    this.givenSession = session;
    this.start();
  }

  get model() {
    return this.givenModel;
  }

  set model(model) {
    this.givenModel = model;
    this.chunks = [];
    this.places = new Map();
    this.list.replaceChildren();
    if (model) this.changed(new Set(model.items.map((item) => item.key)));
  }

  /** What is known about the tools, by name. @param {Iterable<[string, import("./call-card.js").ToolInfo]>} infos */
  set tools(infos) {
    this.toolInfos = new Map(infos);
  }

  start() {
    if (!this.isConnected || !this.givenClient || !this.givenSession || this.givenModel?.session === this.givenSession) return;
    this.following?.close();
    const model = new SessionModel(this.givenSession);
    this.model = model;
    this.following = this.givenClient.follow(this.givenSession, {
      tools: this.clientTools,
      onEntries: (entries) => this.changed(model.apply(entries)),
      onProgress: (said) => model.progress(said) && this.changed(new Set([said.call])),
      onState: (state) => this.tell("haft-state", state),
      onRefused: (error) => this.tell("haft-refused", error),
    });
  }

  /** @param {string} name @param {unknown} detail */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  /** Shows the items with these keys anew, and those that were added. @param {Set<string>} keys */
  changed(keys) {
    const model = this.givenModel;
    if (!model) return;
    for (let at = this.places.size; at < model.items.length; at += 1) {
      this.places.set(/** @type {Item} */ (model.items[at]).key, at);
      if (at % CHUNK_ITEMS === 0) this.addChunk(at);
      this.chunks.at(-1)?.grow();
    }
    for (const key of keys) {
      const at = this.places.get(key);
      if (at !== undefined) this.chunks[Math.floor(at / CHUNK_ITEMS)]?.update(at);
    }
    this.showTail(model);
    this.tell("haft-changed", model);
  }

  /** @param {number} start */
  addChunk(start) {
    const chunk = new Chunk(this, start);
    this.chunks.push(chunk);
    this.list.append(chunk.element);
    this.observer?.observe(chunk.element);
  }

  /** @param {SessionModel} model */
  showTail(model) {
    if (model.items.length === 0) return fill(this.tail, h("p", { class: "empty" }, "Nothing has happened here yet."));
    const asksModel = [...model.open.values()].some((span) => span.kind === "model");
    fill(this.tail, asksModel ? h("p", { class: "thinking", role: "status" }, h("i"), h("i"), h("i"), h("span", {}, "The model is thinking")) : null);
  }

  /** Brings a call into view and opens it. @param {string} key */
  reveal(key) {
    const at = this.places.get(key);
    if (at === undefined) return;
    const chunk = this.chunks[Math.floor(at / CHUNK_ITEMS)];
    chunk?.be(true);
    const element = chunk?.slots[at - (chunk?.start ?? 0)];
    element?.scrollIntoView({ block: "center" });
    const details = element?.querySelector("details");
    if (details) details.open = true;
  }
}

/** Some items that are in the page together, or not at all. */
class Chunk {
  /** @param {HaftTimeline} timeline @param {number} start */
  constructor(timeline, start) {
    this.timeline = timeline;
    this.start = start;
    this.element = h("div", { class: "chunk" });
    this.isShown = false;
    /** @type {HTMLElement[]} */
    this.slots = [];
    /** @type {Map<number, CallCard>} */
    this.cards = new Map();
    this.count = 0;
  }

  grow() {
    this.count += 1;
    if (!this.isShown) {
      this.element.style.height = `${this.count * ITEM_HEIGHT_GUESSED}px`;
      return;
    }
    const slot = h("div", { class: "item" });
    this.slots.push(slot);
    this.element.append(slot);
  }

  /** @param {number} at */
  update(at) {
    if (!this.isShown) return;
    const item = this.timeline.givenModel?.items[at];
    const slot = this.slots[at - this.start];
    if (item && slot) this.show(item, slot, at);
  }

  /** @param {Item} item @param {HTMLElement} slot @param {number} at */
  show(item, slot, at) {
    slot.className = `item of-${item.kind}`;
    if (item.kind !== "call") return fill(slot, renderItem(item));
    let card = this.cards.get(at);
    if (!card) {
      const { timeline } = this;
      card = new CallCard({ client: timeline.givenClient, session: timeline.givenModel?.session ?? "", tool: (name) => timeline.toolInfos.get(name) });
      this.cards.set(at, card);
      fill(slot, card.element);
    }
    card.update(item.call);
  }

  /** Is in the page, or only as high as it was. @param {boolean} isNear */
  be(isNear) {
    if (isNear === this.isShown) return;
    const isKept = !isNear && (this.element.contains(this.timeline.root.activeElement) || this.holdsWait());
    if (isKept) return;
    this.isShown = isNear;
    if (!isNear) {
      this.element.style.height = `${this.element.offsetHeight}px`;
      this.element.replaceChildren();
      this.slots = [];
      this.cards = new Map();
      return;
    }
    this.element.style.height = "";
    this.slots = Array.from({ length: this.count }, () => h("div", { class: "item" }));
    this.element.append(...this.slots);
    for (let at = 0; at < this.count; at += 1) this.update(this.start + at);
  }

  /** Someone may be writing an answer in it. */
  holdsWait() {
    return [...this.cards.values()].some((card) => card.waiting !== null);
  }
}

/** @param {Exclude<Item, { kind: "call" }>} item */
function renderItem(item) {
  if (item.kind === "note") return h("p", { class: `note ${item.tone}`, title: exact(item.at) }, h("span", {}, item.text));
  const text = item.content.map((block) => (block.type === "text" ? block.text : `[${block.artifact?.title ?? block.type}]`)).join("\n\n");
  if (item.kind === "answer") return h("div", { class: "answer", part: "answer" }, prose(text));
  return h("div", { class: "message", part: "message" },
    h("span", { class: "by", title: exact(item.at) }, icon("person"), ` ${who(item.from)} · ${when(item.at, Date.now())}`), prose(text));
}

/** The nearest ancestor that scrolls; the window if none. @param {Element} element @returns {Element | null} */
function scrollParent(element) {
  for (let at = /** @type {Node | null} */ (element.parentNode); at; at = at instanceof ShadowRoot ? at.host : at.parentNode) {
    if (at instanceof Element && /(auto|scroll)/.test(getComputedStyle(at).overflowY)) return at;
  }
  return null;
}

customElements.define("haft-timeline", HaftTimeline);
