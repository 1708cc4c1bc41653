/** The sessions, newest first, and how to start one. */

import { brief, fill, h, icon } from "../dom.js";
import { exact, when } from "../time.js";

/** @typedef {import("../app.js").App} App */

/** @type {Record<string, string>} */
const TONES = { working: "accent", idle: "", ended: "" };

/** @param {App} app */
export async function sessionsView(app) {
  const [{ data }, agents] = await Promise.all([app.haft.sessions(), app.haft.get("/agents")]);
  fill(app.main, h("div", { class: "page" },
    h("div", { class: "top" }, h("h1", {}, "Sessions")),
    startForm(app, agents.data),
    data.length > 0
      ? h("div", { class: "panel" }, h("ul", { class: "rows", "aria-label": "Sessions" }, data.map(row)))
      : h("div", { class: "panel void" }, icon("chat"), h("strong", {}, "No session yet"), h("p", {}, "Start one above."))));
}

/** @param {any} session */
function row(session) {
  return h("li", {}, h("a", { class: "line", href: `#/sessions/${session.id}` },
    h("span", { class: "grow" }, h("span", {}, session.title ? brief(session.title, 110) : h("span", { class: "mono" }, session.id))),
    session.agent ? h("span", { class: "aside" }, session.agent) : null,
    session.n_waiting > 0 ? h("span", { class: "badge warn" }, `waiting for ${session.n_waiting}`)
      : h("span", { class: `badge ${TONES[session.status] ?? ""}` }, session.status),
    h("span", { class: "aside", title: exact(session.opened_at) }, when(session.opened_at, Date.now()))));
}

/** @param {App} app @param {any[]} agents */
function startForm(app, agents) {
  const agent = h("select", { class: "input", id: "agent" }, agents.map((known) => h("option", { value: known.id }, known.name)));
  const text = h("textarea", { class: "input", rows: 2, id: "first", placeholder: "Say what you want", "aria-label": "First message" });
  const trouble = h("p", { class: "problem", role: "alert", hidden: true });
  const begin = async (/** @type {string} */ message, /** @type {string} */ by) => {
    try {
      const { session } = await app.haft.openSession({ agent: by, message });
      location.hash = `#/sessions/${session}`;
    } catch (error) {
      trouble.hidden = false;
      trouble.textContent = /** @type {Error} */ (error).message;
    }
  };
  const starters = agents.flatMap((known) => (known.starters ?? []).map((/** @type {any} */ starter) => ({ ...starter, agent: known.id })));
  return h("div", { class: "panel" }, h("form", { class: "pad", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.value.trim()) void begin(text.value.trim(), agent.value);
  } },
    h("h2", {}, "Start a session"),
    starters.length > 0 ? h("div", { class: "starters" }, starters.map((starter) => h("button", { type: "button", class: "starter", onclick: () => void begin(starter.message, starter.agent) },
      h("strong", {}, starter.title), h("span", {}, starter.detail)))) : null,
    h("div", { class: "field" }, h("label", { for: "agent" }, "Agent"), agent),
    text, trouble, h("div", {}, h("button", { class: "button primary", type: "submit" }, icon("send"), "Start"))));
}
