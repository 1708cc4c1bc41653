/** The journal of a session, entry by entry, and whether it is what was written. */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { exact } from "../time.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {{ seq: number, at: number, hash: string, event: any }} Kept */

/** How many entries are read at once. */
const PAGE = 200;

/** @param {App} app */
export async function auditView(app) {
  const { data: sessions } = await app.haft.sessions({ limit: 100 });
  const id = app.path[0] ?? sessions[0]?.id;
  if (!id) {
    return fill(app.main, h("div", { class: "page" }, h("div", { class: "top" }, h("h1", {}, "Audit")),
      h("div", { class: "panel void" }, icon("chain"), h("strong", {}, "No session yet"), h("p", {}, "What a session did is kept entry by entry, each chained by hash to the one before."))));
  }
  const listed = sessions.some((session) => session.id === id) ? sessions : [{ id }, ...sessions];
  const pick = h("select", { class: "input", id: "audit-session", onchange: () => void (location.hash = `#/audit/${pick.value}`) },
    listed.map((session) => h("option", { value: session.id, ".selected": session.id === id }, brief(session.title ?? session.id, 70))));
  const chain = h("div", { role: "status" });
  const rows = h("ol", { class: "rows", "aria-label": "Entries" });
  const more = h("button", { type: "button", class: "button", hidden: true }, "Show more");
  fill(app.main, h("div", { class: "page" }, h("div", { class: "top" }, h("h1", {}, "Audit")),
    h("div", { class: "field" }, h("label", { for: "audit-session" }, "Session"), pick), chain,
    h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "Journal"), h("span", { class: "spring" }), h("a", { class: "aside", href: `#/sessions/${id}` }, "Open the session")), rows), h("div", {}, more)));
  const read = async (/** @type {number} */ after) => {
    const page = await app.haft.get(`/audit?session=${encodeURIComponent(id)}&after=${after}&limit=${PAGE}`);
    fill(chain, verdict(page.chain));
    rows.append(...page.data.map(entry));
    more.hidden = page.next === null;
    more.onclick = () => void read(page.next).catch(app.failed);
  };
  await read(0);
}

/** @param {{ state: string, entries?: number, head?: string, message?: string }} chain */
function verdict(chain) {
  if (chain.state !== "whole") return h("div", { class: "whole broken" }, icon("alert"), `This journal is not what was written: ${chain.message}`);
  return h("div", { class: "whole" }, icon("check"),
    h("span", {}, `Whole: ${chain.entries} entries, each chained to the one before. `, h("code", { title: "The hash of the last entry" }, chain.head)));
}

/** @param {Kept} kept */
function entry(kept) {
  const slot = h("div", { class: "pad" });
  const open = () => slot.hasChildNodes() || fill(slot, h("p", { class: "hint mono" }, kept.hash), h("pre", { class: "block", tabindex: "0" }, pretty(kept.event)));
  const type = typeof kept.event === "object" ? kept.event.type : "unreadable";
  return h("li", {}, h("details", { ontoggle: open }, h("summary", { class: "line" }, h("span", { class: "aside" }, kept.seq), h("code", {}, type),
    h("span", { class: "grow aside" }, gist(kept.event)), h("span", { class: "aside" }, exact(kept.at).slice(11, 23))), slot));
}

/** What an event is about, in a few words. @param {any} event */
function gist(event) {
  const about = [event?.contract?.tool, event?.outcome?.tool, event?.decision?.type, event?.by?.id, event?.call];
  return about.filter((part) => typeof part === "string").join(" · ");
}
