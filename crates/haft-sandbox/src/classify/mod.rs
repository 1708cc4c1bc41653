//! What a command is, by its words: whether the read-only hand takes it, and what a shell text amounts to.
//!
//! This is for early answers and little noise. It is no boundary: that is the read-only sandbox, in
//! which a command that slips through here still changes nothing.

mod grammar;
mod programs;
mod projection;
mod words;

pub use grammar::{Look, NotALook};
pub use projection::{Projection, project};
pub use words::simple_command;

use crate::mounts::Mounts;
use crate::virtual_path::VirtualPath;

/// Takes a command for the read-only hand if its program and every argument are known to only look.
///
/// # Errors
/// When they are not; the reason names the first word that is not known.
pub fn look(argv: &[String], cwd: &VirtualPath, mounts: &Mounts) -> Result<Look, NotALook> {
    let (name, args) = argv.split_first().ok_or(NotALook::Nothing)?;
    let program = programs::PROGRAMS.iter().find(|program| program.name == name);
    let program = program.ok_or_else(|| NotALook::Program { name: name.clone() })?;
    program.check(args, &grammar::Place { cwd, mounts })?;
    Ok(Look {
        argv: std::iter::once(format!("/usr/bin/{name}")).chain(args.iter().cloned()).collect(),
    })
}

/// The programs that the read-only hand knows.
pub fn programs() -> impl Iterator<Item = &'static str> {
    programs::PROGRAMS.iter().map(|program| program.name)
}
