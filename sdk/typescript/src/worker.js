// The worker: asks servers for jobs and runs them.

import { hostname } from "node:os";

import { ToolError } from "./errors.js";
import { Unreachable, fromEnvironment, server, slept } from "./http.js";
import { decideToolMode } from "./results.js";
import { UNKNOWN, checked } from "./tool.js";

const BEAT_MS = 2500;
const BACKOFF_MAX = 5000;
/** What a server reads of a request. */
const BODY_MAX = (8 << 20) - 4096;

class Unregistered extends Error {}
class TryLater extends Error {}

/** @param {number} failures */
const pause = (failures) => slept(Math.min(BACKOFF_MAX, 50 * 2 ** Math.min(failures, 7)) * (0.5 + Math.random() / 2));

export class Worker {
  /** @param {any[]} tools @param {any} [options] */
  constructor(tools, options = {}) {
    if (!tools.length) throw new TypeError("a worker needs at least one tool");
    /** @type {Map<string, any>} */
    this.tools = new Map();
    for (const made of tools) this.#add(made);
    this.instance = crypto.randomUUID();
    const unique = `${hostname()}-${process.pid}-${this.instance.slice(0, 8)}`;
    /** @type {string} */
    this.name = options.name ?? fromEnvironment("HAFT_WORKER") ?? unique;
    /** @type {number} */
    this.slots = options.slots ?? 8;
    this.free = this.slots;
    /** @type {number | undefined} */
    this.since = undefined;
    this.stopping = false;
    /** @type {Set<Promise<void>>} */
    this.running = new Set();
    /** The jobs that are worked on, whichever node gave them: every node is told of all, as any of
     * them may have to decide about their sessions when the one that gave them is gone.
     * @type {Map<string, any>} */
    this.jobs = new Map();
    const key = options.key ?? fromEnvironment("HAFT_API_KEY");
    const given = options.url ?? fromEnvironment("HAFT_URL") ?? "http://127.0.0.1:7800";
    const urls = Array.isArray(given) ? given : given.split(",").map((/** @type {string} */ each) => each.trim());
    /** @type {Node[]} */
    this.nodes = urls.map((/** @type {string} */ url) => new Node(this, server(url, key)));
    /** @type {Promise<void>[]} */
    this.polls = [];
    /** @type {(value?: any) => void} */
    this.ready = () => {};
    /** @type {(error: any) => void} */
    this.failed = () => {};
    /** @type {Promise<never>} */
    this.failure = new Promise((_, reject) => (this.failed = reject));
    this.failure.catch(() => {});
  }

  /** @param {any} made */
  #add(made) {
    const known = this.tools.get(made.toolName);
    if (known && known !== made) throw new TypeError(`two tools are called ${made.toolName}`);
    this.tools.set(made.toolName, made);
    const back = made.options.undo?.tool;
    if (typeof back === "function" && !this.tools.has(back.toolName)) this.#add(back);
  }

  async start() {
    const ready = new Promise((resolve) => (this.ready = resolve));
    for (const node of this.nodes) {
      this.polls.push(node.pollForever());
      node.beatForever();
    }
    this.watch = setInterval(() => {
      for (const job of this.jobs.values()) stopIfSilent(job);
    }, 100);
    this.watch.unref();
    await Promise.race([ready, this.failure]);
    return this;
  }

  async run() {
    const told = new Promise((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, resolve);
    });
    await this.start();
    console.log(`worker ${this.name} offers ${[...this.tools.keys()].join(", ")}`);
    try {
      await Promise.race([told, this.failure]);
    } finally {
      await this.stop();
    }
  }

  async stop() {
    this.stopping = true;
    await Promise.all(this.nodes.map((node) => node.hangUp()));
    const polls = Promise.allSettled(this.polls);
    // What they were given last is given back, not lost.
    const ended = polls.then(() => Promise.allSettled([...this.running]));
    await Promise.race([ended, slept(10_000, { unref: true })]);
    clearInterval(this.watch);
    for (const node of this.nodes) node.gone = true;
  }
}

