//! What outside sources of permission say about a call: rules, environments, preconditions.

use std::fmt;
use std::sync::Arc;

use haft_core::permission::{Floor, Report, Source, SourceReport, Verdict};
use haft_core::session::{Config, PolicyFacts};
use haft_core::tool::{Precondition, ToolSpec};
use haft_core::{Actor, Arguments, SessionId};
use haft_store::Store;

use crate::tool::ToolFuture;
use crate::unwinding::{Panicked, catching, caught};

/// A call that someone wants to make.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The session.
    pub session: SessionId,
    /// Who opened it.
    pub opened_by: &'a Actor,
    /// The tool, with all that is declared about it.
    pub spec: &'a ToolSpec,
    /// The arguments, as they may be recorded.
    pub arguments: &'a Arguments,
    /// How the session is configured.
    pub config: &'a Config,
    /// Where the session's log is; a call made by hand has none.
    pub store: Option<&'a Store>,
}

/// A source of permission outside the core: a rule table, an environment's limits, a company's
/// policy engine. It can only raise what the core finds; a failure, like a panic, is a denial.
pub trait Policy: Send + Sync + 'static {
    /// Returns the source's name, as derivations show it.
    fn source(&self) -> Source;

    /// Says what it thinks of a call; `None` when it has nothing to say.
    fn judge<'a>(&'a self, wish: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>>;

    /// Returns whether what it says may hang on a call's arguments. What these only point at no
    /// source can see, so a person is asked then.
    fn weighs_arguments(&self) -> bool {
        true
    }

    /// Returns why a precondition of the tool does not hold, in words for the model; `None` when
    /// it holds, or is not this source's to judge.
    fn unmet<'a>(
        &'a self,
        wish: Wish<'a>,
        precondition: Precondition,
    ) -> ToolFuture<'a, Option<String>> {
        let _ = (wish, precondition);
        Box::pin(async { None })
    }

    /// Returns whether a precondition is this source's to judge. One that nobody judges does not
    /// hold.
    fn judges(&self, precondition: Precondition) -> bool {
        let _ = precondition;
        false
    }
}

/// What a source thinks of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// Whether it may run.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

/// Every outside source of permission of a node, and its operator's floor; a clone shares them.
#[derive(Clone, Default)]
pub(crate) struct Policies {
    each: Arc<[Arc<dyn Policy>]>,
    floor: Floor,
}

impl Policies {
    pub(crate) fn new(policies: Vec<Arc<dyn Policy>>, floor: Floor) -> Self {
        Self { each: policies.into(), floor }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Policy>> {
        self.each.iter()
    }

    /// Returns what the sources are called.
    pub(crate) fn sources(&self) -> Vec<Source> {
        self.iter().map(|policy| named(policy.as_ref())).collect()
    }

    /// Returns the precondition that does not hold.
    pub(crate) async fn unmet(&self, wish: Wish<'_>) -> Option<String> {
        unmet(&self.each, wish).await
    }

    /// Asks every source, the floor last.
    pub(crate) async fn facts(&self, wish: Wish<'_>) -> PolicyFacts {
        let mut facts = facts(&self.each, wish).await;
        facts.reports.extend(self.floor(wish.spec, wish.config));
        facts
    }

    /// Returns what the operator's floor says about calls of a tool in a session.
    pub(crate) fn floor(&self, spec: &ToolSpec, config: &Config) -> Option<SourceReport> {
        self.floor.report(spec, config.network())
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|policy| policy.source())).finish()
    }
}

fn named(policy: &dyn Policy) -> Source {
    let unnamed = |_: Panicked| Source::Rule("a policy that panicked".to_owned());
    caught(|| policy.source()).unwrap_or_else(unnamed)
}

/// Asks every source. One that panics denies, like one that fails.
async fn facts(policies: &[Arc<dyn Policy>], wish: Wish<'_>) -> PolicyFacts {
    let mut reports = Vec::new();
    for policy in policies {
        let report = match catching(async { policy.judge(wish).await }).await {
            Ok(Ok(None)) => continue,
            Ok(Ok(Some(Opinion { verdict, reason }))) => Report::Says { verdict, reason },
            Ok(Err(reason)) => Report::Failed { reason },
            Err(Panicked) => Report::Failed { reason: "it panicked".to_owned() },
        };
        reports.push(SourceReport { source: named(policy.as_ref()), report });
    }
    PolicyFacts { reports, unmet_precondition: unmet(policies, wish).await }
}

/// Returns why a precondition does not hold, in words for the model.
async fn unmet(policies: &[Arc<dyn Policy>], wish: Wish<'_>) -> Option<String> {
    let unchecked = |precondition, why: &str| {
        format!("`{}` needs the precondition {precondition:?}, and {why}", wish.spec.name)
    };
    for precondition in wish.spec.preconditions.iter().copied() {
        let mut judged = false;
        for policy in policies {
            let answer = catching(async {
                match policy.judges(precondition) {
                    true => Some(policy.unmet(wish, precondition).await),
                    false => None,
                }
            });
            match answer.await {
                Ok(None) => {}
                Ok(Some(None)) => judged = true,
                Ok(Some(why)) => return why,
                Err(Panicked) => {
                    return Some(unchecked(precondition, "what checks it panicked"));
                }
            }
        }
        if !judged {
            return Some(unchecked(precondition, "nothing here can check it"));
        }
    }
    None
}
