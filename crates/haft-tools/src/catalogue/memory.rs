//! What sessions and agents keep for later.

use haft_core::Millis;
use haft_core::tool::{DeclaredEffect, Definition, Gate, Hook, Precondition, Scope};
use serde_json::{Value, json};

use super::{
    Routed, answers, any_session, define, keeps, limit, object, one_of, recalls, text, with,
};

/// How long a shared change waits for someone to agree.
pub(super) const SHARED_TTL: Millis = Millis::from_secs(24 * 3600);
const READS: &[DeclaredEffect] = &[DeclaredEffect::MemoryRead];
const WRITES: &[DeclaredEffect] = &[DeclaredEffect::MemoryWrite];
const WRITTEN: &str = "sessionId:s target:s mode:s path:s versionId:s previousVersionId:s? \
                       contentHash:s content:s";

pub(super) fn definitions() -> Vec<Definition> {
    vec![list(), read(), list_versions(), read_version(), write(), promote_note()]
}

fn target(words: &[&str]) -> Value {
    json!({ "target": one_of(words, "Which store.") })
}

fn versioned() -> Value {
    with(target(&["session_state", "working_buffer", "workspace_memory_notes"]), any_session())
}

fn list() -> Definition {
    let routed = Routed {
        does: "Lists the memory stores of this session and its agent, and which can be written",
        use_when: "you do not know where something is or could be kept",
        not_for: &[("the content of one", "memory_read")],
    };
    let mut definition = define("memory_list", &routed, &object(&[], json!({})));
    definition.facets = recalls(READS);
    definition.output_schema = Some(answers("count:i stores:a"));
    definition
}

fn read() -> Definition {
    let routed = Routed {
        does: "Reads one memory store whole",
        use_when: "you know which store holds it, or a search pointed there",
        not_for: &[
            ("finding which one", "memory_search"),
            ("an older state", "memory_read_version"),
        ],
    };
    let all = [
        "checkpoint",
        "shell_state",
        "session_state",
        "working_buffer",
        "workspace_memory",
        "workspace_memory_notes",
    ];
    let input = object(&["target"], with(target(&all), any_session()));
    let mut definition = define("memory_read", &routed, &input);
    definition.facets = recalls(READS);
    definition.output_schema =
        Some(answers("sessionId:s target:s content:x versionId:s? contentHash:s?"));
    definition.max_result_bytes = 1 << 18;
    definition
}

fn list_versions() -> Definition {
    let routed = Routed {
        does: "Lists the versions of a memory store, newest first",
        use_when: "you want to know who wrote it and when, or need a version to go on from",
        not_for: &[("the content of one version", "memory_read_version")],
    };
    let input = object(&["target"], with(versioned(), limit(10)));
    let mut definition = define("memory_list_versions", &routed, &input);
    definition.facets = recalls(READS);
    definition.output_schema = Some(answers("count:i versions:a"));
    definition
}

fn read_version() -> Definition {
    let routed = Routed {
        does: "Reads one version of a memory store as it was written",
        use_when: "you have a `versionId` and want its content",
        not_for: &[("the current content", "memory_read")],
    };
    let id = json!({ "versionId": text("From `memory_list_versions` or a write.") });
    let input = object(&["target", "versionId"], with(versioned(), id));
    let mut definition = define("memory_read_version", &routed, &input);
    definition.facets = recalls(READS);
    definition.output_schema = Some(answers("version:o content:s"));
    definition.max_result_bytes = 1 << 18;
    definition
}

/// What is written, how, and what the writer saw before.
fn writing(usual: &str) -> Value {
    json!({
        "content": {
            "type": "string",
            "minLength": 1,
            "maxLength": 65536,
            "pattern": "\\S",
            "description": "What to keep.",
        },
        "mode": one_of(&["replace", "append"], &format!("`{usual}` unless said.")),
        "expectedVersionId": text("Write only if this is still the latest version."),
    })
}

fn write() -> Definition {
    let routed = Routed {
        does: "Writes this session's state or working buffer, each write a version of its own",
        use_when: "something should outlast the turn and is this session's alone",
        not_for: &[("notes for every session of the agent", "memory_promote_note")],
    };
    let own = target(&["session_state", "working_buffer"]);
    let input = object(&["target", "content"], with(with(own, writing("replace")), any_session()));
    let mut definition = define("memory_write", &routed, &input);
    definition.facets = keeps(Scope::Session, WRITES);
    definition.output_schema = Some(answers(WRITTEN));
    definition
}

/// The arguments by which a shared change waives the outcome's evaluation.
pub(super) fn gated() -> Value {
    json!({
        "requireOutcomePass": {
            "type": "boolean",
            "description": "False asks whoever approves to let it pass without a passed outcome.",
        },
    })
}

/// What changes something that others see: a person agrees to each, and the outcome has passed.
pub(super) fn shared(mut definition: Definition) -> Definition {
    definition.gate = Gate::AskAlways;
    definition.preconditions = [Precondition::OutcomePass].into();
    definition.hooks = [Hook::Preview].into();
    definition.suspend_ttl = SHARED_TTL;
    definition
}

fn promote_note() -> Definition {
    let routed = Routed {
        does: "Adds to the notes that every session of the agent reads, after someone agreed",
        use_when: "a finding is settled and worth keeping for later sessions",
        not_for: &[("this session's own notes", "memory_write")],
    };
    let input = object(&["content"], with(writing("append"), gated()));
    let mut definition = define("memory_promote_note", &routed, &input);
    definition.facets = keeps(Scope::Shared, WRITES);
    definition.output_schema = Some(answers(&format!("{WRITTEN} outcomeEvaluation:o?")));
    shared(definition)
}
