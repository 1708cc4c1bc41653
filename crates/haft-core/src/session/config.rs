//! What is settled about a session when it opens, and may be changed by a person later.

use serde::{Deserialize, Serialize};

use super::spend::{Allowance, narrowed};
use super::toolset::{Agent, Network, Toolset};
use crate::journal::Head;
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
    /// The agent that it runs, when it runs one. Sessions of one agent may read each other, so
    /// which one it is never changes.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: Option<Agent>,
    /// The tools as it knows them.
    #[serde(skip_serializing_if = "is_default")]
    pub toolset: Toolset,
    /// The agents to which it may give work. When there are any, it gives work to nobody else.
    #[serde(skip_serializing_if = "is_default")]
    pub roster: Vec<Colleague>,
    /// What is done with a message that arrives while the session is busy.
    #[serde(skip_serializing_if = "is_default")]
    pub on_message: MessageRule,
    /// What is done when a model asks for what cannot be called.
    #[serde(skip_serializing_if = "is_default")]
    pub on_misuse: MisuseRule,
    /// How much it may do.
    pub limits: Limits,
    /// How long a call waits for someone outside, instead of what its tool says.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend_ttl: Option<Millis>,
    /// How long a call in doubt waits for a person.
    pub settle_ttl: Millis,
    /// Where the store's record of authority ended when the session was opened: keys, grants and
    /// policies as they were then cannot be taken out of the record without this showing it.
    #[serde(skip_serializing_if = "is_default")]
    pub authority: Option<Head>,
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
            roster: Vec::new(),
            on_message: MessageRule::default(),
            on_misuse: MisuseRule::default(),
            limits: Limits::default(),
            suspend_ttl: None,
            settle_ttl: Millis::from_secs(7 * 24 * 3600),
            authority: None,
        }
    }
}

impl Config {
    /// Returns the network that its commands have: its environment's, or none.
    pub fn network(&self) -> &Network {
        let environment = self.agent.as_ref().and_then(|agent| agent.environment.as_ref());
        environment.map_or(&Network::Off, |environment| &environment.network)
    }

    /// Returns the agent of a name, or of an id, to which work may be given.
    pub fn colleague(&self, named: &str) -> Option<&Colleague> {
        let by_name = self.roster.iter().find(|colleague| colleague.name == named);
        by_name.or_else(|| self.roster.iter().find(|colleague| colleague.id() == Some(named)))
    }

    /// Returns how a child behaves that wishes to behave like `wish`: it may do nothing that its
    /// parent may not, and is asked about at least as much. The tools of the roster's agents were
    /// settled along with the parent's own, so they have those.
    #[must_use]
    pub fn narrowed_by(&self, wish: &Self) -> Self {
        let is_colleague = self.roster.iter().any(|colleague| colleague.config == *wish);
        let (exposure, toolset) = match is_colleague {
            true => {
                let denied = Exposure { allow: None, deny: self.exposure.deny.clone() };
                (
                    denied.narrowed_by(&wish.exposure),
                    self.toolset.joined_by(&wish.toolset, &self.exposure),
                )
            }
            false => {
                let exposure = self.exposure.narrowed_by(&wish.exposure);
                (exposure, self.toolset.narrowed_by(&wish.toolset))
            }
        };
        Self {
            driver: Driver::Model,
            level: self.level.max(wish.level),
            profile: match self.profile {
                Profile::Haft => Profile::Haft,
                Profile::Steerable => wish.profile,
            },
            exposure,
            agent: wish.agent.clone(),
            toolset,
            roster: Vec::new(),
            on_message: wish.on_message,
            on_misuse: self.on_misuse.max(wish.on_misuse),
            limits: self.limits.narrowed_by(&wish.limits),
            suspend_ttl: self.suspend_ttl.into_iter().chain(wish.suspend_ttl).min(),
            settle_ttl: self.settle_ttl.min(wish.settle_ttl),
            authority: self.authority,
        }
    }
}

