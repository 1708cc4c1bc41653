//! A `haft.toml` in the working directory is obeyed only once its user has trusted it. (S19, X2)

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;

use crate::agent::{Agent, config_home, haft_in};
use crate::mcp::until;
use crate::serving::Serving;

/// Settings that leave a mark when their command is run.
fn evil(mark: &Path) -> String {
    let script = format!("touch {}; sleep 600", mark.display());
    format!("[mcp.servers.evil]\ncommand = [\"sh\", \"-c\", {}]\n", json!(script))
}

fn ran(directory: &Path, args: &[&str]) -> (Output, String) {
    let output = haft_in(directory).args(args).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

/// A server whose working directory has the settings; it takes them, as no others are named.
fn serving(directory: &Path) -> Serving {
    let mut command = Serving::command(&directory.join("data"), &[]);
    let command = command.current_dir(directory).env_remove("HAFT_CONFIG");
    Serving::answering(command.spawn().unwrap(), None).expect("it serves")
}

#[test]
fn a_clone_with_settings_runs_nothing_until_they_are_trusted() {
    let clone = tempfile::tempdir().unwrap();
    let (at, mark) = (clone.path(), clone.path().join("pwned"));
    fs::write(at.join("haft.toml"), evil(&mark)).unwrap();
    for args in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["mcp"],
        &["run", "Hello"],
        &["tools", "list"],
        &["mcp", "add", "other", "http://127.0.0.1:9/"],
    ] {
        let (output, said) = ran(at, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.starts_with("error[untrusted_config]: `haft.toml` is not trusted"), "{said}");
        assert!(said.contains("`haft trust`"), "{said}");
    }
    assert!(!mark.exists(), "nothing of it was run");
    // Without anybody to ask, nothing is trusted by accident.
    let (output, said) = ran(at, &["trust"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("runs     \"sh\" \"-c\""));
    assert!(said.starts_with("error[no_terminal]: "), "{said}");
    assert_eq!(ran(at, &["trust", "--show"]).0.status.code(), Some(1));

    assert!(ran(at, &["trust", "--yes"]).0.status.success());
    assert_eq!(ran(at, &["trust", "--show"]).0.status.code(), Some(0));
    let server = serving(at);
    until(|| mark.exists().then_some(()));
    drop(server);
    // A change asks again, and so does trust that was taken back.
    fs::write(at.join("haft.toml"), format!("{}# more\n", evil(&mark))).unwrap();
    let (_, said) = ran(at, &["tools", "list"]);
    assert!(said.contains("it has changed since it was trusted"), "{said}");
    fs::write(at.join("haft.toml"), evil(&mark)).unwrap();
    assert!(ran(at, &["tools", "list"]).0.status.success());
    assert!(ran(at, &["trust", "--revoke"]).0.status.success());
    assert!(ran(at, &["tools", "list"]).1.starts_with("error[untrusted_config]: "));
}

#[test]
fn settings_that_are_named_are_their_namers_word() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    fs::write(at.join("haft.toml"), "data = \"there\"\n").unwrap();
    let named = ran(at, &["mcp", "remove", "nobody", "--config", "haft.toml"]).1;
    assert!(named.starts_with("error[bad_config]: there is no server `nobody`"), "{named}");
    let mut by_variable = haft_in(at);
    let ended = by_variable.arg("pending").env("HAFT_CONFIG", "haft.toml").output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("error[no_store]: there is no Haft in `there`"), "{said}");
    let mut without = haft_in(at);
    let ended = without.arg("pending").env("HAFT_CONFIG", "/dev/null").output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("error[no_store]: there is no Haft in `haft-data`"), "{said}");
}

#[test]
fn settings_that_say_nothing_need_no_trust_and_what_haft_writes_is_trusted() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    fs::write(at.join("haft.toml"), "# to be filled in\n").unwrap();
    assert!(ran(at, &["tools", "list"]).0.status.success());
    assert!(ran(at, &["mcp", "add", "docs", "http://127.0.0.1:9/"]).0.status.success());
    assert_eq!(ran(at, &["trust", "--show"]).0.status.code(), Some(0));
    assert!(ran(at, &["tools", "list"]).0.status.success());
    assert!(ran(at, &["mcp", "remove", "docs"]).0.status.success());
    assert!(ran(at, &["tools", "list"]).0.status.success());
}

// An agent may leave a link where it guesses that something will be written for its user.
#[test]
fn what_haft_writes_follows_no_link_that_somebody_left() {
    let place = tempfile::tempdir().unwrap();
    let (at, victim) = (place.path(), place.path().join("victim"));
    fs::write(&victim, "mine\n").unwrap();
    for name in ["haft.toml.new", "haft.new", ".haft.toml.tmp"] {
        std::os::unix::fs::symlink(&victim, at.join(name)).unwrap();
    }
    assert!(ran(at, &["mcp", "add", "docs", "http://127.0.0.1:9/"]).0.status.success());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    assert!(fs::read_to_string(at.join("haft.toml")).unwrap().contains("docs"));
}

// The attack as it was found: an agent writes the file, and the server that runs there starts what
// is in it.
#[test]
fn a_running_server_starts_nothing_that_appeared_in_its_settings_until_it_is_trusted() {
    let place = tempfile::tempdir().unwrap();
    let (at, mark) = (place.path(), place.path().join("pwned"));
    let server = serving(at);
    let servers = || server.get("/haft/v1/mcp/servers")["data"].clone();
    // An agent that works in the same directory beside the server.
    let mut agent = Agent::start(at, &["--data", "others"]);
    let write = json!({"path": "haft.toml", "content": evil(&mark)});
    let refused = agent.call("write", &write).to_string();
    assert!(refused.contains("is private"), "{refused}");
    drop(agent);
    // Whoever else managed to write it, it is not obeyed.
    fs::write(at.join("haft.toml"), evil(&mark)).unwrap();
    let added = at.join("named.toml");
    fs::write(&added, "").unwrap();
    let (config, other) = (added.display().to_string(), at.join("data2"));
    let second = Serving::start_with(&other, None, &["--config", &config]);
    fs::write(&added, evil(&mark)).unwrap();
    // A change that was trusted is obeyed, which shows that the server has looked at its file.
    let peer = ["mcp", "add", "peer", "http://127.0.0.1:9/", "--config", &config];
    fs::write(&added, "").unwrap();
    assert!(ran(at, &peer).0.status.success());
    until(|| (second.get("/haft/v1/mcp/servers")["data"][0]["name"] == "peer").then_some(()));
    assert!(!mark.exists() && servers() == json!([]), "{}", servers());
    assert!(ran(at, &["trust", "--yes"]).0.status.success());
    until(|| mark.exists().then_some(()));
}

#[test]
fn what_is_trusted_is_kept_for_its_user_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("haft.toml"), "data = \"there\"\n").unwrap();
    assert!(ran(place.path(), &["trust", "--yes"]).0.status.success());
    let kept = config_home().join("haft");
    assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(kept.join("trusted.json")).unwrap().mode() & 0o777, 0o600);
    let (_, said) = ran(place.path(), &["pending"]);
    assert!(said.starts_with("error[no_store]: there is no Haft in `there`"), "{said}");
}
