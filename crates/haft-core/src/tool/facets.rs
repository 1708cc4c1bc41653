//! What a tool does to the world, and the vocabularies derived from it.
//!
//! One record of facets; the modes of document 000, the categories of 001, the effects of 002,
//! the safety metadata of 003 and MCP's hints are views of it. A field may be left unset: then
//! an explicit mode fills it, else the name classifier, else the cautious value. What was
//! declared is never overwritten.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::classify::classify;
use crate::name::ToolName;

/// How far a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutates {
    /// Only looks.
    None,
    /// Changes something in a bounded, revisable way.
    Bounded,
    /// Cannot be taken back.
    Irreversible,
}

/// Where a tool reaches beyond Haft's own data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The user's own machine.
    LocalMachine,
    /// Any network.
    Network,
    /// A service that someone else runs.
    ExternalService,
}

/// What a tool may do in the file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "access")]
pub enum FsAccess {
    /// Nothing.
    None,
    /// Read below the roots.
    ReadOnly {
        /// Absolute directories.
        roots: Vec<String>,
    },
    /// Read and write below the roots.
    ReadWrite {
        /// Absolute directories.
        roots: Vec<String>,
    },
}

/// Whether a tool starts processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessUse {
    /// Never.
    None,
    /// Starts processes or talks to a shell.
    Starts,
}

/// Whether a tool can cost money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spend {
    /// Never.
    None,
    /// A call may pay, order or bill.
    Possible,
}

/// What happens when the same call runs twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// The second run changes nothing more.
    Idempotent,
    /// The other side recognises our key and applies the call once.
    Keyed,
    /// The effect happens again.
    Unsafe,
}

/// Whose data a tool touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The session's own.
    Session,
    /// What other sessions see too.
    Shared,
}

/// The closed effect vocabulary of document 002.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredEffect {
    /// Reads sessions.
    SessionRead,
    /// Writes sessions.
    SessionWrite,
    /// Reads mounted resources.
    ResourceRead,
    /// Writes mounted resources.
    ResourceWrite,
    /// Reads memory.
    MemoryRead,
    /// Writes memory.
    MemoryWrite,
    /// Reads learnings.
    LearningRead,
    /// Reads skills.
    SkillRead,
    /// Acts through the sandbox.
    SandboxExecute,
}

/// The facets as a definition declares them; every field may be left unset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facets {
    /// How far it changes anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutates: Option<Mutates>,
    /// Where it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<BTreeSet<Reach>>,
    /// What it may do in the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsAccess>,
    /// Whether it starts processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessUse>,
    /// Whether it can cost money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
    /// What a second run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// Whose data it touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The effects of document 002.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub effects: BTreeSet<DeclaredEffect>,
}

/// Where the answer to "what does this tool do" came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classification {
    /// The definition says so.
    Declared,
    /// A name rule of document 000 says so.
    ByName {
        /// The prefix that matched.
        prefix: &'static str,
    },
    /// Nothing says so; every field has its cautious value.
    Unclassified,
}

/// The facets with every field decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedFacets {
    /// How far it changes anything.
    pub mutates: Mutates,
    /// Where it reaches.
    pub reach: BTreeSet<Reach>,
    /// What it may do in the file system.
    pub fs: FsAccess,
    /// Whether it starts processes.
    pub process: ProcessUse,
    /// Whether it can cost money.
    pub spend: Spend,
    /// What a second run does.
    pub idempotency: Idempotency,
    /// Whose data it touches.
    pub scope: Scope,
    /// Where `mutates` and `reach` came from.
    pub classification: Classification,
    mode: Option<Mode>,
}

