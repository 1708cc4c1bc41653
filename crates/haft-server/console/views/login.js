/** Who are you: one key, kept for this tab. */

import { h, icon } from "../dom.js";

/** @param {(key: string) => void} enter @param {string} [trouble] */
export function loginView(enter, trouble) {
  const input = h("input", { class: "input mono", id: "key", type: "password", autocomplete: "current-password", required: true, "aria-describedby": "key-hint", autofocus: true });
  return h("main", { class: "login", id: "main" }, h("form", { class: "panel", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (input.value.trim()) enter(input.value.trim());
  } },
    h("p", { class: "brand" }, h("img", { src: "/console/icon.svg", alt: "" }), "Haft"),
    h("h1", {}, "Sign in"),
    h("div", { class: "field" }, h("label", { for: "key" }, "API key"), input,
      h("p", { class: "hint", id: "key-hint" }, h("code", {}, "haft serve"), " prints one when it starts for the first time; ", h("code", {}, "haft keys create"), " makes more. It is kept in this tab until you close it.")),
    trouble ? h("p", { class: "problem", role: "alert" }, icon("alert"), trouble) : null,
    h("button", { class: "button primary", type: "submit" }, "Sign in")));
}
