/** The console: its frame, its address, who is here. Each view is a module below `views/`. */

import { fill, h, icon } from "./dom.js";
import { Haft, HaftError } from "./haft.js";
import { base, sheet, tokens } from "./elements/theme.js";
import { agentsView } from "./views/agents.js";
import { auditView } from "./views/audit.js";
import { inboxView } from "./views/inbox.js";
import { loginView } from "./views/login.js";
import { permissionsView } from "./views/permissions.js";
import { sessionView } from "./views/session.js";
import { sessionsView } from "./views/sessions.js";
import { toolsView } from "./views/tools.js";

/**
 * What every view is given.
 * @typedef {object} App
 * @property {Haft} haft
 * @property {any} me
 * @property {HTMLElement} main
 * @property {string[]} path What the address says after the view's name.
 * @property {(close: () => void) => void} onLeave
 * @property {(text: string) => void} style Gives the page a style for as long as the view is shown.
 * @property {() => Promise<Map<string, any>>} tools The registered tools, by name.
 * @property {import("./haft.js").Pending[]} waiting What waits, as last heard.
 * @property {boolean} waitsMore Whether more waits than that.
 * @property {() => Promise<void>} showMoreWaiting Reads another page of it.
 * @property {(listener: () => void) => void} onWaiting
 * @property {(error: unknown) => void} failed
 */

/** The key is kept for this tab only, and no other page or port can read it. */
const KEY = "haft.key";
const THEME = "haft.theme";

/** @type {Record<string, { name: string, icon: string, view: (app: App) => Promise<void> | void }>} */
const VIEWS = {
  inbox: { name: "Inbox", icon: "inbox", view: inboxView },
  sessions: { name: "Sessions", icon: "chat", view: (app) => (app.path[0] ? sessionView(app) : sessionsView(app)) },
  permissions: { name: "Permissions", icon: "shield", view: permissionsView },
  tools: { name: "Tools", icon: "tool", view: toolsView },
  agents: { name: "Agents", icon: "box", view: agentsView },
  audit: { name: "Audit", icon: "chain", view: auditView },
};

document.adoptedStyleSheets = [tokens, base];
theme(localStorage.getItem(THEME));
const root = /** @type {HTMLElement} */ (document.getElementById("app"));

/** @param {string | null} name */
function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function toggleTheme() {
  const isDark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  localStorage.setItem(THEME, isDark ? "light" : "dark");
  theme(isDark ? "light" : "dark");
}

/** Asks for a key until one is good, then shows the console. */
async function begin() {
  const isSpent = await takeToken() === "spent";
  const key = sessionStorage.getItem(KEY);
  if (!key) return login(isSpent ? "That address is spent: it opens the console once, and only until the server stops." : undefined);
  const haft = new Haft({ key });
  try {
    const me = await haft.again(() => haft.get("/me"));
    new Console(haft, me).start();
  } catch (error) {
    const isKey = error instanceof HaftError && [401, 403].includes(error.status);
    if (isKey) sessionStorage.removeItem(KEY);
    login(isKey ? "That key is not known here, or was revoked." : /** @type {Error} */ (error).message);
  }
}

/** @param {string} [trouble] */
function login(trouble) {
  fill(root, loginView((key) => {
    sessionStorage.setItem(KEY, key);
    void begin();
  }, trouble));
}

/** The address that `haft serve` prints carries a token that is good once. @returns {Promise<"none" | "taken" | "spent">} */
async function takeToken() {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (!token) return "none";
  history.replaceState(null, "", `${location.pathname}#/inbox`);
  try {
    const { key } = await new Haft().post("/login", { token });
    sessionStorage.setItem(KEY, key);
    return "taken";
  } catch {
    return "spent";
  }
}

class Console {
  /** @param {Haft} haft @param {any} me */
  constructor(haft, me) {
    this.haft = haft;
    this.me = me;
    this.main = h("main", { class: "main", id: "main", tabindex: "-1" });
    this.nav = h("nav", { class: "side", "aria-label": "Console" });
    this.lost = h("p", { class: "lost", role: "status", hidden: true }, "Connection lost; trying again…");
    /** @type {(() => void)[]} */
    this.leaving = [];
    /** @type {Set<string>} */
    this.styles = new Set();
    /** @type {import("./haft.js").Pending[]} */
    this.waiting = [];
    this.waitsMore = false;
    /** How much of what waits is wanted: as much as was asked to be shown. */
    this.wanted = 1;
    /** @type {(() => void)[]} */
    this.listeners = [];
    /** @type {Promise<Map<string, any>> | null} */
    this.knownTools = null;
  }