impl Facets {
    /// Decides every field: declared values first, then `mode`, then the name, then caution.
    pub fn resolve(&self, name: &ToolName, mode: Option<Mode>) -> ResolvedFacets {
        let declared = self.mutates.is_some() || self.process == Some(ProcessUse::Starts);
        let named = classify(name);
        let (hint, classification) = match (declared, mode, named) {
            (_, Some(mode), _) => (Some(mode), Classification::Declared),
            (true, None, _) => (None, Classification::Declared),
            (false, None, Some(found)) => {
                (Some(found.mode), Classification::ByName { prefix: found.prefix })
            }
            (false, None, None) => (None, Classification::Unclassified),
        };
        let hinted = hint.map_or(Mutates::Irreversible, Mode::mutates);
        let mutates = self.mutates.unwrap_or_else(|| hinted.max(self.implied_mutation()));
        let process = self.process.unwrap_or(match hint {
            Some(Mode::Local) => ProcessUse::Starts,
            _ => ProcessUse::None,
        });
        let reach = self.reach.clone().unwrap_or_else(|| cautious_reach(hint, classification));
        let idempotency = self.idempotency.unwrap_or(match mutates {
            Mutates::None => Idempotency::Idempotent,
            Mutates::Bounded | Mutates::Irreversible => Idempotency::Unsafe,
        });
        ResolvedFacets {
            mutates,
            reach,
            fs: self.fs.clone().unwrap_or(FsAccess::None),
            process,
            spend: self.spend.unwrap_or(Spend::None),
            idempotency,
            scope: self.scope.unwrap_or(Scope::Session),
            classification,
            mode,
        }
    }
}

impl Facets {
    /// What the other declared facets say about mutation: a name is no reason to overlook them.
    fn implied_mutation(&self) -> Mutates {
        if self.spend == Some(Spend::Possible) {
            return Mutates::Irreversible;
        }
        match self.fs {
            Some(FsAccess::ReadWrite { .. }) => Mutates::Bounded,
            Some(FsAccess::None | FsAccess::ReadOnly { .. }) | None => Mutates::None,
        }
    }
}

fn cautious_reach(hint: Option<Mode>, classification: Classification) -> BTreeSet<Reach> {
    match (hint, classification) {
        (Some(Mode::Local), _) => BTreeSet::from([Reach::LocalMachine]),
        (Some(Mode::External), _) => BTreeSet::from([Reach::Network, Reach::ExternalService]),
        (_, Classification::Unclassified) => {
            BTreeSet::from([Reach::LocalMachine, Reach::Network, Reach::ExternalService])
        }
        (_, Classification::Declared | Classification::ByName { .. }) => BTreeSet::new(),
    }
}

impl ResolvedFacets {
    /// Returns the mode of document 000; `None` for a tool that nothing classifies.
    pub fn mode(&self) -> Option<Mode> {
        if self.mode.is_some() {
            return self.mode;
        }
        if matches!(self.classification, Classification::Unclassified) {
            return None;
        }
        let local = self.process == ProcessUse::Starts || self.reach.contains(&Reach::LocalMachine);
        Some(match self.mutates {
            _ if local => Mode::Local,
            Mutates::Irreversible => Mode::Destructive,
            Mutates::Bounded => Mode::SafeWrite,
            Mutates::None if self.reach.contains(&Reach::ExternalService) => Mode::External,
            Mutates::None => Mode::Read,
        })
    }

    /// Returns the category of document 001 that fits, for a definition that declares none.
    pub fn category(&self) -> Category {
        let outside = self.reach.contains(&Reach::ExternalService) || self.spend == Spend::Possible;
        match self.mutates {
            Mutates::None => Category::Read,
            Mutates::Bounded | Mutates::Irreversible if outside => Category::SideEffect,
            Mutates::Irreversible => Category::Delete,
            Mutates::Bounded => Category::Write,
        }
    }

    /// Returns document 002's `readOnly`, and MCP's `readOnlyHint`.
    pub fn is_read_only(&self) -> bool {
        self.mutates == Mutates::None
    }

    /// Returns document 002's `destructive`.
    pub fn is_destructive(&self) -> bool {
        self.mutates == Mutates::Irreversible
    }

    /// Returns MCP's `openWorldHint`.
    pub fn is_open_world(&self) -> bool {
        self.reach.contains(&Reach::Network) || self.reach.contains(&Reach::ExternalService)
    }

    /// Returns whether a call may run again without asking anyone.
    pub fn is_safe_to_repeat(&self) -> bool {
        self.is_read_only() || self.idempotency != Idempotency::Unsafe
    }
}

/// How a call is treated when nothing else is declared (document 000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Pure inspection.
    Read,
    /// Bounded mutation.
    SafeWrite,
    /// Irreversible.
    Destructive,
    /// Touches the user's machine.
    Local,
    /// Calls outside services.
    External,
}

