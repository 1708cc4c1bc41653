/** What is decided about each tool before any call is made, and from which rules that follows. */

import { brief, fill, h, icon } from "../dom.js";
import { MODES, UNCLASSIFIED, sourceName } from "../words.js";

/** @typedef {import("../app.js").App} App */

/** @type {Record<string, string>} */
export const TONES = { allow: "good", ask: "warn", deny: "bad" };

/** The order in which people want to see them. */
const ORDER = ["deny", "ask", "allow"];

/** @param {App} app @param {HTMLElement} body @param {string | undefined} chosen */
export async function rulesPanel(app, body, chosen) {
  const { data: agents } = await app.haft.get("/agents");
  const agent = chosen ?? agents[0]?.id ?? "";
  const rules = await app.haft.get(`/rules${agent === "node" || !agent ? "" : `?agent=${encodeURIComponent(agent)}`}`);
  const pick = h("select", { class: "input", id: "of-agent", onchange: () => void (location.hash = `#/permissions/rules/${pick.value}`) },
    agents.map((/** @type {any} */ known) => h("option", { value: known.id, ".selected": known.id === agent }, brief(known.name, 60))),
    h("option", { value: "node", ".selected": agent === "node" }, "Every tool of this server"));
  const sorted = [...rules.data].sort((one, other) => ORDER.indexOf(one.decision) - ORDER.indexOf(other.decision) || one.called.localeCompare(other.called));
  fill(body, h("div", { class: "field" }, h("label", { for: "of-agent" }, "Agent"), pick),
    h("div", { class: "panel" },
      h("div", { class: "title" }, h("h2", {}, "What is asked about"), h("span", { class: "badge" }, `level: ${rules.level}`), h("span", { class: "spring" }),
        rules.agent ? h("a", { class: "button small", href: `#/agents/agents/${rules.agent.id}` }, icon("edit"), "Edit the agent’s policy") : null),
      h("p", { class: "pad hint" }, asked(rules)),
      sorted.length === 0 ? h("p", { class: "pad hint" }, "It has no tools.") : h("ul", { class: "rows", "aria-label": "Rules" }, sorted.map(row))));
}

/** @param {any} rules */
function asked(rules) {
  const beside = rules.policies.length === 0 ? "" : ` Beside these, each call is judged by: ${rules.policies.map(sourceName).join(", ")}.`;
  return `For any arguments; a standing permission may let a call through that would be asked about, and never one that is denied.${beside}`;
}

/** @param {any} rule */
function row(rule) {
  const mode = (rule.mode && MODES[rule.mode]) || UNCLASSIFIED;
  return h("li", {}, h("details", {}, h("summary", { class: "line" }, h("span", { class: `badge ${TONES[rule.decision]}` }, rule.decision), h("code", {}, rule.called),
    h("span", { class: "grow aside" }, rule.findings.at(-1)?.reason ?? ""), h("span", { class: `badge ${mode.tone}`, title: mode.hint }, mode.text)),
    h("div", { class: "pad" }, findingsTable(rule.findings))));
}

/** @param {import("../haft.js").Finding[]} findings */
export function findingsTable(findings) {
  return h("table", { class: "data findings" }, h("thead", { class: "visually-hidden" }, h("tr", {}, ["Says", "Source", "Reason"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, findings.map((finding) => h("tr", {}, h("td", {}, h("span", { class: `badge ${TONES[finding.verdict]}` }, finding.verdict)), h("td", {}, sourceName(finding.source)), h("td", {}, finding.reason)))));
}
