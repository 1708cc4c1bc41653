/**
 * What of JSON Schema a form needs: which control fits, and whether a value does. The server
 * checks again, and its word is the last.
 */

/** @typedef {{ [key: string]: any }} Schema */
/** @typedef {{ path: string, message: string }} Problem Where, as a JSON pointer, and what. */

/** @param {unknown} value */
function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

/** @param {unknown} a @param {unknown} b @returns {boolean} */
export function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length
    && keys.every((key) => same(/** @type {any} */ (a)[key], /** @type {any} */ (b)[key]));
}

/**
 * The choices of a schema that only allows certain values.
 * @param {Schema} schema
 * @returns {{ value: unknown, title: string }[] | null}
 */
export function choices(schema) {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, at) => ({ value, title: String(names[at] ?? value) }));
  }
  const options = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(options) && options.length > 0 && options.every((option) => option && "const" in option)) {
    return options.map((option) => ({ value: option.const, title: String(option.title ?? option.const) }));
  }
  return null;
}

/**
 * The type that a control is made for; `null` where only free JSON will do.
 * @param {Schema} schema
 * @returns {string | null}
 */
export function controlType(schema) {
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((type) => type !== "null");
  if (types.length === 1 && typeof types[0] === "string") return types[0];
  if (schema.properties) return "object";
  return null;
}

/**
 * Everything that is wrong with a value.
 * @param {Schema} schema
 * @param {unknown} value
 * @param {string} [path]
 * @returns {Problem[]}
 */
export function validate(schema, value, path = "") {
  if (typeof schema !== "object" || schema === null) return [];
  const wrong = wrongType(schema, value) ?? wrongChoice(schema, value);
  if (wrong) return [{ path, message: wrong }];
  switch (typeOf(value)) {
    case "string": return one(path, wrongText(schema, /** @type {string} */ (value)));
    case "integer":
    case "number": return one(path, wrongNumber(schema, /** @type {number} */ (value)));
    case "array": return wrongList(schema, /** @type {unknown[]} */ (value), path);
    case "object": return wrongObject(schema, /** @type {Record<string, unknown>} */ (value), path);
    default: return [];
  }
}

/** @param {string} path @param {string | null} message @returns {Problem[]} */
function one(path, message) {
  return message ? [{ path, message }] : [];
}

/** @type {Record<string, string>} */
const SAID = { string: "text", integer: "a whole number", number: "a number", boolean: "yes or no", object: "an object", array: "a list", null: "nothing" };

/** @param {Schema} schema @param {unknown} value */
function wrongType(schema, value) {
  if (schema.type === undefined) return null;
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const found = typeOf(value);
  const fits = types.some((type) => type === found || (type === "number" && found === "integer"));
  return fits ? null : `Expected ${types.map((type) => SAID[type] ?? type).join(" or ")}.`;
}

/** @param {Schema} schema @param {unknown} value */
function wrongChoice(schema, value) {
  if ("const" in schema && !same(schema.const, value)) return `Expected exactly ${JSON.stringify(schema.const)}.`;
  const allowed = choices(schema);
  if (allowed && !allowed.some((choice) => same(choice.value, value))) {
    return `Choose one of: ${allowed.map((choice) => choice.title).join(", ")}.`;
  }
  return null;
}

/** @type {Record<string, [RegExp, string]>} */
const FORMATS = {
  email: [/^[^@\s]+@[^@\s]+\.[^@\s]+$/, "Expected an e-mail address, such as ann@example.org."],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, "Expected an address, such as https://example.org."],
  date: [/^\d{4}-\d{2}-\d{2}$/, "Expected a date, such as 2026-05-31."],
  "date-time": [/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/, "Expected a date and a time."],
};

/** @param {Schema} schema @param {string} value */
function wrongText(schema, value) {
  const length = [...value].length;
  if (length < (schema.minLength ?? 0)) {
    return schema.minLength === 1 ? "This cannot be empty." : `At least ${schema.minLength} characters; this has ${length}.`;
  }
  if (length > (schema.maxLength ?? Infinity)) return `At most ${schema.maxLength} characters; this has ${length}.`;
  const format = FORMATS[schema.format];
  if (format && !format[0].test(value)) return format[1];
  if (typeof schema.pattern === "string" && matches(schema.pattern, value) === false) {
    return `This does not match the expected form ${schema.pattern}.`;
  }
  return null;
}

/** Whether a text matches; `null` when this engine cannot read the pattern. @param {string} pattern @param {string} value */
function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return null;
  }
}

/** @param {Schema} schema @param {number} value */
function wrongNumber(schema, value) {
  if (value < (schema.minimum ?? -Infinity)) return `At least ${schema.minimum}.`;
  if (value > (schema.maximum ?? Infinity)) return `At most ${schema.maximum}.`;
  if (value <= (schema.exclusiveMinimum ?? -Infinity)) return `More than ${schema.exclusiveMinimum}.`;
  if (value >= (schema.exclusiveMaximum ?? Infinity)) return `Less than ${schema.exclusiveMaximum}.`;
  if (schema.multipleOf && Math.abs(value / schema.multipleOf - Math.round(value / schema.multipleOf)) > 1e-9) {
    return `A multiple of ${schema.multipleOf}.`;
  }
  return null;
}

/** @param {Schema} schema @param {unknown[]} value @param {string} path @returns {Problem[]} */
function wrongList(schema, value, path) {
  if (value.length < (schema.minItems ?? 0)) return one(path, `At least ${schema.minItems}.`);
  if (value.length > (schema.maxItems ?? Infinity)) return one(path, `At most ${schema.maxItems}.`);
  if (schema.uniqueItems && value.some((item, at) => value.slice(0, at).some((other) => same(item, other)))) {
    return one(path, "Each may stand here once only.");
  }
  return schema.items ? value.flatMap((item, at) => validate(schema.items, item, `${path}/${at}`)) : [];
}

/** @param {Schema} schema @param {Record<string, unknown>} value @param {string} path @returns {Problem[]} */
function wrongObject(schema, value, path) {
  const known = schema.properties ?? {};
  const missing = (schema.required ?? []).filter((/** @type {string} */ name) => value[name] === undefined);
  const unknown = schema.additionalProperties === false ? Object.keys(value).filter((name) => !(name in known)) : [];
  return [
    ...missing.map((/** @type {string} */ name) => ({ path: `${path}/${escape(name)}`, message: "This is needed." })),
    ...unknown.map((name) => ({ path, message: `Nothing is called “${name}” here.` })),
    ...Object.keys(known).filter((name) => value[name] !== undefined)
      .flatMap((name) => validate(known[name], value[name], `${path}/${escape(name)}`)),
  ];
}

/** A member's name as a part of a JSON pointer. @param {string} name */
export function escape(name) {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

/**
 * A member's name as a label: `due_date` becomes `Due date`.
 * @param {string} name
 */
export function label(name) {
  const words = name.replaceAll(/[_-]+/g, " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2").trim().toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
