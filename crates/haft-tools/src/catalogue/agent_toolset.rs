//! The agent toolset of the wire API, with the arguments that the official SDKs declare.
//!
//! Its names are those of managed tools and mean others: its `bash` is a shell that stays. So each
//! has a name of its own here, under which it is permitted and recorded, and which only the wire
//! does not show.

use haft_core::tool::{DeclaredEffect, Definition, Idempotency, Status};
use haft_core::{Millis, ToolName};
use serde_json::json;

use super::files::changing;
use super::shell::runs_anything;
use super::{Routed, changes, define, flag, looks, named, number, object, text};

/// What the wire API calls the toolset.
pub const AGENT_TOOLSET: &str = "agent_toolset_20260401";

/// The wire's names and ours.
const NAMES: [(&str, &str); 6] = [
    ("bash", "agent_bash"),
    ("read", "agent_read"),
    ("write", "agent_write"),
    ("edit", "agent_edit"),
    ("glob", "agent_glob"),
    ("grep", "agent_grep"),
];

/// Ten minutes for a command, the rest for ending it and keeping what it said.
const COMMAND_TIME: Millis = Millis::from_secs(630);
const READS: &[DeclaredEffect] = &[DeclaredEffect::ResourceRead, DeclaredEffect::SandboxExecute];
const WRITES: &[DeclaredEffect] = &[DeclaredEffect::ResourceWrite, DeclaredEffect::SandboxExecute];

/// What the tools of the agent toolset declare. They are offered only to sessions whose exposure
/// names them.
pub fn agent_toolset() -> Vec<Definition> {
    let all = [bash(), read(), write(), edit(), glob(), grep()];
    let unlisted = all.map(|mut definition| {
        definition.status = Status::Unlisted;
        definition.tags = vec![AGENT_TOOLSET.to_owned()];
        definition
    });
    unlisted.into()
}

/// Our name of the tool that the wire calls `wire`.
pub fn agent_tool_name(wire: &str) -> Option<ToolName> {
    NAMES.iter().find(|(name, _)| *name == wire).map(|(_, ours)| named(ours))
}

/// What the wire calls one of our tools; `None` for those outside the toolset.
pub fn agent_wire_name(tool: &ToolName) -> Option<&'static str> {
    NAMES.iter().find(|(_, ours)| *ours == tool.as_str()).map(|(wire, _)| *wire)
}

fn bash() -> Definition {
    let routed = Routed {
        does: "Runs a command in a bash shell that stays, with its directory, variables and functions",
        use_when: "something must be run, built or changed by commands",
        not_for: &[("reading a file", "agent_read"), ("finding lines", "agent_grep")],
    };
    let input = object(
        &[],
        json!({
            "command": text("The command. Leave it out only with `restart`."),
            "restart": flag("Whether to start a fresh shell instead of running a command: background processes end, and the directory and variables are as at the start."),
            "timeout_ms": number(0, 600_000, "How long it may run, in milliseconds; 120000 when left out or 0."),
        }),
    );
    let mut definition = runs_anything(define("agent_bash", &routed, &input));
    definition.output_schema = None;
    definition.exec_timeout = COMMAND_TIME;
    definition.max_result_bytes = 128 << 10;
    definition
}

fn read() -> Definition {
    let routed = Routed {
        does: "Reads a file, or a range of its lines; images and PDFs come whole",
        use_when: "you know the path and want the content",
        not_for: &[("finding lines", "agent_grep"), ("finding files", "agent_glob")],
    };
    let input = object(
        &["file_path"],
        json!({
            "file_path": text("The file."),
            "view_range": {
                "type": "array",
                "items": { "type": "integer" },
                "minItems": 2,
                "maxItems": 2,
                "description": "The first and the last line, from 1; a last line of 0 or less means the end.",
            },
        }),
    );
    let mut definition = define("agent_read", &routed, &input);
    definition.facets = looks(READS);
    definition.max_result_bytes = 1 << 20;
    definition
}

fn write() -> Definition {
    let routed = Routed {
        does: "Writes a whole file, making the directories above it",
        use_when: "a file is new, or all of its content changes",
        not_for: &[("changing a part of a file", "agent_edit")],
    };
    let input = object(
        &["file_path", "content"],
        json!({ "file_path": text("The file."), "content": text("All that it shall hold.") }),
    );
    let mut definition = define("agent_write", &routed, &input);
    definition.facets = changes(Idempotency::Unsafe, WRITES);
    textual(changing(definition))
}

fn edit() -> Definition {
    let routed = Routed {
        does: "Replaces one exact text in a file by another, literally",
        use_when: "a part of a file changes and you know the text that is there",
        not_for: &[("a new file, or all of its content", "agent_write")],
    };
    let input = object(
        &["file_path", "old_string", "new_string"],
        json!({
            "file_path": text("The file."),
            "old_string": {
                "type": "string",
                "minLength": 1,
                "description": "What is there, exactly; it must be there once.",
            },
            "new_string": text("What shall be there."),
            "replace_all": flag("Whether every place is meant."),
        }),
    );
    let mut definition = define("agent_edit", &routed, &input);
    definition.facets = changes(Idempotency::Unsafe, WRITES);
    textual(changing(definition))
}

/// Its result is a text; what takes it back is beside it.
fn textual(mut definition: Definition) -> Definition {
    definition.output_schema = None;
    definition
}

fn glob() -> Definition {
    let routed = Routed {
        does: "Lists the files whose path has a form, the newest first",
        use_when: "you do not know where a file lies",
        not_for: &[("finding lines", "agent_grep")],
    };
    let input = object(
        &["pattern"],
        json!({
            "pattern": text("The form, such as `**/*.go`, from the directory that is searched."),
            "path": text("The directory to search; the current one unless said."),
        }),
    );
    let mut definition = define("agent_glob", &routed, &input);
    definition.facets = looks(READS);
    definition
}

fn grep() -> Definition {
    let routed = Routed {
        does: "Finds lines by a regular expression, with their files and numbers",
        use_when: "you know what is in a line and not where it is",
        not_for: &[("finding files by name", "agent_glob")],
    };
    let input = object(
        &["pattern"],
        json!({
            "pattern": text("The regular expression."),
            "path": text("The file or directory to search; the current directory unless said."),
        }),
    );
    let mut definition = define("agent_grep", &routed, &input);
    definition.facets = looks(READS);
    definition.max_result_bytes = 128 << 10;
    definition
}
