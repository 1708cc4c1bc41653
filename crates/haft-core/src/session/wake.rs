//! Proactive work (document 002): what a model wants to come back to, and what it has learnt.
//!
//! None of it is a tool. A model says so in the directive at the end of its answer; people and
//! programs may queue a wake too.

use serde::{Deserialize, Serialize};

use crate::id::WakeId;
use crate::time::{Millis, Timestamp};

/// A time at which the session goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// Its id.
    pub id: WakeId,
    /// When.
    pub due: Timestamp,
    /// What for, for the model.
    pub reason: String,
    /// What else to remember by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// While a wake with the same key is queued, another is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// Which of those that are due is delivered first.
    #[serde(default)]
    pub priority: Priority,
}

/// How much a wake matters beside others.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Less than others.
    Low,
    /// As much as others.
    #[default]
    Normal,
    /// More than others.
    High,
}

/// What a model says about how its work goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Whether it wants to go on by itself.
    pub next: Next,
    /// Where it stands, in its words.
    pub summary: Option<String>,
    /// When it wants to be asked again, and what for.
    pub wakes: Vec<Wake>,
    /// What it has learnt.
    pub learnings: Vec<Learning>,
}

/// Whether a model wants to go on by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It waits for someone, or for a wake.
    Sleep,
    /// It wants to be asked again.
    Continue {
        /// The id of the wake that this becomes.
        wake: WakeId,
        /// After how long.
        after: Millis,
    },
}

/// What became of a model's wish to go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUp {
    /// It had none.
    None,
    /// A wake is queued for it.
    Queued,
    /// It has gone on by itself too often since someone last spoke.
    Refused,
}

/// Something that a model has learnt and wants to know in later sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learning {
    /// What sort.
    pub kind: LearningKind,
    /// In a few words.
    pub title: String,
    /// In a few sentences.
    pub detail: String,
    /// Whether it should be proposed for the shared memory.
    #[serde(default)]
    pub promote: bool,
    /// Two with the same key are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
}

/// The sorts of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningKind {
    /// Something worth knowing.
    Lesson,
    /// Something that was wrong before.
    Correction,
    /// Something that went wrong.
    Error,
}

impl Learning {
    /// Returns the key by which it is told from others.
    pub fn key(&self) -> String {
        let Self { kind, title, detail, .. } = self;
        self.dedupe_key.clone().unwrap_or_else(|| format!("{kind:?}::{title}::{detail}"))
    }
}

/// How many wakes, and how many learnings, one answer may bring.
pub(super) const PER_ANSWER_MAX: usize = 3;

/// How many wakes may be queued at a time.
pub(super) const QUEUED_MAX: usize = 32;

/// How far ahead a model may plan.
pub(super) const DELAY_MAX: Millis = Millis::from_secs(24 * 3600);

/// How often a model may go on by itself before someone speaks.
pub(super) const FOLLOW_UPS_MAX: u32 = 3;
