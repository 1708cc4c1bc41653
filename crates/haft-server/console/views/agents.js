/** Agents, environments, memory and skills: what there is, its versions, and what changed between them. */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { when } from "../time.js";

/** @typedef {import("../app.js").App} App */

/** The lists of the wire API that the console can show. @type {[string, string][]} */
const LISTS = [["agents", "Agents"], ["environments", "Environments"], ["memory_stores", "Memory"], ["skills", "Skills"], ["vaults", "Vaults"]];

/** @param {App} app */
export async function agentsView(app) {
  const kind = LISTS.find(([name]) => name === app.path[0])?.[0] ?? "agents";
  const found = await load(app, `/v1/${kind}`);
  const chosen = found?.find((thing) => thing.id === app.path[1]) ?? found?.[0];
  fill(app.main, h("div", { class: "page" },
    h("div", { class: "top" }, h("h1", {}, "Agents"), h("nav", { class: "badges", "aria-label": "Kinds" }, LISTS.map(([name, text]) => h("a", { class: `button small ${name === kind ? "primary" : ""}`, href: `#/agents/${name}`, "aria-current": name === kind ? "page" : false }, text)))),
    found === null ? h("div", { class: "panel void" }, icon("box"), h("strong", {}, "Not served here"), h("p", {}, "This server does not offer this list."))
      : found.length === 0 ? h("div", { class: "panel void" }, icon("box"), h("strong", {}, "None yet"), h("p", {}, `Create one with the API: POST /v1/${kind}.`))
      : h("div", { class: "cols" }, h("div", { class: "panel" }, h("ul", { class: "rows" }, found.map((thing) => row(kind, thing, thing === chosen)))), chosen ? detail(chosen) : null)));
}

/** @param {App} app @param {string} path @returns {Promise<any[] | null>} */
async function load(app, path) {
  const response = await fetch(`${app.haft.base}${path}?limit=100`, { headers: { authorization: `Bearer ${app.haft.key}` }, credentials: "omit" });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return (await response.json()).data ?? [];
}

/** @param {string} kind @param {any} thing @param {boolean} isChosen */
function row(kind, thing, isChosen) {
  return h("li", {}, h("a", { class: "line", href: `#/agents/${kind}/${thing.id}`, "aria-current": isChosen ? "page" : false },
    h("span", { class: "grow" }, thing.name ?? thing.id), thing.version === undefined ? null : h("span", { class: "aside" }, `v${thing.version}`)));
}

/** @param {any} thing */
function detail(thing) {
  const simple = Object.entries(thing).filter(([, value]) => value !== null && typeof value !== "object" && String(value).length < 200);
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, thing.name ?? thing.id), h("span", { class: "spring" }), thing.updated_at ? h("span", { class: "aside" }, `changed ${when(Date.parse(thing.updated_at), Date.now())}`) : null),
    h("div", { class: "pad" }, h("dl", { class: "facts" }, simple.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, brief(value, 200))]).flat()),
      h("details", { ".open": true }, h("summary", {}, "All of it"), h("pre", { class: "block", tabindex: "0" }, pretty(thing)))));
}
