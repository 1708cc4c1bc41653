//! What was found, and how several findings of one thing become one.

use haft_core::{Digest, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::query::Scored;

/// Where something was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Backend {
    Memory,
    SessionContext,
    SessionTrace,
    Vector,
}

impl Backend {
    pub(crate) const ALL: [Self; 4] =
        [Self::Memory, Self::SessionContext, Self::SessionTrace, Self::Vector];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::SessionContext => "session_context",
            Self::SessionTrace => "session_trace",
            Self::Vector => "vector",
        }
    }
}

/// What kind of thing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    WorkspaceMemory,
    WorkspaceMemoryNotes,
    SessionCheckpoint,
    SessionEvaluation,
    SessionOutcome,
    SessionState,
    WorkingBuffer,
    ShellState,
    Learning,
    SessionContext,
    SessionTrace,
}

impl Source {
    /// What it is worth for being of its kind.
    const fn bonus(self) -> u32 {
        match self {
            Self::Learning => 5,
            Self::WorkspaceMemoryNotes => 4,
            Self::WorkspaceMemory | Self::SessionEvaluation => 3,
            Self::SessionOutcome | Self::SessionContext => 2,
            Self::SessionCheckpoint => 1,
            Self::SessionState | Self::WorkingBuffer | Self::ShellState | Self::SessionTrace => 0,
        }
    }
}

/// How a session is related to the one that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Relation {
    Parent,
    Child,
    Sibling,
}

impl Relation {
    const fn bonus(self) -> u32 {
        match self {
            Self::Parent | Self::Child => 2,
            Self::Sibling => 1,
        }
    }
}

/// What is known of the session that something was found in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Posture {
    pub(crate) session_id: Option<String>,
    pub(crate) setup_fingerprint: Option<String>,
    /// Whether its setup is the asking session's; nobody knows when either has none.
    pub(crate) setup_match: Option<bool>,
    pub(crate) session_relation: Option<Relation>,
    pub(crate) requires_action: bool,
    pub(crate) pending_action_kind: Option<&'static str>,
    pub(crate) pending_action_tool_name: Option<String>,
    pub(crate) outcome_status: Option<&'static str>,
    pub(crate) promotion_ready: Option<bool>,
    pub(crate) outcome_trend: Option<&'static str>,
    /// How much of the asking session's goal is its goal too: 3 for the same title, else 1 or 2.
    #[serde(skip)]
    pub(crate) goal_affinity: u32,
}

/// What to read next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Expansion {
    pub(crate) tool: &'static str,
    pub(crate) args: Value,
    pub(crate) rationale: String,
}

/// One place where something was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) backend: Backend,
    pub(crate) source: Source,
    pub(crate) posture: Posture,
    pub(crate) event_id: Option<String>,
    pub(crate) wake_id: Option<String>,
    pub(crate) title: String,
    pub(crate) snippet: String,
    pub(crate) at: Timestamp,
    pub(crate) scored: Scored,
    pub(crate) expansion: Expansion,
}

/// What was found, once, with everything that speaks for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Candidate {
    pub(crate) backend: Backend,
    pub(crate) source: Source,
    pub(crate) agent_id: String,
    #[serde(flatten)]
    pub(crate) posture: Posture,
    pub(crate) event_id: Option<String>,
    pub(crate) wake_id: Option<String>,
    pub(crate) title: String,
    pub(crate) snippet: String,
    pub(crate) score: u32,
    pub(crate) created_at: String,
    pub(crate) reasons: Vec<String>,
    pub(crate) confidence: &'static str,
    pub(crate) evidence: Vec<Value>,
    pub(crate) expansion: Expansion,
    #[serde(skip)]
    at: Timestamp,
}

/// Everything that was found, best first, and how much there was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merged {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) n_found: usize,
}

impl Found {
    /// What it is worth in all, and why.
    fn worth(&self) -> (u32, Vec<String>) {
        let mut reasons = self.scored.reasons.clone();
        let mut score = self.scored.score;
        let mut add = |worth: u32, reason: &str| {
            if worth > 0 {
                score = score.saturating_add(worth);
                reasons.push(format!("{reason}:+{worth}"));
            }
        };
        add(self.source.bonus(), "source");
        add(if self.posture.setup_match == Some(true) { 2 } else { 0 }, "same-setup");
        add(self.posture.goal_affinity, "outcome-affinity");
        add(self.posture.session_relation.map_or(0, Relation::bonus), "relation");
        (score, reasons)
    }

    fn key(&self) -> String {
        let session = self.posture.session_id.as_deref().unwrap_or_default();
        match (&self.wake_id, &self.event_id) {
            (Some(wake), _) => format!("wake {session} {wake}"),
            (None, Some(event)) => format!("event {session} {event}"),
            (None, None) => {
                let source = format!("{:?}", self.source);
                let parts: [&[u8]; 4] = [
                    session.as_bytes(),
                    source.as_bytes(),
                    self.title.as_bytes(),
                    self.snippet.as_bytes(),
                ];
                format!("content {}", Digest::of_parts(&parts))
            }
        }
    }

    fn evidence(&self, score: u32) -> Value {
        json!({
            "backend": self.backend,
            "source": self.source,
            "eventId": self.event_id,
            "score": score,
        })
    }

