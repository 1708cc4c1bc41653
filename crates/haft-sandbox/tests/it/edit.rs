//! Literal edits, their previews, and what refuses them.

use crate::place::{Place, at};
use haft_sandbox::edit::{Difference, Edit, EditError, Places};
use haft_sandbox::files::FileError;
use proptest::prelude::*;

fn edit(old: &str, new: &str, places: Places) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned(), places }
}

fn one(content: &str, old: &str, new: &str) -> Result<String, EditError> {
    let edited = edit(old, new, Places::One).apply(content.as_bytes())?;
    Ok(String::from_utf8(edited.content).unwrap())
}

#[test]
fn d11_nothing_in_the_texts_has_a_meaning_of_its_own() {
    assert_eq!(one("a B c", "B", "$&$&B").unwrap(), "a $&$&B c");
    assert_eq!(one("a B c", "B", r"\1\0${1}").unwrap(), r"a \1\0${1} c");
    assert_eq!(one("a.c abc", "a.c", "x").unwrap(), "x abc");
}

#[test]
fn d11_an_ambiguous_edit_is_refused_with_the_count_and_the_lines() {
    let refused = one("aa\nb\na", "a", "x").unwrap_err();
    assert!(
        matches!(&refused, EditError::Ambiguous { count: 3, lines } if lines == &[1, 1, 3]),
        "{refused}"
    );
    let all = edit("a", "x", Places::All).apply(b"aa\nb\na").unwrap();
    assert_eq!((all.content.as_slice(), all.replacements), (&b"xx\nb\nx"[..], 3));
    assert!(matches!(one("a", "", "x"), Err(EditError::EmptyOld)));
    assert!(matches!(one("a", "a", "a"), Err(EditError::NoChange)));
}

#[test]
fn a_near_match_is_pointed_out() {
    let content = "fn main() {\n    let x = 1;\n    call(x);\n}\n";
    let Err(EditError::NotFound { near: Some(near) }) = one(content, "let  x = 1;\ncall(x);", "y")
    else {
        panic!("expected a near match");
    };
    assert_eq!((near.line, near.difference), (2, Difference::Whitespace));
    let Err(EditError::NotFound { near: Some(near) }) = one(content, "let y = 1;", "z") else {
        panic!("expected a near match");
    };
    assert_eq!((near.line, near.difference), (2, Difference::Text));
    assert!(matches!(
        one(content, "entirely different words", "z"),
        Err(EditError::NotFound { near: None })
    ));
}

#[test]
fn line_ends_stay_as_they_are() {
    assert_eq!(one("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz").unwrap(), "x\r\ny\r\nz\r\nc\r\n");
    assert_eq!(one("a\r\nb\r\n", "a", "x\ny").unwrap(), "x\r\ny\r\nb\r\n");
    assert_eq!(
        one("a\r\nb\n", "b", "x\ny").unwrap(),
        "a\r\nx\ny\n",
        "a mixed file is left as given"
    );
    assert_eq!(one("a\nb\n", "a", "x\ny").unwrap(), "x\ny\nb\n");
}

#[test]
fn what_was_previewed_is_what_is_written_or_nothing() {
    let place = Place::new();
    let change = edit("two", "TWO", Places::One);
    let preview = place.files.preview_edit(&at("a.txt"), &change).unwrap();
    assert_eq!(
        preview.diff,
        "--- a/workspace/a.txt\n+++ b/workspace/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
    );
    place.put("a.txt", "one\ntwo\nthree\nfour\n");
    let refused = place.files.edit(&at("a.txt"), &change, Some(preview.base)).unwrap_err();
    assert!(matches!(refused, EditError::File(FileError::Changed { .. })), "{refused}");

    place.put("a.txt", "one\ntwo\nthree\n");
    let (_, written) = place.files.edit(&at("a.txt"), &change, Some(preview.base)).unwrap();
    assert_eq!(written.hash, preview.result);
    assert_eq!(place.content("a.txt"), "one\nTWO\nthree\n");
}

#[test]
fn a_file_swapped_for_a_link_after_its_preview_is_not_edited() {
    let place = Place::new();
    let change = edit("CANARY", "x", Places::One);
    place.put("f", crate::place::CANARY);
    let preview = place.files.preview_edit(&at("f"), &change).unwrap();
    std::fs::remove_file(place.host().join("f")).unwrap();
    std::os::unix::fs::symlink(place.outside().join("f"), place.host().join("f")).unwrap();
    assert!(place.files.edit(&at("f"), &change, Some(preview.base)).is_err());
    place.check_canaries();
}

proptest! {
    /// An edit of one place changes that place and nothing else.
    #[test]
    fn an_edit_changes_its_place_and_nothing_else(
        before in "[a-c\n$\\\\]{0,12}", old in "[a-c\n$\\\\&]{1,4}", after in "[a-c\n$\\\\]{0,12}", new in "[a-z$\\\\1&\n]{0,6}",
    ) {
        prop_assume!(old != new);
        let content = format!("{before}{old}{after}");
        let count = content.matches(&old).count();
        match edit(&old, &new, Places::One).apply(content.as_bytes()) {
            Ok(edited) => {
                prop_assert_eq!(count, 1);
                prop_assert_eq!(edited.content, content.replacen(&old, &new, 1).into_bytes());
            }
            Err(EditError::Ambiguous { count: found, .. }) => prop_assert_eq!(found, count),
            Err(other) => prop_assert!(false, "{}", other),
        }
        let all = edit(&old, &new, Places::All).apply(content.as_bytes()).unwrap();
        prop_assert_eq!(all.content, content.replace(&old, &new).into_bytes());
    }

    /// Any bytes can be edited without a panic, and a refused edit says why.
    #[test]
    fn any_bytes_are_edited_or_refused(content in prop::collection::vec(any::<u8>(), 0..200), old in ".{0,5}", new in ".{0,5}") {
        let _outcome: Result<_, _> = edit(&old, &new, Places::One).apply(&content);
    }
}
