//! Finding files by name and by content.

use crate::place::{Place, absolute, at};
use haft_sandbox::files::{FileError, Kind};
use haft_sandbox::search::{
    Bounds, Case, Glob, Globbed, Grep, GrepError, Grepped, Hidden, Ignores, PatternError, Query,
};
use std::os::unix::fs::symlink;
use std::time::Duration;

const PLAIN: (Hidden, Ignores) = (Hidden::Skip, Ignores::Respect);

fn tree() -> Place {
    let place = Place::new();
    place.put("src/main.rs", "fn main() {\n    call(1);\n}\n");
    place.put("src/deep/lib.rs", "// call me\npub fn call(x: u8) {}\n// end\n");
    place.put("target/out.rs", "call ignored\n");
    place.put("src/deep/skip.log", "call ignored\n");
    place.put("src/deep/keep.log", "call kept\n");
    place.put(".gitignore", "/target\n*.log\n");
    place.put("src/deep/.gitignore", "!keep.log\n");
    place.put(".hidden/h.rs", "call hidden\n");
    place.put("binary", b"call\0call\n");
    place
}

fn glob(place: &Place, path: &str, pattern: &str, kind: Option<Kind>) -> Vec<String> {
    let found = glob_with(place, path, pattern, kind, Bounds::default());
    assert!(found.walked.complete);
    found.entries.iter().map(|entry| entry.path.to_string()).collect()
}

fn glob_with(
    place: &Place,
    path: &str,
    pattern: &str,
    kind: Option<Kind>,
    bounds: Bounds,
) -> Globbed {
    place.files.glob(&at(path), &Glob::parse(pattern).unwrap(), kind, PLAIN, bounds).unwrap()
}

fn grep(place: &Place, path: &str, query: Query<'_>) -> Grepped {
    let grep = Grep::new(query, Case::Sensitive).unwrap();
    place.files.grep(&at(path), &grep, PLAIN, Bounds::default()).unwrap()
}

fn lines(found: &Grepped) -> Vec<String> {
    let line = |file: &haft_sandbox::search::HitFile| {
        file.hits
            .iter()
            .map(|hit| format!("{}:{}:{}", file.path, hit.line, hit.text))
            .collect::<Vec<_>>()
    };
    found.files.iter().flat_map(line).collect()
}

#[test]
fn glob_finds_by_name_anywhere_and_by_path() {
    let place = tree();
    assert_eq!(
        glob(&place, ".", "*.rs", None),
        ["/workspace/src/deep/lib.rs", "/workspace/src/main.rs"]
    );
    assert_eq!(glob(&place, ".", "src/*.rs", None), ["/workspace/src/main.rs"]);
    assert_eq!(
        glob(&place, "src", "deep/**", Some(Kind::File)),
        ["/workspace/src/deep/keep.log", "/workspace/src/deep/lib.rs"]
    );
    assert_eq!(glob(&place, ".", "d*", Some(Kind::Directory)), ["/workspace/src/deep"]);
    let all = place.files.glob(
        &at("."),
        &Glob::parse("*.rs").unwrap(),
        None,
        (Hidden::Include, Ignores::Disregard),
        Bounds::default(),
    );
    assert_eq!(all.unwrap().total, 4);
}

#[test]
fn grep_gives_lines_with_numbers_and_context() {
    let place = tree();
    let found = grep(&place, ".", Query::Regex(r"call\("));
    assert_eq!(
        lines(&found),
        [
            "/workspace/src/deep/lib.rs:2:pub fn call(x: u8) {}",
            "/workspace/src/main.rs:2:    call(1);"
        ]
    );
    assert_eq!(found.files[1].hits[0].column, Some(4));
    let context = Grep::new(Query::Text("call("), Case::Sensitive).unwrap().context(1);
    let found = place.files.grep(&at("src/main.rs"), &context, PLAIN, Bounds::default()).unwrap();
    assert_eq!(lines(&found).len(), 3);
    let only = Grep::new(Query::Text("CALL"), Case::Insensitive)
        .unwrap()
        .only(Glob::parse("*.log").unwrap());
    let found = place.files.grep(&at("."), &only, PLAIN, Bounds::default()).unwrap();
    assert_eq!(lines(&found), ["/workspace/src/deep/keep.log:1:call kept"]);
}