    fn into_candidate(self, agent: &str) -> Candidate {
        let (score, reasons) = self.worth();
        let evidence = vec![self.evidence(score)];
        let mut expansion = self.expansion;
        if self.posture.setup_match == Some(false) {
            expansion = Expansion {
                tool: "agent_compare_setup",
                args: json!({ "sessionId": self.posture.session_id }),
                rationale: "it came from another setup: compare before reading more".to_owned(),
            };
        }
        Candidate {
            backend: self.backend,
            source: self.source,
            agent_id: agent.to_owned(),
            posture: self.posture,
            event_id: self.event_id,
            wake_id: self.wake_id,
            title: self.title,
            snippet: self.snippet,
            score,
            created_at: self.at.to_string(),
            reasons,
            confidence: "low",
            evidence,
            expansion,
            at: self.at,
        }
    }
}

impl Candidate {
    /// Takes in another finding of the same thing: the better one speaks for both.
    fn absorb(&mut self, other: Self) {
        let mut evidence = std::mem::take(&mut self.evidence);
        evidence.extend(other.evidence.clone());
        if other.score > self.score {
            *self = other;
        }
        self.evidence = evidence;
    }

    fn weighed(mut self) -> Self {
        let more = u32::try_from(self.evidence.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.score = self.score.saturating_add(more);
        self.confidence = match (self.evidence.len(), self.score) {
            (2.., _) | (_, 10..) => "high",
            (_, 6..) => "medium",
            _ => "low",
        };
        self
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let rank = |one: &Self| {
            let posture = &one.posture;
            let related = posture.session_relation.is_some();
            (one.score, posture.setup_match == Some(true), related, one.at)
        };
        rank(other).cmp(&rank(self)).then_with(|| self.title.cmp(&other.title))
    }
}

/// Puts together what was found, best first.
pub(crate) fn merged(found: Vec<Found>, agent: &str, limit: usize) -> Merged {
    let mut keyed: Vec<(String, Candidate)> = Vec::new();
    for one in found {
        let key = one.key();
        let candidate = one.into_candidate(agent);
        match keyed.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.absorb(candidate),
            None => keyed.push((key, candidate)),
        }
    }
    let n_found = keyed.len();
    let mut candidates: Vec<_> =
        keyed.into_iter().map(|(_, candidate)| candidate.weighed()).collect();
    candidates.sort_by(Candidate::order);
    candidates.truncate(limit);
    Merged { candidates, n_found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::Query;

    fn found(source: Source, query: &str, text: &str) -> Found {
        Found {
            backend: Backend::Memory,
            source,
            posture: Posture { session_id: Some("s1".to_owned()), ..Posture::default() },
            event_id: None,
            wake_id: None,
            title: format!("{source:?}"),
            snippet: text.to_owned(),
            at: Timestamp::from_ms(0),
            scored: Query::parse(query).score(text),
            expansion: Expansion { tool: "memory_read", args: json!({}), rationale: String::new() },
        }
    }

    fn scores(found: Vec<Found>) -> Vec<u32> {
        merged(found, "ada", 10).candidates.iter().map(|one| one.score).collect()
    }

    // S2-60: setup, goal and relation raise what would be equal.
    #[test]
    fn s2_60_bonuses_are_the_documents() {
        let plain = |source| scores(vec![found(source, "alpha", "alpha")])[0];
        assert_eq!(plain(Source::SessionState), 6 + 1);
        assert_eq!(plain(Source::Learning), 7 + 5);
        assert_eq!(plain(Source::WorkspaceMemoryNotes), 7 + 4);
        assert_eq!(plain(Source::WorkspaceMemory), 7 + 3);
        assert_eq!(plain(Source::SessionEvaluation), 7 + 3);
        assert_eq!(plain(Source::SessionOutcome), 7 + 2);
        assert_eq!(plain(Source::SessionCheckpoint), 7 + 1);
        assert_eq!(plain(Source::SessionContext), 7 + 2);
        let mut related = found(Source::SessionState, "alpha", "alpha");
        related.posture.setup_match = Some(true);
        related.posture.goal_affinity = 3;
        related.posture.session_relation = Some(Relation::Child);
        assert_eq!(scores(vec![related]), [7 + 2 + 3 + 2]);
    }

    #[test]
    fn findings_of_one_wake_are_one_and_speak_for_each_other() {
        let mut one = found(Source::SessionContext, "alpha", "alpha");
        let mut other = found(Source::SessionTrace, "alpha", "about alpha");
        (one.wake_id, other.wake_id) = (Some("w".to_owned()), Some("w".to_owned()));
        let merged = merged(vec![one, other], "ada", 10);
        let [only] = &merged.candidates[..] else { panic!("{merged:?}") };
        assert_eq!((only.score, only.confidence, only.evidence.len()), (9 + 1, "high", 2));
        assert_eq!(only.source, Source::SessionContext);
    }

    #[test]
    fn s2_59_another_setup_is_compared_before_anything_is_read() {
        let mut other = found(Source::SessionState, "alpha", "alpha");
        other.posture.setup_match = Some(false);
        let merged = merged(vec![other], "ada", 10);
        assert_eq!(merged.candidates[0].expansion.tool, "agent_compare_setup");
    }

    #[test]
    fn equal_worth_goes_by_setup_then_relation_then_age() {
        let mut newest = found(Source::SessionState, "alpha", "alpha 1");
        newest.at = Timestamp::from_ms(5);
        let mut older = found(Source::SessionState, "alpha", "alpha 2");
        older.title = "older".to_owned();
        let merged = merged(vec![older, newest], "ada", 10);
        assert_eq!(merged.candidates[0].snippet, "alpha 1");
    }
}
