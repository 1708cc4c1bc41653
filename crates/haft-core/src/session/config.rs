//! What is settled about a session when it opens, and may be changed by a person later.

use serde::{Deserialize, Serialize};

use super::toolset::{Agent, Toolset};
use crate::permission::{Exposure, Level, Profile};
use crate::time::Millis;

/// How a session behaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Who decides what comes next.
    #[serde(skip_serializing_if = "is_default")]
    pub driver: Driver,
    /// How much people want to be asked.
    #[serde(skip_serializing_if = "is_default")]
    pub level: Level,
    /// What is done with irreversible tools whose gate is unset.
    #[serde(skip_serializing_if = "is_default")]
    pub profile: Profile,
    /// Which tools it may use.
    #[serde(skip_serializing_if = "is_default")]
    pub exposure: Exposure,
    /// The agent that it runs, when it runs one.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: Option<Agent>,
    /// The tools as it knows them.
    #[serde(skip_serializing_if = "is_default")]
    pub toolset: Toolset,
    /// What is done with a message that arrives while the session is busy.
    #[serde(skip_serializing_if = "is_default")]
    pub on_message: MessageRule,
    /// How much it may do.
    pub limits: Limits,
    /// How long a call in doubt waits for a person.
    pub settle_ttl: Millis,
}

/// Only what is a word, and not a number that may be tuned, is left out of the log: what is left
/// out means for ever what it means today.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Config {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            level: Level::default(),
            profile: Profile::default(),
            exposure: Exposure::default(),
            agent: None,
            toolset: Toolset::default(),
            on_message: MessageRule::default(),
            limits: Limits::default(),
            settle_ttl: Millis::from_secs(7 * 24 * 3600),
        }
    }
}

/// Who decides what a session does next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// A model: settled calls lead to its next turn.
    #[default]
    Model,
    /// The program that proposes the calls.
    Caller,
}

/// What is done with a message that arrives while a turn is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRule {
    /// It waits for the next turn.
    #[default]
    Queue,
    /// What is under way is withdrawn, and the next turn starts with it.
    Steer,
    /// It is refused.
    Refuse,
}

/// How much a session may do before it stops by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Model turns from one message to idle.
    pub turns_per_run: u32,
    /// Calls from one message to idle; refused calls count, so that a loop of them ends.
    pub calls_per_run: u32,
    /// Calls in one turn.
    pub calls_per_turn: u32,
    /// Calls that run beside each other.
    pub parallel: u32,
    /// Calls that wait for someone at the same time.
    pub waiting_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns_per_run: 50,
            calls_per_run: 500,
            calls_per_turn: 64,
            parallel: 8,
            waiting_max: 64,
        }
    }
}
