// A client for callers and approvers.

import { Unreachable, fromEnvironment, server, slept } from "./http.js";

export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string} code */
  constructor(status, message, code) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}

/** @param {any} made */
function read(made) {
  const result = made.outcome?.result;
  return { ...made, value: result?.ok?.value, error: result?.err };
}

/** @param {any} call */
const place = (call) => `/haft/v1/sessions/${call.session}/calls/${call.call}`;

export class Client {
  #server;

  /** @param {{url?: string, key?: string}} [options] */
  constructor(options = {}) {
    const url = options.url ?? fromEnvironment("HAFT_URL") ?? "http://127.0.0.1:7800";
    this.#server = server(url.split(",")[0], options.key ?? fromEnvironment("HAFT_API_KEY"));
  }

  /** @param {string} tool @param {any} [args] @param {{idempotencyKey?: string}} [options] */
  async call(tool, args = {}, options = {}) {
    const headers = { "idempotency-key": options.idempotencyKey ?? crypto.randomUUID() };
    const body = { arguments: args };
    return read(await this.#sent("POST", `/haft/v1/tools/${tool}/call`, body, headers, 3_600_000));
  }

  /** @param {any} call */
  get(call) {
    return this.request("GET", place(call));
  }

  /** @param {any} call @param {number} [timeoutMs] */
  async wait(call, timeoutMs = 60_000) {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const found = await this.get(call);
      const { session, call: id } = call;
      if (found.stage === "settled") return read({ session, call: id, state: "done", outcome: found.outcome });
      if (Date.now() > deadline) throw new Error(`the call is still ${found.stage}`);
      await slept(50);
    }
  }

  async pending() {
    return (await this.request("GET", "/haft/v1/pending")).data;
  }

  /** @param {any} call @param {any} [options] */
  approve(call, options = {}) {
    return this.#resolve(call, { type: "approve", ...options });
  }

  /** @param {any} call @param {string} [note] */
  deny(call, note) {
    return this.#resolve(call, { type: "deny", note });
  }

  /** @param {any} call @param {string} verdict @param {unknown} [value] */
  settle(call, verdict, value) {
    return this.#resolve(call, { type: "settle", verdict, value });
  }

  /** @param {any} call */
  cancel(call) {
    return this.#post(`${place(call)}/cancel`, {});
  }

  /** @param {any} call */
  undo(call) {
    return this.#post(`${place(call)}/undo`, {});
  }

  async tools() {
    return (await this.request("GET", "/haft/v1/tools")).data;
  }

  /** @param {string} method @param {string} path @param {any} [body] @param {any} [headers] */
  request(method, path, body, headers = {}) {
    return this.#sent(method, path, body, headers, 60_000);
  }

  /** @param {any} call @param {any} body */
  #resolve(call, body) {
    return this.#post(`${place(call)}/resolve`, body);
  }

  /** @param {string} path @param {any} body */
  #post(path, body) {
    return this.#sent("POST", path, body, {}, 60_000);
  }

  /** Sends a request, again if its answer was lost: its key makes it the same request.
   * @param {string} method @param {string} path @param {any} body @param {any} headers
   * @param {number} timeoutMs */
  async #sent(method, path, body, headers, timeoutMs) {
    const hasKey = Object.keys(headers).some((name) => name.toLowerCase() === "idempotency-key");
    if (method !== "GET" && !hasKey) headers = { ...headers, "idempotency-key": crypto.randomUUID() };
    /** @type {any} */
    let last;
    for (let attempt = 0; attempt < 4; attempt += 1) {
      try {
        const answer = await this.#server.request(method, path, body, { headers, timeoutMs });
        if (answer.status < 400) return answer.body;
        const error = answer.body?.error ?? {};
        last = new ApiError(answer.status, error.message ?? String(answer.body), error.details?.code ?? "");
        if (answer.status !== 429 && answer.status !== 503) throw last;
      } catch (error) {
        if (!(error instanceof Unreachable) && !(error === last && last.status >= 429 && last.status !== 422)) throw error;
        last = error;
      }
      await slept(100 * 2 ** attempt);
    }
    throw last;
  }
}
