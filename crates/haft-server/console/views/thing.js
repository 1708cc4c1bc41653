/** A named thing with versions: looked at, edited with a diff before it is saved, compared with what it was. */

import { brief, editable, fill, h, icon, pretty } from "../dom.js";
import { renderDiff } from "../elements/diff.js";
import { unifiedDiff } from "../text-diff.js";
import { exact, when } from "../time.js";
import { who } from "../words.js";

/** @typedef {import("../app.js").App} App */

/**
 * What people may change of a thing of some kind.
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"line" | "text" | "json"} as
 * @property {string} [hint]
 */

/** What the server adds to what was declared. */
const STAMPS = new Set(["id", "type", "version", "created_at", "updated_at", "archived_at"]);

/**
 * What was declared of a thing, without what the server adds.
 * @param {Record<string, any>} thing
 */
export function declared(thing) {
  return Object.fromEntries(Object.entries(thing).filter(([name]) => !STAMPS.has(name)));
}

/**
 * The changes between two states of a thing, for people.
 * @param {unknown} before
 * @param {unknown} after
 * @param {string} name
 */
export function changesOf(before, after, name) {
  const diff = unifiedDiff(readable(before), readable(after), name);
  return diff === "" ? h("p", { class: "hint" }, "Nothing is different.") : renderDiff(diff);
}

/**
 * A thing as lines that can be compared: texts of several lines stay so.
 * @param {unknown} thing
 */
function readable(thing) {
  if (thing === null || thing === undefined) return "";
  if (typeof thing !== "object") return pretty(thing);
  return Object.entries(thing).map(([name, value]) => (typeof value === "string" && value.includes("\n")
    ? `${name}:\n${value.replaceAll(/^/gm, "  ")}` : `${name}: ${JSON.stringify(value, null, 2)}`)).join("\n");
}

/** An editor that shows what would change before anything is saved. */
export class Editor {
  /**
   * @param {object} options
   * @param {Field[]} options.fields
   * @param {Record<string, any>} options.value What is there now; empty for something new.
   * @param {string} options.name What the diff calls it.
   * @param {string} options.action What saving does, such as “Save as version 4”.
   * @param {(changes: Record<string, unknown>) => Promise<void>} options.save
   * @param {() => void} options.leave
   */
  constructor(options) {
    this.options = options;
    this.isNew = Object.keys(options.value).length === 0;
    this.controls = options.fields.map((field) => control(field, options.value[field.name]));
    this.trouble = h("p", { class: "problem", role: "alert", hidden: true });
    this.review = h("div", { class: "stack", role: "status" });
    this.element = h("form", { class: "pad editor", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      this.show();
    } }, this.controls.map(({ element }) => element), this.trouble,
      h("div", { class: "actions" }, h("button", { type: "submit", class: "button" }, icon("search"), "Review changes"),
        h("button", { type: "button", class: "button quiet", onclick: options.leave }, "Cancel")),
      this.review);
    // What was reviewed is what is saved.
    this.element.addEventListener("input", () => fill(this.review));
  }

  /** What was changed; `null` when something cannot be read. @returns {Record<string, unknown> | null} */
  read() {
    /** @type {Record<string, unknown>} */
    const changes = {};
    for (const { field, read } of this.controls) {
      try {
        const value = read();
        const before = this.options.value[field.name];
        if (JSON.stringify(value ?? null) !== JSON.stringify(before ?? null)) changes[field.name] = value;
      } catch (error) {
        this.say(`${field.label}: expected JSON: ${/** @type {Error} */ (error).message}`);
        return null;
      }
    }
    this.trouble.hidden = true;
    return changes;
  }

  /** @param {string} text */
  say(text) {
    this.trouble.hidden = false;
    fill(this.trouble, icon("alert"), text);
  }

  show() {
    const changes = this.read();
    if (!changes) return fill(this.review);
    if (Object.keys(changes).length === 0) return fill(this.review, h("p", { class: "hint" }, "Nothing is changed."));
    const { value, name, action } = this.options;
    const save = h("button", { type: "button", class: "button primary", onclick: () => void this.save(changes, save) }, icon("check"), action);
    fill(this.review, h("h3", {}, this.isNew ? "What will be made" : "What will change"),
      changesOf(this.isNew ? null : value, { ...value, ...changes }, name), h("div", { class: "actions" }, save));
    save.focus();
  }

  /** @param {Record<string, unknown>} changes @param {HTMLButtonElement} button */
  async save(changes, button) {
    button.disabled = true;
    try {
      await this.options.save(changes);
    } catch (error) {
      button.disabled = false;
      this.say(/** @type {Error} */ (error).message);
    }
  }
}

