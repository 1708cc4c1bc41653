//! Every file says what it owns, in its name and in its first line.

use std::path::Path;

use super::Finding;
use crate::rust_file::RustFile;

/// Names that say nothing about what is inside.
const VAGUE_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "types", "util", "utils"];

pub(super) fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let path = &file.source.path;
    let mut findings = Vec::new();
    if let Some(name) = vague_name(path) {
        let fix = "name the responsibility it holds";
        findings.push(Finding::new(path, 1, format!("`{name}` is a vague name"), fix));
    }
    if !file.source.text.trim_start().starts_with("//!") {
        let fix = "open with `//!` and say what the module owns";
        findings.push(Finding::new(path, 1, "no module documentation", fix));
    }
    findings
}

fn vague_name(path: &str) -> Option<&str> {
    let stem = Path::new(path).with_extension("");
    let is_part = |name: &&&str| stem.iter().any(|part| part == **name);
    VAGUE_NAMES.iter().find(is_part).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn vague_files_and_folders_are_found() {
        let expected = "src/utils.rs:1: `utils` is a vague name; name the responsibility it holds";
        assert_findings(check, ("src/utils.rs", "//! Doc."), &[expected]);
        let expected =
            "tests/common/mod.rs:1: `common` is a vague name; name the responsibility it holds";
        assert_findings(check, ("tests/common/mod.rs", "//! Doc."), &[expected]);
        assert_findings(check, ("src/commonplace.rs", "//! Doc."), &[]);
    }

    #[test]
    fn a_file_must_open_with_its_documentation() {
        let expected =
            "a.rs:1: no module documentation; open with `//!` and say what the module owns";
        assert_findings(check, ("a.rs", "use std::fs;\n//! Late.\n"), &[expected]);
        assert_findings(check, ("a.rs", ""), &[expected]);
    }
}
