//! What is offered to a model in a turn.
//!
//! The order is that of registration, so that what a provider has cached stays a prefix of what it
//! is sent when tools are added. An offer can be narrowed, with a reason that is kept; it is never
//! widened beyond what the session's exposure permits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::ToolName;
use haft_core::permission::Exposure;

use super::error::Refusal;
use super::names;
use super::registered::Registered;
use super::{ByName, Registry, State};

/// How many exposures are remembered.
const REMEMBERED: usize = 32;
/// How much of an unknown name is repeated.
const NAME_CHARS: usize = 64;

/// The tools of a turn; a clone shares them.
#[derive(Debug, Clone, Default)]
pub struct Advertised {
    names: Arc<BTreeSet<ToolName>>,
    tools: Arc<[Arc<Registered>]>,
    /// Where the tools are found by name, among others that are not offered.
    by_name: Arc<ByName>,
    /// Those that are not found there, or stand before what is.
    beside: Arc<[Arc<Registered>]>,
}

impl Advertised {
    /// Offers these tools instead, of which some were not known before.
    fn of(&self, tools: Vec<Arc<Registered>>, added: &[Arc<Registered>]) -> Self {
        let names = tools.iter().map(|tool| tool.name().clone()).collect();
        let beside = match added.is_empty() {
            true => Arc::clone(&self.beside),
            false => added.iter().chain(&*self.beside).cloned().collect(),
        };
        let by_name = Arc::clone(&self.by_name);
        Self { names: Arc::new(names), tools: tools.into(), by_name, beside }
    }

    /// Returns the names, for the log and for the check of calls.
    pub fn names(&self) -> &Arc<BTreeSet<ToolName>> {
        &self.names
    }

    /// Returns the tools in the order in which they are sent.
    pub fn tools(&self) -> &Arc<[Arc<Registered>]> {
        &self.tools
    }

    /// Finds the tool that a model called.
    ///
    /// # Errors
    ///
    /// When it is not among the offered ones; the message names near ones.
    pub fn find(&self, name: &str) -> Result<Arc<Registered>, Refusal> {
        self.get(name).cloned().ok_or_else(|| self.unknown(name))
    }

    fn get(&self, name: &str) -> Option<&Arc<Registered>> {
        let beside = self.beside.iter().find(|tool| tool.name().as_str() == name);
        beside.or_else(|| self.by_name.get(name)).filter(|_| self.names.contains(name))
    }

    /// Says that a name is not offered; the message names near ones.
    pub fn unknown(&self, name: &str) -> Refusal {
        self.unknown_as(name, |tool| tool)
    }

    /// Says that a name is not offered; near ones are named as the session calls them.
    pub(crate) fn unknown_as<'a>(
        &'a self,
        name: &str,
        called: impl Fn(&'a str) -> &'a str,
    ) -> Refusal {
        let near = names::nearest(name, self.names.iter().map(|tool| called(tool.as_str())));
        let shown: String = name.chars().take(NAME_CHARS).collect();
        let mut message = format!("there is no tool {shown:?} in this turn");
        if !near.is_empty() {
            message.push_str("; did you mean ");
            let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            message.push_str(&quoted.join(" or "));
            message.push('?');
        }
        Refusal::UnknownTool { message }
    }

    /// Keeps the tools that a predicate wants.
    #[must_use]
    pub fn narrowed(&self, keep: impl Fn(&Registered) -> bool) -> Self {
        if self.tools.iter().all(|tool| keep(tool)) {
            return self.clone();
        }
        self.of(self.tools.iter().filter(|tool| keep(tool)).cloned().collect(), &[])
    }

    /// Lets a selector narrow the offer, and returns what it left out and why.
    #[must_use]
    pub fn selected(&self, selector: &dyn Selector, said: &str) -> (Self, Option<Narrowing>) {
        let selection = selector.select(said, &self.tools);
        let narrowed = match &selection.keep {
            Keep::All => self.clone(),
            Keep::Only(names) => self.narrowed(|tool| names.contains(tool.name())),
        };
        if narrowed.tools.len() == self.tools.len() {
            return (narrowed, None);
        }
        let left_out = self.names.difference(&narrowed.names).cloned().collect();
        let narrowing = Narrowing {
            by: selector.name().to_owned(),
            reason: selection.reason,
            left_out,
            remaining: narrowed.tools.len(),
        };
        (narrowed, Some(narrowing))
    }

    /// Adds tools that the session has of its own, whatever its exposure says of the node's.
    pub(crate) fn with(&self, own: &[Arc<Registered>]) -> Self {
        self.of(self.tools.iter().chain(own).cloned().collect(), own)
    }

