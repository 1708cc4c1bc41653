//! The shell's state as files in the workspace, for whoever reads files.

use haft_sandbox::files::{Expected, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use serde_json::{Value, json};

use super::Hand;

const DIRECTORY: &str = ".haft-runtime";

/// Where a file of this name is, or would be.
pub(crate) fn path(hand: &Hand, name: &str) -> VirtualPath {
    hand.workspace().home.join(DIRECTORY.as_ref()).join(name.as_ref())
}

/// Where the files are, for answers.
pub(crate) fn paths(hand: &Hand) -> Value {
    let path = |name: &str| format!("{}/{DIRECTORY}/{name}", hand.workspace().home);
    json!({
        "shellState": path("shell-state.json"),
        "shellHistory": path("shell-history.json"),
        "shellHistoryText": path("shell-history.md"),
        "lastOutput": path("shell-last-output.json"),
        "lastOutputText": path("shell-last-output.md"),
    })
}

/// Writes them. A workspace that takes none is no reason to fail a command that ran.
pub(super) fn write(hand: &Hand) {
    let desk = hand.desk();
    let history = json!({ "sessionId": hand.session(), "commands": desk.latest(50) });
    let state = desk.shown();
    let last = desk.latest(1).first().map_or(Value::Null, |last| json!(last));
    let told: String = desk
        .latest(50)
        .iter()
        .map(|record| {
            format!(
                "- `{}` {} in {}: {}\n",
                record.command_id, record.ending, record.cwd, record.command
            )
        })
        .collect();
    let said: String = desk.latest(1).first().map_or_else(String::new, |last| {
        format!("$ {}\n{}\n{}", last.command, last.stdout_preview, last.stderr_preview)
    });
    drop(desk);
    let files = [
        ("shell-state.json", format!("{state:#}")),
        ("shell-history.json", format!("{history:#}")),
        ("shell-history.md", told),
        ("shell-last-output.json", format!("{last:#}")),
        ("shell-last-output.md", said),
    ];
    for (name, content) in files {
        let path = hand.workspace().home.join(DIRECTORY.as_ref()).join(name.as_ref());
        let written =
            hand.files().write(&path, content.as_bytes(), Expected::Anything, Parents::Create);
        drop(written);
    }
}
