//! The commands at which a person sits, in a real pseudo-terminal.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::pty::Terminal;
use crate::serving::Serving;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

/// Answers the tour's question, and comes to its approval.
fn come_to_the_edit(terminal: &mut Terminal) {
    terminal.until("› ");
    terminal.types("Show me\r");
    terminal.until("Who is it for?");
    terminal.types("everyone\r");
    terminal.until("3) formal");
    terminal.types("2\r");
    terminal.until("1 to 40");
    terminal.types("\r");
    terminal.until("y/n");
    terminal.types("y\r");
    terminal.until("◆ Approval edit");
}

// A conversation in the terminal: a question as a form, an approval with its diff, and the
// session goes on in another process.
#[test]
fn a_conversation_asks_shows_and_is_resumed() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    come_to_the_edit(&mut chat);
    let card = chat.until("[l]ater > ");
    assert!(
        card.contains("-Haft 0.1 is out.") && card.contains("+Haft 0.1 is out today."),
        "{card}"
    );
    chat.types("l\r");
    chat.until("› ");
    chat.types(CTRL_D);
    let left = chat.until("haft chat --session sesn_");
    assert!(chat.ends().success(), "{left}");
    let sessions = crate::commands::haft(data.path(), &["sessions", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&sessions.stdout).unwrap();
    let session = listed["data"][0]["id"].as_str().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat", "--session", &session[..20]]);
    let before = chat.until("[l]ater > ");
    let told = ["› Show me", "Welcome.", "✓ ask_user ", "Thank you.", "✓ write ", "Now I change"];
    let places: Vec<_> = told.iter().map(|part| before.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{before}");
    chat.types("o\r");
    chat.until("edit approved by admin");
    chat.until("✓ edit");
    chat.until("That was the tour.");
    chat.until("› ");
    chat.types(CTRL_D);
    assert!(chat.ends().success());
}

// What was typed before a question was drawn was meant for something else, so it decides nothing.
#[test]
fn what_is_typed_ahead_approves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    chat.until("› ");
    chat.types("Show me\r");
    chat.until("Who is it for?");
    chat.types("everyone\r");
    chat.until("3) formal");
    chat.types("2\r");
    chat.until("1 to 40");
    chat.types("\r");
    chat.until("y/n");
    // One line that is complete, and the beginning of another.
    chat.types("y\ro\ro");
    chat.until("◆ Approval edit");
    chat.until("was not taken as an answer");
    chat.until("[l]ater > ");
    chat.types("\r");
    chat.until("type the first letter of one of them");
    chat.until("[l]ater > ");
    chat.types("l\r");
    chat.until("it waits");
    chat.types(CTRL_D);
    assert!(chat.ends().success());
    let pending = crate::commands::haft(data.path(), &["pending", "--json"]).stdout;
    assert!(pending.contains("\"edit\""), "{pending}");
}

// At 60 columns nothing is broken within a word, and no line is longer than the terminal.
#[test]
fn a_narrow_terminal_is_written_to_as_it_is() {
    const COLUMNS: u16 = 60;
    let data = tempfile::tempdir().unwrap();
    let narrow =
        |args: &[&str]| Terminal::start_sized(data.path(), args, &[("NO_COLOR", "1")], COLUMNS);
    let mut chat = narrow(&["chat"]);
    chat.until("› ");
    chat.types("Show me\r");
    chat.until("no model, but everything\r\nthat I call is real");
    chat.until("Who is it for?");
    chat.types(CTRL_C);
    chat.until("stopped");
    chat.until("› ");
    chat.types(CTRL_D);
    chat.until("haft chat --session sesn_");
    assert!(chat.ends().success());
    let shell = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#, "--json"];
    let call =
        crate::commands::haft(data.path(), &shell).json()["call"].as_str().unwrap().to_owned();
    let fits = |shown: &str| shown.lines().all(|line| line.chars().count() <= COLUMNS.into());
    let mut pending = narrow(&["pending"]);
    let listed = pending.until("command=true");
    assert!(fits(&listed) && listed.contains(&call[..17]), "{listed}");
    let mut sessions = narrow(&["sessions", "list"]);
    let listed = sessions.until("Show me");
    assert!(fits(&listed) && listed.contains("agent_demo"), "{listed}");
    let rows = crate::commands::haft(data.path(), &["sessions", "list", "--json"]).json();
    let mut events = narrow(&["sessions", "events", rows["data"][0]["id"].as_str().unwrap()]);
    assert!(events.ends().success());
    let listed = events.until("call.suspended");
    assert!(fits(&listed) && listed.contains("session.opened"), "{listed}");
    let mut lost = narrow(&["approve", "call_0000"]);
    let said = lost.until("haft explain no_call");
    assert!(fits(&said) && said.contains("no call begins with `call_0000`"), "{said}");
}

