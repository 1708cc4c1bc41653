//! Text as a person must see it before they decide about it.
//!
//! Arguments, previews and names come from models and other servers. [`legible`] makes everything
//! visible that a terminal or a browser would hide, reorder or draw like something else, so that
//! what is approved is what is read. Terminal, MCP consent and console use the same rules; the
//! console's copy is `legible.js`, and `tests/golden/legible.json` holds both to the same answers.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest run of spaces or tabs that is shown as it is; a longer one is counted.
const SPACES_MAX: usize = 40;
/// The most line breaks in a row that are shown as they are.
const BREAKS_MAX: usize = 3;
/// The most marks that are shown on one letter.
const MARKS_MAX: usize = 3;

/// Returns a text in which nothing is hidden: an invisible, control or direction character becomes
/// its code (`‹U+202E›`), a letter that looks like one of another script is followed by its code,
/// and a long run of white space is counted (`‹4000 spaces›`). Line breaks and tabs stay.
#[must_use]
pub fn legible(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + text.len() / 4);
    let mut rest = text;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let taken = if is_white(first) {
            take_while(rest, is_white)
        } else if is_of_word(first) {
            take_while(rest, is_of_word)
        } else {
            &rest[..first.len_utf8()]
        };
        match first {
            c if is_white(c) => show_white(&mut shown, taken),
            c if is_of_word(c) => show_word(&mut shown, taken),
            c if is_hidden(c) && !is_part_of_emoji(before, rest) => show_code(&mut shown, c),
            c => {
                shown.push(c);
                if is_drawn_like_another(c) {
                    show_code(&mut shown, c);
                }
            }
        }
        before = taken.chars().next_back();
        rest = &rest[taken.len()..];
    }
    Cow::Owned(shown)
}

/// Whether the character at the start of `rest` belongs to the picture before it: the one that asks
/// for a coloured drawing, or the one that joins two pictures. Anywhere else they are hidden.
fn is_part_of_emoji(before: Option<char>, rest: &str) -> bool {
    let is_picture =
        |c: char| matches!(u32::from(c), 0x2190..=0x27bf | 0x2900..=0x2bff | 0x1f000..=0x1faff);
    let mut following = rest.chars();
    match (following.next(), before) {
        (Some('\u{fe0f}'), Some(before)) => is_picture(before),
        (Some('\u{200d}'), Some(before)) => {
            let joins = is_picture(before) || before == '\u{fe0f}';
            joins && following.next().is_some_and(is_picture)
        }
        _ => false,
    }
}

/// Whether a text can be shown as it is, found out in one pass: nearly all texts can.
fn is_plain(text: &str) -> bool {
    let (mut n_white, mut n_breaks) = (0, 0);
    text.bytes().all(|byte| {
        match byte {
            b' ' | b'\t' => n_white += 1,
            b'\n' => (n_white, n_breaks) = (0, n_breaks + 1),
            _ => (n_white, n_breaks) = (0, 0),
        }
        let is_shown = (b' '..0x7f).contains(&byte) || byte == b'\n' || byte == b'\t';
        is_shown && n_white <= SPACES_MAX && n_breaks <= BREAKS_MAX
    })
}

fn take_while(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    &text[..end]
}

fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

fn is_of_word(c: char) -> bool {
    !is_hidden(c) && (c.is_alphanumeric() || is_mark(c))
}

fn show_code(shown: &mut String, c: char) {
    // Writing to a `String` cannot fail.
    write!(shown, "‹U+{:04X}›", u32::from(c)).ok();
}

/// Shows a run of spaces, tabs and line breaks.
fn show_white(shown: &mut String, white: &str) {
    let n_breaks = white.bytes().filter(|byte| *byte == b'\n').count();
    if n_breaks <= BREAKS_MAX {
        for (at, piece) in white.split('\n').enumerate() {
            if at > 0 {
                shown.push('\n');
            }
            show_spaces(shown, piece);
        }
        return;
    }
    let (first, rest) = white.split_once('\n').unwrap_or((white, ""));
    show_spaces(shown, first);
    write!(shown, "\n‹{} blank lines›\n", n_breaks - 1).ok();
    show_spaces(shown, rest.rsplit('\n').next().unwrap_or_default());
}

fn show_spaces(shown: &mut String, spaces: &str) {
    if spaces.len() <= SPACES_MAX {
        shown.push_str(spaces);
        return;
    }
    let n_tabs = spaces.bytes().filter(|byte| *byte == b'\t').count();
    let what = match n_tabs {
        0 => "spaces",
        n_tabs if n_tabs == spaces.len() => "tabs",
        _ => "spaces and tabs",
    };
    write!(shown, "‹{} {what}›", spaces.len()).ok();
}

/// Shows letters and digits. In a word that mixes Latin letters with look-alikes of another
/// script, or that is written in look-alikes only, each of those is followed by its code.
fn show_word(shown: &mut String, word: &str) {
    let letters = || word.chars().filter(|c| c.is_alphabetic() && !is_mark(*c));
    let has_latin = letters().any(|c| c.is_ascii_alphabetic());
    let pretends = letters().all(is_latin_look_alike);
    let mut n_marks = 0;
    for c in word.chars() {
        n_marks = if is_mark(c) { n_marks + 1 } else { 0 };
        if n_marks > MARKS_MAX {
            show_code(shown, c);
            continue;
        }
        shown.push(c);
        let is_foreign = has_latin && is_of_confusable_script(c);
        let is_pretending = pretends && is_latin_look_alike(c);
        if is_foreign || is_pretending || is_drawn_like_another(c) {
            show_code(shown, c);
        }
    }
}

