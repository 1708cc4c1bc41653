/**
 * `<haft-approval>`: a yes or a no to one call, with what it would do, the arguments to change, a
 * note, and how far the yes reaches.
 */

import { h, icon } from "../dom.js";
import { SchemaForm } from "./form.js";
import { GrantForm } from "./grant-form.js";
import { sheet } from "./theme.js";
import { WaitingElement } from "./waiting.js";

/** @typedef {import("../haft.js").Pending} Pending */

const STYLE = sheet(`
.scopes { display: inline-flex; border: 1px solid var(--line-2); border-radius: 8px; overflow: clip; background: var(--surface); }
.scopes label { position: relative; display: inline-flex; align-items: center; padding: 0 11px; min-height: 34px; cursor: pointer; font-size: .92em; font-weight: 550; color: var(--ink-2); }
.scopes label + label { border-left: 1px solid var(--line); }
.scopes input { position: absolute; opacity: 0; inset: 0; margin: 0; cursor: pointer; }
.scopes label:has(:checked) { background: var(--accent-soft); color: var(--accent); }
.scopes label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: -2px; }
.promise { width: 100%; font-size: .9em; color: var(--ink-2); display: flex; gap: 7px; align-items: flex-start; overflow-wrap: anywhere; }
.promise .icon { margin-top: .2em; color: var(--accent); }
.bounds { width: 100%; display: grid; gap: 10px; padding: 12px; border: 1px solid var(--line); border-radius: 8px; background: var(--surface); }
.bounds .row { display: flex; flex-wrap: wrap; gap: 10px 14px; align-items: end; }
.bounds .condition { display: grid; grid-template-columns: auto minmax(0, 1fr) minmax(120px, auto); gap: 8px; align-items: center; font-size: .93em; }
.bounds .condition .mono { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.bounds .small { width: 8em; }
.bounds .condition select { padding: 2px 6px; min-height: 30px; width: auto; }
.foot .decide { display: flex; gap: 10px; margin-left: auto; }
@container (max-width: 460px) { .foot .decide { width: 100%; } .scopes { width: 100%; } .scopes label { flex: 1; justify-content: center; } }
`);

export class HaftApproval extends WaitingElement {
  constructor() {
    super();
    this.root.adoptedStyleSheets = [...this.root.adoptedStyleSheets, STYLE];
    this.note = h("textarea", { class: "input", rows: 1, placeholder: "Optional; the model is told", "aria-label": "Note" });
    /** @type {SchemaForm | null} */
    this.editor = null;
    /** @type {"once" | "session" | "bounded"} */
    this.scope = "once";
    /** @type {GrantForm | null} */
    this.bounds = null;
  }

  reset() {
    this.note.value = "";
    this.editor = null;
    this.scope = "once";
    this.bounds = null;
  }

  set pending(pending) {
    const isOther = pending?.call !== this.given?.call || pending?.round !== this.given?.round;
    if (isOther) this.reset();
    super.pending = pending;
  }

  get pending() {
    return super.pending;
  }

  /** @param {Pending} pending @override */
  heading(pending) {
    return pending.title ?? `Allow ${pending.tool}?`;
  }

  /** @param {Pending} pending @override */
  body(pending) {
    return [
      this.why(pending),
      this.changes(pending),
      this.preview(pending),
      this.argumentSection(pending),
      this.stage === "over" ? null : h("div", { class: "field" }, h("span", { class: "label", "aria-hidden": "true" }, "Note"), this.note),
    ];
  }

  /** @param {Pending} pending */
  argumentSection(pending) {
    const section = h("div", { class: "section" });
    const show = () => {
      const canEdit = this.stage === "open" && pending.input_schema && Object.keys(pending.input_schema.properties ?? {}).length > 0;
      const toggle = canEdit ? h("button", { type: "button", class: "button quiet small", onclick: () => {
        this.editor = this.editor ? null : new SchemaForm(/** @type {any} */ (pending.input_schema), pending.arguments, { name: "Arguments" });
        this.say("");
        show();
        this.renameApprove();
        if (this.editor) this.editor.focus();
        else section.querySelector("button")?.focus();
      } }, icon(this.editor ? "undo" : "edit"), this.editor ? "Leave as proposed" : "Edit") : null;
      section.replaceChildren(
        h("h4", {}, this.editor ? "Arguments, edited by you" : "Arguments", toggle),
        this.editor ? this.editor.element : this.shownArguments(pending.arguments));
    };
    show();
    return section;
  }

  /** @param {Pending} pending @override */
  actions(pending) {
    const scope = pending.may_grant === false ? null : this.scopes(pending);
    const deny = this.button("Deny", { look: "danger", icon: "cross", key: "d", onclick: () => this.deny() });
    this.approveButton = this.button("Approve", { look: "primary", icon: "check", key: "a", onclick: () => this.approve() });
    this.approveText = /** @type {Text} */ (this.approveButton.lastChild);
    return [...(scope ?? []), h("div", { class: "decide" }, deny, this.approveButton)];
  }

  /** @param {Pending} pending @returns {HTMLElement[]} */
  scopes(pending) {
    const promise = h("div", { class: "promise", hidden: true, "aria-live": "polite" });
    const bounds = h("div", { class: "bounds", hidden: true });
    const say = () => {
      promise.hidden = this.scope === "once";
      const words = this.scope === "session" ? `Also allows every further call of ${pending.tool} in this session, whatever its arguments.` : this.bounds?.sentence() ?? "";
      promise.replaceChildren(icon("shield"), h("span", {}, words));
      this.renameApprove();
    };
    const choose = (/** @type {"once" | "session" | "bounded"} */ scope) => {
      this.scope = scope;
      bounds.hidden = scope !== "bounded";
      if (scope === "bounded" && !this.bounds) {
        this.bounds = new GrantForm(pending, say);
        bounds.append(this.bounds.element);
      }
      say();
    };
    const option = (/** @type {"once" | "session" | "bounded"} */ scope, /** @type {string} */ text) => h("label", {},
      h("input", { type: "radio", name: "scope", ".checked": this.scope === scope, onchange: () => choose(scope) }), text);
    const group = h("div", { class: "scopes", role: "radiogroup", "aria-label": "How far the yes reaches" },
      option("once", "Once"), option("session", "This session"), option("bounded", "Bounded…"));
    return [bounds, promise, group];
  }

  renameApprove() {
    const scope = { once: "", session: " for the session", bounded: " within bounds" }[this.scope];
    if (this.approveText) this.approveText.data = `Approve${this.editor ? " with changes" : ""}${scope}`;
  }

  approve() {
    if (this.editor && this.editor.check().length > 0) {
      this.say("Some arguments do not fit yet.");
      return this.editor.focusFirstProblem();
    }
    const grant = this.scope === "once" ? undefined : this.scope === "session" ? {} : this.bounds?.terms();
    if (grant === null) return this.say(this.bounds?.trouble ?? "");
    const note = this.note.value.trim() || undefined;
    const changed = this.editor ? /** @type {Record<string, unknown>} */ (this.editor.read()) : undefined;
    return this.send({ type: "approve", arguments: changed, grant, note });
  }

  deny() {
    return this.send({ type: "deny", note: this.note.value.trim() || undefined });
  }
}

customElements.define("haft-approval", HaftApproval);
