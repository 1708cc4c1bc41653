/** `<haft-settlement>`: a call that may or may not have taken effect, and the three things to say about it. */

import { h, icon } from "../dom.js";
import { exact } from "../time.js";
import { WaitingElement } from "./waiting.js";

/** @typedef {import("../haft.js").Pending} Pending */

export class HaftSettlement extends WaitingElement {
  /** @param {Pending} pending @override */
  heading(pending) {
    return `Did ${pending.title ?? pending.tool} happen?`;
  }

  /** @param {Pending} pending @override */
  body(pending) {
    this.value = h("textarea", { class: "input mono", rows: 2, placeholder: "Optional; text, or JSON", "aria-label": "What it gave, if it happened" });
    return [
      h("p", { class: "notice" }, icon("alert"), h("span", {},
        pending.in_doubt_because ? `It ended without a result: ${pending.in_doubt_because}` : "Its process died while it ran",
        pending.since ? ` (waiting since ${exact(pending.since)})` : "",
        ". Nobody but you can tell whether it took effect. It is not run again unless you say so.")),
      pending.barred ? h("p", { class: "notice bad" }, icon("alert"), `It may not be run again: ${pending.barred}`) : null,
      this.shownArguments(pending.arguments),
      this.stage === "over" ? null : h("div", { class: "field" }, h("span", { class: "label", "aria-hidden": "true" }, "What it gave, if it happened"), this.value),
    ];
  }

  /** @param {Pending} pending @override */
  actions(pending) {
    return [
      this.button("Leave it unknown", { look: "quiet", onclick: () => this.settle("give_up") }),
      h("span", { class: "spring" }),
      ...(pending.barred ? [] : [this.button("It did not: run it again", { icon: "play", onclick: () => this.settle("run_again") })]),
      this.button("It happened", { icon: "check", onclick: () => this.settle("happened") }),
    ];
  }

  /** @param {"happened" | "run_again" | "give_up"} verdict */
  settle(verdict) {
    const typed = this.value?.value.trim() ?? "";
    return this.send({ type: "settle", verdict, ...(verdict === "happened" && typed ? { value: read(typed) } : {}) });
  }
}

/** @param {string} typed */
function read(typed) {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

customElements.define("haft-settlement", HaftSettlement);
