//! Finding what earlier sessions said, did and kept.

use haft_core::tool::{DeclaredEffect, Definition};
use serde_json::{Value, json};

use super::{Routed, answers, define, flag, limit, object, one_of, recalls, text, with};
use crate::chronicle::TYPES;

const SESSIONS: &[DeclaredEffect] = &[DeclaredEffect::SessionRead];
const MEMORY: &[DeclaredEffect] = &[DeclaredEffect::MemoryRead];
const BOTH: &[DeclaredEffect] = &[DeclaredEffect::MemoryRead, DeclaredEffect::SessionRead];

pub(super) fn definitions() -> Vec<Definition> {
    vec![memory(), context(), traces(), retrieval(), learnings()]
}

/// A property that narrows a search to sessions near this one.
pub(super) fn lineage() -> Value {
    let words = ["related", "parent", "children", "siblings"];
    json!({ "lineage": one_of(&words, "Only sessions so related to this one.") })
}

pub(super) fn current(usual: &str) -> Value {
    json!({ "includeCurrent": flag(&format!("Whether to look in this session too; {usual} unless said.")) })
}

fn query() -> Value {
    with(json!({ "query": text("What to find: words, `quoted phrases`, paths, names.") }), limit(8))
}

fn memory() -> Definition {
    let routed = Routed {
        does: "Searches what this agent and its sessions keep, one hit for each store",
        use_when: "something was noted, learned or decided before, and you do not know where",
        not_for: &[("what was said or done", "session_search_context")],
    };
    let mut definition =
        define("memory_search", &routed, &object(&["query"], with(query(), lineage())));
    definition.facets = recalls(MEMORY);
    definition.output_schema = Some(answers("agentId:s query:s count:i hits:a"));
    definition
}

fn context() -> Definition {
    let routed = Routed {
        does: "Searches single events of this agent\'s sessions: messages, answers, calls",
        use_when: "you want the place where something was said or done",
        not_for: &[("whole wakes", "session_search_traces"), ("what was kept", "memory_search")],
    };
    let types = json!({ "types": event_types() });
    let narrowed = with(with(current("not"), lineage()), types);
    let input = object(&["query"], with(query(), narrowed));
    let mut definition = define("session_search_context", &routed, &input);
    definition.facets = recalls(SESSIONS);
    definition.output_schema = Some(answers("agentId:s query:s count:i hits:a"));
    definition
}

/// A property that names types of event.
pub(super) fn event_types() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string", "enum": TYPES },
        "description": "Only events of these types.",
    })
}

fn traces() -> Definition {
    let routed = Routed {
        does: "Searches whole wakes of this agent\'s sessions",
        use_when: "you look for an earlier run of work rather than one sentence in it",
        not_for: &[("a wake whose id you know", "session_get_trace")],
    };
    let input = object(&["query"], with(query(), with(current("not"), lineage())));
    let mut definition = define("session_search_traces", &routed, &input);
    definition.facets = recalls(SESSIONS);
    definition.output_schema = Some(answers("sessionId:s count:i hits:a"));
    definition
}

fn retrieval() -> Definition {
    let routed = Routed {
        does: "Searches memory, events and wakes at once, and plans what to read next",
        use_when: "you need anything from earlier work; its hits are hints to be reread",
        not_for: &[("memory alone", "memory_search")],
    };
    let backends = json!({
        "backends": {
            "type": "array",
            "items": { "type": "string", "enum": ["memory", "session_context", "session_trace", "vector"] },
            "description": "Where to look; everywhere that can be looked unless said.",
        },
    });
    let narrowed = with(with(current("not"), lineage()), backends);
    let input = object(&["query"], with(query(), narrowed));
    let mut definition = define("retrieval_search", &routed, &input);
    definition.facets = recalls(BOTH);
    let members = "agentId:s query:s count:i backendSummary:a expansionPlan:a hits:a";
    definition.output_schema = Some(answers(members));
    definition
}

fn learnings() -> Definition {
    let routed = Routed {
        does: "Lists the lessons, corrections and errors that this agent\'s sessions wrote down",
        use_when: "you start something similar and want to repeat no mistake",
        not_for: &[("finding one by its words", "memory_search")],
    };
    let mut definition = define("learning_list", &routed, &object(&[], limit(20)));
    definition.facets = recalls(&[DeclaredEffect::LearningRead]);
    definition.output_schema = Some(answers("agentId:s count:i learnings:a"));
    definition
}
