//! Claims of tests in Python and JavaScript, which drive Haft from outside.
//!
//! These files are read line by line: a test is a line that starts like one.

use super::Claim;
use crate::tree::SourceFile;

struct Language {
    extensions: &'static [&'static str],
    comment: &'static str,
    /// The name of the test that a line starts, if it starts one.
    name: fn(&str) -> Option<String>,
}

const LANGUAGES: &[Language] = &[
    Language { extensions: &["py"], comment: "#", name: python_name },
    Language { extensions: &["js", "mjs", "ts"], comment: "//", name: javascript_name },
];

pub(super) fn claims(source: &SourceFile) -> Vec<Claim> {
    let speaks = |language: &&Language| {
        language.extensions.iter().any(|extension| source.has_extension(extension))
    };
    let Some(language) = LANGUAGES.iter().find(speaks) else { return Vec::new() };
    let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
    let claim = |at: usize| {
        let name = (language.name)(lines[at])?;
        Claim::from_test(&source.path, at + 1, name, &comment(&lines[..at], language.comment))
    };
    (0..lines.len()).filter_map(claim).collect()
}

/// The comment lines right above, looking past decorators.
fn comment(above: &[&str], sign: &str) -> String {
    let belongs = |line: &&&str| line.starts_with(sign) || line.starts_with('@');
    let lines = above.iter().rev().take_while(belongs).filter(|line| line.starts_with(sign));
    lines.copied().collect::<Vec<_>>().join("\n")
}

fn python_name(line: &str) -> Option<String> {
    let signature = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    let (name, _) = signature.split_once('(')?;
    name.starts_with("test").then(|| name.to_owned())
}

fn javascript_name(line: &str) -> Option<String> {
    let call = line.strip_prefix("await ").unwrap_or(line);
    let arguments = ["test(", "it("].iter().find_map(|start| call.strip_prefix(start))?;
    let quote = arguments.chars().next().filter(|quote| ['"', '\'', '`'].contains(quote))?;
    let (name, _) = arguments[1..].split_once(quote)?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(&str, usize, &str)]) {
        let tree = Tree::of(&[(path, text)]);
        let claims = claims(tree.file(path).unwrap());
        let found: Vec<_> = claims
            .iter()
            .map(|claim| (claim.test.as_str(), claim.line, claim.ids[0].to_string()))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(test, line, id)| (*test, *line, (*id).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn python_tests_claim_by_name_and_comment() {
        let text = "# D1: once.\n@pytest.mark.slow\nasync def test_once(haft):\n    pass\n\n\
                    def test_s4_20_stale():\n    pass\n\ndef d2():\n    pass\n";
        check("t.py", text, &[("test_once", 3, "D1"), ("test_s4_20_stale", 6, "S4-20")]);
    }

    #[test]
    fn javascript_tests_claim_by_name_and_comment() {
        let text = "// D1\ntest('runs once', () => {});\n  it(`D2 a`, f);\nattest('D3');\n";
        check("t.ts", text, &[("runs once", 2, "D1"), ("D2 a", 3, "D2")]);
    }

    #[test]
    fn other_files_hold_no_tests() {
        check("t.md", "def test_d1():", &[]);
    }
}
