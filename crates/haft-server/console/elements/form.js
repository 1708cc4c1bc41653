/**
 * A form from a JSON Schema. A plain object and not an element of its own, so that labels, inputs
 * and their problems live in one shadow tree.
 */

import { editable, h, icon } from "../dom.js";
import { choices, controlType, escape, label, validate } from "../schema.js";

/** @typedef {import("../schema.js").Schema} Schema */
/** @typedef {import("../schema.js").Problem} Problem */

export const FORM_STYLE = `
.form { display: grid; gap: 16px; }
fieldset { display: grid; gap: 14px; }
fieldset.nested { padding-left: 14px; border-left: 2px solid var(--line); }
fieldset legend { margin-bottom: 6px; }
.options { display: grid; gap: 7px; }
.option { display: flex; gap: 9px; align-items: flex-start; cursor: pointer; }
.option input { width: 16px; height: 16px; margin: 3px 0 0; accent-color: var(--accent-fill); flex: none; }
textarea.growing { field-sizing: content; max-height: 40vh; resize: none; }
.needed { color: var(--ink-3); font-weight: 450; font-size: .88em; }
`;

/** How many choices are shown side by side before they become a list to open. */
const RADIOS_MAX = 6;

/** What a text must allow before it gets several lines. */
const SEVERAL_LINES_FROM = 120;

let lastId = 0;

/**
 * @typedef {object} Control
 * @property {HTMLElement} element
 * @property {() => unknown} read `undefined` for what was left empty.
 * @property {(problems: Problem[]) => void} mark
 * @property {() => void} focus
 */

export class SchemaForm {
  /**
   * @param {Schema} schema
   * @param {unknown} value What it starts with.
   * @param {{ name?: string }} [options]
   */
  constructor(schema, value, { name = "Answer" } = {}) {
    this.schema = schema;
    this.control = control(schema, value, { path: "", name, needed: true });
    this.element = h("div", { class: "form", part: "form" }, this.control.element);
  }

  read() {
    return this.control.read();
  }

  /** Marks every problem and returns them. @returns {Problem[]} */
  check() {
    const value = this.read();
    const problems = value === undefined ? [{ path: "", message: "This is needed." }] : validate(this.schema, value);
    this.control.mark(problems);
    return problems;
  }

  focusFirstProblem() {
    const invalid = this.element.querySelector('[aria-invalid="true"]');
    if (invalid instanceof HTMLElement) invalid.focus();
  }

  focus() {
    this.control.focus();
  }
}

/**
 * @typedef {{ path: string, name: string, needed: boolean }} Place
 * @param {Schema} schema
 * @param {unknown} value
 * @param {Place} place
 * @returns {Control}
 */
function control(schema, value, place) {
  const start = value === undefined ? schema.default : value;
  const allowed = choices(schema);
  if (allowed) return choice(schema, allowed, start, place);
  switch (controlType(schema)) {
    case "object": return schema.properties ? group(schema, start, place) : json(schema, start, place);
    case "boolean": return checkbox(schema, start, place);
    case "string": return text(schema, start, place);
    case "integer":
    case "number": return number(schema, start, place);
    case "array": {
      const options = choices(schema.items ?? {});
      return options ? several(schema, options, start, place) : json(schema, start, place);
    }
    default: return json(schema, start, place);
  }
}

/** @param {Schema} schema @param {unknown} start @param {Place} place @returns {Control} */
function group(schema, start, place) {
  const given = /** @type {Record<string, unknown>} */ (typeof start === "object" && start !== null ? start : {});
  const needed = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties).map(([name, member]) => ({
    name,
    control: control(member, given[name], { path: `${place.path}/${escape(name)}`, name: member.title ?? label(name), needed: needed.has(name) }),
  }));
  const isTop = place.path === "";
  const element = isTop
    ? h("div", { class: "form" }, members.map((member) => member.control.element))
    : h("fieldset", { class: "nested" }, h("legend", {}, schema.title ?? place.name), members.map((member) => member.control.element));
  return {
    element,
    read() {
      const found = members.map(({ name, control }) => [name, control.read()]).filter(([, value]) => value !== undefined);
      const kept = Object.entries(given).filter(([name]) => !(name in schema.properties));
      const all = Object.fromEntries([...kept, ...found]);
      return !isTop && !place.needed && Object.keys(all).length === 0 ? undefined : all;
    },
    mark: (problems) => members.forEach((member) => member.control.mark(problems)),
    focus: () => members[0]?.control.focus(),
  };
}

