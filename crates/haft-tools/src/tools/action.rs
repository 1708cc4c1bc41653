//! The 18 actions of the sandbox, and the tool that each of them is.

use haft_core::ToolName;
use haft_runtime::ToolArguments;
use serde_json::{Map, Value, json};

/// What can be done in the sandbox, by document 002's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Inspect,
    ListDir,
    ReadText,
    WriteText,
    AppendText,
    ReplaceText,
    Mkdir,
    Stat,
    FindEntries,
    GlobEntries,
    GrepText,
    RunCommand,
    RunShell,
    InspectPersistentShell,
    OpenPersistentShell,
    ExecPersistentShell,
    WaitPersistentShell,
    ClosePersistentShell,
}

impl Action {
    /// Every one, in the document's order.
    pub(crate) const ALL: [Self; 18] = [
        Self::Inspect,
        Self::ListDir,
        Self::ReadText,
        Self::WriteText,
        Self::AppendText,
        Self::ReplaceText,
        Self::Mkdir,
        Self::Stat,
        Self::FindEntries,
        Self::GlobEntries,
        Self::GrepText,
        Self::RunCommand,
        Self::RunShell,
        Self::InspectPersistentShell,
        Self::OpenPersistentShell,
        Self::ExecPersistentShell,
        Self::WaitPersistentShell,
        Self::ClosePersistentShell,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::ListDir => "list_dir",
            Self::ReadText => "read_text",
            Self::WriteText => "write_text",
            Self::AppendText => "append_text",
            Self::ReplaceText => "replace_text",
            Self::Mkdir => "mkdir",
            Self::Stat => "stat",
            Self::FindEntries => "find_entries",
            Self::GlobEntries => "glob_entries",
            Self::GrepText => "grep_text",
            Self::RunCommand => "run_command",
            Self::RunShell => "run_shell",
            Self::InspectPersistentShell => "inspect_persistent_shell",
            Self::OpenPersistentShell => "open_persistent_shell",
            Self::ExecPersistentShell => "exec_persistent_shell",
            Self::WaitPersistentShell => "wait_persistent_shell",
            Self::ClosePersistentShell => "close_persistent_shell",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// The tool that an action is.
    pub(crate) const fn tool(self) -> &'static str {
        match self {
            Self::Inspect => "sandbox_describe",
            Self::ReadText | Self::Stat => "read",
            Self::WriteText | Self::AppendText | Self::Mkdir => "write",
            Self::ReplaceText => "edit",
            Self::ListDir | Self::FindEntries | Self::GlobEntries => "glob",
            Self::GrepText => "grep",
            Self::RunCommand => "bash",
            Self::RunShell => "shell_run",
            Self::InspectPersistentShell => "shell_describe",
            Self::OpenPersistentShell => "shell_open",
            Self::ExecPersistentShell => "shell_exec",
            Self::WaitPersistentShell => "shell_wait",
            Self::ClosePersistentShell => "shell_close",
        }
    }

    /// What an action means beyond its tool, whatever it is given.
    fn fixed(self) -> Value {
        match self {
            Self::ListDir => json!({ "recursive": false }),
            Self::ReadText => json!({ "metadataOnly": false }),
            Self::Stat => json!({ "metadataOnly": true }),
            Self::WriteText => json!({ "mode": "replace" }),
            Self::AppendText => json!({ "mode": "append" }),
            Self::Mkdir => json!({ "mode": "directory", "content": "" }),
            _ => json!({}),
        }
    }

    /// What an action's tool is given unless the caller says otherwise.
    fn defaults(self) -> Value {
        match self {
            Self::ListDir => json!({ "pattern": "*", "limit": 100 }),
            Self::FindEntries => json!({ "pattern": "**/*" }),
            _ => json!({}),
        }
    }
}

/// The call that a call of `sandbox_execute` stands for.
pub(crate) fn meant(arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
    let action = Action::named(arguments.get("name")?.as_str()?)?;
    let tool = ToolName::new(action.tool()).ok()?;
    let mut given = match arguments.get("input") {
        Some(Value::Object(given)) => given.clone(),
        _ => Map::new(),
    };
    if action == Action::Mkdir
        && let Some(recursive) = given.remove("recursive")
    {
        given.insert("parents".to_owned(), recursive);
    }
    for (name, value) in action.defaults().as_object().into_iter().flatten() {
        given.entry(name.clone()).or_insert_with(|| value.clone());
    }
    given.extend(
        action.fixed().as_object().into_iter().flatten().map(|(n, v)| (n.clone(), v.clone())),
    );
    Some((tool, given))
}
