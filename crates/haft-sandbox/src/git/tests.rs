//! The guard over a directory in which the test writes what a command would. As an ordinary user
//! these also show that permissions do not keep the guard out; root passes any permission.

use super::*;
use crate::mounts::Root;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::TempDir;

const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n";
const EVIL: &str = "[core]\n\tfsmonitor = touch x\n";

/// A root with a repository in it and one below.
fn root() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().join("work");
    for git in [".git", "sub/.git", ".git/modules/lib"] {
        let git = at.join(git);
        for directory in ["hooks", "objects/ab", "objects/info", "refs/heads", "logs/refs", "info"]
        {
            fs::create_dir_all(git.join(directory)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), PLAIN).unwrap();
    }
    (place, at)
}

fn guard(at: &Path) -> Arc<Guard> {
    let root = Root {
        at: VirtualPath::parse("/workspace", &VirtualPath::top()).unwrap(),
        host: at.to_path_buf(),
        access: Access::ReadWrite,
    };
    let guard = Guard::start(&Mounts::open([root]).unwrap()).unwrap();
    // No look but those of the test.
    guard.lock().is_closed = true;
    guard.closed.notify_all();
    guard
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[test]
fn permissions_do_not_keep_the_git_guard_out() {
    // What is written, what is then shut, and how.
    let cases = [
        (".git/commondir", ".git", 0o311),
        (".git/commondir", ".git", 0o555),
        (".git/commondir", ".git", 0o000),
        (".git/commondir", ".git", 0o600),
        (".git/commondir", ".git/commondir", 0o111),
        (".git/commondir", "", 0o311),
        ("sub/.git/commondir", "sub/.git", 0o311),
        ("sub/.git/commondir", "sub", 0o111),
        ("sub/.git/commondir", "sub", 0o000),
        ("sub/.git/hooks/pre-commit", "sub/.git/hooks", 0o311),
        ("sub/.git/hooks/pre-commit", "sub/.git/hooks", 0o555),
        ("sub/.git/hooks/pre-commit", "sub/.git/hooks/pre-commit", 0o111),
        ("sub/.git/objects/info/alternates", "sub/.git/objects", 0o311),
        ("new/.git/hooks/pre-commit", "new/.git", 0o111),
    ];
    for (written, shut, bits) in cases {
        let (_place, at) = root();
        let guard = guard(&at);
        let (written, shut) = (at.join(written), at.join(shut));
        fs::create_dir_all(written.parent().unwrap()).unwrap();
        fs::write(&written, "../evil\n").unwrap();
        set_mode(&shut, bits);
        let said = guard.look();
        assert_eq!(said.len(), 1, "{written:?} {shut:?} {bits:o}: {said:?}");
        assert!(!is_there(&written), "{written:?} {shut:?} {bits:o}: {said:?}");
        assert_eq!(guard.look(), Vec::<String>::new(), "{written:?}: once is enough");
    }
}

#[test]
fn a_git_config_that_was_made_unreadable_is_restored_readable() {
    let (_place, at) = root();
    let guard = guard(&at);
    let config = at.join("sub/.git/config");
    fs::write(&config, EVIL).unwrap();
    set_mode(&config, 0o000);
    assert_eq!(guard.look().len(), 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), PLAIN);
    assert_eq!(guard.look(), Vec::<String>::new());
}

#[test]
fn what_its_owner_had_shut_stays_so_until_a_command_opens_it_for_git() {
    let (_place, at) = root();
    let shut = at.join("shut");
    fs::create_dir(&shut).unwrap();
    set_mode(&shut, 0o000);
    let guard = guard(&at);
    assert_eq!(guard.look(), Vec::<String>::new());
    assert_eq!(mode(&shut), 0o000);
    set_mode(&shut, 0o700);
    fs::create_dir(shut.join(".git")).unwrap();
    fs::write(shut.join(".git/config"), EVIL).unwrap();
    set_mode(&shut, 0o000);
    assert_eq!(guard.look().len(), 1);
    set_mode(&shut, 0o700);
    assert!(!is_there(&shut.join(".git/config")));
}