/// Whether a mode runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRule {
    /// Runs without consent.
    Auto,
    /// Waits for consent.
    Consent,
}

/// What a person is offered beside the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Affordance {
    /// Nothing.
    None,
    /// A preview of the difference.
    Diff,
    /// A way back.
    Undo,
    /// An entry in the log that stands out.
    Log,
}

/// Document 000's default treatment of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Treatment {
    /// Whether it runs by itself.
    pub run: RunRule,
    /// What is offered beside it.
    pub affordance: Affordance,
}

impl Mode {
    /// Every mode, in the document's order.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::SafeWrite, Self::Destructive, Self::Local, Self::External];

    /// Returns document 000's default treatment.
    pub const fn treatment(self) -> Treatment {
        let (run, affordance) = match self {
            Self::Read => (RunRule::Auto, Affordance::None),
            Self::SafeWrite => (RunRule::Auto, Affordance::Diff),
            Self::Destructive => (RunRule::Auto, Affordance::Undo),
            Self::Local => (RunRule::Consent, Affordance::None),
            Self::External => (RunRule::Auto, Affordance::Log),
        };
        Treatment { run, affordance }
    }

    /// Returns what a mode implies about mutation when the facets leave it open.
    fn mutates(self) -> Mutates {
        match self {
            Self::Read | Self::External => Mutates::None,
            Self::SafeWrite => Mutates::Bounded,
            Self::Destructive | Self::Local => Mutates::Irreversible,
        }
    }
}

/// The mutation classes of document 001.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Retrieves data.
    Read,
    /// Creates or updates data.
    Write,
    /// Removes data.
    Delete,
    /// Acts outside: mail, webhooks, payments.
    SideEffect,
}

impl Mode {
    /// Returns what is contradictory about declaring this mode beside these facets: a mode may
    /// be stricter than what is declared, never laxer.
    pub fn contradiction(self, facets: &ResolvedFacets) -> Option<&'static str> {
        let acts = facets.mutates != Mutates::None || facets.process == ProcessUse::Starts;
        match (self, facets.mutates) {
            (Self::Read | Self::External, _) if acts => {
                Some("the mode says that it only looks, but its facets say that it acts")
            }
            (Self::SafeWrite, Mutates::Irreversible) => {
                Some("the mode says that its changes are bounded, but its facets say otherwise")
            }
            _ => None,
        }
    }
}

