//! Paths of the sandbox: whatever is written, what comes of it stays below the top.
#![no_main]

use haft_sandbox::virtual_path::VirtualPath;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let cwd = VirtualPath::parse("/workspace/a", &VirtualPath::top()).expect("a plain path");
    let Ok(path) = VirtualPath::parse(text, &cwd) else { return };
    let shown = path.to_string();
    assert!(shown.starts_with('/'), "{shown:?}");
    let is_step = |name: &str| name == ".." || name == ".";
    assert!(!shown.split('/').any(is_step), "{shown:?}");
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    let again = VirtualPath::parse(&shown, &VirtualPath::top()).expect("what is shown can be read");
    assert_eq!(again.to_string(), shown, "and is the same path");
    assert!(path.starts_with(&VirtualPath::top()));
});