/// Whether a character is drawn as nothing, moves the cursor, changes the order in which text is
/// read, or is a space that is not the usual one.
fn is_hidden(c: char) -> bool {
    if matches!(c, '\n' | '\t') {
        return false;
    }
    c.is_control()
        || matches!(u32::from(c),
            0x00a0 | 0x00ad | 0x034f | 0x061c | 0x070f | 0x08e2 | 0x115f | 0x1160 | 0x1680
            | 0x17b4 | 0x17b5 | 0x180b..=0x180f | 0x2000..=0x200f | 0x2028..=0x202f
            | 0x205f..=0x206f | 0x2800 | 0x3000 | 0x3164 | 0xe000..=0xf8ff | 0xfe00..=0xfe0f
            | 0xfeff | 0xffa0 | 0xfff0..=0xfffc | 0xfffe | 0xffff | 0x110bd | 0x110cd
            | 0x13430..=0x13455 | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
            | 0xe0000..=0x10ffff)
        || matches!(u32::from(c), 0x0600..=0x0605 | 0x06dd | 0x0890..=0x0891)
}

/// Marks that are drawn onto the letter before them.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x034e | 0x0350..=0x036f | 0x0483..=0x0489 | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

/// Whether a character is always drawn like another one that means something to a machine: wide
/// and mathematical letters, and the doubles of `/`, `-`, `.`, `;`, `:` and `!`.
fn is_drawn_like_another(c: char) -> bool {
    matches!(u32::from(c),
        0x037e | 0x01c3 | 0x02d0 | 0x05c3 | 0x0589 | 0x2010..=0x2012 | 0x2024 | 0x2044 | 0x2215
        | 0x2212 | 0x2236 | 0x29f8 | 0x2571 | 0xff01..=0xff5e | 0x1d400..=0x1d7ff
        | 0x2100..=0x2138 | 0x24b6..=0x24e9 | 0xa789)
}

/// Scripts with letters that are drawn like Latin ones.
fn is_of_confusable_script(c: char) -> bool {
    matches!(u32::from(c),
        0x0370..=0x058f | 0x13a0..=0x13ff | 0x1c80..=0x1c8f | 0x1f00..=0x1fff | 0x2c80..=0x2cff
        | 0x2d00..=0x2dff | 0xa640..=0xa69f | 0xab70..=0xabbf)
}

/// Letters of other scripts that nobody can tell from a Latin letter.
fn is_latin_look_alike(c: char) -> bool {
    const LOOK_ALIKES: &str = concat!(
        "асеорхуіјѕԁԛԝһѵӏмткӕ",
        "АВСЕНІЈКМОРЅТХУҮԌԛԜѴ",
        "ονικυγρτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "օսոհցյզ",
    );
    LOOK_ALIKES.contains(c) || matches!(u32::from(c), 0x13a0..=0x13ff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_shown_as_it_is() {
        let texts = [
            "",
            "rm -rf build\n\tdone",
            "naïve café — “quoted”",
            "привет мир",
            "日本語 テスト",
            "👍 ok ⚠\u{fe0f} 🧑\u{200d}💻",
        ];
        for text in texts {
            assert_eq!(legible(text), text);
        }
    }

    #[test]
    fn what_is_invisible_or_turns_text_around_is_named() {
        assert_eq!(legible("report\u{202e}fdp.sh"), "report‹U+202E›fdp.sh");
        assert_eq!(
            legible("a\u{200b}b\u{ad}c\u{2028}d\u{61c}e"),
            "a‹U+200B›b‹U+00AD›c‹U+2028›d‹U+061C›e"
        );
        assert_eq!(legible("x\u{e0041}\u{1b}[2J\ry"), "x‹U+E0041›‹U+001B›[2J‹U+000D›y");
        assert_eq!(legible("a\u{a0}b\u{fe0f}"), "a‹U+00A0›b‹U+FE0F›");
    }

    #[test]
    fn long_white_space_is_counted() {
        let pushed_away = format!("ls{}; rm -rf ~", " ".repeat(4000));
        assert_eq!(legible(&pushed_away), "ls‹4000 spaces›; rm -rf ~");
        let below = format!("ls{}rm", "\n \t".repeat(300));
        assert_eq!(legible(&below), "ls\n‹299 blank lines›\n \trm");
        let indented = format!("if x:\n\n{}y", " ".repeat(16));
        assert_eq!(legible(&indented), indented);
    }

    #[test]
    fn letters_that_pretend_to_be_latin_are_named() {
        assert_eq!(legible("pаypal.com"), "pа‹U+0430›ypal.com");
        assert_eq!(legible("сосо"), "с‹U+0441›о‹U+043E›с‹U+0441›о‹U+043E›");
        assert_eq!(legible("ｒｍ a∕b"), "ｒ‹U+FF52›ｍ‹U+FF4D› a∕‹U+2215›b");
        let stacked = format!("a{}", "\u{301}".repeat(5));
        assert_eq!(legible(&stacked), "a\u{301}\u{301}\u{301}‹U+0301›‹U+0301›");
    }
}