/** One server that a worker works for. */
class Node {
  /** @param {Worker} worker @param {any} at */
  constructor(worker, at) {
    this.worker = worker;
    this.server = at;
    this.gone = false;
  }

  get me() {
    return { worker: this.worker.name, instance: this.worker.instance };
  }

  async pollForever() {
    let registered = false;
    let failures = 0;
    while (!this.worker.stopping) {
      try {
        if (!registered) {
          await this.#register();
          registered = true;
        }
        await this.#poll();
        failures = 0;
      } catch (error) {
        if (error instanceof Unregistered) registered = false;
        else if (error instanceof Unreachable || error instanceof TryLater) {
          registered = registered && error instanceof TryLater;
          failures += 1;
          await pause(failures);
        } else {
          this.worker.failed(error);
          return;
        }
      }
    }
  }

  async #register() {
    const tools = [...this.worker.tools.values()].map((made) => made.definition);
    const body = { ...this.me, tools, since: this.worker.since };
    const answer = await this.server.request("POST", "/haft/v1/workers/register", body);
    if (answer.status !== 200) throw trouble(answer);
    this.worker.since ??= answer.body.since;
    this.worker.ready();
  }

  async #poll() {
    const share = Math.max(1, Math.floor(this.worker.slots / this.worker.nodes.length));
    const free = Math.min(this.worker.free, share);
    if (free === 0) {
      await slept(5);
      return;
    }
    this.worker.free -= free;
    /** @type {any[]} */
    let jobs = [];
    try {
      const wait = this.worker.nodes.length === 1 ? 10_000 : 2000;
      const body = { ...this.me, free, wait_ms: wait };
      const answer = await this.server.request("POST", "/haft/v1/workers/poll", body);
      if (answer.status !== 200) throw trouble(answer);
      jobs = answer.body.jobs;
    } finally {
      this.worker.free += free - jobs.length;
    }
    for (const job of jobs) this.#begin(job);
  }

  /** Has the server answer the request for jobs that is open, as there will be no other. */
  async hangUp() {
    const body = { ...this.me, free: 0 };
    await this.server.request("POST", "/haft/v1/workers/poll", body, { timeoutMs: 2000 }).catch(() => {});
  }

  /** @param {any} body */
  #begin(body) {
    const stop = new AbortController();
    const lasts = body.lease_ms ?? 10_000;
    const job = {
      node: this, body, stop, lasts, goodUntil: performance.now() + lasts,
      // The latest value that was not sent yet, and nothing before it.
      progress: /** @type {unknown} */ (undefined), artifacts: /** @type {any[]} */ ([]),
    };
    this.worker.jobs.set(body.lease, job);
    const work = (async () => {
      try {
        const outcome = this.worker.stopping ? { type: "released" } : await this.#outcome(job);
        await this.done(job, sendable(outcome));
      } catch (error) {
        console.error(`what came of ${body.call} could not be reported: ${text(error)}`);
      } finally {
        this.worker.jobs.delete(body.lease);
        this.worker.free += 1;
      }
    })();
    this.worker.running.add(work);
    work.catch(() => {}).finally(() => this.worker.running.delete(work));
  }

  /** @param {any} job */
  #context(job) {
    const { body, stop } = job;
    const { tool, session, call, attempt, key, tenant, actor, lease } = body;
    return {
      tool, session, call, attempt, key, tenant, actor, userId: actor.id,
      get abortSignal() {
        stopIfSilent(job);
        return stop.signal;
      },
      progress: (/** @type {unknown} */ value) => {
        try {
          // As it is now, and what cannot be shown must not end the call.
          job.progress = JSON.parse(JSON.stringify(value ?? null));
        } catch (error) {
          console.warn(`the progress of ${call} cannot be sent: ${text(error)}`);
        }
      },
      keep: async (/** @type {string} */ title, /** @type {any} */ data, mediaType = "application/octet-stream") => {
        const query = new URLSearchParams({ lease, title });
        const more = { raw: data, headers: { "content-type": mediaType }, timeoutMs: 120_000 };
        const answer = await this.server.request("POST", `/haft/v1/workers/keep?${query}`, undefined, more);
        if (answer.status !== 200) throw new ToolError("the output could not be kept", { errorClass: "upstream" });
        job.artifacts.push(answer.body);
        return answer.body;
      },
    };
  }

  /** @param {any} job */
  async #outcome(job) {
    try {
      return await this.#ran(job);
    } catch (error) {
      if (error instanceof ToolError) {
        const { message, errorClass, debug, partial, effect, needsFollowup, terminal } = error;
        const directives = { needs_followup: needsFollowup, terminal };
        return { type: "error", class: errorClass, message, debug, partial, effect, directives };
      }
      const made = this.worker.tools.get(job.body.tool);
      const isOpen = job.body.kind === "run" && leavesOpen(error) && !onlyReads(made);
      const debug = /** @type {any} */ (error)?.stack;
      return { type: "error", message: text(error), debug, ...(isOpen ? { effect: "unknown" } : {}) };
    }
  }

  /** @param {any} job */
  async #ran(job) {
    const { body } = job;
    const made = this.worker.tools.get(body.tool);
    if (!made) return { type: "released" };
    const { execute, verify, preview } = made.options;
    const run = { run: execute, verify, preview }[/** @type {"run"} */ (body.kind)];
    if (!run) throw new ToolError(`this worker has no ${body.kind} function for ${body.tool}`);
    const value = await run(await checked(made, body.arguments), this.#context(job));
    if (body.kind === "verify") {
      if (value === UNKNOWN) return { type: "unknown" };
      return value === null || value === undefined ? { type: "absent" } : { type: "applied", value };
    }
    if (body.kind === "preview") {
      return typeof value === "string" ? { type: "preview", diff: value } : { type: "preview", ...value };
    }
    return returned(value, job.artifacts);
  }

  /** Says which jobs are still worked on, and hears which should stop. */
  async beatForever() {
    let isMuted = false;
    while (!this.gone) {
      const jobs = new Map(this.worker.jobs);
      if (!jobs.size) {
        await slept(50);
        continue;
      }
      /** @type {Record<string, unknown>} */
      const progress = isMuted ? {} : this.#progress(jobs);
      const wait_ms = Object.keys(progress).length ? 0 : BEAT_MS;
      const body = { ...this.me, leases: [...jobs.keys()], progress, wait_ms };
      const asked = performance.now();
      const sent = this.server.request("POST", "/haft/v1/workers/beat", body, { timeoutMs: 10_000 });
      /** @type {any} */
      const answer = await sent.catch(() => undefined);
      const told = answer?.status === 200 && typeof answer.body === "object" ? answer.body : undefined;
      // What cannot be shown must not cost the lease.
      isMuted = !told && wait_ms === 0;
      if (!told) {
        await slept(500);
        continue;
      }
      for (const job of jobs.values()) job.goodUntil = Math.max(job.goodUntil, asked + job.lasts);
      const cancel = told.cancel ?? [];
      for (const lease of cancel) jobs.get(lease)?.stop.abort();
      if (cancel.length || wait_ms === 0) await slept(cancel.length ? 500 : 50);
    }
  }

  /** Takes the latest progress of the jobs that this node gave. @param {Map<string, any>} jobs */
  #progress(jobs) {
    /** @type {Record<string, unknown>} */
    const taken = {};
    for (const [lease, job] of jobs) {
      if (job.node !== this || job.progress === undefined) continue;
      taken[lease] = job.progress;
      job.progress = undefined;
    }
    return taken;
  }

  /** Says what came of a job, until some server has it. @param {any} job @param {any} outcome */
  async done(job, outcome) {
    const others = this.worker.nodes.filter((node) => node !== this);
    const nodes = [this, ...others];
    let refusals = 0;
    for (let failures = 0; !this.gone; failures += 1) {
      const node = failures < 2 ? this : nodes[failures % nodes.length];
      const body = { lease: job.body.lease, outcome };
      try {
        const answer = await node.server.request("POST", "/haft/v1/workers/done", body);
        if (answer.status === 200 || answer.status === 409) return;
        if (answer.status < 500 && answer.status !== 429) {
          const why = text(answer.body?.error?.message ?? answer.status);
          console.error(`what came of ${job.body.call} was refused: ${why}`);
          if (refusals === 2 || outcome.type === "released") return;
          outcome = reduced(outcome, why, refusals);
          refusals += 1;
          continue;
        }
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
      }
      await pause(failures);
    }
  }
}

