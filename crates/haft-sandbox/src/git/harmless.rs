//! Which of the files that git heeds neither run anything nor lead anywhere.

use super::{Content, HeededPath, Role};
use crate::files::{Resolve, open_at};
use crate::mounts::Mounted;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Settings that change neither what git runs nor where it looks, by section.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "symlinks",
        ],
    ),
    ("extensions", &["objectformat"]),
    ("user", &["name", "email"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("remote", &["url", "pushurl", "fetch", "tagopt", "prune"]),
    ("branch", &["remote", "merge", "rebase", "description"]),
    ("submodule", &["url", "active", "branch"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote"]),
    ("fetch", &["prune"]),
    ("merge", &["conflictstyle", "ff"]),
    ("rerere", &["enabled"]),
    ("gc", &["auto"]),
];

/// What names set aside end in; see [`super::undo`].
pub(super) const SET_ASIDE: &str = "quarantined-";

pub(super) fn is_harmless(mounted: &Mounted, heeded: &HeededPath, content: &Content) -> bool {
    let path = &heeded.path;
    let text = match (content, heeded.role) {
        (Content::Link(target), _) => return is_editors_lock(path, target),
        // Git comes with examples of hooks, which it does not run by these names.
        (_, Role::Hook) => {
            return is_set_aside(path) || path.extension().is_some_and(|it| it == "sample");
        }
        (_, Role::Followed) => return is_set_aside(path),
        (Content::Bytes(bytes), _) => std::str::from_utf8(bytes),
        (Content::Other(_), _) => return false,
    };
    let Ok(text) = text else { return false };
    match heeded.role {
        Role::Config => has_plain_settings(text, &|_| false),
        Role::ModuleConfig => has_plain_settings(text, &|value| {
            worktree(path, value).is_some_and(|it| !leads_through_link(mounted, &it))
        }),
        Role::CommonDir => text.trim_end() == "../.." && is_of_worktree(path),
        Role::GitFile => leads_to_a_known_place(path, text),
        // Judged above by their names.
        Role::Hook | Role::Followed => false,
    }
}

/// Whether it is one that was renamed before.
fn is_set_aside(path: &Path) -> bool {
    path.extension().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(SET_ASIDE))
}

/// Whether a link is the note that Emacs leaves beside a file that it has open: it leads to no more
/// than a name in the same directory, and git knows none that begins so.
fn is_editors_lock(path: &Path, target: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let mut components = target.components();
    let is_name = matches!(components.next(), Some(Component::Normal(_)));
    name.starts_with(b".#") && is_name && components.next().is_none()
}

fn is_of_worktree(path: &Path) -> bool {
    let worktrees = path.parent().and_then(Path::parent);
    worktrees.is_some_and(|it| it.ends_with(".git/worktrees"))
}

/// Whether a file that stands for a repository leads to a submodule's or worktree's place in the
/// repository of the same root, which is looked at as well.
fn leads_to_a_known_place(path: &Path, text: &str) -> bool {
    let Some(target) = text.strip_prefix("gitdir: ") else { return false };
    let Some(at) = led_to(path, target.trim_end()) else { return false };
    let mut names = at.iter().skip_while(|name| *name != ".git").skip(1);
    names.next().is_some_and(|name| name == "modules" || name == "worktrees")
}

/// Where in the root a relative path leads that stands in a file; `None` when it leaves the root, or
/// may.
fn led_to(file: &Path, target: &str) -> Option<PathBuf> {
    let mut at = file.parent().unwrap_or_else(|| Path::new("")).to_path_buf();
    let mut goes_down = false;
    for component in Path::new(target).components() {
        match component {
            Component::Normal(name) => {
                at.push(name);
                goes_down = true;
            }
            Component::CurDir => {}
            // After a name that may be a link, the way up leads nobody knows where.
            Component::ParentDir if goes_down || !at.pop() => return None,
            Component::ParentDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(at)
}

/// The directory of the root that settings of a submodule name as the place of its files. It is none
/// of a repository's own, where git would write what it later runs.
fn worktree(config: &Path, value: &str) -> Option<PathBuf> {
    // Git takes these out of a value, or ends it there.
    if value.contains(['"', '\\', '#', ';']) {
        return None;
    }
    let at = led_to(config, value)?;
    let is_of_repository = at.iter().any(|name| name.eq_ignore_ascii_case(".git"));
    (!at.as_os_str().is_empty() && !is_of_repository).then_some(at)
}

/// Whether there is a link on the way to a path, or in its place: it may lead out of the root.
fn leads_through_link(mounted: &Mounted, path: &Path) -> bool {
    let opened = open_at(mounted.directory(), path, OFlags::PATH, Mode::empty(), Resolve::NoLinks);
    !matches!(opened, Ok(_) | Err(Errno::NOENT))
}

/// Whether settings are all among those that are plain. What cannot be read for certain is not.
/// `is_worktree` judges where the files of the repository are said to be.
fn has_plain_settings(text: &str, is_worktree: &dyn Fn(&str) -> bool) -> bool {
    // A file that was set aside is left alone by its name, as long as no settings use that.
    if text.contains(&format!(".{SET_ASIDE}")) {
        return false;
    }
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, rest)) = header(rest) else { return false };
            section = name;
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if value.ends_with('\\') || !is_plain(&section, &key, value, is_worktree) {
            return false;
        }
    }
    true
}

/// Reads `name]`, `name "sub"]` and what follows on the line.
fn header(rest: &str) -> Option<(String, &str)> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
    let (name, rest) = rest.split_at(end);
    let mut rest = rest.trim_start();
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = quoted.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        rest = quoted.get(end + 1..)?;
    }
    Some((name.to_ascii_lowercase(), rest.strip_prefix(']')?))
}

