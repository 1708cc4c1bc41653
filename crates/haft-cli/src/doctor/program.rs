//! The program itself.

use std::env::consts::{ARCH, OS};

use super::finding::Finding;

/// Which version this is, and how it was built.
pub(super) fn version() -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    match cfg!(debug_assertions) {
        false => Finding::ok("version", format!("haft {version}, release build, {ARCH} {OS}")),
        true => Finding::warning(
            "version",
            format!("haft {version}, debug build, {ARCH} {OS}: it is several times slower"),
            "use a release build for more than tests: `cargo build --release`",
        ),
    }
}
