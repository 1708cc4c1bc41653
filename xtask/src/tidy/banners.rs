//! No banner comments: a file that needs dividers needs splitting.

use super::Finding;
use crate::rust_file::RustFile;

const RULE_CHARACTERS: &[char] = &['-', '=', '*', '#', '/'];
const RULE_LENGTH_MIN: usize = 5;

pub(super) fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let lines = file.source.text.lines().enumerate();
    let banners = lines.filter(|(_, line)| is_banner(line));
    let finding = |(at, _)| {
        let fix = "remove it, or split the file where it stands";
        Finding::new(&file.source.path, at + 1, "banner comment", fix)
    };
    banners.map(finding).collect()
}

/// Whether a comment line holds a run of one rule character and is not a table or a code sample.
fn is_banner(line: &str) -> bool {
    let line = line.trim();
    let comment = line.trim_start_matches('/').trim_start_matches('!').trim();
    if !line.starts_with("//") || comment.starts_with('|') {
        return false;
    }
    let slashes = line.chars().take_while(|character| *character == '/').count();
    slashes >= RULE_LENGTH_MIN || has_rule(comment)
}

fn has_rule(comment: &str) -> bool {
    RULE_CHARACTERS.iter().any(|character| {
        let rule: String = std::iter::repeat_n(*character, RULE_LENGTH_MIN).collect();
        comment.starts_with(&rule) || comment.ends_with(&rule)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn rules_with_and_without_a_title_are_banners() {
        for text in ["// -----", "//=====", "/////////", "// ---------- State ----------"] {
            let text = format!("//! Doc.\n    {text}\n");
            let expected = "a.rs:2: banner comment; remove it, or split the file where it stands";
            assert_findings(check, ("a.rs", &text), &[expected]);
        }
    }

    #[test]
    fn prose_tables_and_strings_are_no_banners() {
        let text = "//! | a | b |\n//! |-----|-----|\n// a -- b\nlet x = \"// -----\";\n";
        assert_findings(check, ("a.rs", text), &[]);
    }
}
