/** Standing permissions: those beyond a session, and proposing one with what it would have let through. */

import { brief, fill, h, icon } from "../dom.js";
import { GrantForm, saidCondition } from "../elements/grant-form.js";
import { left, when } from "../time.js";
import { who } from "../words.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../session-model.js").Call} Call */

/** For whom a permission stands. @param {"tenant" | { user?: string, agent?: string }} holder */
function saidHolder(holder) {
  if (holder === "tenant") return "everyone here";
  return holder.user ? `${holder.user}, in every session` : `agent ${holder.agent}`;
}

/** Which calls a permission covers. @param {any} grant */
export function saidBounds(grant) {
  const bounds = [...(grant.when ?? []).map(saidCondition), grant.uses_left ? `${grant.uses_left} times` : null,
    grant.budget ? `sum of ${grant.budget.field.slice(1)} up to ${grant.budget.left}` : null];
  return bounds.filter(Boolean).join(", ") || "any arguments";
}

/** The permissions that reach beyond one session. @param {App} app @param {HTMLElement} body */
export async function grantsPanel(app, body) {
  const { data } = await app.haft.get("/grants");
  const revoke = async (/** @type {string} */ id) => {
    await app.haft.delete(`/grants/${id}`);
    await grantsPanel(app, body);
  };
  fill(body, data.length === 0
    ? h("div", { class: "panel void" }, icon("key"), h("strong", {}, "No standing permission"), h("p", {}, "Propose one beside a decision: it is tried on what happened before it is given."))
    : h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "Standing permissions")), h("div", { class: "scroll-x" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["Tool", "For", "When", "Given", "Ends", "Take back"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, data.map((/** @type {any} */ { holder, grant, may_revoke: mayRevoke }) => h("tr", {}, h("td", { class: "mono" }, grant.tool), h("td", {}, saidHolder(holder)), h("td", {}, saidBounds(grant)),
        h("td", {}, `${who(grant.by)}, ${when(grant.at, Date.now())}`), h("td", {}, grant.expires_at ? `in ${left(grant.expires_at - Date.now())}` : "when it is revoked"),
        h("td", {}, mayRevoke ? h("button", { type: "button", class: "button small", onclick: () => void revoke(grant.id).catch(app.failed) }, "Revoke") : null))))))));
}

/**
 * A form for a permission like one call, with what it would have let through.
 * @param {App} app
 * @param {string} session
 * @param {string | undefined} agent The session's agent.
 * @param {Call} call
 * @param {(text: string) => void} saved
 */
export function proposal(app, session, agent, call, saved) {
  const would = h("div", { role: "status" });
  const sentence = h("p", { class: "hint" });
  const reach = h("select", { class: "input", "aria-label": "For whom" }, h("option", { value: "session" }, "This session"), h("option", { value: "user" }, "Me, in every session"),
    agent ? h("option", { value: "agent" }, `The agent ${agent}`) : null, h("option", { value: "tenant" }, "Everyone here"));
  /** @type {() => { path: string, holder: {}, where: string }} */
  const target = () => ({
    session: { path: `/sessions/${session}/grants`, holder: {}, where: "in this session" }, user: { path: "/grants", holder: {}, where: "in your sessions" },
    agent: { path: "/grants", holder: { holder: { agent } }, where: "in every session of this agent" }, tenant: { path: "/grants", holder: { holder: "tenant" }, where: "for everyone here" },
  })[/** @type {"session" | "user" | "agent" | "tenant"} */ (reach.value)];
  let asked = 0;
  const changed = () => {
    sentence.textContent = form.sentence(target().where);
    clearTimeout(asked);
    asked = window.setTimeout(() => void preview().catch((error) => fill(would, h("p", { class: "problem" }, icon("alert"), error.message))), 250);
  };
  const preview = async () => {
    const terms = form.terms();
    if (!terms) return fill(would, h("p", { class: "problem" }, icon("alert"), form.trouble));
    const { path, holder } = target();
    const { data } = await app.haft.post(`${path}/preview`, { tool: call.tool, ...holder, ...terms });
    fill(would, wouldHave(data));
  };
  const form = new GrantForm({ ...call, tool: call.called }, changed);
  const save = async () => {
    const terms = form.terms();
    if (!terms) return;
    const { path, holder } = target();
    const given = await app.haft.post(path, { tool: call.tool, ...holder, ...terms });
    const n = given.settled?.length ?? 0;
    saved(n > 0 ? `Given; ${n} waiting ${n === 1 ? "call goes" : "calls go"} on because of it.` : "Given.");
  };
  reach.addEventListener("change", changed);
  changed();
  return h("div", { class: "pad" }, h("div", { class: "field" }, h("span", { class: "label" }, "For whom"), reach), form.element, sentence, would,
    h("div", {}, h("button", { type: "button", class: "button primary", onclick: () => void save().catch((error) => fill(would, h("p", { class: "problem", role: "alert" }, icon("alert"), error.message))) }, "Save")));
}

/** @param {any[]} calls */
function wouldHave(calls) {
  const covered = calls.filter((call) => call.covered);
  const waiting = covered.filter((call) => call.waiting).length;
  return h("div", {}, h("p", {}, h("strong", {}, `${covered.length} of ${calls.length}`), ` recorded calls of this tool would have been let through${waiting > 0 ? `; ${waiting} of them ${waiting === 1 ? "waits" : "wait"} now and would go on at once` : ""}.`),
    h("ul", { class: "rows" }, calls.slice(0, 20).map((call) => h("li", {}, h("div", { class: "line" }, h("span", { class: `badge ${call.covered ? "good" : ""}` }, call.covered ? "covered" : "asks"),
      h("span", { class: "grow mono" }, brief(call.arguments, 90)), h("span", { class: "aside" }, call.why ?? ""))))));
}
