// Text as a person must see it before they decide about it: everything is made visible that a
// browser would hide, reorder or draw like something else. The rules are those of
// `haft_core::legible`; `crates/haft-core/tests/golden/legible.json` holds both to the same answers.

const SPACES_MAX = 40;
const BREAKS_MAX = 3;
const MARKS_MAX = 3;

const PLAIN = /^[\x20-\x7e\n\t]*$/;
const WHITE = /^[ \t\n]+/;
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u070f\u08e2\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff\u{110bd}\u{110cd}\u{13430}-\u{13455}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}\u0600-\u0605\u06dd\u0890\u0891\ud800-\udfff]/u;
const MARK = /[\u0300-\u034e\u0350-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]/u;
const OF_WORD = /[\p{Alphabetic}\p{N}]/u;
const LETTER = /\p{Alphabetic}/u;
const DRAWN_LIKE_ANOTHER =
  /[\u037e\u01c3\u02d0\u05c3\u0589\u2010-\u2012\u2024\u2044\u2215\u2212\u2236\u29f8\u2571\uff01-\uff5e\u{1d400}-\u{1d7ff}\u2100-\u2138\u24b6-\u24e9\ua789]/u;
const CONFUSABLE_SCRIPT =
  /[\u0370-\u058f\u13a0-\u13ff\u1c80-\u1c8f\u1f00-\u1fff\u2c80-\u2cff\u2d00-\u2dff\ua640-\ua69f\uab70-\uabbf]/u;
const LOOK_ALIKE =
  /[асеорхуіјѕԁԛԝһѵӏмткӕАВСЕНІЈКМОРЅТХУҮԌԜѴονικυγρτΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհցյզ\u13a0-\u13ff]/u;
const PICTURE = /[\u2190-\u27bf\u2900-\u2bff\u{1f000}-\u{1faff}]/u;

/**
 * @param {string} text
 * @returns {string} the text with nothing hidden in it
 */
export function legible(text) {
  if (PLAIN.test(text) && !/[ \t]{41}|(?:\n[ \t]*){4}/.test(text)) return text;
  const characters = Array.from(text);
  let shown = "";
  for (let at = 0; at < characters.length; ) {
    const first = characters[at] ?? "";
    const belongs = WHITE.test(first) ? isWhite : isOfWord(first) ? isOfWord : undefined;
    let end = at + 1;
    if (belongs) while (end < characters.length && belongs(characters[end] ?? "")) end += 1;
    const taken = characters.slice(at, end);
    if (belongs === isWhite) shown += white(taken.join(""));
    else if (belongs === isOfWord) shown += word(taken);
    else if (HIDDEN.test(first) && !isPartOfEmoji(characters, at)) shown += code(first);
    else shown += DRAWN_LIKE_ANOTHER.test(first) ? first + code(first) : first;
    at = end;
  }
  return shown;
}

/** @param {string} c */
const isWhite = (c) => c === " " || c === "\t" || c === "\n";
/** @param {string} c */
const isOfWord = (c) => !HIDDEN.test(c) && (OF_WORD.test(c) || MARK.test(c));
/** @param {string} c */
const code = (c) => `‹U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`;

/** @param {string} run of spaces, tabs and line breaks */
function white(run) {
  const pieces = run.split("\n");
  const breaks = pieces.length - 1;
  if (breaks <= BREAKS_MAX) return pieces.map(spaces).join("\n");
  return `${spaces(pieces[0] ?? "")}\n‹${breaks - 1} blank lines›\n${spaces(pieces[breaks] ?? "")}`;
}

/** @param {string} run of spaces and tabs */
function spaces(run) {
  if (run.length <= SPACES_MAX) return run;
  const tabs = run.split("\t").length - 1;
  const what = tabs === 0 ? "spaces" : tabs === run.length ? "tabs" : "spaces and tabs";
  return `‹${run.length} ${what}›`;
}

/** @param {string[]} characters letters, digits and marks */
function word(characters) {
  const letters = characters.filter((c) => LETTER.test(c) && !MARK.test(c));
  const hasLatin = letters.some((c) => /[A-Za-z]/.test(c));
  const pretends = letters.every((c) => LOOK_ALIKE.test(c));
  let marks = 0;
  let shown = "";
  for (const c of characters) {
    marks = MARK.test(c) ? marks + 1 : 0;
    if (marks > MARKS_MAX) {
      shown += code(c);
      continue;
    }
    const isNamed = (hasLatin && CONFUSABLE_SCRIPT.test(c)) || (pretends && LOOK_ALIKE.test(c)) || DRAWN_LIKE_ANOTHER.test(c);
    shown += isNamed ? c + code(c) : c;
  }
  return shown;
}

/**
 * @param {string[]} characters
 * @param {number} at
 */
function isPartOfEmoji(characters, at) {
  const before = characters[at - 1] ?? "";
  if (characters[at] === "\ufe0f") return PICTURE.test(before);
  if (characters[at] !== "\u200d") return false;
  return (PICTURE.test(before) || before === "\ufe0f") && PICTURE.test(characters[at + 1] ?? "");
}
