// How a tool says that it failed.

export class ToolError extends Error {
  /** @param {string} message @param {any} [options] */
  constructor(message, options = {}) {
    super(message);
    this.name = new.target.name;
    this.errorClass = options.errorClass ?? "tool_error";
    this.debug = options.debug;
    this.partial = options.partial;
    this.effect = options.effect ?? "unsaid";
    this.needsFollowup = options.needsFollowup;
    this.terminal = options.terminal;
  }
}

export class EffectUnknown extends ToolError {
  /** @param {string} message */
  constructor(message) {
    super(message, { effect: "unknown" });
  }
}

export class Cancelled extends ToolError {
  /** @param {{effect?: string}} [options] */
  constructor(options = {}) {
    super("Request was cancelled", { errorClass: "cancelled", effect: options.effect });
  }
}