  start() {
    fill(root, h("div", { class: "frame" }, this.nav, this.main), this.lost);
    addEventListener("hashchange", () => this.go());
    this.haft.watchPending(() => void this.look(), (state) => {
      this.lost.hidden = state !== "lost";
    });
    this.go();
  }

  async look() {
    try {
      const { data, has_more } = await this.haft.pending(this.wanted);
      this.waiting = data;
      this.waitsMore = has_more;
      this.showNav();
      for (const listener of this.listeners) listener();
    } catch (error) {
      if (error instanceof HaftError && error.status === 401) this.leave();
    }
  }

  async showMoreWaiting() {
    this.wanted = this.waiting.length + 1;
    await this.look();
  }

  leave() {
    sessionStorage.removeItem(KEY);
    location.hash = "";
    location.reload();
  }

  showNav() {
    const current = this.current();
    const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
    const count = this.waiting.filter((pending) => pending.kind !== "client_exec").length;
    const counted = `${count}${this.waitsMore ? "+" : ""}`;
    document.title = `${count > 0 ? `(${counted}) ` : ""}${VIEWS[current]?.name ?? "Haft"} · Haft`;
    fill(this.nav,
      h("a", { class: "brand", href: "#/inbox", "aria-label": "Haft, inbox" }, h("img", { src: "/console/icon.svg", alt: "" }), h("span", {}, "Haft")),
      Object.entries(VIEWS).map(([path, { name, icon: sign }]) => h("a", { class: "nav", href: `#/${path}`, "aria-current": path === current ? "page" : false },
        icon(sign), h("span", {}, name), path === "inbox" && count > 0 ? h("span", { class: "count", "aria-label": `${counted} waiting` }, counted) : null)),
      h("span", { class: "spring" }),
      h("p", { class: "who", title: `Tenant ${this.me.tenant}` }, this.me.actor.id),
      h("div", { class: "tools" },
        h("button", { type: "button", class: "button quiet small", "aria-label": "Light or dark", onclick: () => { toggleTheme(); this.showNav(); } }, icon(isDark ? "sun" : "moon")),
        h("button", { type: "button", class: "button quiet small", onclick: () => this.leave() }, "Sign out")));
  }

  current() {
    return location.hash.replace(/^#\//, "").split("/")[0] || "inbox";
  }

  go() {
    for (const close of this.leaving.splice(0)) close();
    this.listeners = [];
    const [name = "", ...path] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
    const known = VIEWS[name || "inbox"] ?? /** @type {NonNullable<(typeof VIEWS)["inbox"]>} */ (VIEWS.inbox);
    this.showNav();
    fill(this.main);
    this.main.scrollTop = 0;
    const shown = known.view(this.app(path));
    void Promise.resolve(shown).catch((error) => this.failed(error));
  }

  /** @param {string[]} path @returns {App} */
  app(path) {
    const self = this;
    return {
      haft: this.haft, me: this.me, main: this.main, path,
      get waiting() {
        return self.waiting;
      },
      get waitsMore() {
        return self.waitsMore;
      },
      showMoreWaiting: () => this.showMoreWaiting(),
      onLeave: (close) => void this.leaving.push(close),
      style: (text) => this.style(text),
      onWaiting: (listener) => void this.listeners.push(listener),
      tools: () => (this.knownTools ??= this.haft.tools().then(({ data }) => new Map(data.map((tool) => [tool.name, tool])))),
      failed: (error) => this.failed(error),
    };
  }

  /** @param {string} text */
  style(text) {
    if (this.styles.has(text)) return;
    const made = sheet(text);
    this.styles.add(text);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, made];
    this.leaving.push(() => {
      this.styles.delete(text);
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((known) => known !== made);
    });
  }

  /** @param {unknown} error */
  failed(error) {
    fill(this.main, h("div", { class: "page" }, h("div", { class: "void panel" }, icon("alert"), h("strong", {}, "This could not be shown"),
      h("p", {}, /** @type {Error} */ (error).message), h("button", { type: "button", class: "button", onclick: () => this.go() }, "Try again"))));
  }
}

void begin();