#[test]
fn ctrl_c_stops_the_turn_and_not_the_program() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    come_to_the_edit(&mut chat);
    chat.until("[l]ater > ");
    chat.types(CTRL_C);
    chat.until("stopped");
    chat.until("› ");
    // What was asked was not answered: the tour begins again.
    chat.types("and now?\r");
    chat.until("Welcome.");
    chat.until("Who is it for?");
    chat.types(CTRL_C);
    chat.until("stopped");
    chat.until("› ");
    chat.types("/session\r");
    chat.until("sesn_");
    chat.types(CTRL_C);
    chat.until("Ctrl-C again leaves");
    chat.types(CTRL_C);
    assert!(chat.ends().success());
}

#[test]
fn of_a_form_that_misfits_only_that_is_asked_again() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    chat.until("› ");
    chat.types("Show me\r");
    for (asks, answer) in [("for?", "x\r"), ("formal", "2\r"), ("1 to 40", "\r"), ("y/n", "y\r")] {
        chat.until(asks);
        chat.types(answer);
    }
    chat.until("`/reader`: expected");
    chat.until("Who is it for?");
    chat.types("everyone\r");
    let after = chat.until("◆ Approval edit");
    assert!(!after.contains("formal"), "{after}");
}

#[test]
fn an_answer_that_misfits_is_asked_for_again_and_a_question_can_be_declined() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let question = || {
        let session = server.session();
        server.say(&session);
        server.until_idle(&session, "requires_action");
        let pending = crate::commands::haft(data.path(), &["pending", "--json"]).json();
        let mut waits = pending["data"].as_array().unwrap().iter();
        let asks = |wait: &&serde_json::Value| {
            wait["kind"] == "elicitation" && wait["session"] == session.as_str()
        };
        waits.find(asks).unwrap()["call"].as_str().unwrap().to_owned()
    };
    let mut answer = Terminal::start(data.path(), &["answer", &question()]);
    for (asks, typed) in [("for?", "x\r"), ("formal", "2\r"), ("1 to 40", "\r"), ("y/n", "y\r")] {
        answer.until(asks);
        answer.types(typed);
    }
    answer.until("`/reader`: expected");
    answer.until("Who is it for?");
    answer.types("everyone\r");
    let after = answer.until("ask_user answered by admin");
    assert!(!after.contains("formal"), "{after}");
    assert!(answer.ends().success());
    let mut declined = Terminal::start(data.path(), &["answer", &question()]);
    declined.until("Who is it for?");
    declined.types("/decline\r");
    declined.until("ask_user denied by admin");
    assert!(declined.ends().success());
}

#[test]
fn an_approval_can_be_edited_and_denied_with_a_note() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    come_to_the_edit(&mut chat);
    chat.until("[l]ater > ");
    chat.types("e\r");
    chat.until("file_path > ");
    chat.types("\r");
    chat.until("old_string > ");
    chat.types("\r");
    chat.until("new_string > ");
    chat.types("Haft is out, said a person.\r");
    chat.until("◆ Approval edit");
    let card = chat.until("[l]ater > ");
    assert!(card.contains("+Haft is out, said a person."), "{card}");
    chat.types("d\r");
    chat.until("why?");
    chat.types("not today\r");
    chat.until("edit denied by admin");
    chat.until("not today");
}

#[test]
fn arguments_are_edited_in_the_persons_own_editor() {
    let data = tempfile::tempdir().unwrap();
    let editor = |editor| [("NO_COLOR", "1"), ("EDITOR", editor)];
    let mut chat = Terminal::start_with(data.path(), &["chat"], &editor("sed -i s/today/tonight/"));
    come_to_the_edit(&mut chat);
    chat.until("[l]ater > ");
    chat.types("e\r");
    chat.until("◆ Approval edit");
    let card = chat.until("[l]ater > ");
    assert!(card.contains("+Haft 0.1 is out tonight."), "{card}");
    chat.types("o\r");
    chat.until("✓ edit");
    chat.until("› ");
    chat.types(CTRL_D);
    chat.ends();
    // What is not JSON, and an editor that fails, leave the call as it is.
    for (spoils, said) in [("cp /dev/null", "what you wrote is not JSON"), ("false", "[l]ater > ")]
    {
        let mut chat = Terminal::start_with(data.path(), &["chat"], &editor(spoils));
        come_to_the_edit(&mut chat);
        chat.until("[l]ater > ");
        chat.types("e\r");
        chat.until(said);
    }
}

