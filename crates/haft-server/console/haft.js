/**
 * The browser client of Haft: sessions, their events, what waits for someone, and tools that run
 * in the page. One module, no dependencies.
 *
 * ```js
 * import { Haft } from "./haft.js";
 * const haft = new Haft({ base: "http://127.0.0.1:7800", key });
 * const { session } = await haft.openSession({ message: "Hello" });
 * const following = haft.follow(session, {
 *   onEntry: (entry) => console.log(entry.seq, entry.event.type),
 *   tools: { get_location: async () => ({ city: "Bern" }) },
 * });
 * ```
 */

/**
 * @typedef {{ kind: "user" | "service" | "agent" | "system", id: string }} Actor
 * @typedef {{ seq: number, at: number, event: HaftEvent }} Entry An event at its place in the log.
 * @typedef {{ type: string, [member: string]: any }} HaftEvent
 * @typedef {{ source: string | Record<string, string>, verdict: "allow" | "ask" | "deny", reason: string }} Finding
 * @typedef {{ decision: "allow" | "ask" | "deny", findings: Finding[] }} Derivation
 * @typedef {{ fingerprint?: string, targets?: string[], diff?: string, trouble?: string }} Preview
 */

/**
 * A call that waits for someone.
 * @typedef {object} Pending
 * @property {string} session
 * @property {string} call
 * @property {number} round Which wait of the call it is.
 * @property {"approval" | "elicitation" | "client_exec" | "settlement"} kind
 * @property {string} tool
 * @property {string} [title]
 * @property {string} [detail]
 * @property {string | null} [mode]
 * @property {string[]} [reach]
 * @property {string} [consequence]
 * @property {string} [reversal]
 * @property {Record<string, unknown>} arguments As they may be shown: secrets are masked.
 * @property {any} [input_schema]
 * @property {any} [answer_schema]
 * @property {string} reason
 * @property {Preview | null} [preview]
 * @property {Derivation} [derivation]
 * @property {string} [changes]
 * @property {string} [barred]
 * @property {boolean} [may_grant]
 * @property {number} expires_at
 * @property {number} [since]
 * @property {string} [unreadable] Why its session's log cannot be read; then nothing else of the call is known.
 * @property {Decision} [decision] Set when the wait is over.
 */

/**
 * How a wait ended.
 * @typedef {{ decision?: string, by?: Actor, at?: number, note?: string, mine?: boolean, stale?: boolean }} Decision
 */

/**
 * @typedef {{ field: string, test: Record<string, unknown> }} Condition
 * @typedef {{ when?: Condition[], uses?: number, lasts_ms?: number, budget?: { field: string, left: string } }} GrantTerms
 */

/**
 * What someone says about a wait.
 * @typedef {({ type: "approve", arguments?: Record<string, unknown>, grant?: GrantTerms, note?: string }
 *   | { type: "deny", note?: string }
 *   | { type: "answer", value: unknown }
 *   | { type: "result", outcome: { ok: true, result: unknown } | { ok: false, error: string } }
 *   | { type: "settle", verdict: "happened" | "run_again" | "give_up", value?: unknown }) & { round?: number, id?: string }} Response
 */

/**
 * A tool that runs in this page. What it returns is its result; what it throws is its failure.
 * @typedef {(args: Record<string, unknown>, context: { session: string, call: string, signal: AbortSignal }) => unknown} ClientTool
 */

/** Something that the server refused, with its stable code. */
export class HaftError extends Error {
  /**
   * @param {number} status
   * @param {{ type?: string, message?: string, details?: { code?: string, decided?: Decision } }} [error]
   */
  constructor(status, error = {}) {
    super(error.message ?? (status === 0 ? "The server cannot be reached." : `The server answered ${status}.`));
    this.name = "HaftError";
    this.status = status;
    this.code = error.details?.code ?? error.type ?? (status === 0 ? "unreachable" : `http_${status}`);
    /** Who decided what and when, where that came first. */
    this.decided = error.details?.decided;
  }
}

