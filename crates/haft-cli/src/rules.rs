//! The rules of a data directory: `policy.toml` in it, heard by whatever node works there.

use std::path::{Path, PathBuf};
use std::{fs, io};

use haft_runtime::PolicyFile;

use crate::trouble::{Code, Trouble};

/// Where the rules of a data directory are.
pub(crate) fn usual(data: &Path) -> PathBuf {
    data.join("policy.toml")
}

/// Returns the rules of a data directory; none where it has no file. A file that cannot be used
/// is no reason to go on without it.
pub(crate) fn of(data: &Path) -> Result<PolicyFile, Trouble> {
    let path = usual(data);
    match fs::read_to_string(&path) {
        Ok(text) => read(&path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PolicyFile::default()),
        Err(error) => Err(bad(&path, &error)),
    }
}

pub(crate) fn read(path: &Path, text: &str) -> Result<PolicyFile, Trouble> {
    text.parse().map_err(|error: haft_runtime::PolicyFileError| {
        let line = text.lines().nth(error.line - 1).unwrap_or_default().trim_end();
        bad(path, &format!("{error}\n        {line}"))
    })
}

pub(crate) fn bad(path: &Path, why: &dyn std::fmt::Display) -> Trouble {
    Trouble::new(Code::BadPolicy, format!("`{}` cannot be used", path.display()))
        .why(why)
        .next(format!("correct it; `haft policy check {}` says whether it holds", path.display()))
}