#[test]
fn a_rule_is_given_with_an_approval() {
    let data = tempfile::tempdir().unwrap();
    let mut chat = Terminal::start(data.path(), &["chat"]);
    come_to_the_edit(&mut chat);
    chat.until("[l]ater > ");
    chat.types("r\r");
    chat.until("only where file_path is \"/workspace/note.md\"? [Y/n] > ");
    chat.types("\r");
    for member in ["old_string", "new_string"] {
        chat.until(&format!("only where {member} is "));
        chat.types("n\r");
    }
    // What is no number is not taken for any number.
    chat.until("how many more times?");
    chat.types("two\r");
    chat.until("type a number");
    chat.until("how many more times?");
    chat.types("2\r");
    chat.until("✓ edit");
    chat.until("› ");
    chat.types(CTRL_D);
    chat.until("haft chat --session sesn_");
    assert!(chat.ends().success());
    let sessions = crate::commands::haft(data.path(), &["sessions", "list", "--json"]).json();
    let session = sessions["data"][0]["id"].as_str().unwrap();
    let events = crate::commands::haft(data.path(), &["sessions", "events", session, "--json"]);
    let given = events.stdout.lines().find(|line| line.contains("\"uses_left\":2")).unwrap();
    let given: serde_json::Value = serde_json::from_str(given).unwrap();
    let given = given.to_string();
    let when = r#""when":[{"field":"/file_path","test":{"equals":"/workspace/note.md"}}]"#;
    assert!(given.contains(when), "{given}");
}

// What a person reads is words, what a program reads is whole; a yes for the session holds there.
#[test]
fn a_tool_is_called_again_in_the_session_in_which_that_was_granted() {
    let data = tempfile::tempdir().unwrap();
    let call =
        ["tools", "call", "shell_run", "--args", r#"{"command": "echo it >> log; cat log"}"#];
    let mut first = Terminal::start(data.path(), &call);
    first.until("[l]ater > ");
    first.types("s\r");
    let said = first.until("[exited with 0]");
    assert!(!said.contains("run_shell"), "{said}");
    assert!(first.ends().success());
    let sessions = crate::commands::haft(data.path(), &["sessions", "list", "--json"]).json();
    let session = sessions["data"][0]["id"].as_str().unwrap();
    let again = [&call[..], &["--session", &session[..session.len() - 1]]].concat();
    let again = crate::commands::haft(data.path(), &again);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(again.json()["output"]["stdout"], "it\nit\n");
    assert_eq!(crate::commands::haft(data.path(), &call).code, 3, "another session asks");
}

#[test]
fn what_waits_is_listed_and_approved_beside_a_running_server() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    server.say(&session);
    server.until_asked(&session);
    let mut pending = Terminal::start_with(data.path(), &["pending"], &[]);
    let shown = pending.until("/workspace/note.md");
    assert!(shown.contains("\u{1b}[36mcall_"), "coloured at a terminal: {shown}");
    assert!(pending.ends().success());
    let call = shown.split("call_").nth(1).unwrap().split('\u{1b}').next().unwrap();
    let mut approve = Terminal::start(data.path(), &["approve", call]);
    approve.until("edit approved by admin");
    approve.until("✓ done");
    assert!(approve.ends().success());
    let mut late = Terminal::start(data.path(), &["approve", call]);
    late.until("error[stale]: edit was approved by admin at ");
    assert_eq!(late.ends().code(), Some(4));
}

// A server waits for three seconds. Where the machine is so busy that the command is there for
// longer than half of that, the server may be right to give up, and both start over.
#[test]
fn a_server_waits_for_a_command_that_is_about_to_end() {
    let data = tempfile::tempdir().unwrap();
    let server = (0..50).find_map(|_| {
        let mut chat = Terminal::start(data.path(), &["chat"]);
        chat.until("› ");
        let started = Instant::now();
        let mut process = Serving::spawn(data.path(), &[], Stdio::inherit());
        // Long enough for the server to find the store taken; if it is not, it is not tested.
        std::thread::sleep(Duration::from_millis(300));
        let gave_up = process.try_wait().unwrap();
        drop(chat);
        let was_there = started.elapsed();
        let has_waited = gave_up.is_none();
        let server = has_waited.then(|| Serving::answering(process, Some("unknown"))).flatten();
        let is_late = was_there > Duration::from_millis(1500);
        assert!(server.is_some() || is_late, "it waited for less than {was_there:?}");
        server
    });
    assert_eq!(server.unwrap().raw("GET", "/readyz", "", "").0, 200);
}

#[test]
fn a_fresh_server_says_five_lines_that_are_all_a_person_needs() {
    let data = tempfile::tempdir().unwrap();
    let mut serve = Terminal::start(data.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let said = serve.until("(shown this once)");
    let words: Vec<&str> =
        said.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(words, ["console", "api", "mcp", "data", "key"], "{said}");
    serve.types(CTRL_C);
    serve.until("stopping");
    assert!(serve.ends().success());
    assert!(!data.path().join("server.json").exists(), "the note goes with the server");
}
