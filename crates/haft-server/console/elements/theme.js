/**
 * The look that all elements share. Every colour can be given from outside by the custom property
 * `--haft-NAME`; light and dark follow the page's `color-scheme`.
 */

const TOKENS = `
:host, :root {
  --ink: var(--haft-ink, light-dark(#1a1d21, #e7e9ec));
  --ink-2: var(--haft-ink-2, light-dark(#4d545e, #b3bac4));
  --ink-3: var(--haft-ink-3, light-dark(#626a75, #949ca8));
  --paper: var(--haft-paper, light-dark(#f6f7f8, #131518));
  --surface: var(--haft-surface, light-dark(#ffffff, #1b1e22));
  --sunken: var(--haft-sunken, light-dark(#f3f4f6, #15171a));
  --line: var(--haft-line, light-dark(#e1e4e8, #2d3138));
  --line-2: var(--haft-line-2, light-dark(#c6cbd2, #454b55));
  --accent: var(--haft-accent, light-dark(#1f5fbf, #7fb0ff));
  --accent-fill: var(--haft-accent-fill, light-dark(#1f5fbf, #2f6fd0));
  --accent-soft: var(--haft-accent-soft, light-dark(#e9f0fb, #1c2a40));
  --on-accent: var(--haft-on-accent, #ffffff);
  --good: var(--haft-good, light-dark(#19703f, #6ecf96));
  --good-soft: var(--haft-good-soft, light-dark(#e5f4ea, #16301f));
  --bad: var(--haft-bad, light-dark(#b3261e, #ff9b92));
  --bad-soft: var(--haft-bad-soft, light-dark(#fcebea, #3a1b1a));
  --warn: var(--haft-warn, light-dark(#835100, #f0bd60));
  --warn-soft: var(--haft-warn-soft, light-dark(#fdf2dc, #35270e));
  --violet: var(--haft-violet, light-dark(#6a3fb5, #c0a2ff));
  --violet-soft: var(--haft-violet-soft, light-dark(#f1ebfb, #291f3d));
  --sans: var(--haft-sans, Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif);
  --mono: var(--haft-mono, "JetBrains Mono", ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace);
  --radius: 10px;
  --shadow: 0 1px 2px light-dark(rgb(20 25 35 / .06), rgb(0 0 0 / .4)), 0 4px 16px light-dark(rgb(20 25 35 / .05), rgb(0 0 0 / .25));
}`;

const BASE = `
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
legend { padding: 0; }
.icon { width: 1.15em; height: 1.15em; flex: none; vertical-align: -.2em; }
h2, h3, h4, p, dl, dd, pre, ul, ol, figure, fieldset { margin: 0; padding: 0; border: 0; }
code, pre, .mono { font-family: var(--mono); font-size: .92em; font-variant-ligatures: none; }
button, input, select, textarea { font: inherit; color: inherit; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.button {
  display: inline-flex; align-items: center; justify-content: center; gap: .45em; min-height: 36px; padding: 0 14px;
  border: 1px solid var(--line-2); border-radius: 8px; background: var(--surface); color: var(--ink);
  font-weight: 550; cursor: pointer; white-space: nowrap; text-decoration: none; transition: background .12s, border-color .12s;
}
.button:hover { background: var(--sunken); border-color: var(--ink-3); }
.button.primary { background: var(--accent-fill); border-color: var(--accent-fill); color: var(--on-accent); }
.button.primary:hover { filter: brightness(1.08); }
.button.danger { color: var(--bad); border-color: color-mix(in srgb, var(--bad) 45%, transparent); }
.button.danger:hover { background: var(--bad-soft); border-color: var(--bad); }
.button.quiet { border-color: transparent; background: transparent; color: var(--ink-2); padding: 0 8px; }
.button.quiet:hover { background: var(--sunken); color: var(--ink); }
.button.small { min-height: 28px; padding: 0 9px; font-size: .9em; border-radius: 7px; }
.button[disabled] { opacity: .5; cursor: default; pointer-events: none; }
.field { display: grid; gap: 5px; }
.field > .label, .field > label, legend { font-weight: 550; font-size: .94em; }
.hint { color: var(--ink-3); font-size: .88em; line-height: 1.4; }
.problem { color: var(--bad); font-size: .88em; display: flex; gap: .4em; align-items: baseline; }
.input {
  width: 100%; min-height: 36px; padding: 6px 10px; border: 1px solid var(--line-2); border-radius: 8px;
  background: var(--surface);
}
textarea.input { resize: vertical; line-height: 1.45; }
.input:focus { outline: 2px solid var(--accent); outline-offset: -1px; border-color: transparent; }
.input[aria-invalid="true"] { border-color: var(--bad); }
.input::placeholder { color: var(--ink-3); opacity: 1; }
.badge {
  display: inline-flex; align-items: center; gap: .35em; padding: 1px 8px; border-radius: 99px; font-size: .8em; font-weight: 550;
  line-height: 1.6; background: var(--sunken); color: var(--ink-2); white-space: nowrap; border: 1px solid var(--line);
}
.badge.good { background: var(--good-soft); color: var(--good); border-color: transparent; }
.badge.bad { background: var(--bad-soft); color: var(--bad); border-color: transparent; }
.badge.warn { background: var(--warn-soft); color: var(--warn); border-color: transparent; }
.badge.accent { background: var(--accent-soft); color: var(--accent); border-color: transparent; }
.badge.violet { background: var(--violet-soft); color: var(--violet); border-color: transparent; }
.block {
  background: var(--sunken); border: 1px solid var(--line); border-radius: 8px; padding: 8px 10px; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .86em; line-height: 1.5; max-height: 22em;
}
details > summary { cursor: pointer; list-style: none; display: flex; align-items: center; gap: 6px; color: var(--ink-2); border-radius: 6px; }
details > summary::-webkit-details-marker { display: none; }
details > summary::before { content: "›"; display: inline-block; width: .8em; text-align: center; font-weight: 700; color: var(--ink-3); transition: rotate .12s; }
details[open] > summary::before { rotate: 90deg; }
details > summary:hover { color: var(--ink); }
.visually-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (prefers-reduced-motion: reduce) { *, *::before, *::after { animation: none !important; transition: none !important; } }
`;

/**
 * A style sheet made by script, which a strict content security policy allows.
 * @param {string} text
 */
export function sheet(text) {
  const made = new CSSStyleSheet();
  made.replaceSync(text);
  return made;
}

export const tokens = sheet(TOKENS);
export const base = sheet(BASE);

const HOST = sheet(`
:host { display: block; font-family: var(--sans); font-size: 14px; line-height: 1.5; color: var(--ink); }
:host([hidden]) { display: none; }
`);

/**
 * Gives an element its shadow and the shared look.
 * @param {HTMLElement} element
 * @param {...CSSStyleSheet} own
 */
export function shadow(element, ...own) {
  const root = element.attachShadow({ mode: "open", delegatesFocus: false });
  root.adoptedStyleSheets = [tokens, base, HOST, ...own];
  return root;
}
