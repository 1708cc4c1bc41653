//! Nothing that an agent writes is run or followed by git on the host. Each attack is made through the
//! real binary; then the host's own git looks at the workspace, and a mark says whether anything was
//! run. (S19, X3)

#![expect(clippy::disallowed_methods, reason = "runs the binary and git")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::agent::Agent;

/// The host's git, without the developer's own settings.
fn git(at: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Command::new("git");
    command.args(args).current_dir(at).env("HOME", at).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CEILING_DIRECTORIES", at.parent().unwrap());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// A repository with a commit and a submodule of its own.
fn repository() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().join("work");
    fs::create_dir(&at).unwrap();
    for repository in ["work", "lib"] {
        let at = place.path().join(repository);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("a.txt"), "one\n").unwrap();
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Ann"],
            &["config", "user.email", "ann@example.org"],
            &["add", "a.txt"],
            &["commit", "-q", "-m", "first"],
        ] {
            let (ok, said) = git(&at, args);
            assert!(ok, "{args:?}: {said}");
        }
    }
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "lib"];
    let (ok, said) = git(&at, &add);
    assert!(ok, "{said}");
    assert!(git(&at, &["commit", "-q", "-m", "with a submodule"]).0);
    place
}

/// What a person or an editor does next.
fn look(at: &Path) -> String {
    let mut said = String::new();
    for args in [
        &["status"][..],
        &["status", "--ignored", "-uall"],
        &["log", "-p", "--oneline"],
        &["diff"],
        &["diff", "HEAD"],
        &["stash", "list"],
        &["submodule", "status"],
        &["branch", "-a"],
    ] {
        said.push_str(&git(at, args).1);
    }
    said
}

