//! The tools for files, and the command that only looks.

use haft_core::Millis;
use haft_core::tool::{
    DeclaredEffect, Definition, Hook, Idempotency, ProcessUse, Status, Undo, UndoSource,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::{
    Routed, changes, define, flag, looks, named, number, object, sandbox_result, text, with,
};

/// How long a change of a file can be taken back.
const UNDO_WINDOW: Millis = Millis::from_secs(24 * 3600);
const READS: &[DeclaredEffect] = &[DeclaredEffect::ResourceRead, DeclaredEffect::SandboxExecute];
const WRITES: &[DeclaredEffect] = &[DeclaredEffect::ResourceWrite, DeclaredEffect::SandboxExecute];

pub(super) fn definitions() -> Vec<Definition> {
    vec![read(), write(), edit(), glob(), grep(), bash(), file_restore()]
}

fn read() -> Definition {
    let routed = Routed {
        does: "Reads text from a file in a mounted root",
        use_when: "you know the path and want its content, or a window of its lines",
        not_for: &[("finding lines by what is in them", "grep"), ("finding files by name", "glob")],
    };
    let input = object(
        &["path"],
        json!({
            "path": text("The file, such as `/workspace/src/main.rs`, or relative to the current directory."),
            "maxChars": number(1, 200_000, "The most characters to give; 12000 unless said."),
            "startLine": number(1, u64::from(u32::MAX), "The first line, from 1; needs `lineCount`."),
            "lineCount": number(1, 1_000_000, "How many lines; not beside `tailLines`."),
            "tailLines": number(1, 100_000, "How many of the last lines; not beside `lineCount`."),
            "metadataOnly": flag("Whether to tell only kind, size, mode and time, also of a directory."),
        }),
    );
    let mut definition = define("read", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(sandbox_result());
    definition.max_result_bytes = 1 << 20;
    definition
}

fn write() -> Definition {
    let routed = Routed {
        does: "Writes a whole file in a writable root, making the directories above it",
        use_when: "a file is new, or all of its content changes",
        not_for: &[("changing a part of a file", "edit")],
    };
    let input = object(
        &["path", "content"],
        json!({
            "path": text("The file to write."),
            "content": text("All that the file shall hold, or what is put at its end."),
            "mode": {
                "type": "string",
                "enum": ["replace", "append", "directory"],
                "description": "Whether the content replaces what is there or is put at its end, or a directory is made and `content` is empty; `replace` unless said.",
            },
            "parents": flag("Whether missing directories above are made too; they are unless said."),
        }),
    );
    let mut definition = define("write", &routed, &input);
    definition.facets = changes(Idempotency::Unsafe, WRITES);
    changing(definition)
}

fn edit() -> Definition {
    let routed = Routed {
        does: "Replaces one exact text in a file by another, literally",
        use_when: "a part of a file changes and you know the text that is there",
        not_for: &[("a new file, or all of its content", "write")],
    };
    let input = object(
        &["path", "oldText", "newText"],
        json!({
            "path": text("The file to change."),
            "oldText": {
                "type": "string",
                "minLength": 1,
                "description": "What is there, exactly; with enough around it to be there once.",
            },
            "newText": text("What shall be there; nothing in it has a meaning of its own."),
            "replaceAll": flag("Whether every place is meant; without it a second place is refused."),
        }),
    );
    let mut definition = define("edit", &routed, &input);
    definition.facets = changes(Idempotency::Unsafe, WRITES);
    changing(definition)
}

/// What the tools that change a file have in common: a preview to agree to, and a way back.
pub(super) fn changing(mut definition: Definition) -> Definition {
    definition.output_schema = Some(sandbox_result());
    definition.hooks = [Hook::Preview].into();
    definition.undo = Some(Undo {
        tool: named("file_restore"),
        arguments: ["sessionId", "callId"]
            .map(|argument| (argument.to_owned(), from_result(argument)))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        window: UNDO_WINDOW,
    });
    definition
}

fn from_result(argument: &str) -> UndoSource {
    let pointer = format!("/output/undo/{argument}").parse();
    UndoSource::Result(pointer.unwrap_or_else(|error| unreachable!("a pointer: {error}")))
}

/// Nobody calls it but the runtime, to take a call back.
fn file_restore() -> Definition {
    let routed = Routed {
        does: "Puts back what a `write` or `edit` replaced, if nobody changed the file since",
        use_when: "the runtime takes that call back; no other call of it is taken",
        not_for: &[("any other change of a file", "edit")],
    };
    let input = object(
        &["sessionId", "callId"],
        json!({
            "sessionId": text("The session that changed the file."),
            "callId": text("The call that changed it."),
        }),
    );
    let mut definition = define("file_restore", &routed, &input);
    definition.status = Status::Unlisted;
    definition.facets = changes(Idempotency::Idempotent, WRITES);
    definition.output_schema = Some(sandbox_result());
    definition
}

fn glob() -> Definition {
    let routed = Routed {
        does: "Finds files and directories below a directory by the form of their names",
        use_when: "you do not know where something lies, or want a listing",
        not_for: &[("finding lines by what is in them", "grep")],
    };
    let input = object(
        &["path", "pattern"],
        json!({
            "path": text("The directory to look in."),
            "pattern": text("The form, such as `**/*.rs`; without a slash it is held against the last name alone."),
            "kind": { "type": "string", "enum": ["file", "directory"], "description": "What to find; both unless said." },
            "limit": number(1, 1000, "The most entries to give; 40 unless said."),
            "includeIgnored": flag("Whether to look at what .gitignore names and at hidden files."),
            "recursive": flag("False lists one directory, with the pattern `*`."),
        }),
    );
    let mut definition = define("glob", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(sandbox_result());
    definition
}

fn grep() -> Definition {
    let routed = Routed {
        does: "Finds lines by what is in them, in a file or below a directory, with their numbers",
        use_when: "you know a text or a regular expression and not where it is",
        not_for: &[("finding files by name", "glob"), ("a file whose path you know", "read")],
    };
    let input = object(
        &["path", "query"],
        json!({
            "path": text("The file, or the directory to look below."),
            "query": text("What to find."),
            "limit": number(1, 1000, "The most lines to give; 20 unless said."),
            "regex": flag("Whether the query is a regular expression; else it stands for itself."),
            "caseSensitive": flag("Whether upper and lower case differ; they do not unless said."),
            "contextLines": number(0, 10, "How many lines around each to give; none unless said."),
            "glob": text("Only look in files of this form, such as `*.rs`."),
            "includeIgnored": flag("Whether to look at what .gitignore names and at hidden files."),
        }),
    );
    let mut definition = define("grep", &routed, &input);
    definition.facets = looks(READS);
    definition.output_schema = Some(sandbox_result());
    definition
}

fn bash() -> Definition {
    let routed = Routed {
        does: "Runs one program that only looks, without a shell, where nothing can be changed",
        use_when: "a listed program such as `ls`, `wc` or `tail` tells what you want to know",
        not_for: &[("anything with pipes, redirection or changes", "shell_run")],
    };
    let input = object(
        &["command"],
        with(
            json!({
                "command": text("The program, by its plain name."),
                "args": { "type": "array", "items": { "type": "string" }, "description": "Its arguments, each as it is." },
            }),
            command_bounds(),
        ),
    );
    let mut definition = define("bash", &routed, &input);
    definition.facets = looks(&[DeclaredEffect::SandboxExecute]);
    definition.facets.process = Some(ProcessUse::Starts);
    definition.exec_timeout = COMMAND_TIME;
    definition.output_schema = Some(sandbox_result());
    definition
}

/// A minute for the command, the rest for ending it and keeping what it said.
pub(super) const COMMAND_TIME: Millis = Millis::from_secs(90);

/// Where a command runs, how long, and how much of what it says is shown.
pub(super) fn command_bounds() -> Value {
    json!({
        "cwd": text("Where it runs; the session's current directory unless said."),
        "timeoutMs": number(1, 60_000, "How long it may run; 15000 unless said."),
        "maxOutputChars": number(1, 40_000, "How much of each stream to show; 12000 unless said. The whole is kept as an artifact."),
    })
}
