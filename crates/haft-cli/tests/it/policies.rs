//! A policy file: checked, heard by every node of its data directory, never left out silently.

use serde_json::json;

use crate::commands::haft;
use crate::serving::Serving;

const RULES: &str = r#"
[[rule]]
name = "nothing from the network"
tools = ["shell_run"]
when = [{ field = "/command", test = { equals = "curl" } }]
verdict = "deny"
reason = "commands stay on this machine"

[[rule]]
name = "elsewhere"
tools = ["github_*"]
verdict = "ask"
reason = "someone looks"

[[example]]
tool = "shell_run"
arguments = { command = "curl" }
expect = "deny"
"#;

#[test]
fn a_file_is_checked_and_tells_what_would_happen() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("mine.toml"), RULES).unwrap();
    let checked = haft(data.path(), &["policy", "check", "mine.toml"]);
    assert_eq!(checked.stdout, "mine.toml: 2 rules, all examples hold (1)\n", "{}", checked.stderr);
    let idle = "warning: the rule `elsewhere` is about `github_*`, and there is no such tool here";
    assert!(checked.stderr.contains(idle), "{}", checked.stderr);
    let json = haft(data.path(), &["policy", "check", "mine.toml", "--json"]).json();
    assert_eq!(json["idle"], json!([{ "rule": "elsewhere", "tools": "github_*" }]));
    let supposed = |command: &str, more: &[&str]| {
        let arguments = json!({ "command": command }).to_string();
        let args = ["policy", "check", "mine.toml", "--tool", "shell_run", "--args", &arguments];
        haft(data.path(), &[&args, more].concat())
    };
    let denied = supposed("curl", &[]);
    assert!(denied.stdout.starts_with("shell_run is refused\n"), "{}", denied.stdout);
    let line = "▸ deny   rule nothing from the network  commands stay on this machine";
    assert!(denied.stdout.contains(line), "{}", denied.stdout);
    assert_eq!(supposed("ls", &["--json"]).json()["decision"], "ask");
    assert_eq!(haft(data.path(), &["policy", "check"]).code, 1);
    assert!(!data.path().join("haft.db").exists(), "looking makes no store");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("bad.toml"), RULES.replace("equals", "begins")).unwrap();
    let refused = haft(data.path(), &["policy", "check", "bad.toml"]);
    assert!(refused.stderr.starts_with("error[bad_policy]: `bad.toml` cannot be used\n"));
    assert!(
        refused
            .stderr
            .contains("line 5, column 40: unknown variant `begins`, expected one of `equals`"),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.code, 1);
}

// The rules of a data directory are heard with and without a server, and one that cannot be read
// keeps everything from starting.
#[test]
fn d22_the_rules_of_a_data_directory_are_heard_by_every_node_of_it() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("policy.toml"), RULES).unwrap();
    for serves in [false, true] {
        let server = serves.then(|| Serving::start(data.path(), Some("unknown")));
        let curl = ["tools", "call", "shell_run", "--args", r#"{"command": "curl"}"#];
        let refused = haft(data.path(), &curl);
        assert!(refused.stderr.contains("commands stay on this machine"), "{}", refused.stderr);
        let look = ["tools", "call", "shell_run", "--args", r#"{"command": "ls"}"#];
        assert_eq!(haft(data.path(), &look).code, 3);
        drop(server);
    }
    std::fs::write(data.path().join("policy.toml"), "[[rule]]\n").unwrap();
    let root = tempfile::tempdir().unwrap();
    let mcp = ["mcp", "--root", root.path().to_str().unwrap()];
    for args in [&["pending"][..], &["serve", "--listen", "127.0.0.1:0"], &mcp] {
        let refused = haft(data.path(), args);
        assert!(refused.stderr.contains("error[bad_policy]: "), "{args:?}: {}", refused.stderr);
        assert_eq!(refused.code, 1);
    }
}
