// JSON over HTTP, with `fetch`.

/** The server could not be reached, or the connection broke before it answered. */
export class Unreachable extends Error {}

/** @param {string} url @param {string | undefined} key */
export function server(url, key) {
  const base = url.replace(/\/+$/, "");
  /** @param {string} method @param {string} path @param {any} [body] @param {any} [more] */
  const request = async (method, path, body, more = {}) => {
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json", ...more.headers };
    if (key) headers["x-api-key"] = key;
    const sent = more.raw ?? (method === "GET" ? undefined : JSON.stringify(body ?? {}));
    try {
      const signal = AbortSignal.timeout(more.timeoutMs ?? 30_000);
      const response = await fetch(base + path, { method, headers, body: sent, signal });
      const text = await response.text();
      const isJson = (response.headers.get("content-type") ?? "").includes("json");
      return { status: response.status, body: isJson && text ? JSON.parse(text) : text };
    } catch (error) {
      throw new Unreachable(`${base}: ${/** @type {any} */ (error)?.cause?.message ?? error}`);
    }
  };
  return { url: base, request };
}

/** @param {string} name */
export const fromEnvironment = (name) => globalThis.process?.env?.[name];

/** @param {number} ms @param {{unref?: boolean}} [options] whether it keeps the process alive */
export const slept = (ms, options = {}) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    if (options.unref) /** @type {any} */ (timer).unref?.();
  });