/** The first wait before connecting again, doubled up to the last. */
const AGAIN_FIRST_MS = 250;
const AGAIN_LAST_MS = 5_000;

/** A stream that is silent for so long is taken for broken; the server sends something every 15 s. */
const SILENCE_MAX_MS = 45_000;

export class Haft {
  /**
   * @param {object} [options]
   * @param {string} [options.base] Where the server is; the page's own origin if not given.
   * @param {string} [options.key] An API key.
   * @param {typeof fetch} [options.fetch]
   */
  constructor({ base = "", key, fetch: given } = {}) {
    this.base = base.replace(/\/$/, "");
    this.key = key;
    this.fetch = given ?? ((...args) => fetch(...args));
    /** How far the server's clock is ahead of ours, in milliseconds. */
    this.clockSkew = 0;
  }

  /**
   * What waits for someone, over all sessions: calls in doubt first, then what ends first. At least `wanted` of it, as
   * far as there is that much.
   * @param {number} [wanted]
   * @returns {Promise<{ data: Pending[], has_more: boolean, unreadable: number }>}
   */
  async pending(wanted = 1) {
    /** @type {Pending[]} */
    const data = [];
    let [next, unreadable] = ["", 0];
    do {
      const page = await this.get(`/pending?limit=100${next && `&page=${encodeURIComponent(next)}`}`);
      data.push(...page.data);
      unreadable += page.unreadable;
      next = page.next_page ?? "";
    } while (next && data.length < wanted);
    return { data, has_more: next !== "", unreadable };
  }

  /**
   * Ends a wait. Whoever is second gets a {@link HaftError} with the code `stale` and who decided.
   * @param {string} session
   * @param {string} call
   * @param {Response} response
   * @returns {Promise<Decision>}
   */
  resolve(session, call, response) {
    // The same id when it is sent again: a lost answer is no second decision.
    const body = { id: freshId("res"), ...response };
    return this.again(() => this.post(`/sessions/${session}/calls/${call}/resolve`, body));
  }

