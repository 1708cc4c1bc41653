//! Which of the files that git heeds neither run anything nor lead anywhere.

use super::{Content, HeededPath, Role};
use std::path::{Component, Path};

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

pub(super) fn is_harmless(heeded: &HeededPath, content: &Content) -> bool {
    let Content::Bytes(bytes) = content else { return false };
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match heeded.role {
        Role::Config => has_plain_settings(text, false),
        Role::ModuleConfig => has_plain_settings(text, true),
        // Git comes with examples of hooks, which it does not run by these names.
        Role::Hook => {
            heeded.path.extension().is_some_and(|it| it == "sample") || is_set_aside(&heeded.path)
        }
        Role::CommonDir => text.trim_end() == "../.." && is_of_worktree(&heeded.path),
        Role::GitFile => leads_to_a_known_place(&heeded.path, text),
        Role::Followed => is_set_aside(&heeded.path),
    }
}

/// Whether it is one that was renamed before.
fn is_set_aside(path: &Path) -> bool {
    path.extension().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with("quarantined-"))
}

fn is_of_worktree(path: &Path) -> bool {
    let worktrees = path.parent().and_then(Path::parent);
    worktrees.is_some_and(|it| it.ends_with(".git/worktrees"))
}

/// Whether a file that stands for a repository leads to a submodule's or worktree's place in the
/// repository of the same root, which is looked at as well.
fn leads_to_a_known_place(path: &Path, text: &str) -> bool {
    let Some(target) = text.strip_prefix("gitdir: ") else { return false };
    let mut at = path.parent().unwrap_or_else(|| Path::new("")).to_path_buf();
    let mut goes_down = false;
    for component in Path::new(target.trim_end()).components() {
        match component {
            Component::Normal(name) => {
                at.push(name);
                goes_down = true;
            }
            Component::CurDir => {}
            // After a name that may be a link, the way up leads nobody knows where.
            Component::ParentDir if goes_down || !at.pop() => return false,
            Component::ParentDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    let mut names = at.iter().skip_while(|name| *name != ".git").skip(1);
    names.next().is_some_and(|name| name == "modules" || name == "worktrees")
}

/// Whether settings are all among those that are plain. What cannot be read for certain is not.
fn has_plain_settings(text: &str, is_module: bool) -> bool {
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
        if value.ends_with('\\') || !is_plain(&section, &key, value, is_module) {
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

fn is_plain(section: &str, key: &str, value: &str, is_module: bool) -> bool {
    if section == "core" && key == "worktree" {
        return is_module && !value.contains('"') && Path::new(value).is_relative();
    }
    let known = PLAIN.iter().find(|(name, _)| *name == section);
    let is_known = known.is_some_and(|(_, keys)| keys.contains(&key));
    // A helper is named before two colons, as in `ext::sh -c …`, and an option begins with a dash.
    let leads_elsewhere =
        key.ends_with("url") && (value.contains("::") || value.starts_with(['-', '"']));
    is_known && !leads_elsewhere
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
        assert!(has_plain_settings(cloned, false));
        assert!(has_plain_settings("[core]\n\tworktree = ../../../sub\n", true));
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
            "[remote \"a\"]\n\tuploadpack = x\n",
            "[core]\n\tworktree = /elsewhere\n",
            "[core]\n\thooksPath = hooks\n",
            "[extensions]\n\tworktreeConfig = true\n",
            "[broken\n",
        ] {
            assert!(!has_plain_settings(text, false), "{text}");
        }
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
