/** The MCP servers that are mounted here: how they are, what they offer, and what of it waits to be accepted. */

import { brief, fill, h, icon } from "../dom.js";
import { renderDiff } from "../elements/diff.js";
import { HaftError } from "../haft.js";

/** @typedef {import("../app.js").App} App */

/** @type {Record<string, string>} */
const TONES = { up: "good", idle: "", unauthorized: "warn", down: "bad" };

/** The mounted servers, or nothing where none can be mounted; `data-asks` where one needs somebody. @param {App} app */
export async function mountsPanel(app) {
  const list = h("ul", { class: "rows", "aria-label": "MCP servers" });
  const panel = h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "MCP servers")), list);
  const show = async () => {
    const { data } = await app.haft.get("/mcp/servers");
    panel.toggleAttribute("data-asks", data.some((/** @type {any} */ server) => server.pending.length > 0 || ["down", "unauthorized"].includes(server.health.state)));
    fill(list, data.length === 0 ? h("li", {}, h("p", { class: "pad hint" }, "None is mounted. ", h("code", {}, "haft mcp add NAME URL"), " mounts one.")) : data.map((/** @type {any} */ server) => row(app, server, show)));
  };
  try {
    await show();
  } catch (error) {
    if (error instanceof HaftError && error.status === 404) return null;
    throw error;
  }
  return panel;
}

/** @param {App} app @param {any} server @param {() => Promise<void>} changed */
function row(app, server, changed) {
  const trouble = h("p", { class: "problem", role: "alert", hidden: true });
  const complain = (/** @type {unknown} */ error) => {
    trouble.hidden = false;
    fill(trouble, icon("alert"), /** @type {Error} */ (error).message);
  };
  const act = async (/** @type {() => Promise<unknown>} */ what) => {
    try {
      await what();
      await changed();
    } catch (error) {
      complain(error);
    }
  };
  const path = `/mcp/servers/${encodeURIComponent(server.name)}`;
  const waiting = server.pending.length;
  return h("li", {}, h("details", { ".open": waiting > 0 }, h("summary", { class: "line" }, h("span", { class: `badge ${TONES[server.health.state] ?? ""}` }, server.health.state), h("code", {}, server.name),
    h("span", { class: "grow aside" }, server.peer.url ?? brief((server.peer.command ?? []).join(" "), 90)), server.peer.sandbox === false ? h("span", { class: "badge warn" }, "not sandboxed") : server.peer.sandbox ? h("span", { class: "badge" }, "sandboxed") : null,
    waiting > 0 ? h("span", { class: "badge warn" }, `${waiting} to accept`) : null,
    h("span", { class: "aside" }, `${Object.keys(server.tools).length} tools`)),
    h("div", { class: "pad" },
      server.health.message ? h("p", { class: "problem" }, icon("alert"), server.health.message) : null,
      server.pending.map((/** @type {any} */ change) => pending(change, () => void act(() => app.haft.post(`${path}/accept`, { tool: change.tool, digest: change.digest })))),
      (server.findings ?? []).map((/** @type {any} */ finding) => h("p", { class: "lint" }, h("span", { class: "badge warn" }, finding.code), h("span", {}, `${finding.tool ?? ""} ${finding.message}`))),
      h("div", { class: "badges" }, Object.values(server.tools).map((tool) => h("span", { class: "badge mono" }, String(tool)))),
      trouble,
      h("div", { class: "actions" }, server.health.state === "unauthorized" ? authorize(app, path, complain) : null,
        h("button", { type: "button", class: "button small", onclick: () => void act(() => app.haft.post(`${path}/refresh`, {})) }, "Ask it anew"),
        server.origin === "added" ? h("button", { type: "button", class: "button small danger", onclick: () => void act(() => app.haft.delete(path)) }, "Unmount") : null))));
}

/** Leads the person to where they say yes. @param {App} app @param {string} path @param {(error: unknown) => void} complain */
function authorize(app, path, complain) {
  const begin = async () => {
    try {
      const { open } = await app.haft.post(`${path}/authorize`, { origin: location.origin });
      // What a server calls an address may be a script.
      if (!/^https?:/.test(open)) throw new Error(`It is authorized at ${open}, which is no address.`);
      fill(place, h("a", { class: "button small primary", href: open, target: "_blank", rel: "noopener noreferrer" }, "Say yes there"));
    } catch (error) {
      complain(error);
    }
  };
  const place = h("span", {}, h("button", { type: "button", class: "button small primary", onclick: () => void begin() }, "Authorize"));
  return place;
}

/** What a server offers that is not what was accepted. @param {any} change @param {() => void} accept */
function pending(change, accept) {
  return h("section", {}, h("h3", {}, h("span", { class: "mono" }, change.tool), ` is ${change.change === "new" ? "new" : "not what was accepted"}`),
    change.diff ? renderDiff(change.diff) : null, h("div", { class: "actions" }, h("button", { type: "button", class: "button small primary", onclick: accept }, icon("check"), "Accept this definition")));
}