#[test]
fn a_link_in_a_repository_is_removed_wherever_git_would_write() {
    let names = [
        ".git/COMMIT_EDITMSG",
        ".git/FETCH_HEAD",
        ".git/ORIG_HEAD",
        ".git/index",
        ".git/packed-refs",
        ".git/logs/HEAD",
        ".git/logs/refs/heads",
        ".git/refs/heads/a.quarantined-00000000",
        ".git/objects/cd",
        ".git/objects/ab/cdef",
        ".git/objects/pack",
        ".git/info/exclude",
        ".git/rebase-merge",
        ".git/anything/at/all",
        ".git/modules/lib/logs/HEAD",
        "sub/.git/COMMIT_EDITMSG",
        "bare/logs/HEAD",
        "bare/index",
    ];
    for name in names {
        let (place, at) = root();
        let outside = place.path().join("outside");
        fs::write(&outside, "").unwrap();
        let guard = guard(&at);
        for part in ["bare/objects", "bare/refs", "bare/HEAD"] {
            fs::create_dir_all(at.join(part)).unwrap();
        }
        fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
        symlink(&outside, at.join(name)).unwrap();
        let said = guard.look();
        assert!(said.len() == 1 && said[0].contains("was removed"), "{name}: {said:?}");
        assert!(!is_there(&at.join(name)), "{name}");
        assert!(is_there(&outside), "{name}");
        assert_eq!(guard.look(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn links_of_the_owner_and_among_files_that_are_no_repositorys_stay() {
    let (_place, at) = root();
    symlink("/elsewhere", at.join(".git/rr-cache")).unwrap();
    let guard = guard(&at);
    for part in ["bare/objects", "bare/refs", "bare/HEAD", "bare/tree/bin", "node_modules/.bin"] {
        fs::create_dir_all(at.join(part)).unwrap();
    }
    let links = ["a", "node_modules/.bin/tool", "bare/tree/bin/tool", ".git/.#COMMIT_EDITMSG"];
    for link in links {
        symlink("elsewhere", at.join(link)).unwrap();
    }
    assert_eq!(guard.look(), Vec::<String>::new());
    for link in links.into_iter().chain([".git/rr-cache"]) {
        assert!(is_there(&at.join(link)), "{link}");
    }
    // The owner's link leads where it led.
    fs::remove_file(at.join(".git/rr-cache")).unwrap();
    symlink("/other", at.join(".git/rr-cache")).unwrap();
    assert_eq!(guard.look().len(), 1);
    assert_eq!(fs::read_link(at.join(".git/rr-cache")).unwrap(), Path::new("/elsewhere"));
}

#[test]
fn the_files_of_a_git_submodule_are_said_to_be_in_the_root() {
    let config = |value: &str| format!("{PLAIN}\tworktree = {value}\n");
    for (at_config, value, stays) in [
        (".git/modules/lib/config", "../../../lib", true),
        (".git/modules/lib/config", "../../../missing/lib", true),
        (".git/modules/lib/config", "../../../../..", false),
        (".git/modules/lib/config", "../../../../outside", false),
        (".git/modules/lib/config", "../../../link", false),
        (".git/modules/lib/config", "../../../link/below", false),
        (".git/modules/lib/config", "../../hooks", false),
        ("modules/sub/.git/config", "../../..", false),
        ("modules/sub/.git/config", "..", false),
    ] {
        let (place, at) = root();
        fs::create_dir(at.join("lib")).unwrap();
        symlink(place.path(), at.join("link")).unwrap();
        let guard = guard(&at);
        fs::create_dir_all(at.join(at_config).parent().unwrap()).unwrap();
        fs::write(at.join(at_config), config(value)).unwrap();
        assert_eq!(guard.look().is_empty(), stays, "{at_config}: {value}");
        let now = fs::read_to_string(at.join(at_config)).unwrap_or_default();
        assert_eq!(now == config(value), stays, "{at_config}: {value}");
    }
}

// Commands find `.git/config` and `.git/hooks` of a root read-only: a change there is the owner's.
#[test]
fn what_the_owner_changes_where_commands_cannot_write_stays() {
    let (_place, at) = root();
    let guard = guard(&at);
    let (hook, config) = (at.join(".git/hooks/pre-commit"), at.join(".git/config"));
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    set_mode(&hook, 0o755);
    fs::write(&config, EVIL).unwrap();
    assert_eq!(guard.look(), Vec::<String>::new());
    assert!(is_there(&hook));
    // Replaced, it is no longer covered by a mount; what the owner made of it before is known.
    fs::write(at.join(".git/new"), format!("{EVIL}\tpager = x\n")).unwrap();
    fs::rename(at.join(".git/new"), &config).unwrap();
    assert_eq!(guard.look().len(), 1);
    assert_eq!(fs::read_to_string(&config).unwrap(), EVIL);
}

// A command may write to it by another name, or where no mount is.
#[test]
fn what_commands_may_have_written_is_not_the_owners() {
    let (_place, at) = root();
    let hook = at.join(".git/hooks/pre-commit");
    fs::write(&hook, "one\n").unwrap();
    fs::hard_link(&hook, at.join("hook")).unwrap();
    let guard = guard(&at);
    fs::write(at.join("hook"), "two\n").unwrap();
    fs::write(at.join("sub/.git/hooks/pre-commit"), "two\n").unwrap();
    fs::write(at.join(".git/modules/lib/config"), EVIL).unwrap();
    assert_eq!(guard.look().len(), 3);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "one\n");
}
