//! Haft's own state is outside every root: whatever an agent may do, it can neither read nor change
//! the data, the configuration and what is trusted. (S19, X1, X10)

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, haft_in};
use crate::serving::Serving;

/// What a policy of the owner says; no attack may have it go.
const POLICY: &str = "[[rule]]\nname = \"kept\"\ntools = [\"github_*\"]\nverdict = \"deny\"\n\
                      reason = \"known-only-to-the-owner\"\n";
const SETTINGS: &str = "suspend_ttl = \"6h\" # a-secret-of-the-settings\n";

/// A directory that somebody works in, with Haft's data and settings where they are by default.
fn ground() -> tempfile::TempDir {
    let ground = tempfile::tempdir().unwrap();
    let at = ground.path();
    fs::create_dir(at.join("haft-data")).unwrap();
    fs::write(at.join("haft-data/policy.toml"), POLICY).unwrap();
    fs::write(at.join("haft.toml"), SETTINGS).unwrap();
    fs::write(at.join("notes.txt"), "buy milk\n").unwrap();
    symlink("haft-data", at.join("way-in")).unwrap();
    assert!(haft_in(at).args(["trust", "--yes"]).status().unwrap().success());
    ground
}

/// Whether the whole store, the policy and the settings are what their owner left.
#[track_caller]
fn assert_untouched(at: &Path, data: &str) {
    assert_eq!(fs::read_to_string(at.join(data).join("policy.toml")).unwrap(), POLICY);
    assert_eq!(fs::read_to_string(at.join("haft.toml")).unwrap(), SETTINGS);
    let verified = haft_in(at).args(["audit", "verify", "--data", data]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[test]
fn the_tools_for_files_do_not_reach_hafts_state_from_the_default_root() {
    let ground = ground();
    let at = ground.path();
    let mut agent = Agent::start(at, &[]);
    let refused = |answer: serde_json::Value, what: &str| {
        let said = answer.to_string();
        assert!(answer["isError"] == true && said.contains("is private"), "{what}: {said}");
    };
    for path in [
        "haft-data/policy.toml",
        "haft-data/sealing-key",
        "haft-data/haft.db",
        "./way-in/policy.toml",
        "/workspace/haft-data/../haft-data/policy.toml",
        "haft.toml",
    ] {
        refused(agent.call("read", &json!({"path": path})), path);
    }
    for path in ["haft-data/policy.toml", "haft-data/new/deep.txt", "haft-data/x", "haft.toml"] {
        let write = json!({"path": path, "content": "[[rule]]\n"});
        refused(agent.call("write", &write), path);
    }
    let edit = json!({"path": "haft-data/policy.toml", "oldText": "deny", "newText": "ask"});
    refused(agent.call("edit", &edit), "edit");
    let made = json!({"path": "haft-data/sub", "content": "", "mode": "directory"});
    refused(agent.call("write", &made), "a directory");
    for grep in [
        json!({"query": "known-only|a-secret-of", "regex": true, "path": "."}),
        json!({"query": "a-secret-of", "path": "haft.toml"}),
        json!({"query": "known-only", "path": "haft-data"}),
        json!({"query": "known-only", "path": "way-in"}),
    ] {
        let found = agent.call("grep", &grep).to_string();
        assert!(
            !found.contains("secret-of-the") && !found.contains("only-to-the-owner"),
            "{found}"
        );
    }
    let listed = agent.call("glob", &json!({"path": ".", "pattern": "**/*"})).to_string();
    assert!(listed.contains("notes.txt"), "{listed}");
    assert!(!listed.contains("sealing-key") && !listed.contains("haft.db"), "{listed}");
    // What lies beside it is worked with as ever.
    let read = agent.call("read", &json!({"path": "notes.txt"})).to_string();
    assert!(read.contains("buy milk"), "{read}");
    agent.call("write", &json!({"path": "sub/other.txt", "content": "tea\n"}));
    assert_eq!(fs::read_to_string(at.join("sub/other.txt")).unwrap(), "tea\n");
    drop(agent);
    assert_untouched(at, "haft-data");
}

#[test]
fn commands_do_not_reach_hafts_state_from_the_default_root() {
    let ground = ground();
    let at = ground.path();
    let mut agent = Agent::start(at, &[]);
    let looked = agent.shell("ls -A haft-data way-in/; cat haft.toml; echo looked");
    assert!(looked.contains("looked"), "{looked}");
    for secret in ["sealing-key", "haft.db", "policy.toml", "a-secret-of"] {
        assert!(!looked.contains(secret), "{looked}");
    }
    for attack in [
        "cat haft-data/sealing-key",
        "echo > haft-data/policy.toml",
        "echo > way-in/policy.toml",
        "echo '[[rule]]' > haft.toml",
        "mv haft-data elsewhere",
        "mv haft.toml elsewhere.toml",
        "rm -f haft.toml",
        "rm -rf haft-data; test ! -e haft-data",
        "ln haft-data/haft.db linked",
        "ln haft.toml linked.toml",
        "mkdir haft-data/x",
        "umount haft-data",
    ] {
        let said = agent.shell(&format!("if {attack}; then echo was-$((40 + 2))-done; fi"));
        assert!(!said.contains("was-42-done"), "{attack}: {said}");
    }
    let look =
        json!({"command": "cat", "args": ["notes.txt", "haft-data/policy.toml", "haft.toml"]});
    let read_only = agent.call("bash", &look).to_string();
    assert!(read_only.contains("buy milk"), "{read_only}");
    assert!(!read_only.contains("kept") && !read_only.contains("a-secret-of"), "{read_only}");
    agent.shell("cat notes.txt > copy.txt && mkdir -p deep/er && mv copy.txt deep/er/");
    assert_eq!(fs::read_to_string(at.join("deep/er/copy.txt")).unwrap(), "buy milk\n");
    drop(agent);
    assert_untouched(at, "haft-data");
}

// A directory above the data must not be moved away: another could be made in its stead, with
// another policy in it.
#[test]
fn no_directory_above_the_data_is_renamed_or_replaced() {
    let ground = ground();
    let at = ground.path();
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::rename(at.join("haft-data"), at.join("a/b/data")).unwrap();
    fs::remove_file(at.join("way-in")).unwrap();
    symlink("a/b", at.join("way-in")).unwrap();
    let mut agent = Agent::start(at, &["--data", "a/b/data"]);
    for attack in ["mv a z", "mv a/b z", "mv way-in/data z", "cat a/b/data/policy.toml"] {
        let said = agent.shell(&format!("if {attack}; then echo was-$((40 + 2))-done; fi"));
        assert!(!said.contains("was-42-done"), "{attack}: {said}");
    }
    agent.shell("echo beside > a/b/beside.txt");
    assert_eq!(fs::read_to_string(at.join("a/b/beside.txt")).unwrap(), "beside\n");
    let read = agent.call("read", &json!({"path": "way-in/data/policy.toml"}));
    assert!(read.to_string().contains("is private"), "{read}");
    drop(agent);
    assert_untouched(at, "a/b/data");
}

#[test]
fn a_root_within_the_data_is_refused_with_what_to_change() {
    let ground = ground();
    let at = ground.path();
    fs::create_dir_all(at.join("haft-data/workspaces/one")).unwrap();
    for root in ["haft-data", "haft-data/workspaces", "haft-data/workspaces/one", "way-in"] {
        let mut command = haft_in(at);
        let ended = command.args(["mcp", "--root", root]).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{root}: {said}");
        assert!(said.starts_with("error[bad_config]: "), "{root}: {said}");
        assert!(said.contains("--root") && said.contains("--data"), "{root}: {said}");
    }
}

// `haft serve` and the commands without a server keep workspaces below the data: those are worked
// in, and nothing else of the data is.
#[test]
fn sessions_of_a_server_work_below_the_data_and_see_nothing_else_of_it() {
    let ground = ground();
    let at = ground.path();
    let arguments = json!({"command": "ls", "args": ["-la", "/workspace"]});
    let mut haft = haft_in(at);
    haft.args(["tools", "call", "bash", "--json", "--args", &arguments.to_string()]);
    let ended = haft.output().unwrap();
    let listed = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{listed} {}", String::from_utf8_lossy(&ended.stderr));
    assert!(listed.contains("total") && !listed.contains("sealing-key"), "{listed}");
    let read = json!({"path": "../../policy.toml"}).to_string();
    let read = haft_in(at).args(["tools", "call", "read", "--args", &read]).output().unwrap();
    assert!(!String::from_utf8_lossy(&read.stdout).contains("kept"));
}

#[test]
fn the_data_is_its_owners_alone_whether_it_is_new_or_was_open_before() {
    let ground = tempfile::tempdir().unwrap();
    let (new, open) = (ground.path().join("new"), ground.path().join("open"));
    fs::create_dir(&open).unwrap();
    drop(Serving::start(&open, None));
    for entry in fs::read_dir(&open).unwrap() {
        let path = entry.unwrap().path();
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    for data in [&new, &open] {
        let server = Serving::start(data, Some("unknown"));
        assert_eq!(fs::metadata(data).unwrap().mode() & 0o777, 0o700);
        let entries: Vec<_> =
            fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(entries.iter().any(|path| path.ends_with("haft.db-wal")), "{entries:?}");
        for path in entries {
            let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
        }
        drop(server);
    }
}

// Run by root only: nobody else can make a directory that belongs to another.
#[test]
fn data_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ground = tempfile::tempdir().unwrap();
    let data = ground.path().join("theirs");
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(65534), None).unwrap();
    let ended = haft_in(ground.path()).args(["run", "Hello", "--data", "theirs"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("error[bad_store]: "), "{said}");
    assert!(said.contains("belongs to user 65534"), "{said}");
}

// Under a strict umask commands used not to start, because they could not pass the directories of
// their own tree.
#[test]
fn commands_start_under_a_strict_umask() {
    let ground = ground();
    let binary = env!("CARGO_BIN_EXE_haft");
    let mut command = Command::new("sh");
    let run = format!("umask 077; exec {binary} mcp --consent-approves --user ann");
    command.args(["-c", &run]).current_dir(ground.path());
    command.env("XDG_CONFIG_HOME", crate::agent::config_home()).env_remove("HAFT_CONFIG");
    let mut agent = Agent::over(command);
    let said = agent.shell("cat notes.txt; touch made; stat -c %a made");
    assert!(said.contains("buy milk") && said.contains("600"), "{said}");
}

// Run by root only: nobody else can bind directories in a place of their own.
#[test]
fn the_data_is_not_reached_through_a_bind_mount_either() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ground = ground();
    let at = ground.path();
    fs::create_dir(at.join("bound")).unwrap();
    let binary = env!("CARGO_BIN_EXE_haft");
    let mut command = Command::new("unshare");
    let run =
        format!("mount --bind haft-data bound && exec {binary} mcp --consent-approves --user ann");
    command.args(["--mount", "sh", "-c", &run]).current_dir(at);
    command.env("XDG_CONFIG_HOME", crate::agent::config_home()).env_remove("HAFT_CONFIG");
    let mut agent = Agent::over(command);
    let said = agent.shell("cat bound/policy.toml; ls -A bound; echo > bound/x; cat notes.txt");
    assert!(said.contains("buy milk"), "{said}");
    assert!(!said.contains("kept") && !said.contains("sealing-key"), "{said}");
    let read = agent.call("read", &json!({"path": "bound/policy.toml"})).to_string();
    assert!(read.contains("is private"), "{read}");
    drop(agent);
    assert_untouched(at, "haft-data");
}
