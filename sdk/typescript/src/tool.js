// `tool({...})`: an object becomes a tool, and stays callable.

import { ToolError } from "./errors.js";

export const UNKNOWN = Symbol("haft.UNKNOWN");

/** @param {string} pointer */
export const argument = (pointer) => ({ source: /** @type {const} */ ("argument"), pointer });
/** @param {string} pointer */
export const result = (pointer) => ({ source: /** @type {const} */ ("result"), pointer });

/** @type {Record<string, any>} */
const FACETS = {
  read: { mutates: "none" },
  safe_write: { mutates: "bounded" },
  destructive: { mutates: "irreversible" },
  local: {},
  // What calls an outside service may pay or send there, so it is never repeated by itself.
  external: { mutates: "irreversible", reach: ["external_service", "network"] },
};
/** @type {Record<string, string>} */
const GATES = { true: "ask", false: "auto", always: "ask_always", two: "ask_two" };
/** @type {Record<string, number>} */
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @param {string | number} time a number of seconds, or a text such as `200ms`, `20s`, `7d` */
export function millis(time) {
  if (typeof time === "number") return Math.round(time * 1000);
  const found = /^(\d+)(ms|s|m|h|d)$/.exec(time);
  if (!found) throw new TypeError(`expected a time such as 200ms, 20s, 15m, 2h or 7d, found ${time}`);
  return Number(found[1]) * UNITS[found[2]];
}

/** @param {any} options */
export function tool(options) {
  if (!options.description) throw new TypeError(`tool ${options.name} has no description`);
  const definition = defined(options);
  /** @param {any} args @param {any} [context] */
  const made = (args, context = {}) => options.execute(args, context);
  return /** @type {any} */ (Object.assign(made, { toolName: options.name, definition, options }));
}

/** @param {any} options */
function inputSchema(options) {
  const { schema, jsonSchema } = options;
  if (jsonSchema) return jsonSchema;
  const standard = schema?.["~standard"];
  if (!standard) return schema;
  if (!standard.jsonSchema) {
    throw new TypeError(`tool ${options.name}: its schema gives no JSON Schema; pass one as jsonSchema`);
  }
  const { $schema, ...given } = standard.jsonSchema.input({ target: "draft-2020-12" });
  return given;
}

/** @param {any} options */
function defined(options) {
  const { mode } = options;
  if (mode !== undefined && !(mode in FACETS)) throw new TypeError(`unknown mode ${mode}`);
  if (options.key && options.idempotent) throw new TypeError("declare `key` or `idempotent`, not both");
  const facets = {
    ...(mode ? FACETS[mode] : {}),
    ...(options.key ? { idempotency: "keyed" } : {}),
    ...(options.idempotent ? { idempotency: "idempotent" } : {}),
    ...(options.cost ? { spend: "possible" } : {}),
  };
  /** @type {Record<string, any>} */
  const definition = {
    name: options.name,
    description: options.description,
    input_schema: inputSchema(options),
    facets,
    hooks: ["preview", "verify"].filter((hook) => options[hook]),
    interrupt: options.interrupt ?? "cancel",
  };
  if (mode === "external") definition.category = "side_effect";
  else if (mode) definition.mode = mode;
  if (options.approve !== undefined) definition.gate = GATES[String(options.approve)];
  if (options.cost) {
    const { amount, unit } = options.cost;
    const told = typeof amount === "number" ? { always: String(amount) } : { field: `/${amount}` };
    definition.cost = { amount: told, unit: { always: unit } };
  }
  if (options.undo) {
    const { tool: back, within = "1h", args } = options.undo;
    const sources = Object.entries(args).map(([name, value]) => [name, source(value)]);
    const named = typeof back === "string" ? back : back.toolName;
    definition.undo = { tool: named, window: millis(within), arguments: Object.fromEntries(sources) };
  }
  return limited(definition, options);
}

/** @param {Record<string, any>} definition @param {any} options */
function limited(definition, options) {
  if (options.timeout !== undefined) definition.exec_timeout = millis(options.timeout);
  if (options.suspend !== undefined) definition.suspend_ttl = millis(options.suspend);
  if (options.retry !== undefined) {
    const again = typeof options.retry === "number" ? { attempts: options.retry } : options.retry;
    definition.retry = {
      max_attempts: again.attempts,
      backoff: millis(again.backoff ?? "200ms"),
      backoff_max: 30_000,
      on: again.on ?? ["rate_limited", "timeout", "upstream"],
    };
  }
  if (options.secret?.length) {
    definition.redaction = { secret: options.secret.map((/** @type {string} */ name) => `/${name}`) };
  }
  if (options.exclusive) definition.concurrency = "exclusive";
  if (options.title) definition.display = { label: options.title };
  if (options.tags) definition.tags = options.tags;
  if (options.version) definition.version = options.version;
  return definition;
}

/** @param {any} value */
function source(value) {
  return value?.source && value.pointer !== undefined ? { [value.source]: value.pointer } : { literal: value };
}

/** Checks arguments by the tool's own schema, which may turn them into other types.
 * @param {any} made @param {unknown} args */
export async function checked(made, args) {
  const standard = made.options.schema?.["~standard"];
  if (!standard) return args;
  const found = await standard.validate(args);
  if (!found.issues) return found.value;
  const issues = found.issues.map((/** @type {any} */ issue) => issue.message).join("; ");
  throw new ToolError(issues, { errorClass: "invalid_args", effect: "none" });
}
