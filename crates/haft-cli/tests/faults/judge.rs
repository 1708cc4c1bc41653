//! What a row of the fault table is judged by: what was acknowledged, what happened outside, and
//! what the server says of it. Nothing here asks anyone anything.

use std::fmt;

/// What became of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedCall {
    pub(crate) token: String,
    pub(crate) acknowledged: Acknowledgement,
    /// Whether an approval was sent, whatever became of it.
    pub(crate) approval_sent: bool,
    /// How often it took effect, counted outside.
    pub(crate) effects: usize,
    pub(crate) told: CallStatus,
}

/// How far the server said that a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Acknowledgement {
    Nothing,
    Proposed,
    Approved,
}

/// What the server says of a call in the end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallStatus {
    Missing,
    /// It waits to be approved.
    Waiting,
    InDoubt,
    Done,
    Failed {
        class: String,
    },
    /// It came to no end.
    Unfinished {
        stage: String,
    },
}

/// What became of a message, or of a session that was to be opened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedWord {
    pub(crate) token: String,
    pub(crate) is_acknowledged: bool,
    /// How often it is on record.
    pub(crate) recorded: usize,
}

/// A promise that was broken, in the column of the table that counts it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Violation {
    Lost(String),
    Repeated(String),
    /// It was said that something happened, or that it did not, and that is not so.
    Certain(String),
    /// A fault that nobody was told of.
    Silent(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, what) = match self {
            Self::Lost(what) => ("lost", what),
            Self::Repeated(what) => ("repeated", what),
            Self::Certain(what) => ("claimed certain wrongly", what),
            Self::Silent(what) => ("silent", what),
        };
        write!(f, "{column}: {what}")
    }
}

/// Outcomes that leave open whether a call took effect.
const UNCERTAIN: [&str; 1] = ["interrupted"];

/// Judges a call.
pub(crate) fn call(seen: &ObservedCall) -> Vec<Violation> {
    let ObservedCall { token, acknowledged, approval_sent, effects, told } = seen;
    let mut broken = Vec::new();
    if *effects > 1 {
        broken.push(Violation::Repeated(format!("{token} took effect {effects} times")));
    }
    if *effects > 0 && !approval_sent {
        broken.push(Violation::Repeated(format!("{token} took effect and nobody approved it")));
    }
    match told {
        CallStatus::Missing if *acknowledged > Acknowledgement::Nothing => {
            broken.push(Violation::Lost(format!("{token} is not known any more")));
        }
        CallStatus::Missing if *effects > 0 => {
            broken.push(Violation::Lost(format!("{token} took effect and is not on record")));
        }
        CallStatus::Waiting if *acknowledged == Acknowledgement::Approved => {
            broken.push(Violation::Lost(format!("{token} was approved and is asked about again")));
        }
        CallStatus::Waiting if *effects > 0 => {
            broken
                .push(Violation::Certain(format!("{token} took effect and is still asked about")));
        }
        CallStatus::Unfinished { stage } if *acknowledged == Acknowledgement::Approved => {
            broken.push(Violation::Lost(format!("{token} was approved and stays {stage}")));
        }
        CallStatus::Done if *effects == 0 => {
            broken.push(Violation::Certain(format!("{token} is done, and nothing happened")));
        }
        CallStatus::Failed { class } if *effects > 0 && !UNCERTAIN.contains(&class.as_str()) => {
            let what = format!("{token} took effect, and `{class}` says that it did not");
            broken.push(Violation::Certain(what));
        }
        _ => {}
    }
    broken
}

/// Judges a message or an opened session.
pub(crate) fn word(seen: &ObservedWord) -> Option<Violation> {
    let ObservedWord { token, is_acknowledged, recorded } = seen;
    match recorded {
        0 if *is_acknowledged => Some(Violation::Lost(format!("{token} is not on record"))),
        0 | 1 => None,
        n => Some(Violation::Repeated(format!("{token} is on record {n} times"))),
    }
}
