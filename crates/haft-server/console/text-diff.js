/** What changed between two texts, as a unified diff. Pure. */

/** How many lines are shown around a change. */
const AROUND = 3;

/** Texts that differ in more lines than this are shown as taken away and put there. */
const COMPARED_MAX = 2_000;

/** @typedef {{ sign: " " | "-" | "+", text: string }} Line */

/**
 * Writes a unified diff; an empty text when nothing changed.
 * @param {string} before
 * @param {string} after
 * @param {string} name
 */
export function unifiedDiff(before, after, name) {
  if (before === after) return "";
  const lines = compared(split(before), split(after));
  const hunks = hunksOf(lines);
  if (hunks.length === 0) return "";
  return `--- a/${name}\n+++ b/${name}\n${hunks.join("")}`;
}

/** @param {string} text */
function split(text) {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/**
 * Aligns two lists of lines by the longest they have in common.
 * @param {string[]} before
 * @param {string[]} after
 * @returns {Line[]}
 */
function compared(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const same = (/** @type {string[]} */ lines) => lines.map((text) => /** @type {Line} */ ({ sign: " ", text }));
  return [
    ...same(before.slice(0, start)),
    ...between(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...same(before.slice(before.length - end)),
  ];
}

/**
 * @param {string[]} before
 * @param {string[]} after
 * @returns {Line[]}
 */
function between(before, after) {
  const removed = before.map((text) => /** @type {Line} */ ({ sign: "-", text }));
  const added = after.map((text) => /** @type {Line} */ ({ sign: "+", text }));
  if (before.length > COMPARED_MAX || after.length > COMPARED_MAX) return [...removed, ...added];
  const width = after.length + 1;
  // How many lines the rests from here have in common.
  const common = new Uint32Array((before.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => common[i * width + j] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) {
      lines.push({ sign: " ", text: /** @type {string} */ (before[i]) });
      i += 1;
      j += 1;
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      lines.push(/** @type {Line} */ (removed[i++]));
    } else {
      lines.push(/** @type {Line} */ (added[j++]));
    }
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}

/** @param {Line[]} lines */
function hunksOf(lines) {
  const changes = lines.flatMap(({ sign }, at) => (sign === " " ? [] : [at]));
  /** @type {[number, number][]} */
  const ranges = [];
  for (const at of changes) {
    const last = ranges.at(-1);
    if (last && at - AROUND <= last[1]) last[1] = Math.min(at + AROUND + 1, lines.length);
    else ranges.push([Math.max(at - AROUND, 0), Math.min(at + AROUND + 1, lines.length)]);
  }
  return ranges.map(([from, to]) => hunk(lines, from, to));
}

/** @param {Line[]} lines @param {number} from @param {number} to */
function hunk(lines, from, to) {
  const count = (/** @type {Line[]} */ of, /** @type {string} */ but) => of.filter(({ sign }) => sign !== but).length;
  const [earlier, here] = [lines.slice(0, from), lines.slice(from, to)];
  const place = (/** @type {string} */ but) => {
    const length = count(here, but);
    return `${count(earlier, but) + (length > 0 ? 1 : 0)},${length}`;
  };
  return `@@ -${place("+")} +${place("-")} @@\n${here.map(({ sign, text }) => `${sign}${text}\n`).join("")}`;
}