/**
 * A labelled control with room for a hint and a problem.
 * @param {Schema} schema
 * @param {Place} place
 * @param {HTMLElement & { id: string }} input
 * @param {() => unknown} read
 * @returns {Control}
 */
function field(schema, place, input, read) {
  input.id = `haft-field-${++lastId}`;
  const hint = schema.description ? h("p", { class: "hint", id: `${input.id}-hint` }, String(schema.description)) : null;
  const problem = h("p", { class: "problem", id: `${input.id}-problem`, hidden: true });
  input.setAttribute("aria-describedby", [hint?.id, problem.id].filter(Boolean).join(" "));
  if (place.needed) input.setAttribute("aria-required", "true");
  const element = h("div", { class: "field" },
    h("label", { for: input.id }, place.name, place.needed ? "" : h("span", { class: "needed" }, " (optional)")),
    hint, input, problem);
  return { element, read, mark: (problems) => show(problems, place.path, input, problem), focus: () => input.focus() };
}

/**
 * @param {Problem[]} problems
 * @param {string} path
 * @param {HTMLElement} input
 * @param {HTMLElement} place
 */
function show(problems, path, input, place) {
  const mine = problems.find((problem) => problem.path === path || (path !== "" && problem.path.startsWith(`${path}/`)));
  place.hidden = !mine;
  place.replaceChildren(...(mine ? [icon("alert"), mine.message] : []));
  if (mine) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
}

/** @type {Record<string, string>} */
const INPUT_TYPES = { email: "email", uri: "url", date: "date", password: "password" };

/** @param {Schema} schema @param {unknown} start @param {Place} place @returns {Control} */
function text(schema, start, place) {
  const given = start === undefined || start === null ? "" : String(start);
  const isLong = (schema.maxLength ?? 0) > SEVERAL_LINES_FROM || given.length > SEVERAL_LINES_FROM || given.includes("\n")
    || ["textarea", "multiline", "markdown"].includes(schema.format);
  // What nothing bounds may have lines: it starts as one and grows.
  const isOpen = schema.maxLength === undefined && schema.pattern === undefined && schema.format === undefined;
  const input = isLong || isOpen
    ? h("textarea", { class: `input ${isLong ? "" : "growing"}`, rows: isLong ? Math.min(12, Math.max(3, given.split("\n").length)) : 1, ".value": given })
    : h("input", { class: "input", type: INPUT_TYPES[schema.format] ?? "text", autocomplete: "off", ".value": given });
  const isGiven = place.needed && typeof start === "string";
  return field(schema, place, input, () => (input.value === "" && !isGiven ? undefined : input.value));
}

/** @param {Schema} schema @param {unknown} start @param {Place} place @returns {Control} */
function number(schema, start, place) {
  const input = h("input", { class: "input", inputmode: "decimal", type: "text", autocomplete: "off", ".value": start === undefined || start === null ? "" : String(start) });
  const read = () => {
    const typed = input.value.trim();
    if (typed === "") return undefined;
    const value = Number(typed);
    return Number.isFinite(value) ? value : typed;
  };
  return field(schema, place, input, read);
}

/** @param {Schema} schema @param {unknown} start @param {Place} place @returns {Control} */
function checkbox(schema, start, place) {
  // One that nobody touched says nothing: "no" may mean something else to a tool than not saying.
  let isSaid = place.needed || typeof start === "boolean";
  const input = h("input", { type: "checkbox", id: `haft-field-${++lastId}`, ".checked": start === true, onchange: () => (isSaid = true) });
  const hint = schema.description ? h("span", { class: "hint", id: `${input.id}-hint` }, String(schema.description)) : null;
  const problem = h("p", { class: "problem", id: `${input.id}-problem`, hidden: true });
  input.setAttribute("aria-describedby", [hint?.id, problem.id].filter(Boolean).join(" "));
  const element = h("div", { class: "field" },
    h("div", { class: "option" }, input, h("div", { class: "field" }, h("label", { for: input.id }, place.name), hint)), problem);
  return { element, read: () => (isSaid ? input.checked : undefined), mark: (problems) => show(problems, place.path, input, problem), focus: () => input.focus() };
}

