/** Agents, environments, memory, skills and vaults: what there is, edited, and what it was before. */

import { brief, fill, h, icon, pretty } from "../dom.js";
import { DIFF_STYLE } from "../elements/diff.js";
import { HaftError } from "../haft.js";
import { exact, when } from "../time.js";
import { memoriesPanel } from "./memories.js";
import { Editor, declared, versionList } from "./thing.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("./thing.js").Field} Field */

/**
 * @typedef {object} Kind
 * @property {string} path Its list in the API, below `/v1`.
 * @property {string} name
 * @property {string} one
 * @property {Field[]} fields What people may change; none where the console only shows.
 * @property {Record<string, unknown>} [fresh] What a new one starts with.
 */

/** @type {Field[]} */
const NAMED = [{ name: "name", label: "Name", as: "line" }, { name: "description", label: "Description", as: "text" }];
/** @type {Field} */
const METADATA = { name: "metadata", label: "Metadata", as: "json", hint: "Free words, as pairs." };

/** @type {Kind[]} */
const KINDS = [
  { path: "agents", name: "Agents", one: "agent", fresh: { model: { id: "scripted/demo" }, tools: [{ type: "agent_toolset_20260401" }], metadata: {} }, fields: [
    ...NAMED,
    { name: "model", label: "Model", as: "json", hint: "Such as anthropic/…, openai/… or scripted/demo." },
    { name: "system", label: "Instructions", as: "text" },
    { name: "tools", label: "Tools and who is asked", as: "json", hint: "permission_policy: always_allow, always_ask or auto. What follows from it is shown under Permissions." },
    METADATA,
  ] },
  { path: "environments", name: "Environments", one: "environment", fresh: { config: { type: "cloud", networking: { type: "limited" } }, metadata: {} }, fields: [...NAMED, { name: "config", label: "Where it runs", as: "json", hint: "networking: limited keeps commands off the network." }, METADATA] },
  { path: "memory_stores", name: "Memory", one: "memory store", fresh: { metadata: {} }, fields: [...NAMED, METADATA] },
  { path: "skills", name: "Skills", one: "skill", fields: [] },
  { path: "vaults", name: "Vaults", one: "vault", fields: [] },
  { path: "files", name: "Files", one: "file", fields: [] },
];

/** @param {App} app */
export async function agentsView(app) {
  app.style(DIFF_STYLE);
  const kind = KINDS.find(({ path }) => path === app.path[0]) ?? /** @type {Kind} */ (KINDS[0]);
  const found = await load(app, kind);
  const isNew = app.path[1] === "new" && kind.fresh !== undefined;
  const chosen = isNew ? undefined : found?.find((thing) => thing.id === app.path[1]) ?? found?.[0];
  const detail = h("div", { class: "stack" });
  fill(app.main, h("div", { class: "page" },
    h("div", { class: "top" }, h("h1", {}, "Agents"), kinds(kind), h("span", { class: "spring" }),
      kind.fresh && found ? h("a", { class: "button small", href: `#/agents/${kind.path}/new` }, icon("plus"), `New ${kind.one}`) : null),
    found === null ? nothing("Not served here", "This server does not offer this list.")
      : found.length === 0 && !isNew ? nothing(`No ${kind.one} yet`, kind.fresh ? `Make one with “New ${kind.one}”.` : `Made with the API: POST /v1/${kind.path}.`)
      : h("div", { class: "cols" }, h("div", { class: "panel" }, h("ul", { class: "rows", "aria-label": kind.name }, found.map((thing) => row(kind, thing, thing === chosen)))), detail)));
  if (isNew) showNew(app, kind, detail);
  else if (chosen) await showThing(app, kind, chosen, detail);
}

/** @param {Kind} current */
function kinds(current) {
  return h("nav", { class: "segments", "aria-label": "Kinds" }, KINDS.map(({ path, name }) => h("a", { href: `#/agents/${path}`, "aria-current": path === current.path ? "page" : false }, name)));
}

/** @param {string} title @param {string} text */
function nothing(title, text) {
  return h("div", { class: "panel void" }, icon("box"), h("strong", {}, title), h("p", {}, text));
}

/** @param {App} app @param {Kind} kind @returns {Promise<any[] | null>} */
async function load(app, kind) {
  try {
    return await app.haft.v1All(`/${kind.path}?limit=100`);
  } catch (error) {
    // A list that this server does not have; all else is told.
    if (error instanceof HaftError && (error.status === 404 || error.status === 501 || /not supported|does not/.test(error.message))) return null;
    throw error;
  }
}

/** @param {any} thing */
function nameOf(thing) {
  return thing.name ?? thing.display_title ?? thing.display_name ?? thing.filename ?? thing.id;
}

/** @param {Kind} kind @param {any} thing @param {boolean} isChosen */
function row(kind, thing, isChosen) {
  const version = thing.version ?? thing.latest_version;
  return h("li", {}, h("a", { class: "line", href: `#/agents/${kind.path}/${thing.id}`, "aria-current": isChosen ? "page" : false },
    h("span", { class: "grow" }, nameOf(thing)), version === undefined || version === null ? null : h("span", { class: "aside" }, `v${brief(version, 14)}`)));
}

