/** A unified diff as rows with numbers, signs and colours; anything else as plain text. */

import { h } from "../dom.js";
import { legible } from "../legible.js";

export const DIFF_STYLE = `
.diff { border: 1px solid var(--line); border-radius: 8px; overflow: hidden; background: var(--surface); }
.diff-name { display: flex; gap: 10px; align-items: baseline; padding: 6px 10px; background: var(--sunken); border-bottom: 1px solid var(--line); font-size: .86em; }
.diff-name .plus { color: var(--good); font-weight: 600; margin-left: auto; } .diff-name .minus { color: var(--bad); font-weight: 600; }
.diff-rows { overflow: auto; max-height: 24em; font-family: var(--mono); font-size: .84em; line-height: 1.55; }
.diff table { border-collapse: collapse; width: 100%; }
.diff td { padding: 0 8px; vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; }
.diff td.number { width: 1%; text-align: right; color: var(--ink-3); user-select: none; padding: 0 6px; min-width: 2.6em; }
.diff td.sign { width: 1%; padding: 0 2px 0 6px; user-select: none; font-weight: 700; }
.diff tr.added { background: var(--good-soft); } .diff tr.added .sign { color: var(--good); }
.diff tr.removed { background: var(--bad-soft); } .diff tr.removed .sign { color: var(--bad); }
.diff tr.hunk td { background: var(--accent-soft); color: var(--ink-2); padding-block: 2px; }
`;

/** How many rows are shown before the rest must be asked for, so that the buttons stay in view. */
const ROWS_AT_FIRST = 400;

/**
 * @typedef {{ kind: "added" | "removed" | "same" | "hunk", text: string, before?: number, after?: number }} Row
 * @typedef {{ name: string, rows: Row[], added: number, removed: number }} FileDiff
 */

/**
 * Reads a unified diff; `null` when the text is none.
 * @param {string} text
 * @returns {FileDiff[] | null}
 */
export function parseDiff(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  if (!lines.some((line) => /^@@ -\d+(,\d+)? \+\d+(,\d+)? @@/.test(line))) return null;
  /** @type {FileDiff[]} */
  const files = [];
  /** @type {FileDiff | null} */
  let file = null;
  let before = 0;
  let after = 0;
  let left = { before: 0, after: 0 };
  for (const line of lines) {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      file ??= begin(files, "");
      before = Number(hunk[1]);
      after = Number(hunk[3]);
      left = { before: Number(hunk[2] ?? 1), after: Number(hunk[4] ?? 1) };
      file.rows.push({ kind: "hunk", text: line });
    } else if (left.before > 0 || left.after > 0) {
      take(/** @type {FileDiff} */ (file), line);
    } else if (line.startsWith("--- ")) {
      file = begin(files, line.slice(4));
    } else if (line.startsWith("+++ ") && file) {
      if (line.slice(4) !== "/dev/null") file.name = line.slice(4);
    }
  }
  return files;

  /** @param {FileDiff} into @param {string} line */
  function take(into, line) {
    const sign = line[0] ?? " ";
    const rest = line.slice(1);
    if (sign === "+") {
      into.rows.push({ kind: "added", text: rest, after: after++ });
      into.added += 1;
      left.after -= 1;
    } else if (sign === "-") {
      into.rows.push({ kind: "removed", text: rest, before: before++ });
      into.removed += 1;
      left.before -= 1;
    } else if (sign !== "\\") {
      into.rows.push({ kind: "same", text: rest, before: before++, after: after++ });
      left.before -= 1;
      left.after -= 1;
    }
  }
}

/** @param {FileDiff[]} files @param {string} name */
function begin(files, name) {
  const file = { name, rows: [], added: 0, removed: 0 };
  files.push(file);
  return file;
}

/**
 * What a call would change, for people.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function renderDiff(text) {
  const files = parseDiff(text);
  if (!files) return h("pre", { class: "block", part: "preview", tabindex: "0", "aria-label": "Preview" }, legible(text));
  return h("div", { class: "diffs", part: "diff" }, files.map(renderFile));
}

/** @param {FileDiff} file */
function renderFile(file) {
  const name = legible(file.name.replace(/^[ab]\//, ""));
  const body = h("tbody");
  const rows = h("div", { class: "diff-rows", tabindex: "0", role: "region", "aria-label": `Changes of ${name || "the file"}` },
    h("table", {}, h("caption", { class: "visually-hidden" }, `${file.added} lines added, ${file.removed} removed`), body));
  body.append(...file.rows.slice(0, ROWS_AT_FIRST).map(renderRow));
  const rest = file.rows.slice(ROWS_AT_FIRST);
  if (rest.length > 0) {
    const more = h("button", { class: "button quiet small", type: "button", onclick: () => {
      body.append(...rest.map(renderRow));
      more.remove();
    } }, `Show ${rest.length} more lines`);
    rows.append(more);
  }
  return h("figure", { class: "diff" },
    h("figcaption", { class: "diff-name" },
      h("span", { class: "mono" }, name || "changes"),
      h("span", { class: "plus" }, `+${file.added}`), h("span", { class: "minus" }, `−${file.removed}`)),
    rows);
}

/** @type {Record<Row["kind"], string>} */
const SIGNS = { added: "+", removed: "−", same: " ", hunk: " " };

/** @param {Row} row */
function renderRow(row) {
  if (row.kind === "hunk") return h("tr", { class: "hunk" }, h("td", { colspan: "4" }, legible(row.text)));
  return h("tr", { class: row.kind },
    h("td", { class: "number" }, row.before), h("td", { class: "number" }, row.after),
    h("td", { class: "sign" }, SIGNS[row.kind]), h("td", {}, legible(row.text)));
}
