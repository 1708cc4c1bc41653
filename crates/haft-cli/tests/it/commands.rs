//! The commands as scripts use them, with and without a running server.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::serving::Serving;

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Ended {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|_| panic!("{}{}", self.stdout, self.stderr))
    }
}

/// Runs `haft` over a data directory, without anybody's settings and without a terminal.
pub(crate) fn haft(data: &Path, args: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HAFT_DATA", data)
        .env("XDG_CONFIG_HOME", crate::agent::config_home())
        .current_dir(data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ended { stdout: text(output.stdout), stderr: text(output.stderr), code }
}

#[test]
fn output_that_cannot_be_written_is_told() {
    for args in [&["completions", "bash"][..], &["explain", "stale"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        let output = command.args(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error[failed]: what was printed is not whole\n"), "{said}");
    }
}

// The same commands give the same answers with and without a server.
#[test]
fn a_call_waits_is_found_and_decided_with_and_without_a_server() {
    let data = tempfile::tempdir().unwrap();
    for serves in [false, true] {
        let server = serves.then(|| Serving::start(data.path(), Some("unknown")));
        let arguments = r#"{"command": "printf done > made"}"#;
        let call = ["tools", "call", "shell_run", "--args", arguments, "--json"];
        let called = haft(data.path(), &call);
        assert_eq!(called.code, 3, "{}{}", called.stdout, called.stderr);
        let id = called.json()["call"].as_str().unwrap().to_owned();
        let pending = haft(data.path(), &["pending", "--json"]).json();
        assert_eq!(pending["data"][0]["call"], json!(id));
        assert_eq!(pending["data"].as_array().unwrap().len(), 1);
        let short = &id[..id.len() - 2];
        let explained = haft(data.path(), &["policy", "explain", short]);
        assert!(explained.stdout.starts_with("shell_run waits for a person\n"), "{explained:?}");
        let approved = haft(data.path(), &["approve", short, "--json"]);
        assert_eq!(approved.code, 0, "{}", approved.stderr);
        let approved = approved.json();
        assert_eq!(approved["decision"], "approve");
        assert!(approved["outcome"]["result"]["ok"].is_object(), "{approved}");
        for (verb, value) in [("approve", None), ("deny", None), ("answer", Some("{}"))] {
            let again: Vec<&str> = [verb, short].into_iter().chain(value).collect();
            let again = haft(data.path(), &again);
            let said = "error[stale]: shell_run was approved by admin at 20";
            assert!(again.stderr.starts_with(said), "{}", again.stderr);
            assert!(again.stderr.contains("\n  more: haft explain stale\n"), "{}", again.stderr);
            assert_eq!(again.code, 4);
        }
        let explained = haft(data.path(), &["policy", "explain", short]);
        let said = "shell_run waited for a person: approved by admin\n";
        assert!(explained.stdout.starts_with(said), "{explained:?}");
        let session = approved["session"].as_str().unwrap();
        let trace = haft(data.path(), &["sessions", "trace", session]).stdout;
        let told = ["waits: approval", "approved by admin", "attempt 1", "done"];
        assert!(told.iter().all(|part| trace.contains(part)), "{trace}");
        let events = haft(data.path(), &["sessions", "events", session, "--json"]).stdout;
        let started = events.lines().filter(|line| line.contains("\"call.started\"")).count();
        assert_eq!(started, 1, "it ran once: {events}");
        drop(server);
    }
}

#[test]
fn a_denial_reaches_the_call_and_a_result_goes_to_stdout() {
    let data = tempfile::tempdir().unwrap();
    let call = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#, "--json"];
    let id = haft(data.path(), &call).json()["call"].as_str().unwrap().to_owned();
    let denied = haft(data.path(), &["deny", &id, "--note", "not on a Friday", "--json"]).json();
    assert_eq!(denied["decision"], "deny");
    let failure = &denied["outcome"]["result"]["err"];
    assert!(failure["message"].as_str().unwrap().contains("not on a Friday"), "{denied}");
    let looked = haft(data.path(), &["tools", "call", "sandbox_describe"]);
    assert_eq!((looked.code, looked.stderr.as_str()), (0, ""), "{}", looked.stdout);
}

#[test]
fn one_turn_in_a_script_ends_where_it_waits_for_a_person() {
    let data = tempfile::tempdir().unwrap();
    let ran = haft(data.path(), &["run", "Show me"]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("Welcome."), "{}", ran.stdout);
    let waits = haft(data.path(), &["pending", "--json"]).json();
    let call = waits["data"][0]["call"].as_str().unwrap();
    let wrong = haft(data.path(), &["approve", call]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.starts_with("error[wrong_kind]: "), "{}", wrong.stderr);
    let answered = haft(data.path(), &["answer", call, r#"{"reader": "all", "tone": "plain"}"#]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    // Without a server the command sees the call through, and says how it ended.
    let said: Vec<&str> = answered.stdout.lines().collect();
    assert_eq!(said[0], "ask_user answered by admin");
    assert!(said[1].starts_with("  ✓ done ") && said[1].contains("\"reader\":\"all\""), "{said:?}");
}

#[test]
fn definitions_of_other_dialects_are_taken_in_and_judged() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("tools.json");
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tools = json!([
        { "type": "function", "function": { "name": "get_weather", "description": "Maybe weather.", "parameters": schema } },
        { "name": "get_time", "description": "Gets the time. Use when asked.", "inputSchema": schema },
        { "name": "get_news", "description": "Gets news. Use when asked.", "input_schema": schema },
    ]);
    std::fs::write(&file, tools.to_string()).unwrap();
    let imported = haft(data.path(), &["tools", "import", "tools.json"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let names: Vec<Value> = imported
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["definition"]["name"].clone())
        .collect();
    assert_eq!(names, ["get_weather", "get_time", "get_news"]);
    for read_as in
        ["get_weather: read as openai chat", "get_time: read as mcp", "get_news: read as anthropic"]
    {
        assert!(imported.stderr.contains(read_as), "{}", imported.stderr);
    }
    let lint = haft(data.path(), &["tools", "lint", "tools.json", "--json"]).json();
    assert!(
        lint["data"].as_array().unwrap().iter().any(|finding| finding["tool"] == "get_weather")
    );
}

#[test]
fn definitions_are_given_to_an_agent() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let agent = json!({ "name": "A", "model": "scripted/demo", "tools": [] });
    let agent = server.post("/v1/agents", &agent)["id"].as_str().unwrap().to_owned();
    let tool = |description: &str| {
        let schema = json!({ "type": "object", "properties": {} });
        json!({ "name": "get_news", "description": description, "input_schema": schema })
    };
    for description in ["Gets news. Use when asked.", "Gets the news. Use when asked."] {
        std::fs::write(data.path().join("tools.json"), tool(description).to_string()).unwrap();
        let given = haft(data.path(), &["tools", "import", "tools.json", "--agent", &agent]);
        assert_eq!(given.code, 0, "{}", given.stderr);
        let tools = server.get(&format!("/v1/agents/{agent}"))["tools"].clone();
        assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
        assert_eq!(tools[0]["definition"]["description"], description);
    }
    let nobody = haft(data.path(), &["tools", "import", "tools.json", "--agent", "agent_none"]);
    assert!(nobody.stderr.contains("error[not_found_error]: "), "{}", nobody.stderr);
}

#[test]
fn keys_are_made_beside_a_running_server_and_in_a_store_by_itself() {
    let data = tempfile::tempdir().unwrap();
    let create = |more: &[&str]| {
        let args = ["keys", "create", "--actor", "ann", "--scope", "read"];
        haft(data.path(), &[&args, more].concat())
    };
    let made = create(&["--tenant", "other"]);
    assert!(made.stdout.starts_with("haft_"), "{}", made.stderr);
    assert!(made.stderr.contains("there was no store: one is made in"), "{}", made.stderr);
    let alone = create(&["--json"]).json()["key"].as_str().unwrap().to_owned();
    let server = Serving::start(data.path(), Some("unknown"));
    let beside = create(&[]);
    assert_eq!((beside.code, beside.stderr.as_str()), (0, ""));
    for key in [alone.as_str(), beside.stdout.trim()] {
        let header = format!("x-api-key: {key}\r\n");
        let (status, me) = server.raw("GET", "/haft/v1/me", &header, "");
        assert_eq!(
            (status, &me["actor"]["id"], &me["tenant"]),
            (200, &json!("ann"), &json!("default"))
        );
    }
    let other = create(&["--tenant", "other"]);
    assert!(other.stderr.contains("your own key is of `default`"), "{}", other.stderr);
    assert_eq!(other.code, 1);
}

#[test]
fn completions_and_man_pages_are_those_of_the_commands() {
    let data = tempfile::tempdir().unwrap();
    for (shell, holds) in [
        ("bash", "haft__subcmd__policy__subcmd__check"),
        ("zsh", "_haft__subcmd__policy__subcmd__check_commands"),
        ("fish", "__fish_seen_subcommand_from policy"),
        ("elvish", "haft;policy;check"),
        ("powershell", "haft;policy;check"),
    ] {
        let printed = haft(data.path(), &["completions", shell]);
        assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
        assert!(printed.stdout.contains(holds), "{shell}: {}", printed.stdout);
    }
    let script = haft(data.path(), &["completions", "bash"]).stdout;
    std::fs::write(data.path().join("haft.bash"), script).unwrap();
    let ask = "source ./haft.bash; COMP_WORDS=(haft policy ''); COMP_CWORD=2; \
               _haft haft '' policy; echo ${COMPREPLY[@]}";
    let asked = Command::new("bash").args(["-c", ask]).current_dir(data.path()).output().unwrap();
    let offered = String::from_utf8(asked.stdout).unwrap();
    assert!(offered.contains("check") && offered.contains("explain"), "{offered}");
    assert_eq!(haft(data.path(), &["man", "man1"]).code, 0);
    let page = |name: &str| std::fs::read_to_string(data.path().join("man1").join(name)).unwrap();
    assert!(page("haft.1").contains(".TH haft 1"), "{}", page("haft.1"));
    assert!(page("haft-policy-check.1").contains("policy file"));
    assert!(!data.path().join("man1/haft-torture-life.1").exists(), "hidden ones are left out");
}

#[test]
fn a_file_of_settings_stands_behind_flags_and_environment() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("haft.toml"), "data = \"here\"\n").unwrap();
    assert_eq!(haft(place.path(), &["trust", "--yes"]).code, 0);
    let output = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(["pending"])
        .env_clear()
        .env("XDG_CONFIG_HOME", crate::agent::config_home())
        .current_dir(place.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error[no_store]: there is no Haft in `here`\n"), "{stderr}");
    assert_eq!(output.status.code(), Some(5));
}

#[track_caller]
fn assert_code(ended: &Ended, code: &str) {
    assert!(ended.stderr.starts_with(&format!("error[{code}]: ")), "{}", ended.stderr);
    let said = [" why: ", " next: ", &format!(" more: haft explain {code}\n")]
        .map(|part| ended.stderr.contains(part));
    assert_eq!((said, ended.code), ([true; 3], 1), "{}", ended.stderr);
}

#[test]
fn what_keeps_a_command_from_its_store_or_settings_has_a_code() {
    let data = tempfile::tempdir().unwrap();
    let nowhere = "postgres://nobody@127.0.0.1:9/none";
    assert_code(&haft(data.path(), &["pending", "--database-url", nowhere]), "bad_store");
    std::fs::write(data.path().join("sealing-key"), "short").unwrap();
    assert_code(&haft(data.path(), &["run", "Show me"]), "bad_sealing_key");
    std::fs::write(data.path().join("haft.toml"), "[mcp.server.peer]\n").unwrap();
    assert_eq!(haft(data.path(), &["trust", "--yes"]).code, 0);
    assert_code(&haft(data.path(), &["mcp", "remove", "peer"]), "bad_config");
    assert_code(&haft(data.path(), &["mcp", "add", "peer", "ftp://there"]), "bad_config");
}

#[test]
fn a_misspelt_tool_leads_to_the_one_that_differs_by_the_fewest_letters() {
    let data = tempfile::tempdir().unwrap();
    for (misspelt, meant) in
        [("shel_run", "shell_run"), ("shell_rn", "shell_run"), ("shell_clos", "shell_close")]
    {
        let refused = haft(data.path(), &["tools", "call", misspelt]);
        let suggested = format!("did you mean `{meant}`?");
        assert!(refused.stderr.contains(&suggested), "{misspelt}: {}", refused.stderr);
    }
}

#[test]
fn a_trace_tells_in_words_why_a_call_was_not_run() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let wanted = json!({ "arguments": { "command": 5 } });
    let (_, answer) = server.ask("POST", "/haft/v1/tools/shell_run/call", &wanted);
    let sessions = server.get("/haft/v1/sessions");
    let session = sessions["data"][0]["id"].as_str().unwrap();
    let trace = haft(data.path(), &["sessions", "trace", session]).stdout;
    assert!(trace.contains("shell_run: not run: "), "{answer} {trace}");
    assert!(!trace.contains("Rejection") && !trace.contains("raw_arguments"), "{trace}");
}