    /// Adds tools after those that are offered already, so that what stands before them does not
    /// move; only what `exposure` permits and models are offered at all is added.
    #[must_use]
    pub fn extended(&self, found: &[Arc<Registered>], exposure: &Exposure) -> Self {
        let mut tools = self.tools.to_vec();
        for tool in found {
            let name = tool.name();
            let is_new = self.get(name.as_str()).is_none();
            let is_new = is_new && !tools.iter().skip(self.tools.len()).any(|t| t.name() == name);
            if is_new && tool.is_advertised_to(exposure) {
                tools.push(Arc::clone(tool));
            }
        }
        let added: Vec<_> = tools.iter().skip(self.tools.len()).cloned().collect();
        self.of(tools, &added)
    }
}

/// Chooses which of the offered tools a model is shown in a turn.
pub trait Selector: Send + Sync {
    /// Returns what the selector is called in the log.
    fn name(&self) -> &str;

    /// Chooses, given what was last said to the model. Names that are not offered are ignored.
    fn select(&self, said: &str, offered: &[Arc<Registered>]) -> Selection;
}

/// What a selector chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// What to keep.
    pub keep: Keep,
    /// Why, for whoever reads the log.
    pub reason: String,
}

/// What a selector keeps of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    All,
    /// These, as far as they are offered.
    Only(BTreeSet<ToolName>),
}

/// A record of what a selector left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowing {
    /// The selector.
    pub by: String,
    /// Its reason.
    pub reason: String,
    /// What it left out.
    pub left_out: Vec<ToolName>,
    /// How many tools remain.
    pub remaining: usize,
}

/// Offers that were made out already.
#[derive(Default)]
pub(super) struct Cache(Mutex<Vec<Offer>>);

impl Cache {
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

struct Offer {
    generation: u64,
    exposure: Exposure,
    advertised: Advertised,
}

impl Registry {
    /// Returns what a session with this exposure is offered: every active tool that it permits,
    /// and every unlisted one that it names.
    pub fn advertise(&self, exposure: &Exposure) -> Advertised {
        let state = self.read();
        let generation = state.generation;
        let mut offers = self.0.offers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |offer: &Offer| offer.generation == generation && offer.exposure == *exposure;
        if let Some(at) = offers.iter().position(is_it) {
            // The newest last: what is not asked for again is forgotten first.
            offers[at..].rotate_left(1);
            return offers.last().map(|offer| offer.advertised.clone()).unwrap_or_default();
        }
        let advertised = state.offer(exposure);
        offers.retain(|offer| offer.generation == generation);
        if offers.len() == REMEMBERED {
            offers.remove(0);
        }
        let exposure = exposure.clone();
        offers.push(Offer { generation, exposure, advertised: advertised.clone() });
        advertised
    }
}

impl State {
    fn offer(&self, exposure: &Exposure) -> Advertised {
        let Some(allowed) = &exposure.allow else { return self.offer_without(&exposure.deny) };
        let known = allowed.iter().filter_map(|name| self.by_name.get(name));
        let offered = |tool: &&Arc<Registered>| tool.is_advertised_to(exposure);
        let mut tools: Vec<_> = known.filter(offered).cloned().collect();
        tools.sort_unstable_by_key(|tool| tool.ordinal);
        let whole = Advertised { by_name: Arc::clone(&self.by_name), ..Advertised::default() };
        whole.of(tools, &[])
    }

    /// Everything but a few: nothing but the offered tools themselves is gone through.
    fn offer_without(&self, denied: &BTreeSet<ToolName>) -> Advertised {
        let ordinal = |name| self.by_name.get(name).map(|tool: &Arc<Registered>| tool.ordinal);
        let is_offered = |ordinal: &u64| self.offered.contains_key(ordinal);
        let mut left_out: Vec<u64> = denied.iter().filter_map(ordinal).filter(is_offered).collect();
        left_out.sort_unstable();
        // Both are in order, so each tool is held against the next one to leave out alone.
        let mut next_out = left_out.into_iter().peekable();
        let offered = self.offered.iter().filter(|(at, _)| next_out.next_if_eq(*at).is_none());
        let tools = offered.map(|(_, tool)| Arc::clone(tool)).collect();
        let mut names = Arc::clone(&self.offered_names);
        for name in denied.iter().filter(|name| self.offered_names.contains(*name)) {
            Arc::make_mut(&mut names).remove(name);
        }
        let by_name = Arc::clone(&self.by_name);
        Advertised { names, tools, by_name, ..Advertised::default() }
    }
}