/**
 * @param {Schema} schema
 * @param {{ value: unknown, title: string }[]} allowed
 * @param {unknown} start
 * @param {Place} place
 * @returns {Control}
 */
function choice(schema, allowed, start, place) {
  const at = allowed.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(start));
  if (allowed.length <= RADIOS_MAX) return radios(schema, allowed, at, place);
  const select = h("select", { class: "input" },
    h("option", { value: "" }, place.needed ? "Choose…" : "None"),
    allowed.map((option, index) => h("option", { value: String(index), ".selected": index === at }, option.title)));
  return field(schema, place, select, () => (select.value === "" ? undefined : allowed[Number(select.value)]?.value));
}

/**
 * @param {Schema} schema
 * @param {{ value: unknown, title: string }[]} allowed
 * @param {number} at
 * @param {Place} place
 * @returns {Control}
 */
function radios(schema, allowed, at, place) {
  const name = `haft-field-${++lastId}`;
  const inputs = allowed.map((_, index) => h("input", { type: "radio", name, id: `${name}-${index}`, ".checked": index === at }));
  const hint = schema.description ? h("p", { class: "hint", id: `${name}-hint` }, String(schema.description)) : null;
  const problem = h("p", { class: "problem", id: `${name}-problem`, hidden: true });
  const element = h("fieldset", { role: "radiogroup", "aria-describedby": [hint?.id, problem.id].filter(Boolean).join(" ") },
    h("legend", {}, place.name, place.needed ? "" : h("span", { class: "needed" }, " (optional)")), hint,
    h("div", { class: "options" }, allowed.map((option, index) => h("div", { class: "option" }, inputs[index], h("label", { for: `${name}-${index}` }, option.title)))),
    problem);
  return {
    element,
    read: () => allowed[inputs.findIndex((input) => input.checked)]?.value,
    mark: (problems) => inputs.forEach((input) => show(problems, place.path, input, problem)),
    focus: () => (inputs.find((input) => input.checked) ?? inputs[0])?.focus(),
  };
}

/**
 * @param {Schema} schema
 * @param {{ value: unknown, title: string }[]} allowed
 * @param {unknown} start
 * @param {Place} place
 * @returns {Control}
 */
function several(schema, allowed, start, place) {
  const name = `haft-field-${++lastId}`;
  const chosen = new Set((Array.isArray(start) ? start : []).map((value) => JSON.stringify(value)));
  const inputs = allowed.map((option, index) => h("input", { type: "checkbox", id: `${name}-${index}`, ".checked": chosen.has(JSON.stringify(option.value)) }));
  const problem = h("p", { class: "problem", hidden: true, id: `${name}-problem` });
  const element = h("fieldset", { "aria-describedby": problem.id }, h("legend", {}, place.name),
    schema.description ? h("p", { class: "hint" }, String(schema.description)) : null,
    h("div", { class: "options" }, allowed.map((option, index) => h("div", { class: "option" }, inputs[index], h("label", { for: `${name}-${index}` }, option.title)))),
    problem);
  return {
    element,
    read: () => {
      const values = allowed.filter((_, index) => inputs[index]?.checked).map((option) => option.value);
      return values.length === 0 && !place.needed ? undefined : values;
    },
    mark: (problems) => inputs.slice(0, 1).forEach((input) => show(problems, place.path, input, problem)),
    focus: () => inputs[0]?.focus(),
  };
}

/** Whatever no control fits is written as JSON. @param {Schema} schema @param {unknown} start @param {Place} place @returns {Control} */
function json(schema, start, place) {
  const given = start === undefined ? "" : editable(typeof start === "string" ? JSON.stringify(start) : start);
  const input = h("textarea", { class: "input mono", rows: Math.min(16, Math.max(3, given.split("\n").length)), spellcheck: "false", ".value": given });
  const made = field({ ...schema, description: schema.description ?? "Written as JSON." }, place, input, () => {
    if (input.value.trim() === "") return undefined;
    try {
      return JSON.parse(input.value);
    } catch {
      return input.value;
    }
  });
  return made;
}
