//! What of Haft itself no tool may reach: its data, its configuration, and what its user trusts.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use haft_sandbox::private::{declare_directory, declare_file};

use crate::config::USUAL;
use crate::place::{DATA, Place};
use crate::trouble::{Code, Trouble};
use crate::{settings, trust};

/// Directories of the data that hold what sessions are given: a directory of each may be a root.
pub(crate) const LENT: &[&str] = &["workspaces", "uploads", "skills", "agents"];

/// Declares what every node of this process keeps to itself. The data directory is there already.
pub(crate) fn declare(place: &Place, lent: &[&str]) -> Result<(), Trouble> {
    declare_directory(&place.data, lent).map_err(|error| bad(&place.data, &error))?;
    file(Path::new(USUAL))?;
    if let Some(named) = settings::named() {
        file(&named)?;
    }
    if let Some(own) = trust::directory() {
        own_configuration(&own)?;
    }
    Ok(())
}

/// Declares what another Haft, started in a directory that is about to be a root, would find there.
pub(crate) fn declare_usual_below(root: &Path) -> Result<(), Trouble> {
    file(&root.join(USUAL))?;
    let data = root.join(DATA);
    match data.is_dir() {
        true => declare_directory(&data, &[]).map_err(|error| bad(&data, &error)),
        false => file(&data),
    }
}

/// Declares a file, whether or not it is there.
pub(crate) fn file(path: &Path) -> Result<(), Trouble> {
    match declare_file(path) {
        // Without its directory nobody can make it, and nothing reads it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer.map_err(|error| bad(path, &error)),
    }
}

/// The user's own directory is made if need be: what is not there cannot be hidden.
fn own_configuration(own: &Path) -> Result<(), Trouble> {
    // Where it cannot be made, no tool of this process can make it either.
    drop(DirBuilder::new().recursive(true).mode(0o700).create(own));
    match declare_directory(own, &[]) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer.map_err(|error| bad(own, &error)),
    }
}

fn bad(path: &Path, error: &io::Error) -> Trouble {
    let what = format!("`{}` cannot be kept from the tools", path.display());
    Trouble::new(Code::BadConfig, what)
        .why(error)
        .next("give it to this user, or keep the data and the configuration elsewhere")
}
