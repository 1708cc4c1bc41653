/**
 * What a model writes, with a little of Markdown made visible: paragraphs, lists, headings, code.
 * It becomes text in elements of ours. Links and images stay text: an address that a model chose is
 * not for clicking or loading.
 */

import { h } from "./dom.js";

/** @param {string} text @returns {HTMLElement} */
export function prose(text) {
  const root = h("div", { class: "prose" });
  for (const [at, part] of text.split(/^```/m).entries()) {
    if (at % 2 === 1) root.append(code(part));
    else blocks(part, root);
  }
  return root;
}

/** @param {string} fenced */
function code(fenced) {
  const start = fenced.indexOf("\n");
  return h("pre", { class: "block", tabindex: "0" }, (start < 0 ? fenced : fenced.slice(start + 1)).replace(/\n$/, ""));
}

/** @param {string} text @param {HTMLElement} root */
function blocks(text, root) {
  for (const block of text.split(/\n{2,}/)) {
    const lines = block.split("\n").filter((line, at, all) => line !== "" || (at > 0 && at < all.length - 1));
    if (lines.length === 0) continue;
    const heading = /^(#{1,4}) +(.*)$/.exec(lines[0] ?? "");
    if (heading) {
      root.append(h("p", { class: "heading" }, inline(heading[2] ?? "")));
      lines.shift();
    }
    const isList = lines.length > 0 && lines.every((line) => /^\s*([-*•]|\d+[.)]) +/.test(line));
    if (isList) {
      const tag = /^\s*\d/.test(lines[0] ?? "") ? "ol" : "ul";
      root.append(h(tag, {}, lines.map((line) => h("li", {}, inline(line.replace(/^\s*([-*•]|\d+[.)]) +/, ""))))));
    } else if (lines.length > 0) {
      root.append(h("p", {}, inline(lines.join("\n"))));
    }
  }
}

/** @param {string} text @returns {(Node | string)[]} */
function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).filter((part) => part !== "").map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return h("code", {}, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return h("strong", {}, part.slice(2, -2));
    return part;
  });
}
