//! Files and functions stay short enough to be read in one go.

use proc_macro2::TokenTree;

use super::Finding;
use crate::rust_file::{Attribute, Function, RustFile, brace_group, is_ident};

const FILE_LINES_SOFT_MAX: usize = 500;
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let mut findings = long_functions(file);
    findings.extend(long_file(file));
    findings
}

fn long_functions(file: &RustFile<'_>) -> Vec<Finding> {
    let finding = |function: Function| {
        let n_lines = function.last_line - function.first_line + 1;
        let what =
            format!("`{}` has {n_lines} lines of at most {FUNCTION_LINES_MAX}", function.name);
        (n_lines > FUNCTION_LINES_MAX).then(|| {
            let fix = "split it where the subject changes";
            Finding::new(&file.source.path, function.first_line, what, fix)
        })
    };
    file.functions().into_iter().filter_map(finding).collect()
}

fn long_file(file: &RustFile<'_>) -> Option<Finding> {
    let n_lines = prod_lines(file);
    let finding = |limit| {
        let what = format!("{n_lines} lines without tests of at most {limit}");
        Finding::new(&file.source.path, 1, what, "split the file by responsibility")
    };
    if n_lines > FILE_LINES_MAX {
        Some(finding(FILE_LINES_MAX))
    } else if n_lines > FILE_LINES_SOFT_MAX {
        Some(finding(FILE_LINES_SOFT_MAX).into_note())
    } else {
        None
    }
}

fn prod_lines(file: &RustFile<'_>) -> usize {
    let is_test = ["tests", "benches"].iter().any(|folder| file.source.is_below(folder))
        || file.source.path.ends_with("/tests.rs");
    if is_test {
        return 0;
    }
    let tokens = file.top_level();
    let n_test_lines: usize = (0..tokens.len()).map(|at| test_module_lines(&tokens[at..])).sum();
    file.source.text.lines().count() - n_test_lines
}

/// The lines of a `#[cfg(test)] mod … { … }` that starts here, otherwise 0.
fn test_module_lines(tokens: &[TokenTree]) -> usize {
    let Some((attribute, length)) = Attribute::at(tokens) else { return 0 };
    if attribute.name() != "cfg" || !attribute.mentions("test") || attribute.mentions("not") {
        return 0;
    }
    match &tokens[length..] {
        [keyword, _, body, ..] if is_ident(keyword, "mod") => {
            brace_group(body).map_or(0, |body| body.span_close().end().line - attribute.line + 1)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn lines(n: usize) -> String {
        "// A line.\n".repeat(n)
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_no_more() {
        let function = |n_lines: usize| format!("fn a() {{\n{}}}\n", lines(n_lines - 2));
        assert_findings(check, ("src/a.rs", &function(70)), &[]);
        let expected =
            ["src/a.rs:1: `a` has 71 lines of at most 70; split it where the subject changes"];
        assert_findings(check, ("src/a.rs", &function(71)), &expected);
    }

    #[test]
    fn tests_inside_macros_are_held_to_the_same_length() {
        let text = format!("proptest! {{\n#[test]\nfn a() {{\n{}}}\n}}\n", lines(69));
        let expected =
            ["tests/a.rs:3: `a` has 71 lines of at most 70; split it where the subject changes"];
        assert_findings(check, ("tests/a.rs", &text), &expected);
    }

    #[test]
    fn a_long_file_is_noted_and_a_very_long_one_is_a_finding() {
        assert_findings(check, ("src/a.rs", &lines(500)), &[]);
        let note = "src/a.rs:1: note: 501 lines without tests of at most 500; \
                    split the file by responsibility";
        assert_findings(check, ("src/a.rs", &lines(501)), &[note]);
        let finding = "src/a.rs:1: 801 lines without tests of at most 800; \
                       split the file by responsibility";
        assert_findings(check, ("src/a.rs", &lines(801)), &[finding]);
    }

    #[test]
    fn test_modules_and_test_files_do_not_count() {
        let module = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(499), lines(900));
        assert_findings(check, ("src/a.rs", &module), &[]);
        assert_findings(check, ("tests/it/a.rs", &lines(900)), &[]);
    }
}
