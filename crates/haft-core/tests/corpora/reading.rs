//! Reads the extracts of public corpora that lie beside this file. With `HAFT_CORPORA=DIR` the
//! tests read the whole corpora from that directory instead.

use std::path::{Path, PathBuf};

const CORPORA: &str = "HAFT_CORPORA";

/// Returns whether the whole corpora are read, of which more can be asked.
pub(crate) fn is_whole() -> bool {
    std::env::var_os(CORPORA).is_some()
}

/// Says what was read, for what a test prints.
pub(crate) fn scope() -> &'static str {
    if is_whole() { "whole" } else { "extract; HAFT_CORPORA=DIR reads the whole" }
}

/// Reads a file of a corpus. Fails where it is missing.
pub(crate) fn read(file: &str) -> String {
    let extracts = concat!(env!("CARGO_MANIFEST_DIR"), "/../haft-core/tests/corpora");
    let directory = std::env::var_os(CORPORA).map_or_else(|| extracts.into(), PathBuf::from);
    let path = Path::new(&directory).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
