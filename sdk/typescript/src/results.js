// What a result means for the loop, and what a name suggests.

/** @type {[string, string[]][]} */
const PREFIXES = [
  ["read", ["get_", "list_", "read_", "search_"]],
  ["safe_write", ["create_", "update_", "add_", "set_"]],
  ["destructive", ["delete_", "remove_", "archive_", "drop_"]],
  ["local", ["local_", "shell_", "exec_"]],
];

/** @param {string} name */
export function decideToolMode(name) {
  const found = PREFIXES.find(([, prefixes]) => prefixes.some((prefix) => name.startsWith(prefix)));
  return /** @type {any} */ (found ? found[0] : null);
}

/** @param {any} result */
export function isTerminalResult(result) {
  return result.terminal === true || (result.success === false && result.needsFollowup !== true);
}
