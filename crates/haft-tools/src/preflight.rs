//! What a shell text amounts to, so that nobody is asked about a mere look.
//!
//! Only a hint, and a careful one: a text with any operator, substitution, redirection, variable
//! or pattern in it amounts to nothing but itself.

use haft_core::ToolName;
use haft_runtime::ToolArguments;
use haft_sandbox::classify::{Projection, look, project, simple_command};
use haft_sandbox::files::{Kind, Window};
use haft_sandbox::mounts::Mounts;
use haft_sandbox::virtual_path::VirtualPath;
use serde_json::{Value, json};

use crate::catalogue::named;

/// A call that does what a shell text would, without asking anyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The tool.
    pub tool: ToolName,
    /// Its arguments.
    pub arguments: ToolArguments,
    /// Why it is the same.
    pub rationale: &'static str,
}

/// Returns the call that does what `command` would in `cwd`; `None` unless that is sure.
pub fn read_only_alternative(
    command: &str,
    cwd: &VirtualPath,
    mounts: &Mounts,
) -> Option<Alternative> {
    let words = simple_command(command)?;
    if let Some(projection) = project(&words) {
        let (tool, arguments) = projected(projection);
        return Some(alternative(tool, arguments, "it only looks at files"));
    }
    look(&words, cwd, mounts).ok()?;
    let (program, args) = words.split_first()?;
    let arguments = json!({ "command": program, "args": args, "cwd": cwd.to_string() });
    Some(alternative("bash", arguments, "the program and its arguments only look"))
}

fn alternative(tool: &str, arguments: Value, rationale: &'static str) -> Alternative {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => ToolArguments::new(),
    };
    Alternative { tool: named(tool), arguments, rationale }
}

fn projected(projection: Projection) -> (&'static str, Value) {
    match projection {
        Projection::Read { path, window } => ("read", read(&path, window)),
        Projection::CountLines { path } => ("read", json!({ "path": path, "lineCount": 1 })),
        Projection::Glob { path, pattern, kind } => {
            let mut arguments = json!({ "path": path, "pattern": pattern, "limit": 80 });
            match kind {
                Some(Kind::File) => arguments["kind"] = json!("file"),
                Some(Kind::Directory) => arguments["kind"] = json!("directory"),
                Some(Kind::Symlink | Kind::Other) | None => {}
            }
            ("glob", arguments)
        }
        Projection::Grep { path, query, regex, any_case } => (
            "grep",
            json!({ "path": path, "query": query, "regex": regex, "caseSensitive": !any_case, "limit": 40 }),
        ),
    }
}

fn read(path: &str, window: Window) -> Value {
    match window {
        Window::Whole | Window::Bytes { .. } => json!({ "path": path }),
        Window::Lines { first: 1, count } => json!({ "path": path, "lineCount": count }),
        Window::Lines { first, count } => {
            json!({ "path": path, "startLine": first, "lineCount": count })
        }
        Window::Tail { count } => json!({ "path": path, "tailLines": count }),
    }
}