/** @param {App} app @param {Kind} kind @param {HTMLElement} detail */
function showNew(app, kind, detail) {
  const start = kind.fresh ?? {};
  const editor = new Editor({ fields: kind.fields.map((field) => field), value: {}, name: `new-${kind.one.replaceAll(" ", "-")}.json`, action: `Make the ${kind.one}`,
    save: async (changes) => {
      const made = await app.haft.v1("POST", `/${kind.path}`, changes);
      location.hash = `#/agents/${kind.path}/${made.id}`;
    },
    leave: () => void (location.hash = `#/agents/${kind.path}`) });
  for (const { field, element } of editor.controls) {
    const input = /** @type {HTMLInputElement | null} */ (element.querySelector("input, textarea"));
    if (input && start[field.name] !== undefined) input.value = pretty(start[field.name]);
  }
  fill(detail, h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, `New ${kind.one}`)), editor.element));
}

/** @param {App} app @param {Kind} kind @param {any} thing @param {HTMLElement} detail */
async function showThing(app, kind, thing, detail) {
  const body = h("div");
  const show = () => fill(body, facts(kind, thing));
  const edit = () => {
    const editor = editorOf(app, kind, thing, show);
    fill(body, editor.element);
    /** @type {HTMLElement | null} */ (editor.element.querySelector("input, textarea"))?.focus();
  };
  show();
  fill(detail, h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, nameOf(thing)), h("span", { class: "spring" }),
    thing.updated_at ? h("span", { class: "aside", title: thing.updated_at }, `changed ${when(Date.parse(thing.updated_at), Date.now())}`) : null,
    kind.fields.length > 0 && !thing.archived_at ? h("button", { type: "button", class: "button small", onclick: edit }, icon("edit"), "Edit") : null), body));
  if (kind.path === "memory_stores") detail.append(await memoriesPanel(app, thing));
  if (kind.fields.length > 0) detail.append(await versionsPanel(app, kind, thing));
}

/** @param {App} app @param {Kind} kind @param {any} thing @param {() => void} leave */
function editorOf(app, kind, thing, leave) {
  const value = declared(thing);
  const next = thing.version === undefined ? "Save" : `Save as version ${thing.version + 1}`;
  return new Editor({ fields: kind.fields, value, name: `${kind.one.replaceAll(" ", "-")}.json`, action: next, leave,
    save: async (changes) => {
      await app.haft.v1("POST", `/${kind.path}/${thing.id}`, thing.version === undefined ? changes : { version: thing.version, ...changes });
      await agentsView({ ...app, path: [kind.path, thing.id] });
    } });
}

/** @param {App} app @param {Kind} kind @param {any} thing */
async function versionsPanel(app, kind, thing) {
  const { data, next } = await app.haft.get(`/versions/${kind.path}/${encodeURIComponent(thing.id)}?limit=50`);
  return h("div", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, "Versions"), h("span", { class: "aside" }, next ? "the newest 50" : "open one to see what it changed")),
    versionList(data, `${kind.one.replaceAll(" ", "-")}.json`));
}

/** What is told of a thing beside its name. @param {Kind} kind @param {any} thing */
function facts(kind, thing) {
  const shown = Object.entries(thing).filter(([name, value]) => value !== null && value !== "" && !["name", "type", "system", "tools", "archived_at", "updated_at"].includes(name) && !isEmpty(value));
  const tools = Array.isArray(thing.tools) ? thing.tools : [];
  return h("div", { class: "pad" },
    h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, saidValue(name, value))]).flat()),
    thing.system ? h("section", {}, h("h3", {}, "Instructions"), h("pre", { class: "block", tabindex: "0" }, thing.system)) : null,
    tools.length > 0 ? h("section", {}, h("h3", {}, "Tools"), h("div", { class: "badges" }, tools.map(toolBadge)), h("p", {}, h("a", { href: `#/permissions/rules/${thing.id}` }, "What is asked about, and why"))) : null,
    h("details", {}, h("summary", {}, "All of it"), h("pre", { class: "block", tabindex: "0" }, pretty(thing))));
}

/** @param {unknown} value */
function isEmpty(value) {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** @param {string} name @param {any} value */
function saidValue(name, value) {
  if (name === "model") return h("code", {}, value.id ?? brief(value, 100));
  if (name.endsWith("_at")) return h("span", { title: String(value) }, exact(Date.parse(value)).slice(0, 16));
  if (name === "id") return h("code", {}, value);
  return typeof value === "object" ? h("code", {}, brief(value, 160)) : brief(value, 300);
}

/** @param {any} tool */
function toolBadge(tool) {
  const name = tool.name ?? tool.definition?.name ?? tool.type;
  const asks = tool.default_config?.permission_policy?.type;
  return h("span", { class: "badge", title: tool.description ?? tool.definition?.description ?? "" }, h("span", { class: "mono" }, name), asks ? ` ${asks.replaceAll("_", " ")}` : "");
}
