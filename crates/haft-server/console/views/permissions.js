/** What may run, and why: rules, standing permissions, and the derivation of what was decided. */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { SessionModel } from "../session-model.js";
import { exact, left, when } from "../time.js";
import { who } from "../words.js";
import { grantsPanel, proposal, saidBounds } from "./grants.js";
import { TONES, findingsTable, rulesPanel } from "./rules.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../session-model.js").Call} Call */

const STYLE = `
.bounds-form { display: grid; gap: 10px; } .condition { display: grid; grid-template-columns: auto minmax(0, 1fr) auto; gap: 8px; align-items: center; }
.bounds-form .row { display: flex; flex-wrap: wrap; gap: 12px; } .bounds-form .small { width: 9em; } .condition select { width: auto; }
`;

/** The parts of the page, by their place in its address. @type {[string, string][]} */
const PARTS = [["decisions", "Decisions"], ["rules", "Rules"], ["grants", "Standing permissions"]];

/** @param {App} app */
export async function permissionsView(app) {
  app.style(STYLE);
  const part = app.path[0] === "rules" || app.path[0] === "grants" ? app.path[0] : "decisions";
  const parts = h("nav", { class: "segments", "aria-label": "Parts" }, PARTS.map(([path, name]) => h("a", { href: `#/permissions/${path}`, "aria-current": path === part ? "page" : false }, name)));
  const body = h("div", { class: "stack" });
  fill(app.main, h("div", { class: "page" }, h("div", { class: "top" }, h("h1", {}, "Permissions"), parts), body));
  if (part === "rules") return rulesPanel(app, body, app.path[1]);
  if (part === "grants") return grantsPanel(app, body);
  return decisionsPanel(app, body);
}

/** What was decided in one session, and what stands in it. @param {App} app @param {HTMLElement} body */
async function decisionsPanel(app, body) {
  const { data: sessions } = await app.haft.sessions();
  const chosen = sessions.find((session) => session.id === app.path[0]) ?? sessions[0];
  const pick = h("select", { class: "input", id: "of-session", onchange: () => void (location.hash = `#/permissions/${pick.value}`) },
    sessions.map((session) => h("option", { value: session.id, ".selected": session === chosen }, brief(session.title ?? session.id, 70))));
  const model = chosen ? await fold(app, chosen.id) : null;
  fill(body, chosen && model ? [h("div", { class: "field" }, h("label", { for: "of-session" }, "Session"), pick), policyTable(model), grantTable(app, chosen.id, model), decisions(app, chosen.id, model)]
      : h("div", { class: "panel void" }, icon("shield"), h("strong", {}, "No session yet"), h("p", {}, "What a session may do, and why, is shown here.")));
}

/** @param {App} app @param {string} session */
async function fold(app, session) {
  const model = new SessionModel(session);
  for (let after = 0; ;) {
    const page = await app.haft.events(session, { after });
    model.apply(page.data);
    after = page.data.at(-1)?.seq ?? after;
    if (page.data.length === 0 || after >= page.head) return model;
  }
}

/** What the session's agent says about its tools. @param {SessionModel} model */
function policyTable(model) {
  const verdicts = Object.entries(model.config?.toolset?.verdicts ?? {});
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "The agent’s policy"), h("span", { class: "spring" }), h("span", { class: "badge" }, `level: ${model.config?.level ?? "cautious"}`)),
    verdicts.length === 0 ? h("p", { class: "pad hint" }, "It says nothing beside what the tools declare. A denial can never be lowered by a level or a standing permission.")
      : h("div", { class: "scroll-x" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, ["Tool", "Says"].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, verdicts.map(([tool, verdict]) => h("tr", {}, h("td", { class: "mono" }, model.called(tool)), h("td", {}, h("span", { class: `badge ${TONES[String(verdict)] ?? ""}` }, String(verdict)))))))));
}

/** @param {App} app @param {string} session @param {SessionModel} model */
function grantTable(app, session, model) {
  const grants = [...model.grants.values()];
  const revoke = async (/** @type {any} */ grant) => {
    await app.haft.delete(`/sessions/${session}/grants/${grant.id}`);
    await permissionsView(app);
  };
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "Standing permissions")),
    grants.length === 0 ? h("p", { class: "pad hint" }, "None in this session.") : h("div", { class: "scroll-x" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["Tool", "When", "Given", "Ends", ""].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, grants.map((grant) => h("tr", {}, h("td", { class: "mono" }, model.called(grant.tool)),
        h("td", {}, saidBounds(grant)),
        h("td", {}, `${who(grant.by)}, ${when(grant.at, Date.now())}`), h("td", {}, grant.expires_at ? `in ${left(grant.expires_at - Date.now())}` : "with the session"),
        h("td", {}, h("button", { type: "button", class: "button small", onclick: () => void revoke(grant).catch(app.failed) }, "Revoke"))))))));
}

/** @param {App} app @param {string} session @param {SessionModel} model */
function decisions(app, session, model) {
  const calls = [...model.calls.values()].filter((call) => call.derivation || call.rejection).reverse().slice(0, 200);
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "Decisions"), h("span", { class: "aside" }, "newest first")),
    calls.length === 0 ? h("p", { class: "pad hint" }, "Nothing was decided yet.") : h("ul", { class: "rows" }, calls.map((call) => decision(app, session, model.config?.agent?.id, call))));
}

/** @param {App} app @param {string} session @param {string | undefined} agent @param {Call} call */
function decision(app, session, agent, call) {
  const verdict = call.derivation?.decision ?? "deny";
  const slot = h("div");
  const saved = (/** @type {string} */ text) => {
    void permissionsView(app).then(() => app.main.querySelector(".top")?.after(h("p", { class: "whole", role: "status" }, icon("check"), text)));
  };
  const canGrant = call.contract && call.contract.gate !== "ask_always" && call.executor === "server";
  const propose = canGrant ? h("button", { type: "button", class: "button small", onclick: () => fill(slot, proposal(app, session, agent, call, saved)) }, icon("plus"), "Propose a standing permission") : null;
  return h("li", {}, h("details", {}, h("summary", { class: "line" }, h("span", { class: `badge ${TONES[verdict]}` }, verdict), h("code", {}, call.called),
    h("span", { class: "grow aside" }, brief(call.arguments, 100)), h("span", { class: "aside", title: exact(call.proposedAt) }, when(call.proposedAt, Date.now()))),
    h("div", { class: "pad" }, findingsTable(call.derivation?.findings ?? []),
      call.rejection ? h("p", {}, call.rejection.message) : null, h("pre", { class: "block", tabindex: "0" }, pretty(call.arguments)), h("div", {}, propose), slot)));
}
