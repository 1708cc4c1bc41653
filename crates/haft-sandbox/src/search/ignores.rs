//! What the ignore files of a directory and those above it say.

use crate::files::Resolve;
use crate::files::open_at;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// The rules that hold in a directory: its own, then those of the directories above.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Self>>,
    own: Gitignore,
}

/// Larger ignore files are taken for something else.
const MAX_FILE: u64 = 1024 * 1024;

/// The files read, the later overruling the earlier.
pub(super) const FILES: [&str; 2] = [".gitignore", ".ignore"];

impl Rules {
    /// The rules in a directory, given those above it. `inside` is its path from the root, with a leading slash.
    pub(super) fn read(
        above: Option<Arc<Self>>,
        base: BorrowedFd<'_>,
        directory: &Path,
        inside: &Path,
    ) -> Option<Arc<Self>> {
        let mut builder = GitignoreBuilder::new(inside);
        for name in FILES {
            add_lines(&mut builder, base, &directory.join(name));
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Some(Arc::new(Self { above, own })),
            // An ignore file that makes no sense ignores nothing.
            _ => above,
        }
    }

    /// Whether a path, from the root with a leading slash, is to be passed over.
    pub(super) fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            match here.own.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = here.above.as_deref(),
            }
        }
        false
    }
}

fn add_lines(builder: &mut GitignoreBuilder, base: BorrowedFd<'_>, file: &Path) {
    let Ok(opened) = open_at(base, file, OFlags::RDONLY, Mode::empty(), Resolve::NoLinks) else {
        return;
    };
    let mut bytes = Vec::new();
    if File::from(opened).take(MAX_FILE).read_to_end(&mut bytes).is_ok() {
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A line that is no pattern is passed over, as git does.
            builder.add_line(None, line).ok();
        }
    }
}
