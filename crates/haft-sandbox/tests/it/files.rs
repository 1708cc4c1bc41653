//! Reading, writing and changing files beneath their roots.

use crate::place::{Place, absolute, at, in_workspace};
use haft_sandbox::files::{
    ContentHash, Entry, Expected, FileError, Kind, Parents, RemoveWhat, SCAN_LIMIT, Window,
};
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const LIMIT: usize = 64 * 1024;

fn read(place: &Place, path: &str, window: Window) -> String {
    let reading = place.files.read(&at(path), window, LIMIT).unwrap();
    assert!(!reading.cut);
    String::from_utf8(reading.bytes).unwrap()
}

// D12
#[test]
fn d12_lines_are_counted_as_wc_counts_them() {
    let place = Place::new();
    for (content, expected) in [
        ("", 0),
        ("no end", 0),
        ("one\n", 1),
        ("one\ntwo", 1),
        ("one\ntwo\nthree\n", 3),
        ("a\r\nb\r\n", 2),
        ("\n\n", 2),
    ] {
        place.put("f", content);
        let reading = place.files.read(&at("f"), Window::Whole, LIMIT).unwrap();
        let whole = reading.whole.unwrap();
        assert_eq!(whole.lines, expected, "{content:?}");
        assert_eq!(whole.hash, ContentHash::of(content.as_bytes()));
        assert_eq!(reading.bytes, content.as_bytes());
    }
}

#[test]
fn windows_take_the_lines_and_bytes_they_name() {
    let place = Place::new();
    let lines = |first, count| Window::Lines { first, count };
    assert_eq!(read(&place, "a.txt", lines(1, 1)), "one\n");
    assert_eq!(read(&place, "a.txt", lines(2, 2)), "two\nthree\n");
    assert_eq!(read(&place, "a.txt", lines(3, 9)), "three\n");
    assert_eq!(read(&place, "a.txt", lines(4, 1)), "");
    assert_eq!(read(&place, "a.txt", lines(2, 0)), "");
    assert_eq!(read(&place, "a.txt", Window::Tail { count: 2 }), "two\nthree\n");
    assert_eq!(read(&place, "a.txt", Window::Tail { count: 0 }), "");
    assert_eq!(read(&place, "a.txt", Window::Tail { count: 99 }), "one\ntwo\nthree\n");
    assert_eq!(read(&place, "a.txt", Window::Bytes { offset: 4, count: 3 }), "two");
    assert_eq!(read(&place, "a.txt", Window::Bytes { offset: 99, count: 3 }), "");
    place.put("open", "one\ntwo");
    assert_eq!(read(&place, "open", Window::Tail { count: 1 }), "two");
    assert_eq!(read(&place, "open", lines(2, 1)), "two");
}

#[test]
fn a_cut_goes_between_characters_and_is_said() {
    let place = Place::new();
    place.put("f", "ééé");
    let reading = place.files.read(&at("f"), Window::Whole, 3).unwrap();
    assert_eq!(reading.bytes, "é".as_bytes());
    assert!(reading.cut);
    assert_eq!(reading.size, 6);
}

#[test]
fn a_file_of_a_terabyte_is_read_in_bounded_memory() {
    let place = Place::new();
    let file = std::fs::File::create(place.host().join("big")).unwrap();
    file.set_len(1 << 40).unwrap();
    let reading = place.files.read(&at("big"), Window::Whole, 4096).unwrap();
    assert_eq!((reading.bytes.len(), reading.cut, reading.size), (4096, true, 1 << 40));
    assert_eq!(reading.whole, None);
    assert!(reading.binary);
    const { assert!(SCAN_LIMIT < 1 << 40) };
}

#[test]
fn only_regular_files_are_read_and_none_can_hold_the_reader() {
    let place = Place::new();
    let fifo = place.host().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.host().join("socket")).unwrap();
    for path in ["fifo", "socket", "sub", "sub/", ".", "a.txt/", "a.txt/."] {
        let refused = place.files.read(&at(path), Window::Whole, LIMIT).unwrap_err();
        let expected_kind = matches!(refused, FileError::Kind { .. } | FileError::Io { .. });
        assert!(expected_kind, "{path}: {refused}");
    }
}