/// An agent to which a session may give work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colleague {
    /// What it is called.
    pub name: String,
    /// What it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How its sessions wish to behave.
    pub config: Config,
}

impl Colleague {
    /// Returns the id of its agent.
    pub fn id(&self) -> Option<&str> {
        self.config.agent.as_ref().map(|agent| agent.id.as_str())
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
    /// Attempts that are made again, of all calls from one message to idle, beside what each tool
    /// allows; `None` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries_per_run: Option<u32>,
    /// What calls may spend from one message to idle; `None` for anything. While either limit on
    /// spending is set, a call of which nobody can tell what it costs is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend_per_run: Option<Allowance>,
    /// What calls may spend for as long as the session lives; `None` for anything. A child spends
    /// what its own limits set aside for it, at most what is left here, and that counts as spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend_per_session: Option<Allowance>,
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
            retries_per_run: least(self.retries_per_run, wish.retries_per_run),
            spend_per_run: narrowed(self.spend_per_run.as_ref(), wish.spend_per_run.as_ref()),
            spend_per_session: narrowed(
                self.spend_per_session.as_ref(),
                wish.spend_per_session.as_ref(),
            ),
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
            retries_per_run: None,
            spend_per_run: None,
            spend_per_session: None,
            depth: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::name::ToolName;
    use crate::permission::Verdict;
    use crate::session::Agent;

    fn name(name: &str) -> ToolName {
        ToolName::new(name).unwrap()
    }

    /// An agent that has some tools, and is asked about some.
    fn agent(id: &str, tools: &[&str], asks: &[&str]) -> Config {
        let allow: BTreeSet<ToolName> = tools.iter().map(|tool| name(tool)).collect();
        let verdicts = asks.iter().map(|tool| (name(tool), Verdict::Ask)).collect();
        Config {
            agent: Some(Agent {
                id: id.to_owned(),
                version: 1,
                model: "scripted/x".to_owned(),
                instructions: None,
                environment: None,
            }),
            exposure: Exposure { allow: Some(allow), ..Exposure::default() },
            toolset: Toolset { verdicts, ..Toolset::default() },
            ..Config::default()
        }
    }

    fn coordinator() -> Config {
        let mut own = agent("boss", &["session_delegate", "write"], &["write"]);
        own.exposure.deny.insert(name("grep"));
        let (name, config) =
            ("Scout".to_owned(), agent("scout", &["read", "write", "grep"], &["read"]));
        Config { roster: vec![Colleague { name, description: None, config }], ..own }
    }

    // S3-37: an agent of the roster has its own tools, and is asked about at least as much.
    #[test]
    fn s3_37_an_agent_of_the_roster_has_its_own_tools_and_the_stricter_word_about_each() {
        let own = coordinator();
        let scout = own.colleague("Scout").unwrap();
        assert_eq!(own.colleague("scout"), Some(scout), "also by its id");
        let child = own.narrowed_by(&scout.config);
        let permits = |tool: &str| child.exposure.permits(&name(tool));
        assert!(permits("read") && permits("write"));
        assert!(!permits("session_delegate"), "it has no roster");
        assert!(!permits("grep"), "what is denied here is denied there");
        assert_eq!(child.toolset.verdicts.get(&name("read")), Some(&Verdict::Ask));
        assert_eq!(child.toolset.verdicts.get(&name("write")), Some(&Verdict::Ask));
        assert!(child.roster.is_empty());
    }

    // S3-37: whoever is not on it gets what both have.
    #[test]
    fn s3_37_whoever_only_resembles_an_agent_of_the_roster_is_narrowed_like_anyone() {
        let own = coordinator();
        let mut almost = own.roster[0].config.clone();
        almost.limits.depth += 1;
        let child = own.narrowed_by(&almost);
        assert!(child.exposure.permits(&name("write")));
        assert!(!child.exposure.permits(&name("read")));
    }
}
