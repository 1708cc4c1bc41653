/** The bounds of a standing permission: which arguments, how often, how long, and how much in all. */

import { h, brief } from "../dom.js";
import { escape } from "../schema.js";

/** @typedef {import("../haft.js").GrantTerms} GrantTerms */
/** @typedef {import("../haft.js").Condition} Condition */

/** @type {[string, number][]} */
const TIMES = [["10 minutes", 600_000], ["1 hour", 3_600_000], ["8 hours", 28_800_000], ["as long as it stands", 0]];

const USES_AT_FIRST = 5;

export class GrantForm {
  /**
   * @param {{ tool: string, arguments: Record<string, unknown> }} call
   * @param {() => void} changed
   */
  constructor(call, changed) {
    this.tool = call.tool;
    this.trouble = "";
    this.rows = Object.entries(call.arguments).filter(([, value]) => value !== "[redacted]")
      .map(([name, value]) => conditionRow(name, value, changed));
    this.uses = h("input", { class: "input small", inputmode: "numeric", ".value": String(USES_AT_FIRST), "aria-label": "Number of calls", oninput: changed });
    this.lasts = h("select", { class: "input small", "aria-label": "For how long", onchange: changed },
      TIMES.map(([text, ms]) => h("option", { value: String(ms), ".selected": ms === 3_600_000 }, text)));
    const numbers = Object.entries(call.arguments).filter(([, value]) => typeof value === "number").map(([name]) => name);
    this.budgetField = h("select", { class: "input small", "aria-label": "Argument to sum", onchange: changed },
      h("option", { value: "" }, "no sum"), numbers.map((name) => h("option", { value: name }, name)));
    this.budget = h("input", { class: "input small", inputmode: "decimal", "aria-label": "Largest sum", placeholder: "sum", oninput: changed });
    this.element = h("div", { class: "bounds-form", role: "group", "aria-label": "Bounds" },
      this.rows.map((row) => row.element),
      h("div", { class: "row" },
        h("div", { class: "field" }, h("span", { class: "label" }, "At most"), this.uses),
        h("div", { class: "field" }, h("span", { class: "label" }, "For"), this.lasts),
        numbers.length > 0 ? h("div", { class: "field" }, h("span", { class: "label" }, "Sum of"), this.budgetField) : null,
        numbers.length > 0 ? h("div", { class: "field" }, h("span", { class: "label" }, "at most"), this.budget) : null));
    this.element.classList.add("form");
  }

  /** The terms, or `null` with the trouble said. @returns {GrantTerms | null} */
  terms() {
    const uses = this.uses.value.trim();
    if (uses !== "" && !/^[1-9]\d{0,5}$/.test(uses)) {
      this.trouble = "Expected a number of calls from 1 to 999999, or nothing for any number.";
      return null;
    }
    const budget = this.budgetField.value && this.budget.value.trim();
    if (budget && !/^\d+(\.\d+)?$/.test(budget)) {
      this.trouble = "Expected a sum such as 100 or 99.50.";
      return null;
    }
    const when = this.rows.map((row) => row.read()).filter((condition) => condition !== null);
    const lasts = Number(this.lasts.value);
    return {
      ...(when.length > 0 ? { when } : {}),
      ...(uses ? { uses: Number(uses) } : {}),
      ...(lasts ? { lasts_ms: lasts } : {}),
      ...(budget ? { budget: { field: `/${escape(this.budgetField.value)}`, left: budget } } : {}),
    };
  }

  /** What will be remembered, in words. @param {string} [where] */
  sentence(where = "in this session") {
    const terms = this.terms();
    if (!terms) return this.trouble;
    const when = (terms.when ?? []).map(saidCondition);
    const times = terms.uses ? `, at most ${terms.uses} more ${terms.uses === 1 ? "time" : "times"}` : ", any number of times";
    const lasts = TIMES.find(([, ms]) => ms === (terms.lasts_ms ?? 0))?.[0] ?? "";
    const sum = terms.budget ? `, while ${terms.budget.field.slice(1)} adds up to at most ${terms.budget.left}` : "";
    return `Also allows ${this.tool} ${where}${when.length > 0 ? ` when ${when.join(" and ")}` : " with any arguments"}${times}${sum}, for ${lasts}.`;
  }
}

/** A condition in words. @param {Condition} condition */
export function saidCondition(condition) {
  const name = condition.field.slice(1).replaceAll("~1", "/").replaceAll("~0", "~");
  const [test, value] = Object.entries(condition.test)[0] ?? ["", ""];
  const said = { equals: "is", one_of: "is one of", at_most: "is at most", at_least: "is at least" }[test] ?? test;
  return `${name} ${said} ${brief(value, 60)}`;
}

/** @param {string} name @param {unknown} value @param {() => void} changed */
function conditionRow(name, value, changed) {
  const isNumber = typeof value === "number";
  const only = h("input", { type: "checkbox", ".checked": true, "aria-label": `Bound ${name}`, onchange: changed });
  const test = h("select", { class: "input", "aria-label": `Test of ${name}`, onchange: changed },
    h("option", { value: "equals" }, "is exactly"), isNumber ? h("option", { value: "at_most", ".selected": true }, "is at most") : null,
    isNumber ? h("option", { value: "at_least" }, "is at least") : null);
  const element = h("div", { class: "condition" }, only, h("span", { class: "mono", title: brief(value, 400) }, `${name} = ${brief(value, 60)}`), test);
  return {
    element,
    /** @returns {Condition | null} */
    read() {
      if (!only.checked) return null;
      const given = test.value === "equals" ? value : String(value);
      return { field: `/${escape(name)}`, test: { [test.value]: given } };
    },
  };
}