#[test]
fn a_write_replaces_all_or_nothing_and_keeps_the_mode() {
    let place = Place::new();
    let path = place.host().join("a.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let write = |content: &[u8], expected| {
        place.files.write(&at("a.txt"), content, expected, Parents::MustExist)
    };
    let written = write(b"new", Expected::Anything).unwrap();
    assert!(!written.created);
    assert_eq!(place.content("a.txt"), "new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);

    assert!(matches!(write(b"x", Expected::Absent), Err(FileError::Exists { .. })));
    let stale = Expected::Content(ContentHash::of(b"other"));
    assert!(matches!(write(b"x", stale), Err(FileError::Changed { found: Some(_), .. })));
    assert_eq!(place.content("a.txt"), "new");
    write(b"newer", Expected::Content(ContentHash::of(b"new"))).unwrap();
    assert_eq!(place.content("a.txt"), "newer");
    let names: Vec<_> =
        std::fs::read_dir(place.host()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no stray file is left: {names:?}");
}

#[test]
fn a_write_makes_missing_directories_only_when_asked() {
    let place = Place::new();
    let write = |parents| place.files.write(&at("x/y/z.txt"), b"deep", Expected::Anything, parents);
    assert!(matches!(write(Parents::MustExist), Err(FileError::NotFound { .. })));
    assert!(write(Parents::Create).unwrap().created);
    assert_eq!(place.content("x/y/z.txt"), "deep");
}

// D8
#[test]
fn d8_no_change_goes_through_a_link_or_to_another_name() {
    let place = Place::new();
    symlink("/tmp/new-target-of-haft", place.host().join("dangling")).unwrap();
    symlink(place.outside(), place.host().join("d")).unwrap();
    symlink("sub", place.host().join("inner")).unwrap();
    std::fs::hard_link(place.outside().join("secret"), place.host().join("hard")).unwrap();
    let write =
        |path: &str| place.files.write(&at(path), b"x", Expected::Anything, Parents::Create);
    for path in ["dangling", "d/f", "d/new", "inner/f"] {
        assert!(matches!(write(path), Err(FileError::Link { .. })), "{path}");
    }
    assert!(matches!(write("hard"), Err(FileError::HardLinked { links: 2, .. })));
    for path in ["agent/substrate.md", "agent/new"] {
        assert!(matches!(write(path), Err(FileError::ReadOnly { .. })), "{path}");
    }
    for path in [".git/hooks/pre-commit", ".GIT/config", "new/.git/hooks/post-checkout", ".git"] {
        assert!(matches!(write(path), Err(FileError::Protected { .. })), "{path}");
    }
    assert!(!std::path::Path::new("/tmp/new-target-of-haft").exists());
    std::fs::remove_file(place.host().join("hard")).unwrap();
    place.check_canaries();
}

#[test]
fn a_link_inside_its_root_is_read_through_and_shown_as_a_link() {
    let place = Place::new();
    symlink("a.txt", place.host().join("l")).unwrap();
    assert_eq!(read(&place, "l", Window::Whole), "one\ntwo\nthree\n");
    assert_eq!(place.files.stat(&at("l")).unwrap().kind, Kind::Symlink);
    let listing = place.files.list(&at("."), 10).unwrap();
    let kinds: Vec<_> =
        listing.entries.iter().map(|entry| (entry.path.to_string(), entry.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("/workspace/a.txt".to_owned(), Kind::File),
            ("/workspace/l".to_owned(), Kind::Symlink),
            ("/workspace/sub".to_owned(), Kind::Directory)
        ]
    );
    assert_eq!(place.files.list(&at("."), 1).unwrap().total, 3);
}

#[test]
fn a_name_that_is_no_text_is_shown_so_that_it_can_be_read_back() {
    let place = Place::new();
    for name in [&b"\xff\xfe"[..], b"\x1b[2J fake", b"back\\x41slash", b"line\nend", b"\\x5c"] {
        std::fs::write(place.host().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    for entry in place.files.list(&at("."), 100).unwrap().entries {
        if entry.kind == Kind::File {
            let shown = entry.path.to_string();
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
            let reading = place.files.read(&absolute(&shown), Window::Whole, LIMIT).unwrap();
            let name = entry.path.name().unwrap().as_bytes();
            assert!(name == reading.bytes || name == b"a.txt", "{shown}");
        }
    }
}

#[test]
fn directories_and_names_are_made_renamed_and_removed_beneath_the_root() {
    let place = Place::new();
    let files = &place.files;
    files.mkdir(&at("p/q"), Parents::Create).unwrap();
    files.mkdir(&at("p/q"), Parents::Create).unwrap();
    assert!(matches!(files.mkdir(&at("m/n"), Parents::MustExist), Err(FileError::NotFound { .. })));
    files.rename(&at("a.txt"), &at("p/b.txt")).unwrap();
    place.put("c", "c");
    assert!(matches!(files.rename(&at("c"), &at("p/b.txt")), Err(FileError::Exists { .. })));
    assert!(matches!(files.rename(&at("c"), &at("agent/c")), Err(FileError::ReadOnly { .. })));
    let not_empty = files.remove(&at("p"), RemoveWhat::EmptyDirectory).unwrap_err();
    assert!(matches!(not_empty, FileError::Kind { expected: Entry::EmptyDirectory, .. }));
    files.remove(&at("p/b.txt"), RemoveWhat::File).unwrap();
    files.remove(&at("p/q"), RemoveWhat::EmptyDirectory).unwrap();
    files.remove(&at("p"), RemoveWhat::EmptyDirectory).unwrap();
    assert!(matches!(files.stat(&at("p")), Err(FileError::NotFound { .. })));
    assert!(matches!(
        files.remove(&at("."), RemoveWhat::EmptyDirectory),
        Err(FileError::Kind { .. })
    ));
}

proptest! {
    /// A path never leads upwards, and its text leads back to it.
    #[test]
    fn a_path_is_what_its_text_says(text in "[a-z./\\\\x0-9é]{1,40}") {
        if let Ok(path) = in_workspace(&text) {
            let shown = path.to_string();
            prop_assert!(!shown.split('/').any(|name| name == ".." || name == "."), "{}", shown);
            prop_assert_eq!(absolute(&shown).to_string(), shown);
        }
    }

    /// Any name that a file can have is shown as text that leads to that file.
    #[test]
    fn any_name_is_shown_losslessly(name in prop::collection::vec(1_u8.., 1..40)) {
        prop_assume!(!name.contains(&b'/') && name != b"." && name != b"..");
        let path = at(".").join(std::ffi::OsStr::from_bytes(&name));
        let shown = path.to_string();
        prop_assert!(!shown.bytes().any(|byte| byte.is_ascii_control()));
        prop_assert_eq!(absolute(&shown), path);
    }

    /// Whatever the path, nothing that lies outside is read.
    #[test]
    fn no_path_reads_what_lies_outside(names in prop::collection::vec("(\\.\\.|\\.|sub|out|in|f|secret|outside|workspace|etc|passwd)", 1..8), top in any::<bool>()) {
        let place = Place::new();
        symlink(place.outside(), place.host().join("out")).unwrap();
        symlink("..", place.host().join("sub/in")).unwrap();
        let text = format!("{}{}", if top { "/workspace/" } else { "" }, names.join("/"));
        if let Ok(path) = in_workspace(&text)
            && let Ok(reading) = place.files.read(&path, Window::Whole, LIMIT)
        {
            prop_assert!(!reading.bytes.starts_with(b"CANARY"), "{}", text);
        }
    }
}