fn is_plain(section: &str, key: &str, value: &str, is_worktree: &dyn Fn(&str) -> bool) -> bool {
    if section == "core" && key == "worktree" {
        return is_worktree(value);
    }
    let known = PLAIN.iter().find(|(name, _)| *name == section);
    let is_known = known.is_some_and(|(_, keys)| keys.contains(&key));
    // The remote of a branch may be an address as well as a name.
    let is_address = key.ends_with("url") || (section == "branch" && key == "remote");
    // A helper is named before two colons, as in `ext::sh -c …`, and an option begins with a dash.
    // Quotes and backslashes may stand within either, and git takes them out.
    let leads_elsewhere =
        value.contains("::") || value.starts_with('-') || value.contains(['"', '\\']);
    is_known && !(is_address && leads_elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_init_and_clone_write_is_plain() {
        let cloned = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                      [remote \"origin\"]\n\turl = https://example.org/a.git\n\
                      \tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                      [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
        assert!(has_plain_settings(cloned, &|_| false));
        assert!(
            has_plain_settings("[core]\n\tworktree = ../../../sub\n", &|it| it == "../../../sub")
        );
    }

    #[test]
    fn what_runs_or_leads_elsewhere_is_not() {
        for text in [
            "[core]\n\tfsmonitor = touch x\n",
            "[core] fsmonitor = touch x\n",
            "[CORE]\nFsMonitor=x\n",
            "[core]\nbare = false\\\n\n",
            "[core \"x\"]\n\tpager = x\n",
            "[include]\n\tpath = ../evil\n",
            "[includeIf \"gitdir:x\"]\n\tpath = ../evil\n",
            "[diff \"x\"]\n\ttextconv = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[alias]\n\tst = !x\n",
            "[remote \"a\"]\n\turl = ext::sh -c x\n",
            "[remote \"a\"]\n\turl = ext:\"\":sh -c x\n",
            "[remote \"a\"]\n\turl = e\"xt::sh\" -c x\n",
            "[remote \"a\"]\n\tpushurl = \\\\-x\n",
            "[submodule \"a\"]\n\turl = ext:\"\":sh -c x\n",
            "[branch \"a\"]\n\tremote = ext:\"\":sh -c x\n",
            "[branch \"a\"]\n\tremote = ext::sh -c x\n",
            "[branch \"a\"]\n\tremote = a.quarantined-00000000\n",
            "[remote \"a\"]\n\tuploadpack = x\n",
            "[core]\n\tworktree = /elsewhere\n",
            "[core]\n\thooksPath = hooks\n",
            "[extensions]\n\tworktreeConfig = true\n",
            "[broken\n",
        ] {
            assert!(!has_plain_settings(text, &|_| false), "{text}");
        }
    }

    #[test]
    fn the_files_of_a_submodule_stay_in_the_root_and_out_of_repositories() {
        let at = |path: &str, value: &str| worktree(Path::new(path), value);
        let lib = ".git/modules/lib/config";
        assert_eq!(at(lib, "../../../lib"), Some(PathBuf::from("lib")));
        let inner = "sub/.git/modules/a/modules/b/config";
        assert_eq!(at(inner, "../../../../../a/b"), Some(PathBuf::from("sub/a/b")));
        for value in [
            "/etc",
            "../../../..",
            "../../../../../home",
            "../../../link/../..",
            "../../..",
            "../../hooks",
            "../../../sub/.GIT/hooks",
            "\"../../../lib\"",
            "../../../lib\\t",
            "../../../lib;x",
            "../../../lib#x",
        ] {
            assert_eq!(at(lib, value), None, "{value}");
        }
    }

    #[test]
    fn a_link_is_harmless_only_as_an_editors_note() {
        let is = |path: &str, to: &str| is_editors_lock(Path::new(path), Path::new(to));
        assert!(is(".git/.#COMMIT_EDITMSG", "ann@host.12:34"));
        assert!(!is(".git/.#COMMIT_EDITMSG", "../a"));
        assert!(!is(".git/.#COMMIT_EDITMSG", ".."));
        assert!(!is(".git/COMMIT_EDITMSG", "config"));
    }

    #[test]
    fn a_file_that_stands_for_a_repository_stays_in_it() {
        let leads = |path: &str, text: &str| leads_to_a_known_place(Path::new(path), text);
        assert!(leads("sub/.git", "gitdir: ../.git/modules/sub\n"));
        assert!(!leads("sub/.git", "gitdir: ../evil\n"));
        assert!(!leads("sub/.git", "gitdir: /tmp/.git/modules/evil\n"));
        assert!(!leads("sub/.git", "gitdir: ../../.git/modules/evil\n"));
        assert!(!leads("sub/.git", "gitdir: ../.git/modules/link/../evil\n"));
    }
}