/** Tells code to stop when no server has answered for as long as its lease lasts. @param {any} job */
function stopIfSilent(job) {
  if (performance.now() > job.goodUntil) job.stop.abort();
}

/** A text of anything, that can be sent. @param {any} value */
function text(value) {
  try {
    return Buffer.from(String(value?.message ?? value)).toString();
  } catch {
    return typeof value;
  }
}

/** Whether what was thrown leaves open whether a request arrived. @param {any} thrown */
function leavesOpen(thrown) {
  if (["AbortError", "TimeoutError"].includes(thrown?.name)) return true;
  return /^(ECONN|EPIPE|ETIMEDOUT|UND_ERR)/.test(text(thrown?.code ?? "")) || /\bfetch failed\b/.test(text(thrown));
}

/** @param {any} made */
function onlyReads(made) {
  return (made?.options.mode ?? decideToolMode(made?.toolName ?? "")) === "read";
}

/** An outcome as JSON, or as much of it as can be sent. What ran has run, whatever it gave.
 * @param {any} outcome */
function sendable(outcome) {
  try {
    const told = JSON.stringify(outcome);
    if (Buffer.byteLength(told) <= BODY_MAX) return JSON.parse(told);
    return reduced(outcome, `it has more than ${BODY_MAX} bytes; use keep()`, 0);
  } catch (error) {
    return reduced(outcome, text(error), 0);
  }
}

