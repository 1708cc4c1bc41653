/** `<haft-elicitation>`: a question to a person, as a form from the schema of its answer. */

import { h } from "../dom.js";
import { SchemaForm } from "./form.js";
import { sheet } from "./theme.js";
import { WaitingElement } from "./waiting.js";

/** @typedef {import("../haft.js").Pending} Pending */

const STYLE = sheet(`
.question { font-size: 1.04em; white-space: pre-wrap; overflow-wrap: anywhere; }
`);

/** The arguments that usually carry the question itself. */
const QUESTIONS = ["question", "prompt", "message", "text"];

/** What a person writes when the tool does not say what it expects. */
const ANYTHING = { type: "object", properties: { answer: { type: "string", title: "Your answer", maxLength: 4000 } }, required: ["answer"] };

export class HaftElicitation extends WaitingElement {
  constructor() {
    super();
    this.root.adoptedStyleSheets = [...this.root.adoptedStyleSheets, STYLE];
    /** @type {SchemaForm | null} */
    this.form = null;
  }

  set pending(pending) {
    if (pending && (pending.call !== this.given?.call || pending.round !== this.given?.round)) {
      this.form = new SchemaForm(pending.answer_schema ?? ANYTHING, undefined, { name: "Your answer" });
      this.form.element.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.answer();
      });
    }
    super.pending = pending;
  }

  get pending() {
    return super.pending;
  }

  /** @param {Pending} pending @override */
  heading(pending) {
    return pending.title ?? "A question for you";
  }

  /** @override */
  badges() {
    return h("div", { hidden: true });
  }

  /** @param {Pending} pending @override */
  body(pending) {
    const asked = QUESTIONS.find((name) => typeof pending.arguments[name] === "string");
    const rest = Object.fromEntries(Object.entries(pending.arguments).filter(([name]) => name !== asked));
    return [
      asked ? h("p", { class: "question", part: "question" }, String(pending.arguments[asked])) : null,
      Object.keys(rest).length > 0 ? this.shownArguments(rest) : null,
      this.stage !== "over" && this.form ? this.form.element : null,
    ];
  }

  /** @override */
  actions() {
    return [
      h("span", { class: "spring" }),
      this.button("Decline", { look: "", icon: "cross", onclick: () => this.send({ type: "deny" }) }),
      this.button("Send answer", { look: "primary", icon: "send", onclick: () => this.answer() }),
    ];
  }

  answer() {
    const form = /** @type {SchemaForm} */ (this.form);
    const problems = form.check();
    if (problems.length > 0) {
      this.say(problems.length === 1 ? "One answer does not fit yet." : `${problems.length} answers do not fit yet.`);
      return form.focusFirstProblem();
    }
    this.say("");
    return this.send({ type: "answer", value: form.read() });
  }
}

customElements.define("haft-elicitation", HaftElicitation);