let lastId = 0;

/** @param {Field} field @param {any} value */
function control(field, value) {
  const id = `field-${(lastId += 1)}`;
  const text = field.as === "json" ? editable(value ?? null) : value ?? "";
  const input = field.as === "line"
    ? h("input", { class: "input", id, ".value": text, autocomplete: "off", "aria-describedby": field.hint ? `${id}-hint` : false })
    : h("textarea", { class: `input ${field.as === "json" ? "mono" : ""}`, id, rows: Math.min(Math.max(String(text).split("\n").length, 3), field.as === "json" ? 8 : 18), spellcheck: String(field.as === "text"), ".value": text, "aria-describedby": field.hint ? `${id}-hint` : false });
  const read = () => {
    if (field.as === "json") return JSON.parse(input.value || "null");
    return input.value === "" && (value === null || value === undefined) ? value : input.value;
  };
  const element = h("div", { class: "field" }, h("label", { for: id }, field.label), input, field.hint ? h("p", { class: "hint", id: `${id}-hint` }, field.hint) : null);
  return { field, element, read };
}

/**
 * The versions of a thing, each with what it changed.
 * @param {{ number: number, at: number, by: any, content: Record<string, any> | null }[]} versions Newest first.
 * @param {string} name
 */
export function versionList(versions, name) {
  return h("ol", { class: "rows versions", "aria-label": "Versions" }, versions.map((version, at) => {
    const before = versions[at + 1];
    const slot = h("div", { class: "pad" });
    const isFirst = version.number === 1;
    const content = (/** @type {Record<string, any> | null | undefined} */ of) => (of ? declared(of) : null);
    const open = (/** @type {Event} */ event) => {
      const details = /** @type {HTMLDetailsElement} */ (event.currentTarget);
      if (!details.open || slot.hasChildNodes()) return;
      fill(slot, before || isFirst ? changesOf(content(before?.content), content(version.content), name) : h("pre", { class: "block", tabindex: "0" }, pretty(content(version.content))));
    };
    return h("li", {}, h("details", { ontoggle: open }, h("summary", { class: "line" },
      h("span", { class: "badge accent" }, `v${version.number}`), h("span", { class: "grow" }, said(version, before)),
      h("span", { class: "aside" }, who(version.by)), h("span", { class: "aside", title: exact(version.at) }, when(version.at, Date.now()))), slot));
  }));
}

/**
 * What a version did, in a few words.
 * @param {{ number: number, content: Record<string, any> | null }} version
 * @param {{ content: Record<string, any> | null } | undefined} before
 */
function said(version, before) {
  if (version.content === null) return "taken away";
  if (version.content.archived_at && !before?.content?.archived_at) return "archived";
  if (version.number === 1) return "made";
  if (!before?.content) return "changed";
  const [now, then] = [declared(version.content), declared(before.content)];
  const names = [...new Set([...Object.keys(now), ...Object.keys(then)])].filter((name) => JSON.stringify(now[name]) !== JSON.stringify(then[name]));
  return names.length === 0 ? "the same again" : brief(`changed ${names.map((name) => name.replaceAll("_", " ")).join(", ")}`, 80);
}
