/**
 * Building elements. Text from outside only ever becomes text: nothing here, and nothing that uses
 * it, parses markup.
 */

import { legible } from "./legible.js";

/** @typedef {Node | string | number | false | null | undefined} Child */

/**
 * @typedef {Record<string, unknown>} Props Attributes by their name; `on…` is a listener, `.name`
 * a property. `false`, `null` and `undefined` leave an attribute out, `true` makes it empty.
 */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  give(element, props);
  put(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  give(element, props);
  put(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Props} props
 */
function give(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name.startsWith(".")) {
      /** @type {any} */ (element)[name.slice(1)] = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function put(element, children) {
  for (const child of children.flat()) {
    if (child === false || child === null || child === undefined) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * Replaces what an element holds.
 * @param {Element | ShadowRoot | DocumentFragment} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  put(/** @type {Element} */ (parent), children);
}

/** @type {Record<string, string>} */
const ICONS = {
  inbox: "M3 12.5 5.2 5.4A2 2 0 0 1 7.1 4h9.8a2 2 0 0 1 1.9 1.4L21 12.5V18a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2zM3 12.5h5l1.5 2.5h5l1.5-2.5h5",
  chat: "M21 12a8 8 0 0 1-8 8H4l2-3.2A8 8 0 1 1 21 12z",
  key: "M14.5 9.5a5 5 0 1 0-4.2 4.9L12 16h2v2h2v2h4v-3.6l-5.7-5.7a5 5 0 0 0 .2-1.2zM8.5 8.5h.01",
  tool: "M14.6 6.4a4.5 4.5 0 0 0-6 5.6L3.5 17.1a1.9 1.9 0 0 0 2.7 2.7l5.1-5.1a4.5 4.5 0 0 0 5.7-5.9l-2.6 2.6-2.6-.7-.7-2.6z",
  box: "M12 3 4 7.2v9.6L12 21l8-4.2V7.2zM4 7.2l8 4.3 8-4.3M12 11.5V21",
  chain: "M9.500 14.500 14.500 9.500M10.500 6.500l1.800-1.800a4 4 0 0 1 5.700 0l1.300 1.300a4 4 0 0 1 0 5.700l-1.800 1.800M13.500 17.500l-1.800 1.800a4 4 0 0 1-5.700 0l-1.300-1.300a4 4 0 0 1 0-5.700l1.800-1.800",
  check: "M4.5 12.5 10 18 19.5 6.5",
  cross: "M6 6l12 12M18 6 6 18",
  clock: "M12 7v5l3.2 2M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5c.8-4 3.8-6 7.5-6s6.7 2 7.5 6",
  alert: "M12 9v4.5M12 17h.01M10.4 4.2 2.7 17.6A1.9 1.9 0 0 0 4.3 20.5h15.4a1.9 1.9 0 0 0 1.6-2.9L13.6 4.2a1.9 1.9 0 0 0-3.2 0z",
  undo: "M8 5 4 9l4 4M4.5 9H14a6 6 0 0 1 0 12h-3",
  stop: "M7 7h10v10H7z",
  send: "M4 12h15M13 6l6 6-6 6",
  shield: "M12 3 5 6v5.5c0 4.4 2.9 7.8 7 9.5 4.1-1.7 7-5.1 7-9.5V6z",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c2.5 2.6 3.7 5.6 3.7 9S14.500 18.400 12 21c-2.500-2.600-3.700-5.600-3.700-9S9.500 5.600 12 3z",
  edit: "M4 20l1-4.500L16.500 4a2 2 0 0 1 2.800 0l.7.7a2 2 0 0 1 0 2.800L8.500 19z",
  chevron: "M9 5.500 15.500 12 9 18.500",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
  sun: "M12 16.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM12 2v2.500M12 19.500V22M2 12h2.500M19.500 12H22M5 5l1.700 1.700M17.300 17.300 19 19M5 19l1.700-1.700M17.300 6.700 19 5",
  plus: "M12 5v14M5 12h14",
  file: "M6 3h8l5 5v11a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zM14 3v5h5",
  question: "M9.300 9a2.800 2.800 0 1 1 4.100 2.500c-.9.500-1.400 1-1.400 2M12 17h.01M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z",
  spark: "M12 3l1.900 5.600L19.500 10.500l-5.600 1.900L12 18l-1.900-5.600L4.500 10.500l5.600-1.900z",
  play: "M8 5.500v13l10.500-6.500z",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500 20 20",
  wait: "M7 3h10M7 21h10M8 3v3.500c0 2 4 3.500 4 5.500s-4 3.500-4 5.500V21M16 3v3.500c0 2-4 3.500-4 5.500s4 3.500 4 5.500V21",
};

/**
 * A line icon, hidden from screen readers: the words beside it say what it means.
 * @param {string} name
 */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[name] ?? "", fill: "none", stroke: "currentColor", "stroke-width": "1.75",
      "stroke-linecap": "round", "stroke-linejoin": "round" }),
  );
}

/**
 * A value as text that can be edited: strings bare, all else as indented JSON.
 * @param {unknown} value
 */
export function editable(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 2) ?? "";
}

/**
 * A value as text for reading: nothing in it is invisible or pretends to be something else.
 * @param {unknown} value
 */
export function pretty(value) {
  return legible(editable(value));
}

/**
 * One line, cut where it becomes too long.
 * @param {unknown} value
 * @param {number} max
 */
export function brief(value, max = 96) {
  const text = (typeof value === "string" ? value : JSON.stringify(value) ?? "").replaceAll(/[ \t\r\n]+/g, " ");
  return cut(legible(text), max);
}

/** @param {string} text @param {number} max */
function cut(text, max) {
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}
