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
    /// What is done when a model asks for what cannot be called.
    #[serde(skip_serializing_if = "is_default")]
    pub on_misuse: MisuseRule,
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
            on_misuse: MisuseRule::default(),
            limits: Limits::default(),
            settle_ttl: Millis::from_secs(7 * 24 * 3600),
        }
    }
}

impl Config {
    /// Returns how a child behaves that wishes to behave like `wish`: it may do nothing that its
    /// parent may not, and is asked about at least as much.
    #[must_use]
    pub fn narrowed_by(&self, wish: &Self) -> Self {
        Self {
            driver: Driver::Model,
            level: self.level.max(wish.level),
            profile: match self.profile {
                Profile::Haft => Profile::Haft,
                Profile::Steerable => wish.profile,
            },
            exposure: self.exposure.narrowed_by(&wish.exposure),
            agent: wish.agent.clone(),
            toolset: self.toolset.narrowed_by(&wish.toolset),
            on_message: wish.on_message,
            on_misuse: self.on_misuse.max(wish.on_misuse),
            limits: self.limits.narrowed_by(&wish.limits),
            settle_ttl: self.settle_ttl.min(wish.settle_ttl),
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

/// What is done when a model asks for an unknown tool, or with arguments that do not fit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MisuseRule {
    /// It is told what is wrong, and may repair it.
    #[default]
    Repair,
    /// The run fails. What it asked for rightly beside it is done first.
    Fail,
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
    /// Tokens that the model reads and writes from one message to idle; `None` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_run: Option<u64>,
    /// How long a run may be at work. Waiting for people does not count: they take their time.
    /// What runs when it is over may end; nothing new begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_per_run: Option<Millis>,
    /// How many sessions may stand below the top one.
    pub depth: u32,
}

impl Limits {
    fn narrowed_by(&self, wish: &Self) -> Self {
        Self {
            turns_per_run: self.turns_per_run.min(wish.turns_per_run),
            calls_per_run: self.calls_per_run.min(wish.calls_per_run),
            calls_per_turn: self.calls_per_turn.min(wish.calls_per_turn),
            parallel: self.parallel.min(wish.parallel),
            waiting_max: self.waiting_max.min(wish.waiting_max),
            tokens_per_run: least(self.tokens_per_run, wish.tokens_per_run),
            time_per_run: least(self.time_per_run, wish.time_per_run),
            depth: self.depth.min(wish.depth),
        }
    }
}

fn least<T: Ord>(ours: Option<T>, theirs: Option<T>) -> Option<T> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns_per_run: 50,
            calls_per_run: 500,
            calls_per_turn: 64,
            parallel: 8,
            waiting_max: 64,
            tokens_per_run: None,
            time_per_run: None,
            depth: 3,
        }
    }
}
