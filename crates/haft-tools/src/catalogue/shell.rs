//! The one-shot shell, and the shell that stays.

use haft_core::Millis;
use haft_core::tool::{
    Concurrency, DeclaredEffect, Definition, Facets, Gate, Hook, Idempotency, InterruptBehavior,
    Mutates, ProcessUse, Redaction,
};
use serde_json::{Map, Value, json};

use super::files::{COMMAND_TIME, command_bounds};
use super::{
    Routed, changes, define, flag, looks, number, object, sandbox_result, schema, text, with,
};

const LOOKS: &[DeclaredEffect] = &[DeclaredEffect::MemoryRead, DeclaredEffect::SandboxExecute];
const ACTS: &[DeclaredEffect] = &[DeclaredEffect::SandboxExecute, DeclaredEffect::MemoryWrite];

pub(super) fn definitions() -> Vec<Definition> {
    let mut all = vec![shell_describe(), shell_history(), shell_read_last_output()];
    all.extend([shell_read_command(), shell_wait()]);
    all.extend([shell_set_cwd(), shell_set_env(), shell_unset_env()]);
    all.extend([shell_open(), shell_restart(), shell_run(), shell_exec(), shell_close()]);
    all
}

/// Document 002 lets a session be named; only the call's own has a shell to show.
fn own_session() -> Value {
    json!({ "sessionId": text("This session's own id; it is meant unless said.") })
}

/// What comes back, with these members always there.
fn gives(definition: &mut Definition, members: &[&str]) {
    let properties: Map<String, Value> =
        members.iter().map(|member| ((*member).to_owned(), json!({}))).collect();
    definition.output_schema = Some(schema(&json!({
        "type": "object",
        "properties": properties,
        "required": members,
    })));
}

fn shell_describe() -> Definition {
    let routed = Routed {
        does: "Describes the session's shell: directory, variables by name, what runs, what to do next",
        use_when: "you are about to use a shell, or do not know what state it is in",
        not_for: &[("the output of the last command", "shell_read_last_output")],
    };
    let mut definition = define("shell_describe", &routed, &object(&[], own_session()));
    definition.facets = looks(LOOKS);
    let members = ["sessionId", "cwd", "env", "persistentShell", "shellState", "artifactPaths"];
    let plans = ["lastCommandPreview", "commandPolicy", "busyPlan", "recoveryPlan"];
    gives(
        &mut definition,
        &[&members[..], &plans, &["shellReadFirstAlternatives", "contextPressure"]].concat(),
    );
    definition
}

fn shell_history() -> Definition {
    let routed = Routed {
        does: "Lists the session's latest commands, each with its durable id and a preview",
        use_when: "you need the id of an earlier command, or what was run so far",
        not_for: &[("one command whose id you know", "shell_read_command")],
    };
    let limit = json!({ "limit": number(1, 50, "How many; 5 unless said.") });
    let input = object(&[], with(own_session(), limit));
    let mut definition = define("shell_history", &routed, &input);
    definition.facets = looks(LOOKS);
    let members = ["sessionId", "cwd", "count", "artifactPaths"];
    gives(
        &mut definition,
        &[&members[..], &["busyPlan", "recoveryPlan", "nextStep", "commands"]].concat(),
    );
    definition
}

fn shell_read_last_output() -> Definition {
    let routed = Routed {
        does: "Reads what the last command said, or what the running one has said so far",
        use_when: "a command ended or is still running and you want its output",
        not_for: &[("an earlier command", "shell_read_command")],
    };
    let mut definition = define("shell_read_last_output", &routed, &object(&[], own_session()));
    definition.facets = looks(LOOKS);
    let members = ["sessionId", "cwd", "artifactPaths", "lastCommand", "liveCommand"];
    gives(&mut definition, &[&members[..], &["busyPlan", "recoveryPlan", "nextStep"]].concat());
    definition
}

fn shell_read_command() -> Definition {
    let routed = Routed {
        does: "Reads one earlier command of this session by its durable id",
        use_when: "you have a `commandId` from `shell_history` or from a result",
        not_for: &[("the last command", "shell_read_last_output")],
    };
    let id = json!({ "type": "string", "pattern": "^[0-9a-f]{16}$", "description": "The command's id: 16 hexadecimal digits." });
    let input = object(&["commandId"], with(own_session(), json!({ "commandId": id })));
    let mut definition = define("shell_read_command", &routed, &input);
    definition.facets = looks(LOOKS);
    let members = ["sessionId", "cwd", "artifactPaths", "command"];
    gives(&mut definition, &[&members[..], &["busyPlan", "recoveryPlan", "nextStep"]].concat());
    definition
}

fn shell_wait() -> Definition {
    let routed = Routed {
        does: "Waits a while for the command that runs in the session's shell",
        use_when: "`shell_exec` left a command running and you need its end",
        not_for: &[("looking at its output without waiting", "shell_read_last_output")],
    };
    let input =
        object(&[], json!({ "timeoutMs": number(1, 60_000, "How long; 1000 unless said.") }));
    let mut definition = define("shell_wait", &routed, &input);
    definition.facets = looks(LOOKS);
    definition.exec_timeout = COMMAND_TIME;
    definition.interrupt = InterruptBehavior::Cancel;
    let members = ["sessionId", "cwd", "artifactPaths", "status", "persistentShell", "shellState"];
    gives(
        &mut definition,
        &[&members[..], &["result", "error", "busyPlan", "recoveryPlan", "nextStep"]].concat(),
    );
    definition
}

/// What changes the session's own shell and nothing else.
fn keeps(process: ProcessUse) -> Facets {
    Facets {
        mutates: Some(Mutates::Bounded),
        process: Some(process),
        idempotency: Some(Idempotency::Idempotent),
        ..looks(ACTS)
    }
}