impl Category {
    /// Returns what is contradictory about declaring this category beside these facets, if
    /// anything is. A contradiction is reported, never silently repaired.
    pub fn contradiction(self, facets: &ResolvedFacets) -> Option<&'static str> {
        match (self, facets.mutates) {
            (Self::Read, Mutates::Bounded | Mutates::Irreversible) => {
                Some("category `read` but its facets say that it changes something")
            }
            (Self::Write | Self::Delete, Mutates::None) => {
                Some("category says that it changes data but its facets say that it only looks")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::MODE_TABLE;

    fn name(text: &str) -> ToolName {
        ToolName::new(text).unwrap()
    }

    // S0-16: exactly five modes, by these names.
    #[test]
    fn s0_16_the_modes_are_exactly_five() {
        let names: Vec<_> = Mode::ALL.iter().map(|m| serde_json::to_value(m).unwrap()).collect();
        assert_eq!(names, ["read", "safe_write", "destructive", "local", "external"]);
        assert!(serde_json::from_str::<Mode>("\"other\"").is_err());
    }

    // The treatments in code are those of the shared table.
    #[test]
    fn the_default_treatments_are_those_of_the_shared_table() {
        let table: serde_json::Value = serde_json::from_str(MODE_TABLE).unwrap();
        for mode in Mode::ALL {
            let key = serde_json::to_value(mode).unwrap();
            let shared: Treatment =
                serde_json::from_value(table["treatments"][key.as_str().unwrap()].clone()).unwrap();
            assert_eq!(mode.treatment(), shared);
        }
        assert_eq!(Mode::Local.treatment().run, RunRule::Consent);
        assert_eq!(Mode::Destructive.treatment().affordance, Affordance::Undo);
    }

    // S0-26: a name that matches nothing is unclassified, cautious in every field.
    #[test]
    fn s0_26_an_unclassified_tool_has_no_mode_and_the_cautious_facets() {
        let facets = Facets::default().resolve(&name("frobnicate"), None);
        assert_eq!(facets.mode(), None);
        assert_eq!(facets.mutates, Mutates::Irreversible);
        assert_eq!(facets.reach.len(), 3);
        assert!(!facets.is_safe_to_repeat());
    }

    // S0-27: an explicit mode wins over the name.
    #[test]
    fn s0_27_an_explicit_mode_overrides_the_name() {
        let facets = Facets::default().resolve(&name("delete_cache"), Some(Mode::Read));
        assert_eq!(facets.mode(), Some(Mode::Read));
        assert!(facets.is_read_only());
        assert_eq!(facets.classification, Classification::Declared);
    }

    #[test]
    fn a_name_never_overrides_a_declared_facet() {
        let declared = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
        let facets = declared.resolve(&name("get_and_delete"), None);
        assert_eq!(facets.mutates, Mutates::Irreversible);
        assert_eq!(facets.mode(), Some(Mode::Destructive));
    }

    #[test]
    fn the_mode_follows_the_facets_in_the_order_of_the_model() {
        let mode = |mutates, reach: &[Reach], process| {
            let facets = Facets {
                mutates: Some(mutates),
                reach: Some(reach.iter().copied().collect()),
                process: Some(process),
                ..Facets::default()
            };
            facets.resolve(&name("x"), None).mode().unwrap()
        };
        assert_eq!(mode(Mutates::None, &[], ProcessUse::Starts), Mode::Local);
        assert_eq!(mode(Mutates::None, &[Reach::LocalMachine], ProcessUse::None), Mode::Local);
        assert_eq!(mode(Mutates::Irreversible, &[], ProcessUse::None), Mode::Destructive);
        assert_eq!(mode(Mutates::Bounded, &[Reach::Network], ProcessUse::None), Mode::SafeWrite);
        assert_eq!(
            mode(Mutates::None, &[Reach::ExternalService], ProcessUse::None),
            Mode::External
        );
        assert_eq!(mode(Mutates::None, &[Reach::Network], ProcessUse::None), Mode::Read);
    }

    // S1-5, S3-26, S3-27, S3-28, S3-29, S3-30, S3-31, S3-33: one record, every vocabulary.
    #[test]
    fn the_views_agree_with_the_record() {
        let payment = Facets {
            mutates: Some(Mutates::Irreversible),
            reach: Some(BTreeSet::from([Reach::ExternalService])),
            fs: Some(FsAccess::ReadOnly { roots: vec!["/workspace".into()] }),
            process: Some(ProcessUse::None),
            spend: Some(Spend::Possible),
            idempotency: Some(Idempotency::Keyed),
            ..Facets::default()
        }
        .resolve(&name("charge_card"), None);
        assert_eq!(payment.category(), Category::SideEffect);
        assert!(payment.is_destructive() && payment.is_open_world() && !payment.is_read_only());
        assert!(payment.is_safe_to_repeat());
        assert_eq!(payment.fs, FsAccess::ReadOnly { roots: vec!["/workspace".into()] });
        assert_eq!(
            Facets::default().resolve(&name("drop_table"), None).category(),
            Category::Delete
        );
        assert_eq!(Facets::default().resolve(&name("set_x"), None).category(), Category::Write);
        assert_eq!(Facets::default().resolve(&name("get_x"), None).category(), Category::Read);
    }

    #[test]
    fn a_contradicting_category_is_named_not_repaired() {
        let write = Facets { mutates: Some(Mutates::Bounded), ..Facets::default() };
        let facets = write.resolve(&name("x"), None);
        assert!(Category::Read.contradiction(&facets).is_some());
        assert!(Category::SideEffect.contradiction(&facets).is_none());
        let read = Facets { mutates: Some(Mutates::None), ..Facets::default() };
        assert!(Category::Delete.contradiction(&read.resolve(&name("x"), None)).is_some());
    }

    // S2-5: the effect vocabulary is closed.
    #[test]
    fn s2_5_an_unknown_effect_is_refused_by_name() {
        let error = serde_json::from_str::<Facets>(r#"{"effects":["teleport"]}"#).unwrap_err();
        assert!(error.to_string().contains("`teleport`"), "{error}");
        assert!(error.to_string().contains("`sandbox_execute`"), "{error}");
    }
}
