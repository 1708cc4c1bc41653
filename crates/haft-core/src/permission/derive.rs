//! The derivation: every source's verdict, in order, and the decision they add up to.

use serde::{Deserialize, Serialize};

use super::exposure::Exposure;
use super::grant::{GrantUse, StandingGrant};
use crate::arguments::Arguments;
use crate::id::GrantId;
use crate::time::Timestamp;
use crate::tool::{Contract, Executor, Gate, Mode, Mutates, Ownership, Reversal};

/// What a source says about a call, and what they say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not run.
    Deny,
}

/// Something that has a say in whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The tool's own gate.
    Tool,
    /// What ownership implies when the gate is unset.
    Ownership,
    /// What the tool does, or is called, when the gate is unset.
    Classifier,
    /// Who produces the result.
    Executor,
    /// The session's list of tools.
    Exposure,
    /// The environment's limits.
    Environment,
    /// A named policy rule.
    Rule(String),
    /// The permission policy of the session's agent.
    Agent,
    /// The operator's floor under what agents' policies may allow.
    Floor,
    /// The session's level of oversight.
    Level,
    /// A standing grant.
    Grant(GrantId),
}

/// What one source says, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Who says it.
    pub source: Source,
    /// What it says.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

/// Every source's finding, and the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derivation {
    /// What they add up to.
    pub decision: Verdict,
    /// What each source says, in the order in which they were heard.
    pub findings: Vec<Finding>,
    /// What the call takes from a grant, when a grant let it through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantUse>,
}

impl Derivation {
    /// Returns the reason of the last source that says what was decided.
    pub fn deciding_reason(&self) -> &str {
        let same = self.findings.iter().rev().find(|finding| finding.verdict == self.decision);
        same.map_or("no source objects", |finding| &finding.reason)
    }
}

/// How much a session's people want to be asked; from least to most.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Never, except for tools that always ask and policies that ask.
    Autonomous,
    /// When the tool declares it.
    #[default]
    Cautious,
    /// Also for everything that changes anything.
    Standard,
    /// For everything.
    Paranoid,
}

/// What is done with an irreversible tool whose gate is unset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Ask, unless an undo is registered.
    #[default]
    Haft,
    /// Run, with an undo offered, as document 000 has it.
    Steerable,
}

/// What a source outside the core reports: a rule file, an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// Who reports.
    pub source: Source,
    /// What it reports.
    pub report: Report,
}

/// The ways in which an outside source answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It has a verdict.
    Says {
        /// The verdict.
        verdict: Verdict,
        /// Why.
        reason: String,
    },
    /// It could not be asked; that is a denial.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// Everything that is weighed.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool's terms.
    pub contract: &'a Contract,
    /// The call's arguments.
    pub arguments: &'a Arguments,
    /// The session's level.
    pub level: Level,
    /// The session's profile.
    pub profile: Profile,
    /// The session's tools.
    pub exposure: &'a Exposure,
    /// What sources outside the core say.
    pub reports: &'a [SourceReport],
    /// The grants that may apply, narrowest first.
    pub grants: &'a [StandingGrant],
    /// The time.
    pub now: Timestamp,
}

