/** The catalogue: what each tool takes, does and is wrong about; and a form to try it. */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { DIFF_STYLE, renderDiff } from "../elements/diff.js";
import { SchemaForm, FORM_STYLE } from "../elements/form.js";
import { took } from "../time.js";
import { MODES, UNCLASSIFIED } from "../words.js";
import { mountsPanel } from "./mounts.js";

/** @typedef {import("../app.js").App} App */

/** @param {App} app */
export async function toolsView(app) {
  app.style(FORM_STYLE + DIFF_STYLE);
  const [{ data }, mounts] = await Promise.all([app.haft.tools(), mountsPanel(app)]);
  const detail = h("div", { class: "stack" });
  const list = h("ul", { class: "rows", "aria-label": "Tools" });
  const search = h("input", { class: "input", type: "search", placeholder: `Search ${data.length} tools`, "aria-label": "Search tools", oninput: () => showList() });
  const selected = data.find((tool) => tool.name === app.path[0]) ?? data[0];
  const showList = () => fill(list, data.filter((tool) => matches(tool, search.value)).map((tool) => row(tool, tool === selected)));
  showList();
  if (selected) showTool(app, detail, selected);
  const catalogue = h("div", { class: "cols" }, h("div", { class: "panel" }, h("div", { class: "pad search" }, search), list), detail);
  // A server that somebody must see to is not left below a screen of tools.
  const panels = mounts?.hasAttribute("data-asks") ? [mounts, catalogue] : [catalogue, mounts];
  fill(app.main, h("div", { class: "page" }, h("div", { class: "top" }, h("h1", {}, "Tools"), h("span", { class: "spring" }), findingsBadge(data)), panels));
}

/** @param {any} tool @param {string} words */
function matches(tool, words) {
  const text = `${tool.name} ${tool.title ?? ""} ${tool.description}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** @param {any[]} tools */
function findingsBadge(tools) {
  const count = tools.reduce((sum, tool) => sum + (tool.lint?.length ?? 0), 0);
  return h("span", { class: `badge ${count > 0 ? "warn" : "good"}` }, count > 0 ? `${count} findings of the linter` : "The linter finds nothing");
}

/** @param {any} tool @param {boolean} isSelected */
function row(tool, isSelected) {
  const mode = (tool.mode && MODES[tool.mode]) || UNCLASSIFIED;
  return h("li", {}, h("a", { class: "line", href: `#/tools/${encodeURIComponent(tool.name)}`, "aria-current": isSelected ? "page" : false },
    h("span", { class: "grow" }, h("code", {}, tool.name)), (tool.lint?.length ?? 0) > 0 ? h("span", { class: "badge warn" }, tool.lint.length) : null,
    h("span", { class: `badge ${mode.tone}` }, mode.text)));
}

/** @param {App} app @param {HTMLElement} detail @param {any} tool */
function showTool(app, detail, tool) {
  const mode = (tool.mode && MODES[tool.mode]) || UNCLASSIFIED;
  fill(detail, h("div", { class: "panel" },
    h("div", { class: "title" }, h("h2", {}, tool.title ?? tool.name), tool.title ? h("code", {}, tool.name) : null, h("span", { class: "spring" }), h("span", { class: "aside" }, tool.version)),
    h("div", { class: "pad" },
      h("p", {}, tool.description),
      h("div", { class: "badges" }, h("span", { class: `badge ${mode.tone}`, title: mode.hint }, mode.text), h("span", { class: "badge" }, `run by: ${tool.executor}`), h("span", { class: "badge" }, tool.ownership),
        h("span", { class: "badge" }, `gate: ${tool.gate}`), tool.undo ? h("span", { class: "badge" }, icon("undo"), `undo with ${tool.undo.tool}`) : null, tool.status !== "active" ? h("span", { class: "badge warn" }, tool.status) : null),
      (tool.lint ?? []).map((/** @type {any} */ finding) => h("p", { class: "lint" }, h("span", { class: "badge warn" }, finding.code ?? "lint"), h("span", {}, finding.message))),
      facts(tool),
      schema("Arguments", tool.input_schema), tool.output_schema ? schema("Result", tool.output_schema) : null)),
    tool.executor === "server" ? tryForm(app, tool) : null);
}

/** @param {any} tool */
function facts(tool) {
  const rows = Object.entries(tool.facets ?? {}).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0));
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, Array.isArray(value) ? value.join(", ") : brief(value, 120))]).flat());
}

/** @param {string} title @param {any} value */
function schema(title, value) {
  return h("details", {}, h("summary", {}, title), h("pre", { class: "block", tabindex: "0" }, pretty(value)));
}

/** @param {App} app @param {any} tool */
function tryForm(app, tool) {
  const form = new SchemaForm(tool.input_schema, {}, { name: "Arguments" });
  const answer = h("div", { role: "status", class: "stack" });
  /** The session of the last preview: what was shown is what is there. @type {string | undefined} */
  let session;
  const ask = async (/** @type {"call" | "preview"} */ verb, /** @type {(said: any) => HTMLElement} */ render) => {
    if (form.check().length > 0) return form.focusFirstProblem();
    fill(answer, h("p", { class: "hint" }, verb === "call" ? "Running…" : "Working it out…"));
    try {
      const said = await app.haft.post(`/tools/${encodeURIComponent(tool.name)}/${verb}`, { arguments: form.read(), ...(session ? { session } : {}) });
      session = said.session;
      fill(answer, render(said));
    } catch (error) {
      fill(answer, h("p", { class: "problem" }, icon("alert"), /** @type {Error} */ (error).message));
    }
  };
  return h("div", { class: "panel", "data-try": tool.name }, h("div", { class: "title" }, h("h2", {}, "Try it"), h("span", { class: "aside" }, "through the whole lifecycle, in a session of its own")), h("form", { class: "pad", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    void ask("call", renderAnswer);
  } }, form.element, h("div", { class: "actions" }, h("button", { class: "button primary", type: "submit" }, icon("play"), "Run"),
    tool.previews ? h("button", { class: "button", type: "button", onclick: () => void ask("preview", ({ preview }) => renderPreview(preview)) }, icon("search"), "Preview") : null), answer));
}

/** What a call would do. @param {import("../haft.js").Preview} preview */
function renderPreview(preview) {
  return h("div", { class: "stack" }, h("h3", {}, "What it would do"),
    preview.trouble ? h("p", { class: "problem" }, icon("alert"), preview.trouble) : null,
    preview.diff ? renderDiff(preview.diff) : (preview.targets ?? []).length > 0 ? h("ul", {}, (preview.targets ?? []).map((target) => h("li", { class: "mono" }, target))) : null);
}

/** @param {any} became */
function renderAnswer(became) {
  if (became.state === "waiting") {
    return h("p", { class: "notice" }, "It waits for someone. ", h("a", { href: `#/sessions/${became.session}/${became.call}` }, "Open it"), " or decide in the ", h("a", { href: "#/inbox" }, "inbox"), ".");
  }
  const outcome = became.outcome;
  const failure = outcome?.result.err;
  const elapsed = outcome ? took(outcome.finished_at - outcome.started_at) : "";
  return h("div", {}, h("p", {}, h("span", { class: `badge ${failure ? "bad" : "good"}` }, failure ? failure.class : "done"), ` ${elapsed} `, h("a", { href: `#/sessions/${became.session}` }, "Session")),
    h("pre", { class: "block", tabindex: "0" }, pretty(failure ? failure.message : outcome?.result.ok.value ?? outcome?.result.ok.content?.map((/** @type {any} */ block) => block.text).join("\n"))));
}
