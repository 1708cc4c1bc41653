/**
 * A waterfall of turns, model requests, calls and waits. Time in which nothing happened but waiting
 * is folded, so that a night's wait does not hide what ran beside what.
 */

import { h, svg } from "../dom.js";
import { took } from "../time.js";

/** @typedef {import("../session-model.js").SessionModel} SessionModel */
/** @typedef {import("../session-model.js").Span} Span */

/** How many rows are drawn; the newest, because a trace is read to see what happens now. */
const ROWS_MAX = 120;

/** What a folded wait takes of the width of all that was not folded. */
const FOLDED_SHARE = 0.08;

/**
 * @param {SessionModel} model
 * @param {(key: string) => void} show
 */
export function renderTrace(model, show) {
  const rows = model.spans.filter((span) => ["turn", "model", "call"].includes(span.kind)).slice(-ROWS_MAX);
  if (rows.length === 0) return h("p", { class: "hint" }, "Nothing has run yet.");
  const since = Math.min(...rows.map((span) => span.from));
  const now = model.open.size > 0 ? Math.max(Date.now(), model.last) : model.last;
  const spans = model.spans.filter((span) => (span.to ?? now) >= since);
  const scale = foldedScale(spans, since, now);
  const parts = Map.groupBy(spans.filter((span) => span.kind === "run" || span.kind === "wait"), (span) => span.item);
  return h("div", {}, h("p", { class: "legend" }, key("model", "model"), key("run", "ran"), key("wait", "waited (drawn short)"), key("bad", "failed")),
    h("div", { class: "trace", role: "list" }, rows.map((span) => row(span, parts.get(span.item) ?? [], scale, now, show))));
}

/** @param {string} name @param {string} text */
function key(name, text) {
  return h("span", {}, h("i", { class: name }), text);
}

/**
 * @param {Span} span
 * @param {Span[]} parts
 * @param {(at: number) => number} scale
 * @param {number} now
 * @param {(key: string) => void} show
 */
function row(span, parts, scale, now, show) {
  const bar = (/** @type {Span} */ part, /** @type {string} */ kind, /** @type {number} */ y, /** @type {number} */ height) => {
    const from = scale(part.from);
    return svg("rect", { class: `${kind} ${part.tone}`, x: `${from}%`, width: `${Math.max(scale(part.to ?? now) - from, 0.6)}%`, y, height, rx: 2 });
  };
  const ran = parts.filter((part) => part.kind === "run");
  const duration = ran.length > 0 ? ran.reduce((sum, part) => sum + (part.to ?? now) - part.from, 0) : (span.to ?? now) - span.from;
  const own = span.kind === "call" ? bar(span, "call", 6, 2) : bar(span, span.kind, span.kind === "turn" ? 5 : 2, span.kind === "turn" ? 4 : 10);
  const content = [
    h("span", { class: "label" }, span.name),
    h("span", { class: "lane" }, svg("svg", { "aria-hidden": "true" }, own, parts.map((part) => bar(part, part.kind, 2, 10)))),
    h("span", { class: "time" }, took(duration)),
  ];
  const look = `bar-row ${span.kind === "turn" ? "turn" : "inner"}`;
  const item = span.item;
  return h("div", { role: "listitem" }, item ? h("button", { type: "button", class: look, onclick: () => show(item) }, content) : h("div", { class: look }, content));
}

/**
 * Maps a moment to a place from 0 to 100, with waits folded.
 * @param {Span[]} spans
 * @param {number} since
 * @param {number} until
 */
function foldedScale(spans, since, until) {
  const busy = spans.filter((span) => span.kind === "model" || span.kind === "run");
  const cuts = [...new Set([since, until, ...spans.flatMap((span) => [Math.max(span.from, since), span.to ?? until])])].sort((a, b) => a - b);
  const busyAt = merged(busy.map((span) => [span.from, span.to ?? until]));
  const pieces = cuts.slice(1).map((to, at) => ({ from: /** @type {number} */ (cuts[at]), to, isBusy: busyAt((/** @type {number} */ (cuts[at]) + to) / 2) }));
  const busyTime = pieces.filter((piece) => piece.isBusy).reduce((sum, piece) => sum + piece.to - piece.from, 0);
  const fold = Math.max(busyTime * FOLDED_SHARE, 1);
  let width = 0;
  const placed = pieces.map((piece) => {
    const start = width;
    const length = piece.to - piece.from;
    width += piece.isBusy ? length : Math.min(length, fold);
    return { ...piece, start, end: width };
  });
  return (/** @type {number} */ moment) => {
    const piece = placed.find(({ to }) => moment <= to) ?? placed.at(-1);
    if (!piece || width === 0) return 0;
    const share = piece.to === piece.from ? 0 : Math.max(0, Math.min(1, (moment - piece.from) / (piece.to - piece.from)));
    return ((piece.start + share * (piece.end - piece.start)) / width) * 100;
  };
}

/** Whether a moment lies in one of some stretches. @param {number[][]} stretches */
function merged(stretches) {
  const sorted = stretches.map(([from = 0, to = 0]) => ({ from, to })).sort((a, b) => a.from - b.from);
  return (/** @type {number} */ moment) => sorted.some(({ from, to }) => moment >= from && moment <= to);
}