impl Question<'_> {
    /// Hears every source and decides.
    pub fn derive(&self) -> Derivation {
        let mut findings = Vec::with_capacity(4);
        findings.push(self.declared());
        findings.extend(self.exposed());
        let declared = max(&findings);
        findings.extend(self.reports.iter().map(heard));
        let policy = max(&findings[1..]);
        let base = match self.is_lowered(declared) {
            true => {
                findings.extend(self.lowered_by_level());
                policy
            }
            false => declared.max(policy),
        };
        let raised = self.raised_by_level();
        let decision = raised.as_ref().map_or(base, |finding| base.max(finding.verdict));
        findings.extend(raised);
        self.settle(decision, findings)
    }

    /// Returns whether the tool may be offered to a model at all. A provider runs its tools
    /// within its own response, where nobody can be asked: so what would have to be asked about
    /// is not offered.
    pub fn may_offer(&self) -> bool {
        match (self.derive().decision, self.contract.executor) {
            (Verdict::Allow, _) => true,
            (Verdict::Ask, Executor::Server | Executor::Human | Executor::Client) => true,
            (Verdict::Ask, Executor::Provider) | (Verdict::Deny, _) => false,
        }
    }

    fn settle(&self, decision: Verdict, mut findings: Vec<Finding>) -> Derivation {
        if decision != Verdict::Ask {
            return Derivation { decision, findings, grant: None };
        }
        if let Some(reason) = unaskable(self.contract.executor) {
            let (source, verdict) = (Source::Executor, Verdict::Allow);
            findings.push(Finding { source, verdict, reason: reason.to_owned() });
            return Derivation { decision: Verdict::Allow, findings, grant: None };
        }
        let grant = (!self.contract.gate.always_asks()).then(|| self.granted()).flatten();
        let decision = if grant.is_some() { Verdict::Allow } else { Verdict::Ask };
        findings.extend(grant.map(|used| Finding {
            source: Source::Grant(used.grant),
            verdict: Verdict::Allow,
            reason: "a standing grant covers it".to_owned(),
        }));
        Derivation { decision, findings, grant }
    }

    fn granted(&self) -> Option<GrantUse> {
        let covers = |grant: &StandingGrant| grant.covers(self.contract, self.arguments, self.now);
        self.grants.iter().find_map(|grant| covers(grant).ok())
    }

    /// What the definition says by itself: its gate, else its ownership, else what it does.
    fn declared(&self) -> Finding {
        let finding =
            |source, verdict, reason: &str| Finding { source, verdict, reason: reason.to_owned() };
        match (self.contract.gate, self.contract.ownership) {
            (Gate::Auto, _) => finding(Source::Tool, Verdict::Allow, "declared to need nobody"),
            (Gate::Ask, _) => finding(Source::Tool, Verdict::Ask, "declared to ask"),
            (Gate::AskAlways, _) => finding(Source::Tool, Verdict::Ask, "declared to ask always"),
            (Gate::AskTwo, _) => finding(Source::Tool, Verdict::Ask, "declared to ask two people"),
            (Gate::Unset, Ownership::Mcp) => finding(
                Source::Ownership,
                Verdict::Ask,
                "an MCP server's tool asks unless declared",
            ),
            (Gate::Unset, Ownership::Managed | Ownership::Custom) => self.classified(),
        }
    }

    fn classified(&self) -> Finding {
        let undoable = self.contract.reversal == Reversal::Undo;
        let (verdict, reason) = match (self.contract.mode, self.profile) {
            (Some(Mode::Read), _) => (Verdict::Allow, "it only reads"),
            (Some(Mode::SafeWrite), _) => (Verdict::Allow, "its changes are bounded"),
            (Some(Mode::External), _) => (Verdict::Allow, "it only looks at an outside service"),
            (Some(Mode::Local), _) => (Verdict::Ask, "it touches the machine it runs on"),
            (Some(Mode::Destructive), Profile::Steerable) => {
                (Verdict::Allow, "irreversible tools run in the steerable profile")
            }
            (Some(Mode::Destructive), Profile::Haft) if undoable => {
                (Verdict::Allow, "irreversible, but an undo is registered")
            }
            (Some(Mode::Destructive), Profile::Haft) => (Verdict::Ask, "it cannot be taken back"),
            (None, _) => (Verdict::Ask, "nothing says what it does"),
        };
        Finding { source: Source::Classifier, verdict, reason: reason.to_owned() }
    }

    fn exposed(&self) -> Option<Finding> {
        (!self.exposure.permits(&self.contract.tool)).then(|| Finding {
            source: Source::Exposure,
            verdict: Verdict::Deny,
            reason: "the session may not use this tool".to_owned(),
        })
    }

    /// Whether what the definition asks is left to the session: its level, or its agent's policy.
    fn is_lowered(&self, declared: Verdict) -> bool {
        let can_be_lowered = declared == Verdict::Ask && !self.contract.gate.always_asks();
        can_be_lowered && (self.level == Level::Autonomous || self.is_allowed_by_agent())
    }

    fn is_allowed_by_agent(&self) -> bool {
        let mut by_agent = self.reports.iter().filter(|report| report.source == Source::Agent);
        by_agent.any(|report| matches!(report.report, Report::Says { verdict: Verdict::Allow, .. }))
    }

    fn lowered_by_level(&self) -> Option<Finding> {
        (self.level == Level::Autonomous).then(|| Finding {
            source: Source::Level,
            verdict: Verdict::Allow,
            reason: "the autonomous level does not ask for what only the tool asks".to_owned(),
        })
    }

    fn raised_by_level(&self) -> Option<Finding> {
        let reason = match (self.level, self.contract.mutates) {
            (Level::Paranoid, _) => "the paranoid level asks for everything",
            (Level::Standard, Mutates::Bounded | Mutates::Irreversible) => {
                "the standard level asks for everything that changes anything"
            }
            (Level::Standard, Mutates::None) | (Level::Autonomous | Level::Cautious, _) => {
                return None;
            }
        };
        Some(Finding { source: Source::Level, verdict: Verdict::Ask, reason: reason.to_owned() })
    }
}

