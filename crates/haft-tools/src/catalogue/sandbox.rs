//! What the sandbox is, and its actions by name.

use haft_core::tool::{DeclaredEffect, Definition, Idempotency};
use serde_json::json;

use super::{Routed, changes, define, looks, object, sandbox_result};
use crate::tools::Action;

pub(super) fn definitions() -> Vec<Definition> {
    vec![sandbox_describe(), sandbox_execute()]
}

fn sandbox_describe() -> Definition {
    let routed = Routed {
        does: "Describes the sandbox: mounted roots, what the kernel enforces, actions and programs",
        use_when: "you do not know where you may write, or why something was refused",
        not_for: &[("the state of the shell", "shell_describe")],
    };
    let mut definition = define("sandbox_describe", &routed, &object(&[], json!({})));
    definition.facets = looks(&[DeclaredEffect::SandboxExecute]);
    definition
}

fn sandbox_execute() -> Definition {
    let routed = Routed {
        does: "Runs one action of the sandbox by its name; it is permitted as the tool of its own is",
        use_when: "you know the name of an action and not its tool",
        not_for: &[("reading a file", "read"), ("a shell text", "shell_run")],
    };
    let names: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
    let input = object(
        &["name"],
        json!({
            "name": { "type": "string", "enum": names, "description": "The action." },
            "input": { "type": "object", "description": "The action's arguments: those of its tool." },
        }),
    );
    let mut definition = define("sandbox_execute", &routed, &input);
    definition.facets = changes(
        Idempotency::Idempotent,
        &[DeclaredEffect::SandboxExecute, DeclaredEffect::ResourceWrite],
    );
    definition.output_schema = Some(sandbox_result());
    definition
}
