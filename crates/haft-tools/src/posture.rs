//! What to do before, or instead of, a call that would be asked about.

use serde_json::{Value, json};

/// Everything that may be done next, as far as it applies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
    /// A tool of its own that does the same.
    pub(crate) first_class: Option<Value>,
    /// The program that does the same and only looks.
    pub(crate) bash: Option<Value>,
    /// What to do while a command runs.
    pub(crate) busy: Option<Value>,
    /// How to get a shell again.
    pub(crate) recovery: Option<Value>,
    /// What the outcome's gate wants first.
    pub(crate) gate: Option<Value>,
}

/// What kind of call it is, as far as the order of ways goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    ShellRun,
    ShellExec,
    Gated,
    Asked,
    Free,
}

/// The first way that applies, in document 002's order.
pub(crate) fn next_step(call: Call, ways: &Ways) -> Value {
    let shell = || {
        let look = [&ways.first_class, &ways.bash, &ways.busy];
        look.into_iter().flatten().next().cloned()
    };
    let describe = || json!({ "tool": "shell_describe", "args": {}, "rationale": "see the shell before changing anything through it" });
    match call {
        Call::ShellRun => shell().unwrap_or_else(describe),
        Call::ShellExec => shell().or_else(|| ways.recovery.clone()).unwrap_or_else(describe),
        Call::Gated if ways.gate.is_some() => ways.gate.clone().unwrap_or_default(),
        Call::Gated | Call::Asked => {
            json!({ "tool": "permissions_describe", "args": {}, "rationale": "someone will be asked; see what already waits" })
        }
        Call::Free => Value::Null,
    }
}

/// Ways to look around that need nobody's agreement.
pub(crate) fn read_first(crowded: bool, describing: bool) -> Vec<Value> {
    let mut ways = vec![
        json!({ "tool": "shell_describe", "args": {} }),
        json!({ "tool": "shell_read_last_output", "args": {} }),
        json!({ "tool": "bash", "args": { "command": "pwd" } }),
    ];
    if describing {
        ways.remove(0);
    }
    if crowded {
        ways.push(json!({ "tool": "session_describe_context", "args": {} }));
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(call: Call, ways: &Ways) -> Value {
        next_step(call, ways)["tool"].clone()
    }

    // S2-22, S2-23, S2-24: read first, then wait, then recover, then describe.
    #[test]
    fn s2_22_s2_23_s2_24_the_next_step_follows_the_documents_order() {
        let way = |tool: &str| Some(json!({ "tool": tool }));
        let mut ways = Ways {
            first_class: way("read"),
            bash: way("bash"),
            busy: way("shell_wait"),
            recovery: way("shell_open"),
            gate: way("outcome_history"),
        };
        assert_eq!(tool(Call::ShellExec, &ways), "read");
        ways.first_class = None;
        assert_eq!(tool(Call::ShellExec, &ways), "bash");
        ways.bash = None;
        assert_eq!(tool(Call::ShellRun, &ways), "shell_wait");
        ways.busy = None;
        assert_eq!(tool(Call::ShellExec, &ways), "shell_open");
        assert_eq!(tool(Call::ShellRun, &ways), "shell_describe");
        ways.recovery = None;
        assert_eq!(tool(Call::ShellExec, &ways), "shell_describe");
        assert_eq!(tool(Call::Gated, &ways), "outcome_history");
        assert_eq!(tool(Call::Gated, &Ways::default()), "permissions_describe");
        assert_eq!(next_step(Call::Free, &ways), Value::Null);
        assert_eq!(read_first(true, false).len(), 4);
        assert!(read_first(false, true).iter().all(|way| way["tool"] != "shell_describe"));
    }
}
