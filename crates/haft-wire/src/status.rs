//! Where a call stands, in the words of the documents (the unified model, 2.3).
//!
//! The canonical phase is a fold over the log, so each of these can be derived from events alone.

use haft_core::session::{Phase, SuspensionKind};
use serde::{Deserialize, Serialize};

/// Document 000's status of a call in the user interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteerableStatus {
    /// Asked for, or waiting for someone.
    Pending,
    /// Running.
    Running,
    /// It worked.
    Done,
    /// It did not.
    Error,
}

/// Document 002's result of a tool span; none while the call is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenboaResult {
    /// It worked.
    Success,
    /// It did not.
    Error,
    /// It waits for someone: the session requires action.
    Blocked,
}

/// Document 004's status of a call in its tracking map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentixStatus {
    /// On its way, or running.
    Running,
    /// Waiting for someone.
    Awaiting,
    /// It worked.
    Resolved,
    /// It did not.
    Errored,
}

/// Document 004's kind of a pending call; a call in doubt is an approval of what to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentixKind {
    /// A yes or a no.
    Approval,
    /// An answer.
    Elicitation,
    /// Run by the client.
    ClientExec,
}

/// Returns document 000's word.
pub fn steerable(phase: &Phase) -> SteerableStatus {
    match phase {
        Phase::Proposed | Phase::Previewing { .. } | Phase::Waiting(_) | Phase::Ready { .. } => {
            SteerableStatus::Pending
        }
        Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. } => SteerableStatus::Running,
        Phase::Settled { failed: None, .. } => SteerableStatus::Done,
        Phase::Settled { failed: Some(_), .. } => SteerableStatus::Error,
    }
}

/// Returns document 002's word.
pub fn openboa(phase: &Phase) -> Option<OpenboaResult> {
    match phase {
        Phase::Waiting(_) => Some(OpenboaResult::Blocked),
        Phase::Settled { failed: None, .. } => Some(OpenboaResult::Success),
        Phase::Settled { failed: Some(_), .. } => Some(OpenboaResult::Error),
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. } => None,
    }
}

/// Returns document 004's word.
pub fn agentix(phase: &Phase) -> AgentixStatus {
    match phase {
        Phase::Waiting(_) => AgentixStatus::Awaiting,
        Phase::Settled { failed: None, .. } => AgentixStatus::Resolved,
        Phase::Settled { failed: Some(_), .. } => AgentixStatus::Errored,
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. } => AgentixStatus::Running,
    }
}

/// Returns document 004's kind of a wait.
pub fn agentix_kind(kind: SuspensionKind) -> AgentixKind {
    match kind {
        SuspensionKind::Approval | SuspensionKind::Settlement => AgentixKind::Approval,
        SuspensionKind::Elicitation => AgentixKind::Elicitation,
        // To whoever waits, it is someone else who runs it.
        SuspensionKind::ClientExec | SuspensionKind::Child => AgentixKind::ClientExec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::session::{SuspendReason, Suspension};
    use haft_core::{ErrorClass, LoopEffect, Timestamp};

    fn settled(failed: Option<ErrorClass>) -> Phase {
        Phase::Settled { at: Timestamp::default(), effect: LoopEffect::Continue, failed }
    }

    fn waiting(kind: SuspensionKind) -> Phase {
        Phase::Waiting(Suspension {
            kind,
            round: 1,
            expires_at: Timestamp::default(),
            reason: SuspendReason::Asked,
            permit: None,
            fingerprint: None,
            since: Timestamp::default(),
            endorsed: Vec::new(),
        })
    }

    // S0-8, S0-37, S4-15: the table of the unified model, row by row.
    #[test]
    fn s0_8_s0_37_s4_15_every_phase_has_its_word_in_every_document() {
        use AgentixStatus::{Awaiting, Errored, Resolved};
        use SteerableStatus::{Done, Error, Pending, Running};
        let at_provider = Phase::AtProvider { since: Timestamp::default() };
        let rows = [
            (Phase::Proposed, Pending, None, AgentixStatus::Running),
            (waiting(SuspensionKind::Approval), Pending, Some(OpenboaResult::Blocked), Awaiting),
            (waiting(SuspensionKind::Elicitation), Pending, Some(OpenboaResult::Blocked), Awaiting),
            (at_provider, Running, None, AgentixStatus::Running),
            (settled(None), Done, Some(OpenboaResult::Success), Resolved),
            (settled(Some(ErrorClass::Expired)), Error, Some(OpenboaResult::Error), Errored),
        ];
        for (phase, ui, span, status) in rows {
            assert_eq!((steerable(&phase), openboa(&phase), agentix(&phase)), (ui, span, status));
        }
    }

    // S4-17: a renderer that knows three kinds can show every wait.
    #[test]
    fn s4_17_every_wait_is_one_of_three_kinds() {
        let words = [
            SuspensionKind::Approval,
            SuspensionKind::Elicitation,
            SuspensionKind::ClientExec,
            SuspensionKind::Settlement,
        ]
        .map(|kind| serde_json::to_value(agentix_kind(kind)).unwrap());
        assert_eq!(words, ["approval", "elicitation", "client_exec", "approval"]);
    }
}