/** What is left to say of an outcome that cannot be sent, or that was refused.
 * @param {any} outcome @param {string} why @param {number} refusals */
function reduced(outcome, why, refusals) {
  const reason = why.slice(0, 500);
  if (outcome.type === "ok") {
    const said = `the tool ran, but its result could not be sent: ${reason}`;
    return { type: "ok", value: null, text: said, artifacts: refusals === 0 ? outcome.artifacts : undefined };
  }
  if (outcome.type === "applied") return { type: "applied", value: null };
  if (outcome.type !== "error") {
    return { type: "error", message: `the ${outcome.type} could not be sent: ${reason}`, effect: "none" };
  }
  const effect = ["none", "unknown"].includes(outcome.effect) ? outcome.effect : undefined;
  const named = refusals === 0 && typeof outcome.class === "string" ? outcome.class : undefined;
  const message = text(outcome.message).slice(0, 2000);
  return { type: "error", class: named, message, effect, debug: `the rest could not be sent: ${reason}` };
}

const RESULT = ["success", "terminal", "needsFollowup", "nextAction", "message", "error", "data"];

/** Whether a value is a `ToolResult`, and nothing that has a `success` of its own. @param {any} value */
function isResult(value) {
  return typeof value?.success === "boolean" && Object.keys(value).every((name) => RESULT.includes(name));
}

/** @param {any} value @param {any[]} artifacts */
function returned(value, artifacts) {
  if (typeof value === "string") return { type: "ok", value, text: value, artifacts };
  if (!isResult(value)) return { type: "ok", value: value ?? null, artifacts };
  const { success, terminal, needsFollowup, nextAction, message, error, data } = value;
  const directives = { terminal, needs_followup: needsFollowup, next_action: nextAction, user_message: message };
  if (success) return { type: "ok", value: data ?? null, text: message, artifacts, directives };
  return { type: "error", message: error ?? message ?? "the tool gave no reason", partial: data, directives };
}

/** @param {any} answer */
function trouble(answer) {
  const { message, details } = answer.body?.error ?? {};
  if (details?.code === "unregistered") return new Unregistered();
  if (details?.code === "replaced") return new Error("another process works under this worker's name");
  if (answer.status >= 500 || answer.status === 429) return new TryLater(message);
  return new Error(`the server refused this worker: ${message}`);
}