/// Returns why nobody need be asked before a call, where that is so (document 004, "Legal
/// matrix").
fn unaskable(executor: Executor) -> Option<&'static str> {
    match executor {
        Executor::Human => Some("the person who is asked can decline"),
        Executor::Server | Executor::Client | Executor::Provider => None,
    }
}

fn max(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Allow)
}

fn heard(report: &SourceReport) -> Finding {
    let (verdict, reason) = match &report.report {
        Report::Says { verdict, reason } => (*verdict, reason.clone()),
        Report::Failed { reason } => (Verdict::Deny, format!("it could not be asked: {reason}")),
    };
    Finding { source: report.source.clone(), verdict, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{Actor, ActorId};
    use crate::tool::{Definition, Facets, Schema, ToolSpec, Undo};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    fn contract(name: &str, change: impl FnOnce(&mut Definition)) -> Arc<Contract> {
        let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
        let mut definition = Definition::new(name.parse().unwrap(), "Does it.", schema);
        change(&mut definition);
        Arc::clone(ToolSpec::new(definition).unwrap().contract())
    }

    fn gated(gate: Gate) -> Arc<Contract> {
        contract("get_x", |d| d.gate = gate)
    }

    fn arguments() -> Arguments {
        Arguments::plain(serde_json::Map::new())
    }

    fn decide(contract: &Contract, level: Level) -> Derivation {
        ask(contract, level, &[], &[])
    }

    fn ask(
        contract: &Contract,
        level: Level,
        reports: &[SourceReport],
        grants: &[StandingGrant],
    ) -> Derivation {
        Question {
            contract,
            arguments: &arguments(),
            level,
            profile: Profile::Haft,
            exposure: &Exposure::default(),
            reports,
            grants,
            now: Timestamp::from_ms(5),
        }
        .derive()
    }

    fn rule(verdict: Verdict) -> SourceReport {
        let report = Report::Says { verdict, reason: "the rule says so".into() };
        SourceReport { source: Source::Rule("r".into()), report }
    }

    fn grant(contract: &Contract) -> StandingGrant {
        StandingGrant {
            id: GrantId::from_bits(9),
            tool: contract.tool.clone(),
            contract: contract.digest,
            when: Vec::new(),
            uses_left: None,
            budget: None,
            expires_at: None,
            by: Actor::user(ActorId::new("ann").unwrap()),
            at: Timestamp::default(),
        }
    }

    // D21, S0-17, S0-20, S0-26, C6: what an unset gate comes to, by name and by declaration.
    #[test]
    fn an_unset_gate_is_decided_by_what_the_tool_does() {
        let decision = |name| decide(&contract(name, |_| {}), Level::Cautious).decision;
        assert_eq!(decision("get_x"), Verdict::Allow);
        assert_eq!(decision("update_x"), Verdict::Allow);
        assert_eq!(decision("delete_x"), Verdict::Ask);
        assert_eq!(decision("shell_x"), Verdict::Ask);
        assert_eq!(decision("frobnicate"), Verdict::Ask);
        let undo = Undo {
            tool: "restore_x".parse().unwrap(),
            arguments: BTreeMap::new(),
            window: crate::Millis(1),
        };
        let undoable = contract("delete_x", |d| d.undo = Some(undo));
        assert_eq!(decide(&undoable, Level::Cautious).decision, Verdict::Allow);
        let mcp = contract("get_x", |d| d.ownership = Ownership::Mcp);
        assert_eq!(decide(&mcp, Level::Cautious).decision, Verdict::Ask);
    }

    // S0-21: document 000's own profile.
    #[test]
    fn the_steerable_profile_runs_what_document_000_runs() {
        let external = contract("lookup", |d| d.mode = Some(Mode::External));
        assert_eq!(decide(&external, Level::Cautious).decision, Verdict::Allow);
        let destructive = contract("drop_x", |_| {});
        let question = Question {
            contract: &destructive,
            arguments: &arguments(),
            level: Level::Cautious,
            profile: Profile::Steerable,
            exposure: &Exposure::default(),
            reports: &[],
            grants: &[],
            now: Timestamp::default(),
        };
        assert_eq!(question.derive().decision, Verdict::Allow);
    }

    // S1-31: a level raises; only the autonomous one lowers, and not what always asks.
    #[test]
    fn s1_31_levels_raise_and_only_autonomous_lowers() {
        use Level::{Autonomous, Cautious, Paranoid, Standard};
        let write = contract("x", |d| {
            d.gate = Gate::Auto;
            d.facets = Facets { mutates: Some(Mutates::Bounded), ..Facets::default() };
        });
        let table = [
            (gated(Gate::Auto), [Verdict::Allow, Verdict::Allow, Verdict::Allow, Verdict::Ask]),
            (write, [Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Ask]),
            (gated(Gate::Ask), [Verdict::Allow, Verdict::Ask, Verdict::Ask, Verdict::Ask]),
            (gated(Gate::AskAlways), [Verdict::Ask; 4]),
            (gated(Gate::AskTwo), [Verdict::Ask; 4]),
        ];
        for (contract, expected) in table {
            let found =
                [Autonomous, Cautious, Standard, Paranoid].map(|l| decide(&contract, l).decision);
            assert_eq!(found, expected, "{:?}", contract.gate);
        }
        let by_rule = ask(&gated(Gate::Auto), Autonomous, &[rule(Verdict::Ask)], &[]);
        assert_eq!(by_rule.decision, Verdict::Ask, "a policy's ask is not the tool's to lower");
    }

    // D22: a source that fails is a deny.
    #[test]
    fn d22_a_failing_source_denies() {
        let report = Report::Failed { reason: "timed out".into() };
        let broken = SourceReport { source: Source::Environment, report };
        let derivation = ask(&gated(Gate::Auto), Level::Autonomous, &[broken], &[]);
        assert_eq!(derivation.decision, Verdict::Deny);
        assert_eq!(derivation.deciding_reason(), "it could not be asked: timed out");
    }

    // S1-26: a standing grant skips the confirmation, except where the tool always asks.
    #[test]
    fn s1_26_a_grant_lowers_an_ask_and_never_a_deny() {
        let asks = gated(Gate::Ask);
        let granted = ask(&asks, Level::Paranoid, &[], &[grant(&asks)]);
        assert_eq!(granted.decision, Verdict::Allow);
        assert_eq!(granted.grant, Some(GrantUse { grant: GrantId::from_bits(9), amount: None }));
        let denied = ask(&asks, Level::Cautious, &[rule(Verdict::Deny)], &[grant(&asks)]);
        assert_eq!((denied.decision, denied.grant), (Verdict::Deny, None));
        for always in [gated(Gate::AskAlways), gated(Gate::AskTwo)] {
            let granted = ask(&always, Level::Cautious, &[], &[grant(&always)]);
            assert_eq!(granted.decision, Verdict::Ask);
        }
        let allowed = ask(&gated(Gate::Auto), Level::Cautious, &[], &[grant(&gated(Gate::Auto))]);
        assert_eq!(allowed.grant, None, "what is allowed anyway uses up nothing");
    }

    // S3-19, S3-36: what is not exposed is denied by the same decision that hides it.
    #[test]
    fn s3_36_what_is_hidden_is_also_refused() {
        let exposure = Exposure { allow: Some(BTreeSet::new()), deny: BTreeSet::new() };
        let contract = gated(Gate::Auto);
        let derivation = Question {
            contract: &contract,
            arguments: &arguments(),
            level: Level::Autonomous,
            profile: Profile::Haft,
            exposure: &exposure,
            reports: &[],
            grants: &[grant(&contract)],
            now: Timestamp::default(),
        }
        .derive();
        assert_eq!(derivation.decision, Verdict::Deny);
        assert_eq!(derivation.findings.last().unwrap().source, Source::Exposure);
    }

    #[test]
    fn a_providers_tool_that_would_have_to_be_asked_about_is_not_offered() {
        let search = contract("web_search", |d| d.executor = Executor::Provider);
        let question = |level, contract| {
            Question {
                contract,
                arguments: &Arguments::plain(serde_json::Map::new()),
                level,
                profile: Profile::Haft,
                exposure: &Exposure::default(),
                reports: &[],
                grants: &[],
                now: Timestamp::default(),
            }
            .may_offer()
        };
        assert!(!question(Level::Cautious, &search), "nothing says what it does");
        let known = contract("web_search", |d| {
            d.executor = Executor::Provider;
            d.mode = Some(Mode::External);
        });
        assert!(question(Level::Cautious, &known));
        assert!(!question(Level::Paranoid, &known));
        assert!(question(Level::Paranoid, &gated(Gate::Ask)), "a server's tool can be asked about");
    }

    #[test]
    fn a_question_to_a_person_is_not_gated_a_second_time() {
        let human = contract("ask_user", |d| d.executor = Executor::Human);
        assert_eq!(decide(&human, Level::Paranoid).decision, Verdict::Allow);
        let denied = ask(&human, Level::Paranoid, &[rule(Verdict::Deny)], &[]);
        assert_eq!(denied.decision, Verdict::Deny);
    }

    fn any_verdict() -> impl Strategy<Value = Verdict> {
        prop::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Deny])
    }

    fn any_level() -> impl Strategy<Value = Level> {
        use Level::{Autonomous, Cautious, Paranoid, Standard};
        prop::sample::select(vec![Autonomous, Cautious, Standard, Paranoid])
    }

    proptest! {
        // Whatever else is said, a deny stays a deny, and more sources never make it laxer.
        #[test]
        fn a_deny_is_final_and_a_further_source_never_loosens(
            verdicts in prop::collection::vec(any_verdict(), 0..4),
            extra in any_verdict(),
            level in any_level(),
            asks in any::<bool>(),
        ) {
            let contract = gated(if asks { Gate::Ask } else { Gate::Auto });
            let grants = [grant(&contract)];
            let reports: Vec<_> = verdicts.iter().copied().map(rule).collect();
            let mut more = reports.clone();
            more.push(rule(extra));
            let fewer = ask(&contract, level, &reports, &grants).decision;
            let decision = ask(&contract, level, &more, &grants).decision;
            prop_assert!(decision >= fewer);
            if more.iter().any(|r| *r == rule(Verdict::Deny)) {
                prop_assert_eq!(decision, Verdict::Deny);
            }
        }
    }
}
