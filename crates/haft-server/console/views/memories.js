/** What a memory store holds: texts at paths, each edited with a diff, with what it was before. */

import { fill, h, icon } from "../dom.js";
import { renderDiff } from "../elements/diff.js";
import { unifiedDiff } from "../text-diff.js";
import { when } from "../time.js";
import { Editor } from "./thing.js";

/** @typedef {import("../app.js").App} App */

/** @type {import("./thing.js").Field[]} */
const FIELDS = [{ name: "path", label: "Path", as: "line", hint: "Begins with a slash, such as /notes/style.md." }, { name: "content", label: "Text", as: "text" }];

/** @param {App} app @param {any} store */
export async function memoriesPanel(app, store) {
  const base = `/memory_stores/${store.id}`;
  const list = h("ul", { class: "rows", "aria-label": "Memories" });
  const add = h("button", { type: "button", class: "button small", onclick: () => {
    add.hidden = true;
    const editor = new Editor({ fields: FIELDS, value: {}, name: "memory", action: "Keep it",
      save: async (changes) => {
        await app.haft.v1("POST", `${base}/memories`, changes);
        await show();
      },
      leave: () => void show() });
    list.prepend(h("li", {}, editor.element));
  } }, icon("plus"), "New memory");
  const show = async () => {
    add.hidden = false;
    const data = await app.haft.v1All(`${base}/memories?limit=100`);
    fill(list, data.length === 0 ? h("li", {}, h("p", { class: "pad hint" }, "It holds nothing yet.")) : data.map((/** @type {any} */ memory) => row(app, base, memory, show)));
  };
  await show();
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "What it holds"), h("span", { class: "spring" }), store.archived_at ? null : add), list);
}

/** @param {App} app @param {string} base @param {any} memory @param {() => Promise<void>} changed */
function row(app, base, memory, changed) {
  const slot = h("div", { class: "pad" });
  const open = async () => {
    const path = `${base}/memory_versions?memory_id=${memory.id}&view=full`;
    const [full, newest] = await Promise.all([
      app.haft.v1("GET", `${base}/memories/${memory.id}`),
      app.haft.v1("GET", `${path}&limit=20`),
    ]);
    const shown = h("div", {}, history(full.path, newest.data));
    const all = async () => { fill(shown, history(full.path, await app.haft.v1All(`${path}&limit=100`))); };
    if (newest.next_page) shown.append(h("button", { type: "button", class: "button small", onclick: () => void all().catch(app.failed) }, "Show earlier versions"));
    fill(slot, h("pre", { class: "block", tabindex: "0" }, full.content), h("div", { class: "actions" }, h("button", { type: "button", class: "button small", onclick: () => edit(full) }, icon("edit"), "Edit")), shown);
  };
  const edit = (/** @type {any} */ full) => {
    const editor = new Editor({ fields: FIELDS, value: { path: full.path, content: full.content }, name: full.path.replace(/^\//, ""), action: "Save",
      save: async (changes) => {
        await app.haft.v1("POST", `${base}/memories/${memory.id}`, { ...changes, precondition: { type: "content_sha256", content_sha256: full.content_sha256 } });
        await changed();
      },
      leave: () => void open().catch(app.failed) });
    fill(slot, editor.element);
  };
  return h("li", {}, h("details", { ontoggle: (/** @type {Event} */ event) => {
    if (/** @type {HTMLDetailsElement} */ (event.currentTarget).open) void open().catch(app.failed);
  } }, h("summary", { class: "line" }, icon("file"), h("span", { class: "grow mono" }, memory.path), h("span", { class: "aside" }, when(Date.parse(memory.updated_at ?? memory.created_at), Date.now()))), slot));
}

/** @param {string} path @param {any[]} versions Newest first. */
function history(path, versions) {
  if (versions.length < 2) return null;
  return h("section", { class: "stack" }, h("h3", {}, "Before"), h("ol", { class: "rows", "aria-label": `Versions of ${path}` }, versions.slice(0, -1).map((version, at) => {
    const before = versions[at + 1];
    return h("li", {}, h("details", {}, h("summary", { class: "line" }, h("span", { class: "grow" }, version.operation ?? "changed"), h("span", { class: "aside" }, when(Date.parse(version.created_at), Date.now()))),
      h("div", { class: "pad" }, renderDiff(unifiedDiff(before.content ?? "", version.content ?? "", path.replace(/^\//, ""))))));
  })));
}