  /** @param {{ limit?: number, after?: string }} [page] @returns {Promise<{ data: any[], next?: string }>} */
  sessions({ limit = 50, after } = {}) {
    return this.get(`/sessions?limit=${limit}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  }

  /** @param {string} session @returns {Promise<any>} */
  session(session) {
    return this.get(`/sessions/${session}`);
  }

  /** @param {{ agent?: string, message?: string, [more: string]: unknown }} [options] @returns {Promise<{ session: string }>} */
  openSession(options = {}) {
    return this.post("/sessions", options);
  }

  /** @param {string} session @param {string} text */
  say(session, text) {
    return this.post(`/sessions/${session}/messages`, { text });
  }

  /** Stops what a session is doing; every open call gets its outcome. @param {string} session @param {string} [note] */
  interrupt(session, note) {
    return this.post(`/sessions/${session}/interrupt`, { note });
  }

  /** Takes a call back. @param {string} session @param {string} call @returns {Promise<any>} */
  undo(session, call) {
    return this.post(`/sessions/${session}/calls/${call}/undo`, {});
  }

  /** @param {string} session @param {{ after?: number, limit?: number }} [page] @returns {Promise<{ data: Entry[], head: number }>} */
  events(session, { after = 0, limit = 1000 } = {}) {
    return this.get(`/sessions/${session}/events?after=${after}&limit=${limit}`);
  }

  /** @returns {Promise<{ data: any[] }>} */
  tools() {
    return this.get("/tools");
  }

  /** An artifact's bytes. @param {string} artifact @returns {Promise<Blob>} */
  async artifact(artifact) {
    const response = await this.send("GET", `/artifacts/${artifact}`);
    return response.blob();
  }

  /**
   * Follows a session: everything so far, then everything as it happens, without a gap and without
   * a repetition, through lost connections and restarts of the server.
   *
   * @param {string} session
   * @param {object} [options]
   * @param {number} [options.after] The last place in the log that is known already.
   * @param {(entry: Entry) => void} [options.onEntry]
   * @param {(entries: Entry[]) => void} [options.onEntries] Instead of `onEntry`: many at once while catching up.
   * @param {(progress: { call: string, progress: unknown }) => void} [options.onProgress] May be lost.
   * @param {() => void} [options.onDeleted] The session was deleted; it is not followed any more.
   * @param {(state: "connecting" | "live" | "lost") => void} [options.onState]
   * @param {(error: HaftError) => void} [options.onRefused] The server will not serve this; nothing more comes.
   * @param {Record<string, ClientTool>} [options.tools] Tools that run in this page while it follows.
   */
  follow(session, options = {}) {
    return new Following(this, session, options);
  }

  /**
   * Is told whenever something begins or stops waiting.
   * @param {() => void} onChange
   * @param {(state: "connecting" | "live" | "lost") => void} [onState]
   */
  watchPending(onChange, onState) {
    const stream = new Stream(this, () => "/pending/stream", {
      onMessage: (message) => {
        if (message.event === "changed") onChange();
      },
      onState: (state) => {
        onState?.(state);
        if (state === "live") onChange();
      },
    });
    return { close: () => stream.close() };
  }

  /** @param {string} path @returns {Promise<any>} */
  async get(path) {
    return (await this.send("GET", path)).json();
  }

  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  async post(path, body) {
    const response = await this.send("POST", path, body);
    return response.status === 204 ? undefined : response.json();
  }

  /** @param {string} path @returns {Promise<void>} */
  async delete(path) {
    await this.send("DELETE", path);
  }

  /**
   * Calls the Managed Agents API, which is below `/v1`.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @returns {Promise<any>}
   */
  async v1(method, path, body) {
    return (await this.request(method, `/v1${path}`, body)).json();
  }

  /**
   * Reads a list of the wire API to its end. The path has a query already.
   * @param {string} path
   * @returns {Promise<any[]>}
   */
  async v1All(path) {
    const data = [];
    let next = "";
    do {
      const page = await this.v1("GET", `${path}${next && `&page=${encodeURIComponent(next)}`}`);
      data.push(...(page.data ?? []));
      next = page.next_page ?? "";
    } while (next);
    return data;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
   */
  send(method, path, body, options) {
    return this.request(method, `/haft/v1${path}`, body, options);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
   */
  async request(method, path, body, { signal, headers = {} } = {}) {
    const asked = {
      method,
      signal,
      headers: {
        ...(this.key ? { authorization: `Bearer ${this.key}` } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: /** @type {const} */ ("omit"),
      cache: /** @type {const} */ ("no-store"),
    };
    let response;
    try {
      response = await this.fetch(`${this.base}${path}`, asked);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new HaftError(0);
    }
    const date = Date.parse(response.headers.get("date") ?? "");
    // The header has whole seconds, so less than that says nothing.
    if (Number.isFinite(date)) this.clockSkew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
    if (!response.ok) throw await refusal(response);
    return response;
  }

  /**
   * Tries again what could not be sent, for as long as a restart takes.
   * @template T
   * @param {() => Promise<T>} what
   * @returns {Promise<T>}
   */
  async again(what) {
    let wait = AGAIN_FIRST_MS;
    for (;;) {
      try {
        return await what();
      } catch (error) {
        const known = error instanceof HaftError && (error.status === 0 || error.status === 503);
        if (!known || wait > AGAIN_LAST_MS) throw error;
        await pause(wait);
        wait *= 2;
      }
    }
  }
}

/** @param {globalThis.Response} response */
async function refusal(response) {
  try {
    const body = await response.json();
    return new HaftError(response.status, body.error);
  } catch {
    return new HaftError(response.status);
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

const LETTERS = "0123456789abcdefghjkmnpqrstvwxyz";

/** An id in the form of Haft's own: a prefix and 128 bits in Crockford base32. @param {string} prefix */
export function freshId(prefix) {
  let bits = crypto.getRandomValues(new Uint8Array(16)).reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  let text = "";
  for (let at = 0; at < 26; at += 1) {
    text = LETTERS[Number(bits & 31n)] + text;
    bits >>= 5n;
  }
  return `${prefix}_${text}`;
}

/**
 * One message of a server-sent stream.
 * @typedef {{ event: string, id: string | null, data: any }} Message
 */

/** A stream of messages that connects again by itself. */
class Stream {
  /**
   * @param {Haft} haft
   * @param {() => string} path
   * @param {object} listener
   * @param {(message: Message) => void} listener.onMessage
   * @param {() => void} [listener.onPause] Everything that came at once has been told.
   * @param {(state: "connecting" | "live" | "lost") => void} [listener.onState]
   * @param {(error: HaftError) => void} [listener.onRefused]
   * @param {() => string | null} [listener.lastId]
   */
  constructor(haft, path, listener) {
    this.haft = haft;
    this.path = path;
    this.listener = listener;
    this.stop = new AbortController();
    void this.run();
  }

  close() {
    this.stop.abort();
  }

  async run() {
    let wait = AGAIN_FIRST_MS;
    while (!this.stop.signal.aborted) {
      this.listener.onState?.("connecting");
      const began = Date.now();
      const error = await this.connect();
      if (this.stop.signal.aborted) return;
      if (error instanceof HaftError && error.status >= 400 && error.status < 500 && error.status !== 429) {
        this.listener.onRefused?.(error);
        return;
      }
      this.listener.onState?.("lost");
      wait = Date.now() - began > 2 * AGAIN_LAST_MS ? AGAIN_FIRST_MS : Math.min(wait * 2, AGAIN_LAST_MS);
      await pause(wait * (0.5 + Math.random() / 2));
    }
  }

  /** Reads until the connection ends, and returns why it did. */
  async connect() {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    this.stop.signal.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE_MAX_MS);
    try {
      const id = this.listener.lastId?.();
      const headers = { accept: "text/event-stream", ...(id ? { "last-event-id": id } : {}) };
      const response = await this.haft.send("GET", this.path(), undefined, { signal: attempt.signal, headers });
      this.listener.onState?.("live");
      const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MAX_MS);
        rest = this.take(rest + decoder.decode(value, { stream: true }));
      }
    } catch (error) {
      return error;
    } finally {
      clearTimeout(silence);
      this.stop.signal.removeEventListener("abort", end);
      attempt.abort();
    }
  }

  /** Tells of every whole message and returns what is left over. @param {string} text */
  take(text) {
    const parts = text.split(/\r?\n\r?\n/);
    const rest = parts.pop() ?? "";
    for (const part of parts) {
      const message = parse(part);
      if (message && !this.stop.signal.aborted) this.listener.onMessage(message);
    }
    this.listener.onPause?.();
    return rest;
  }
}

/** @param {string} text @returns {Message | null} */
function parse(text) {
  let event = "message";
  let id = null;
  const data = [];
  for (const line of text.split(/\r?\n/)) {
    const [, name, value] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (name === "event") event = value ?? "";
    else if (name === "id") id = value ?? null;
    else if (name === "data") data.push(value);
  }
  return data.length > 0 ? { event, id, data: JSON.parse(data.join("\n")) } : null;
}

/** A session being followed. */
export class Following {
  /**
   * @param {Haft} haft
   * @param {string} session
   * @param {NonNullable<Parameters<Haft["follow"]>[1]>} options
   */
  constructor(haft, session, options) {
    this.haft = haft;
    this.session = session;
    this.options = options;
    this.seq = options.after ?? 0;
    /** @type {Entry[]} */
    this.unsaid = [];
    this.runner = new ToolRunner(haft, session, options.tools ?? {});
    const names = Object.keys(options.tools ?? {});
    const query = names.length > 0 ? `?client_tools=${encodeURIComponent(names.join(","))}` : "";
    this.stream = new Stream(haft, () => `/sessions/${session}/events/stream${query}`, {
      lastId: () => String(this.seq),
      onMessage: (message) => this.hear(message),
      onPause: () => this.tell(),
      onState: options.onState,
      onRefused: options.onRefused,
    });
  }

  /** Stops following; tools that run in this page are told to stop. */
  close() {
    this.stream.close();
    this.runner.stop.abort();
  }

  /** @param {Message} message */
  hear(message) {
    if (message.event === "entry") {
      const entry = /** @type {Entry} */ (message.data);
      // What came before a lost connection may come again.
      if (entry.seq <= this.seq) return;
      this.seq = entry.seq;
      this.unsaid.push(entry);
      this.runner.hear(entry.event);
    } else if (message.event === "caught_up") {
      this.tell();
      this.runner.catchUp();
    } else if (message.event === "progress") {
      this.options.onProgress?.(message.data);
    } else if (message.event === "session.deleted") {
      this.tell();
      this.close();
      this.options.onDeleted?.();
    }
  }

  tell() {
    if (this.unsaid.length === 0) return;
    const entries = this.unsaid;
    this.unsaid = [];
    if (this.options.onEntries) this.options.onEntries(entries);
    else for (const entry of entries) this.options.onEntry?.(entry);
  }
}

/** Runs the calls that are this page's to run. */
class ToolRunner {
  /** @param {Haft} haft @param {string} session @param {Record<string, ClientTool>} tools */
  constructor(haft, session, tools) {
    this.haft = haft;
    this.session = session;
    this.tools = tools;
    this.stop = new AbortController();
    this.isCaughtUp = false;
    /** @type {Map<string, { tool: string, arguments: Record<string, unknown> }>} */
    this.proposed = new Map();
    /** @type {Map<string, number>} */
    this.open = new Map();
    /** @type {Set<string>} */
    this.begun = new Set();
  }

  /** @param {HaftEvent} event */
  hear(event) {
    if (event.type === "call.proposed" && event.contract.executor === "client" && this.tools[event.contract.tool]) {
      this.proposed.set(event.call, { tool: event.contract.tool, arguments: event.arguments.record });
    } else if (event.type === "call.resolved" && event.decision?.arguments && this.proposed.has(event.call)) {
      const known = /** @type {{ tool: string }} */ (this.proposed.get(event.call));
      this.proposed.set(event.call, { tool: known.tool, arguments: event.decision.arguments.record });
      this.open.delete(event.call);
    } else if (event.type === "call.suspended" && event.kind === "client_exec" && this.proposed.has(event.call)) {
      this.open.set(event.call, event.round);
      if (this.isCaughtUp) this.begin();
    } else if (event.type === "call.resolved" || event.type === "call.finished") {
      const call = event.call ?? event.outcome.call;
      this.open.delete(call);
      if (event.type === "call.finished") this.proposed.delete(call);
    }
  }

  catchUp() {
    this.isCaughtUp = true;
    this.begin();
  }

  begin() {
    for (const [call, round] of this.open) {
      const key = `${call} ${round}`;
      if (this.begun.has(key)) continue;
      this.begun.add(key);
      void this.run(call, round);
    }
  }

  /** @param {string} call @param {number} round */
  async run(call, round) {
    const known = this.proposed.get(call);
    const tool = known && this.tools[known.tool];
    if (!known || !tool) return;
    const outcome = await outcomeOf(async () => tool(known.arguments, { session: this.session, call, signal: this.stop.signal }));
    if (this.stop.signal.aborted) return;
    try {
      await this.haft.resolve(this.session, call, { type: "result", outcome, round });
    } catch (error) {
      // Another tab was first, or the wait is over: both are settled without us.
      if (!(error instanceof HaftError)) throw error;
    }
  }
}

/** @param {() => Promise<unknown>} what @returns {Promise<{ ok: true, result: unknown } | { ok: false, error: string }>} */
async function outcomeOf(what) {
  try {
    return { ok: true, result: (await what()) ?? null };
  } catch (error) {
    return { ok: false, error: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * What a tool's name says about it, by the server's own table (`/tool-modes.json`).
 * @param {{ rules: { mode: string, prefixes: string[] }[] }} table
 * @param {string} name
 * @returns {string | null}
 */
export function classify(table, name) {
  const rule = table.rules.find(({ prefixes }) => prefixes.some((prefix) => name.startsWith(prefix)));
  return rule?.mode ?? null;
}