/// Commands that have git run something: `$M` is what to run, and leaves a mark.
const ATTACKS: &[(&str, &str)] = &[
    ("config", "printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" >> .git/config"),
    ("config by git", "git config core.fsmonitor \"$M\""),
    (
        "commondir",
        "cp -r .git evil && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = %s\\n' \
         \"$M\" > evil/config && printf '../evil\\n' > .git/commondir",
    ),
    (
        "config.worktree",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" > .git/config.worktree; \
         printf '[extensions]\\n\\tworktreeConfig = true\\n' >> .git/config",
    ),
    (
        "a submodule's config",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" >> .git/modules/lib/config; touch lib/new",
    ),
    (
        "a submodule's config.worktree",
        "printf '[extensions]\\n\\tworktreeConfig = true\\n' >> .git/modules/lib/config; \
         printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" > .git/modules/lib/config.worktree; touch lib/new",
    ),
    (
        "a submodule that leads elsewhere",
        "cp -r .git/modules/lib evil; printf '[core]\\n\\tworktree = ../lib\\n\\tfsmonitor = %s\\n' \
         \"$M\" > evil/config; printf 'gitdir: ../evil\\n' > lib/.git; touch lib/new",
    ),
    (
        "a repository in place of a submodule",
        "rm lib/.git; git init -q lib; git -C lib config core.fsmonitor \"$M\"; touch lib/new",
    ),
    (
        "a fresh repository, added",
        "git init -q sub; cd sub; git config user.email a@b; git config user.name a; \
         git commit -q --allow-empty -m x; git config core.fsmonitor \"$M\"; cd ..; \
         git add sub; touch sub/new",
    ),
    (
        "a link to a repository",
        "git init -q evil; git -C evil config core.fsmonitor \"$M\"; mkdir sub; \
         ln -s ../evil/.git sub/.git",
    ),
    (
        "a repository among the objects of another",
        "git init -q --bare .git/objects/evil; cd .git/objects/evil; git config core.bare false; \
         git config core.worktree .; git config core.fsmonitor \"$M\"; cd ../../..; \
         ln -s .git/objects/evil sub; ln -s ../objects/evil .git/modules/link; \
         printf 'gitdir: ../.git/modules/link\\n' > lib/.git; touch lib/new",
    ),
    (
        "a hook",
        "printf '#!/bin/sh\\n%s\\n' \"$M\" > .git/hooks/post-index-change; \
         chmod +x .git/hooks/post-index-change",
    ),
    (
        "hooks in a new directory",
        "mv .git/hooks .git/old; mkdir .git/hooks; \
         printf '#!/bin/sh\\n%s\\n' \"$M\" > .git/hooks/post-index-change; \
         chmod +x .git/hooks/post-index-change",
    ),
    (
        "attributes with a filter",
        "mkdir -p .git/info; echo '* filter=evil diff=evil' > .git/info/attributes; \
         echo '* filter=evil diff=evil' > .gitattributes; \
         git config filter.evil.clean \"$M\"; git config diff.evil.textconv \"$M\"; echo two > a.txt",
    ),
    (
        "the repository moved away",
        "cp -r .git evil; printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" >> evil/config; \
         mv .git old; mv evil .git",
    ),
    (
        "an include",
        "printf '[include]\\n\\tpath = ../evil.conf\\n' >> .git/config; \
         printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" > evil.conf",
    ),
    (
        "commondir in a directory that cannot be listed",
        "cp -r .git evil && rm evil/HEAD && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = %s\\n' \
         \"$M\" > evil/config && printf '../evil\\n' > .git/commondir; chmod 0311 .git",
    ),
    (
        "commondir in a directory that cannot be written",
        "cp -r .git evil && rm evil/HEAD && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = %s\\n' \
         \"$M\" > evil/config && printf '../evil\\n' > .git/commondir; chmod 0555 .git",
    ),
    (
        "a repository that cannot be listed",
        "git init -q sub; git -C sub config core.fsmonitor \"$M\"; chmod 0311 sub/.git",
    ),
    (
        "a hook that cannot be read",
        "git init -q sub; printf '#!/bin/sh\\n%s\\n' \"$M\" > sub/.git/hooks/post-index-change; \
         chmod 0111 sub/.git/hooks/post-index-change; touch sub/new",
    ),
    (
        "hooks that cannot be listed",
        "git init -q sub; printf '#!/bin/sh\\n%s\\n' \"$M\" > sub/.git/hooks/post-index-change; \
         chmod +x sub/.git/hooks/post-index-change; chmod 0311 sub/.git/hooks; touch sub/new",
    ),
    (
        "a submodule's settings that cannot be written",
        "printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" >> .git/modules/lib/config; touch lib/new; \
         chmod 0444 .git/modules/lib/config; chmod 0511 .git/modules/lib",
    ),
    (
        "from the background, after the command",
        "(sleep 1; cp -r .git evil; printf '[core]\\n\\tfsmonitor = %s\\n' \"$M\" > evil/config; \
         printf '../evil\\n' > .git/commondir) > /dev/null 2>&1 &",
    ),
];

/// Makes each attack in a repository of its own with a shell that its user approved, and looks.
#[test]
fn the_hosts_git_runs_nothing_that_commands_left_in_a_repository() {
    for (name, attack) in ATTACKS {
        let place = repository();
        let (at, mark) = (place.path().join("work"), place.path().join("pwned"));
        let mut agent = Agent::start(&at, &["--data", "../data"]);
        let run = format!("M='touch {}'; {attack}", mark.display());
        let said = agent.shell(&run);
        look(&at);
        assert!(!mark.exists(), "{name}: {said}");
        drop(agent);
        look(&at);
        look(&at.join("lib"));
        for sub in ["sub", "evil"] {
            if at.join(sub).is_dir() {
                look(&at.join(sub));
            }
        }
        assert!(!mark.exists(), "{name}, after the sandbox: {said}");
        let (ok, log) = git(&at, &["log", "--oneline"]);
        assert!(name.contains("moved away") || ok && log.contains("first"), "{name}: {log}");
    }
}

/// Places where git writes, of which an agent makes links to a file or directory that is not its own.
const WRITTEN: &[(&str, &str)] = &[
    (".git/COMMIT_EDITMSG", "file"),
    (".git/ORIG_HEAD", "file"),
    (".git/FETCH_HEAD", "file"),
    (".git/logs/HEAD", "file"),
    (".git/logs/refs/heads/main", "file"),
    (".git/logs/refs/heads", "directory"),
    (".git/refs/tags", "directory"),
    (".git/objects/pack", "directory"),
    (".git/objects/info", "directory"),
    (".git/info", "directory"),
    (".git/modules/lib/logs/HEAD", "file"),
];

#[test]
fn the_hosts_git_writes_through_no_link_that_commands_left_in_a_repository() {
    for (name, kind) in WRITTEN {
        let place = repository();
        let (at, outside) = (place.path().join("work"), place.path().join("outside"));
        fs::create_dir_all(outside.join("directory")).unwrap();
        fs::write(outside.join("file"), "untouched\n").unwrap();
        let mut agent = Agent::start(&at, &["--data", "../data"]);
        let target = outside.join(kind);
        let said = agent.shell(&format!("rm -rf {name}; ln -s {} {name}", target.display()));
        assert!(said.contains("was removed"), "{name}: {said}");
        drop(agent);
        fs::write(at.join("a.txt"), "two\n").unwrap();
        for directory in [at.clone(), at.join("lib")] {
            for args in [
                &["commit", "-q", "-a", "-m", "second"][..],
                &["commit", "-q", "--allow-empty", "-m", "third"],
                &["tag", "v1"],
                &["reset", "-q", "HEAD~1"],
                &["fetch", "-q", "."],
                &["gc", "-q"],
                &["checkout", "-q", "--detach"],
            ] {
                git(&directory, args);
            }
        }
        let left = fs::read_to_string(outside.join("file")).unwrap();
        assert_eq!(left, "untouched\n", "{name}: {said}");
        let made = fs::read_dir(outside.join("directory")).unwrap().count();
        assert_eq!(made, 0, "{name}: {said}");
    }
}

#[test]
fn the_hosts_git_checks_no_submodule_out_elsewhere_than_in_the_workspace() {
    for (name, attack) in [
        ("out of it", "git config -f .git/modules/lib/config core.worktree ../../../../outside"),
        (
            "through a link",
            "ln -s ../outside out; git config -f .git/modules/lib/config core.worktree ../../../out",
        ),
        ("among hooks", "git config -f .git/modules/lib/config core.worktree ../../hooks"),
        (
            "a directory with the name of submodules",
            "mkdir modules; git clone -q .git/modules/lib modules/lib; \
             git -C modules/lib config core.worktree ../../../../outside",
        ),
    ] {
        let place = repository();
        let (at, outside) = (place.path().join("work"), place.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        let mut agent = Agent::start(&at, &["--data", "../data"]);
        let said = agent.shell(attack);
        drop(agent);
        for directory in [at.join("lib"), at.join("modules/lib")] {
            if directory.is_dir() {
                git(&directory, &["checkout", "-q", "-f", "HEAD"]);
                git(&directory, &["reset", "-q", "--hard"]);
            }
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{name}: {said}");
        assert!(!at.join(".git/hooks/a.txt").exists(), "{name}: {said}");
    }
}

// The owner goes on working beside the agent.
#[test]
fn a_hook_that_the_owner_adds_while_an_agent_works_stays() {
    let place = repository();
    let at = place.path().join("work");
    let mut agent = Agent::start(&at, &["--data", "../data"]);
    agent.shell("git status --short");
    let hook = at.join(".git/hooks/pre-push");
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    let said = agent.shell("git status --short; echo x > .git/hooks/pre-push");
    assert!(!said.contains("was renamed") && said.contains("Read-only"), "{said}");
    drop(agent);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "#!/bin/sh\n");
}

// The workspace need not be a repository: what an agent makes of it is none that runs anything.
#[test]
fn a_workspace_that_is_no_repository_becomes_none_that_runs_anything() {
    for (name, attack) in [
        ("git init", "git init -q; git config core.fsmonitor \"$M\""),
        (
            "a bare one",
            "git init -q --bare .; git config core.bare false; git config core.worktree .; \
          git config core.fsmonitor \"$M\"",
        ),
        (
            "a bare one below",
            "git init -q --bare sub; cd sub; git config core.bare false; \
          git config core.worktree .; git config core.fsmonitor \"$M\"",
        ),
        (
            "a template with hooks",
            "mkdir -p t/hooks; printf '#!/bin/sh\\n%s\\n' \"$M\" > \
          t/hooks/post-index-change; chmod +x t/hooks/post-index-change; git init -q --template=t",
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (at, mark) = (place.path().join("work"), place.path().join("pwned"));
        fs::create_dir_all(at.join("deep")).unwrap();
        fs::write(at.join("a.txt"), "one\n").unwrap();
        let mut agent = Agent::start(&at, &["--data", "../data"]);
        let said = agent.shell(&format!("M='touch {}'; {attack}", mark.display()));
        for directory in [at.clone(), at.join("deep"), at.join("sub")] {
            if directory.is_dir() {
                look(&directory);
                git(&directory, &["add", "-A"]);
            }
        }
        assert!(!mark.exists(), "{name}: {said}");
    }
}

#[test]
fn the_tools_for_files_make_no_repository_whatever_its_name() {
    let place = tempfile::tempdir().unwrap();
    let (at, mark) = (place.path().join("work"), place.path().join("pwned"));
    fs::create_dir_all(&at).unwrap();
    let mut agent = Agent::start(&at, &["--data", "../data"]);
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\
         \tfsmonitor = touch {}\n",
        mark.display()
    );
    for prefix in ["sub/.git/", "sub/.GIT/", "sub/", ""] {
        for (name, content) in [
            ("config", config.as_str()),
            ("HEAD", "ref: refs/heads/main\n"),
            ("objects/x", ""),
            ("refs/x", ""),
            ("commondir", "../evil\n"),
        ] {
            let path = format!("{prefix}{name}");
            agent.call("write", &json!({"path": path, "content": content}));
        }
    }
    let refused = agent.call("write", &json!({"path": "x/.git/config", "content": config}));
    assert!(refused.to_string().contains("is protected"), "{refused}");
    drop(agent);
    for directory in [at.clone(), at.join("sub")] {
        if directory.is_dir() {
            look(&directory);
        }
    }
    assert!(!mark.exists());
}

// What agents do with git all day goes on working, and the host sees it.
#[test]
fn commits_branches_and_fresh_repositories_work_as_ever() {
    let place = repository();
    let at = place.path().join("work");
    let mut agent = Agent::start(&at, &["--data", "../data"]);
    let said = agent.shell(
        "set -e; git status --short; git log --oneline; echo two >> a.txt; git diff --stat; \
         git add a.txt; git commit -q -m second; git switch -q -c feature; echo three >> a.txt; \
         git commit -q -am third; git switch -q main; git merge -q feature; \
         git init -q fresh; cd fresh; echo x > x; git add x; \
         git -c user.name=a -c user.email=a@b commit -q -m fresh; echo all-$((40 + 2))-done",
    );
    assert!(said.contains("all-42-done"), "{said}");
    for done in ["was renamed", "was restored", "was removed"] {
        assert!(!said.contains(done), "{said}");
    }
    drop(agent);
    let (ok, log) = git(&at, &["log", "--oneline"]);
    assert!(ok && log.contains("third") && log.contains("second"), "{log}");
    assert!(git(&at, &["status", "--short"]).0);
    let (ok, log) = git(&at.join("fresh"), &["log", "--oneline"]);
    assert!(ok && log.contains("fresh"), "{log}");
    let read = Agent::start(&at, &["--data", "../data"]).shell("git log --oneline");
    assert!(read.contains("third"), "{read}");
}
