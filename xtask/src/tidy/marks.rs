//! No unfinished code, no skipped tests, no lint silenced without a reason that can go stale.

use proc_macro2::TokenTree;

use super::Finding;
use crate::rust_file::{Attribute, RustFile, is_ident, is_punct};

const UNFINISHED: &[&str] = &["todo", "unimplemented"];

pub(super) fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let path = &file.source.path;
    let mut findings = Vec::new();
    file.each_sequence(|tokens| {
        for at in 0..tokens.len() {
            findings.extend(unfinished(path, &tokens[at..]));
            if let Some((attribute, _)) = Attribute::at(&tokens[at..]) {
                findings.extend(attribute_finding(path, &attribute));
            }
        }
    });
    findings
}

fn unfinished(path: &str, tokens: &[TokenTree]) -> Option<Finding> {
    let [name, bang, ..] = tokens else { return None };
    let word = UNFINISHED.iter().find(|word| is_ident(name, word))?;
    is_punct(bang, '!').then(|| {
        let line = name.span().start().line;
        Finding::new(path, line, format!("`{word}!`"), "finish it or return an error")
    })
}

fn attribute_finding(path: &str, attribute: &Attribute) -> Option<Finding> {
    let finding = |what: &str, fix| Some(Finding::new(path, attribute.line, what, fix));
    let name = attribute.name();
    if name == "ignore" || name == "cfg_attr" && attribute.mentions("ignore") {
        return finding("ignored test", "make it pass or delete it");
    }
    // Other attributes may call a method of this name in their arguments.
    let sets_lints = |level: &str| (name == level || name == "cfg_attr") && attribute.calls(level);
    if sets_lints("allow") {
        return finding("`#[allow]`", "use `#[expect(…, reason = \"…\")]`");
    }
    if sets_lints("expect") && !attribute.mentions("reason") {
        return finding("`#[expect]` without a reason", "add `reason = \"…\"`");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn unfinished_code_is_found_inside_macros_too() {
        let text = "fn a() {\n todo!()\n}\nproptest! {\n fn b() { unimplemented!(\"x\") }\n}";
        let expected = [
            "a.rs:2: `todo!`; finish it or return an error",
            "a.rs:5: `unimplemented!`; finish it or return an error",
        ];
        assert_findings(check, ("a.rs", text), &expected);
    }

    #[test]
    fn ignored_tests_are_found() {
        let expected = ["a.rs:1: ignored test; make it pass or delete it"];
        assert_findings(check, ("a.rs", "#[ignore = \"slow\"]\nfn a() {}"), &expected);
        assert_findings(check, ("a.rs", "#[cfg_attr(unix, ignore)]\nfn a() {}"), &expected);
    }

    #[test]
    fn silenced_lints_need_an_expectation_with_a_reason() {
        let allow = ["a.rs:1: `#[allow]`; use `#[expect(…, reason = \"…\")]`"];
        assert_findings(check, ("a.rs", "#![allow(dead_code)]"), &allow);
        assert_findings(check, ("a.rs", "#[cfg_attr(test, allow(dead_code))] fn a() {}"), &allow);
        let bare = ["a.rs:1: `#[expect]` without a reason; add `reason = \"…\"`"];
        assert_findings(check, ("a.rs", "#[expect(dead_code)] fn a() {}"), &bare);
        let good = "#[expect(dead_code, reason = \"a fixture\")] fn a() {}";
        assert_findings(check, ("a.rs", good), &[]);
        assert_findings(check, ("a.rs", "#[case(x().expect(\"y\"))] fn a() {}"), &[]);
    }

    #[test]
    fn words_in_strings_comments_and_names_are_no_marks() {
        let text = "// todo!()\nfn todo() { allow(\"#[ignore] todo!()\"); todo() }";
        assert_findings(check, ("a.rs", text), &[]);
    }
}