#[test]
fn a_search_gives_the_first_by_path_and_counts_the_rest() {
    let place = Place::new();
    for number in 0..500 {
        place.put(&format!("d{}/f{number:03}", number % 7), "x\nx\n");
    }
    let few = Bounds { results: 3, ..Bounds::default() };
    let found = glob_with(&place, ".", "f*", None, few);
    assert_eq!((found.entries.len(), found.total), (3, 500));
    assert_eq!(found.entries[0].path, absolute("/workspace/d0/f000"));
    let grep = Grep::new(Query::Text("x"), Case::Sensitive).unwrap();
    let found = place.files.grep(&at("."), &grep, PLAIN, few).unwrap();
    assert_eq!(
        lines(&found),
        ["/workspace/d0/f000:1:x", "/workspace/d0/f000:2:x", "/workspace/d0/f007:1:x"]
    );
    assert_eq!(found.total, 1000);

    let short = Bounds { entries: 10, ..few };
    assert!(!glob_with(&place, ".", "f*", None, short).walked.complete);
    let no_time = Bounds { time: Duration::ZERO, ..few };
    assert!(!glob_with(&place, ".", "f*", None, no_time).walked.complete);
}

// D8: the tree leads out by links of both kinds, and by a loop.
#[test]
fn d8_a_search_follows_no_link() {
    let place = tree();
    symlink(place.outside(), place.host().join("out")).unwrap();
    symlink(place.outside().join("f"), place.host().join("out.txt")).unwrap();
    symlink("..", place.host().join("src/loop")).unwrap();
    assert_eq!(grep(&place, ".", Query::Text("CANARY")).total, 0);
    assert!(glob(&place, ".", "secret", None).is_empty());
    let grep = Grep::new(Query::Text("CANARY"), Case::Sensitive).unwrap();
    for path in ["out", "out.txt"] {
        let refused = place.files.grep(&at(path), &grep, PLAIN, Bounds::default()).unwrap_err();
        assert!(matches!(refused, GrepError::File(FileError::Link { .. })), "{refused}");
    }
}

#[test]
fn costly_and_senseless_patterns_are_refused_at_once() {
    let regex = |pattern: &str| Grep::new(Query::Regex(pattern), Case::Sensitive).map(drop);
    for pattern in [r"(\w{1000}){1000}", "a{1000}{1000}{1000}", "(?<=a)b", r"\1(a)", "["] {
        assert!(matches!(regex(pattern), Err(GrepError::Syntax(_))), "{pattern}");
    }
    assert!(matches!(regex(""), Err(GrepError::Empty)));
    assert!(matches!(regex(&"a|".repeat(200_000)), Err(GrepError::TooLong { .. })));
    assert!(matches!(Glob::parse("[.][.]/*"), Err(PatternError::Upwards)));
    assert!(matches!(Glob::parse("a/../b"), Err(PatternError::Upwards)));
    assert!(matches!(Glob::parse(""), Err(PatternError::Empty)));
    assert!(Glob::parse(&"**/".repeat(500)).is_err());
    assert!(Glob::parse(&"{a,".repeat(3000)).is_err());
    assert!(matches!(Glob::parse("{a,b"), Err(PatternError::Syntax(_))));
    Glob::parse(&"{a,b}".repeat(20)).unwrap();
}

#[test]
fn regular_expressions_take_linear_time_and_long_lines_are_bounded() {
    let place = Place::new();
    place.put("a", "a".repeat(1 << 20));
    place.put("long", format!("{}\nx\n", "y".repeat(8 << 20)));
    assert_eq!(grep(&place, "a", Query::Regex("(a+)+$")).total, 1);
    assert_eq!(grep(&place, "a", Query::Regex("(.*a){12}z")).total, 0);
    let found = grep(&place, "a", Query::Text("aaa"));
    assert!(found.files[0].hits[0].text.len() <= 1000);
    assert!(!grep(&place, "long", Query::Text("zzz")).walked.complete);
}