fn shell_set_cwd() -> Definition {
    let routed = Routed {
        does: "Sets the directory in which the session's commands run, for good",
        use_when: "the next commands belong to another directory of a mounted root",
        not_for: &[("one command elsewhere", "shell_run")],
    };
    let input = object(&["path"], json!({ "path": text("A directory in a mounted root.") }));
    let mut definition = define("shell_set_cwd", &routed, &input);
    definition.facets = keeps(ProcessUse::None);
    definition.concurrency = Concurrency::Exclusive;
    gives(&mut definition, &["sessionId", "cwd", "shellState"]);
    definition
}

fn variable_name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 64, "description": "The variable's name." })
}

fn shell_set_env() -> Definition {
    let routed = Routed {
        does: "Sets a variable for the session's commands, for good; its value is not recorded",
        use_when: "later commands need a setting or a credential",
        not_for: &[("taking one away", "shell_unset_env")],
    };
    let input = object(
        &["key", "value"],
        json!({
            "key": variable_name(),
            "value": { "type": "string", "minLength": 1, "maxLength": 32768, "description": "Its value." },
        }),
    );
    let mut definition = define("shell_set_env", &routed, &input);
    definition.facets = keeps(ProcessUse::None);
    definition.concurrency = Concurrency::Exclusive;
    let value = "/value".parse();
    definition.redaction = Redaction {
        secret: vec![value.unwrap_or_else(|error| unreachable!("a pointer: {error}"))],
    };
    gives(&mut definition, &["sessionId", "key", "env", "shellState"]);
    definition
}

fn shell_unset_env() -> Definition {
    let routed = Routed {
        does: "Takes a variable away from the session's commands",
        use_when: "a variable that `shell_set_env` set is no longer wanted",
        not_for: &[("giving it another value", "shell_set_env")],
    };
    let input = object(&["key"], json!({ "key": variable_name() }));
    let mut definition = define("shell_unset_env", &routed, &input);
    definition.facets = keeps(ProcessUse::None);
    definition.concurrency = Concurrency::Exclusive;
    gives(&mut definition, &["sessionId", "key", "env", "shellState"]);
    definition
}

fn shell_open() -> Definition {
    let routed = Routed {
        does: "Opens the session's persistent shell, with nothing run in it yet",
        use_when: "several commands build on each other's directory, variables or functions",
        not_for: &[("a shell that hangs", "shell_restart"), ("a single command", "shell_run")],
    };
    let input = object(
        &[],
        json!({
            "cwd": text("Where it starts; the session's current directory unless said."),
            "restart": flag("Whether one that is open is closed first."),
        }),
    );
    let mut definition = define("shell_open", &routed, &input);
    definition.facets = keeps(ProcessUse::Starts);
    definition.concurrency = Concurrency::Exclusive;
    gives(&mut definition, &["sessionId", "cwd", "persistentShell", "shellState"]);
    definition
}

fn shell_restart() -> Definition {
    let routed = Routed {
        does: "Ends the session's persistent shell with all that runs in it, and opens a fresh one",
        use_when: "the shell hangs, has ended, or its state is spoilt",
        not_for: &[("a first shell", "shell_open")],
    };
    let input = object(
        &[],
        json!({ "cwd": text("Where it starts; the session's current directory unless said.") }),
    );
    let mut definition = define("shell_restart", &routed, &input);
    definition.facets = keeps(ProcessUse::Starts);
    gives(&mut definition, &["sessionId", "cwd", "persistentShell", "shellState"]);
    definition
}

fn shell_close() -> Definition {
    let routed = Routed {
        does: "Ends the session's persistent shell with all that runs in it",
        use_when: "no more commands will build on its state",
        not_for: &[("a fresh shell", "shell_restart")],
    };
    let mut definition = define("shell_close", &routed, &object(&[], json!({})));
    definition.facets = keeps(ProcessUse::None);
    gives(&mut definition, &["sessionId", "closed", "shellState"]);
    definition
}

/// A shell text of any kind: asked about each time.
pub(super) fn runs_anything(mut definition: Definition) -> Definition {
    definition.gate = Gate::Ask;
    definition.facets = changes(Idempotency::Unsafe, ACTS);
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.facets.process = Some(ProcessUse::Starts);
    definition.exec_timeout = COMMAND_TIME;
    definition.suspend_ttl = Millis::from_secs(24 * 3600);
    definition.interrupt = InterruptBehavior::Cancel;
    definition.concurrency = Concurrency::Exclusive;
    definition.output_schema = Some(sandbox_result());
    definition.hooks = [Hook::Preview].into();
    definition
}

fn script() -> Value {
    json!({ "command": { "type": "string", "minLength": 1, "description": "The text that bash runs." } })
}

fn shell_run() -> Definition {
    let routed = Routed {
        does: "Runs a bash text once, in a writable directory, after someone agreed",
        use_when: "a command must change files or needs pipes, and nothing of it shall stay",
        not_for: &[("a program that only looks", "bash"), ("state that stays", "shell_exec")],
    };
    let input = object(&["command"], with(script(), command_bounds()));
    runs_anything(define("shell_run", &routed, &input))
}

fn shell_exec() -> Definition {
    let routed = Routed {
        does: "Runs a bash text in the session's persistent shell, after someone agreed",
        use_when: "it builds on the directory, variables or functions of earlier commands, or runs long",
        not_for: &[("a program that only looks", "bash"), ("a single command", "shell_run")],
    };
    let more = json!({
        "restart": flag("Whether an open shell is closed first."),
        "timeoutMs": number(1, 60_000, "How long to wait for its end; 15000 unless said. It then runs on."),
    });
    let input = object(&["command"], with(script(), with(command_bounds(), more)));
    runs_anything(define("shell_exec", &routed, &input))
}
