//! What to read next, after a search.

use serde_json::{Value, json};

use super::candidate::Candidate;

/// Which tools come first when nothing else tells them apart.
const PRIORITY: [&str; 12] = [
    "outcome_read",
    "outcome_history",
    "outcome_evaluate",
    "agent_compare_setup",
    "session_get_snapshot",
    "session_get_trace",
    "memory_read",
    "shell_describe",
    "shell_read_last_output",
    "shell_history",
    "session_get_events",
    "learning_list",
];

/// How the session that searches stands with its own goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has none, or what it does is safe to share.
    Safe,
    /// It may not change shared things yet.
    Unsafe,
    /// Nor does it come nearer.
    Stalled,
}

impl Standing {
    fn urgency(self, tool: &str) -> usize {
        match (self, tool) {
            (Self::Safe, _) => 0,
            (Self::Unsafe, "outcome_history") => 3,
            (Self::Stalled, "outcome_history") => 5,
            (Self::Unsafe, "outcome_evaluate") => 2,
            (
                Self::Unsafe | Self::Stalled,
                "outcome_evaluate"
                | "outcome_read"
                | "agent_compare_setup"
                | "session_get_snapshot"
                | "session_get_trace",
            ) => 1,
            (Self::Unsafe | Self::Stalled, _) => 0,
        }
    }
}

/// The calls that the candidates recommend, the most urgent first, each once.
pub(crate) fn plan(candidates: &[Candidate], standing: Standing) -> Vec<Value> {
    let mut steps: Vec<(&Candidate, usize)> = Vec::new();
    for candidate in candidates {
        let wanted = &candidate.expansion;
        let same = |(known, _): &&mut (&Candidate, usize)| {
            known.expansion.tool == wanted.tool && known.expansion.args == wanted.args
        };
        match steps.iter_mut().find(same) {
            Some((_, support)) => *support += 1,
            None => steps.push((candidate, 1)),
        }
    }
    let weight = |tool: &str, support: usize| support + standing.urgency(tool);
    steps.sort_by_key(|(candidate, support)| {
        let tool = candidate.expansion.tool;
        let priority = PRIORITY.iter().position(|known| *known == tool);
        (std::cmp::Reverse(weight(tool, *support)), priority.unwrap_or(PRIORITY.len()))
    });
    let step = |(candidate, support): (&Candidate, usize)| {
        let expansion = &candidate.expansion;
        json!({
            "tool": expansion.tool,
            "args": expansion.args,
            "rationale": expansion.rationale,
            "supportCount": support,
            "weight": weight(expansion.tool, support),
        })
    };
    steps.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::{Backend, Expansion, Found, Posture, Query, Source, merged};
    use haft_core::Timestamp;

    fn candidates(tools: &[&'static str]) -> Vec<Candidate> {
        let found = tools.iter().enumerate().map(|(n, tool)| Found {
            backend: Backend::Memory,
            source: Source::SessionState,
            posture: Posture::default(),
            event_id: None,
            wake_id: None,
            title: format!("{n}"),
            snippet: String::new(),
            at: Timestamp::from_ms(0),
            scored: Query::parse("alpha").score("alpha"),
            expansion: Expansion { tool, args: json!({}), rationale: String::new() },
        });
        merged(found.collect(), "ada", 50).candidates
    }

    fn planned(tools: &[&'static str], standing: Standing) -> Vec<String> {
        let steps = plan(&candidates(tools), standing);
        steps.iter().map(|step| step["tool"].as_str().unwrap().to_owned()).collect()
    }

    // S2-61: support first; what checks comes before what reads on while nothing is safe.
    #[test]
    fn s2_61_the_plan_goes_by_support_urgency_and_priority() {
        let tools = ["session_get_events", "session_get_events", "memory_read", "outcome_evaluate"];
        let safe = ["session_get_events", "outcome_evaluate", "memory_read"];
        assert_eq!(planned(&tools, Standing::Safe), safe);
        let checked = ["outcome_evaluate", "session_get_events", "memory_read"];
        assert_eq!(planned(&tools, Standing::Unsafe), checked);
        let tools = ["outcome_evaluate", "outcome_history", "outcome_evaluate", "outcome_evaluate"];
        assert_eq!(planned(&tools, Standing::Stalled)[0], "outcome_history");
        assert_eq!(planned(&tools, Standing::Unsafe)[0], "outcome_evaluate");
    }
}
