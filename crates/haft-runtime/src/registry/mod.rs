//! Every tool that this process knows, by name.
//!
//! A name stands for one tool: duplicates and look-alikes are refused, replacing is a verb of its
//! own. Whatever is in here is sound and compiled, so that a call costs a lookup and a check.

mod advertise;
mod error;
mod lint;
mod names;
mod registered;
mod search;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use haft_core::ToolName;
use haft_core::tool::{Definition, Problem, version_problems};

pub use advertise::{Advertised, Keep, Narrowing, Selection, Selector};
pub use error::{Refusal, RegisterError};
pub use lint::{Code, Finding, Severity, lint_definition};
pub use names::nearest;
pub use registered::{Admitted, Registered};

use tokio::sync::watch;

use crate::tool::Tool;

/// The tools of a process; a clone shares them.
#[derive(Clone, Default)]
pub struct Registry(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: RwLock<State>,
    offers: advertise::Cache,
    index: search::Cache,
}

type ByName = HashMap<ToolName, Arc<Registered>>;

#[derive(Default)]
struct State {
    /// Shared with the offers that were made of it.
    by_name: Arc<ByName>,
    /// In order of registration, which is the order in which they are offered.
    ordered: BTreeMap<u64, Arc<Registered>>,
    /// Those of them that are offered at all.
    offered: BTreeMap<u64, Arc<Registered>>,
    /// Their names. Kept, because gathering thousands of them for a turn takes longer.
    offered_names: Arc<BTreeSet<ToolName>>,
    /// The name that each skeleton belongs to.
    skeletons: HashMap<String, ToolName>,
    /// Tools by what they are called elsewhere, and by whom.
    aliases: HashMap<Box<str>, BTreeMap<Box<str>, Arc<Registered>>>,
    next_ordinal: u64,
    generation: u64,
    /// The generation again, for whoever waits for the next one.
    changed: watch::Sender<u64>,
}

impl Registry {
    /// Starts without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a tool.
    ///
    /// # Errors
    ///
    /// When it is not sound, or its name is taken or looks like another one.
    pub fn register(&self, tool: impl Tool) -> Result<Arc<Registered>, RegisterError> {
        self.register_arc(Arc::new(tool))
    }

    /// Takes a tool that is already shared.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`].
    pub fn register_arc(&self, tool: Arc<dyn Tool>) -> Result<Arc<Registered>, RegisterError> {
        self.add(tool.definition(), Some(tool))
    }

    /// Takes a tool whose calls are run elsewhere: by a person, a client or the provider.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`], and when its executor is `server`.
    pub fn declare(&self, definition: Definition) -> Result<Arc<Registered>, RegisterError> {
        self.add(definition, None)
    }

    /// Puts a tool in the place of the one with the same name, and returns what its version
    /// number fails to say about the change.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`], and when there is no such tool; then nothing is replaced.
    pub fn replace(&self, tool: impl Tool) -> Result<Vec<Problem>, RegisterError> {
        self.replace_arc(Arc::new(tool))
    }

    /// As [`Registry::replace`], with a tool that is already shared.
    ///
    /// # Errors
    ///
    /// As [`Registry::replace`].
    pub fn replace_arc(&self, tool: Arc<dyn Tool>) -> Result<Vec<Problem>, RegisterError> {
        self.exchange(tool.definition(), Some(tool))
    }

    /// As [`Registry::replace`], with a tool whose calls are run elsewhere.
    ///
    /// # Errors
    ///
    /// As [`Registry::replace`] and [`Registry::declare`].
    pub fn redeclare(&self, definition: Definition) -> Result<Vec<Problem>, RegisterError> {
        self.exchange(definition, None)
    }

    /// Takes a tool out, and returns it if it was there.
    pub fn remove(&self, name: &str) -> Option<Arc<Registered>> {
        let mut state = self.write();
        let found = state.by_name.get(name).cloned()?;
        state.forget(&found);
        Some(found)
    }

    /// Finds a tool by its canonical name.
    pub fn get(&self, name: &str) -> Option<Arc<Registered>> {
        self.read().by_name.get(name).cloned()
    }

    /// As [`Registry::get`], with the generation that it was found in.
    pub(crate) fn get_of_generation(&self, name: &str) -> (Option<Arc<Registered>>, u64) {
        let state = self.read();
        (state.by_name.get(name).cloned(), state.generation)
    }

    /// Finds a tool by what a provider calls it: its alias there, else its canonical name.
    pub fn by_alias(&self, provider: &str, alias: &str) -> Option<Arc<Registered>> {
        let state = self.read();
        state.aliased(provider, alias).or_else(|| state.by_name.get(alias)).cloned()
    }

    /// Returns every name, in order of registration.
    pub fn names(&self) -> Vec<ToolName> {
        self.read().ordered.values().map(|tool| tool.name().clone()).collect()
    }

    /// Returns every tool, in order of registration.
    pub fn tools(&self) -> Vec<Arc<Registered>> {
        self.read().ordered.values().cloned().collect()
    }

    /// Returns how many tools there are.
    pub fn len(&self) -> usize {
        self.read().by_name.len()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number that grows with every change.
    pub fn generation(&self) -> u64 {
        self.read().generation
    }

    /// Returns the generation as something to wait on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.read().changed.subscribe()
    }

    fn add(
        &self,
        definition: Definition,
        code: Option<Arc<dyn Tool>>,
    ) -> Result<Arc<Registered>, RegisterError> {
        // Compiled before the lock is taken: readers must not wait for a schema.
        let mut tool = sound(definition, code)?;
        let mut state = self.write();
        state.check_free(&tool, None)?;
        tool.ordinal = state.next_ordinal;
        state.next_ordinal += 1;
        let tool = Arc::new(tool);
        state.insert(&tool);
        Ok(tool)
    }

    fn exchange(
        &self,
        definition: Definition,
        code: Option<Arc<dyn Tool>>,
    ) -> Result<Vec<Problem>, RegisterError> {
        let mut tool = sound(definition, code)?;
        let mut state = self.write();
        let Some(old) = state.by_name.get(tool.name().as_str()).cloned() else {
            return Err(RegisterError::NotRegistered { tool: tool.name().clone() });
        };
        state.check_free(&tool, Some(&old))?;
        tool.ordinal = old.ordinal;
        let problems = version_problems(old.spec(), tool.spec());
        state.forget(&old);
        state.insert(&Arc::new(tool));
        Ok(problems)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        // What is remembered is over; kept any longer, it would have to be copied.
        self.0.offers.forget();
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a tool that can work. What a session declared earlier is not judged anew.
fn sound(definition: Definition, code: Option<Arc<dyn Tool>>) -> Result<Registered, RegisterError> {
    if let Some(Finding { tool, field, message, fix, .. }) = lint::faults(&definition).pop() {
        return Err(RegisterError::Fault { tool, field, found: message, fix });
    }
    Registered::new(definition, code, 0)
}

impl State {
    /// Refuses a tool whose names are taken by a tool other than `old`.
    fn check_free(&self, tool: &Registered, old: Option<&Registered>) -> Result<(), RegisterError> {
        let name = tool.name();
        let is_other = |other: &ToolName| old.is_none_or(|old| old.name() != other);
        if self.by_name.contains_key(name.as_str()) && is_other(name) {
            return Err(RegisterError::Duplicate { tool: name.clone() });
        }
        let skeleton = names::skeleton(name.as_str());
        if let Some(other) = self.skeletons.get(&skeleton).filter(|other| is_other(other)) {
            return Err(RegisterError::Confusable { tool: name.clone(), other: other.clone() });
        }
        self.check_aliases(tool, is_other)
    }

    fn check_aliases(
        &self,
        tool: &Registered,
        is_other: impl Fn(&ToolName) -> bool,
    ) -> Result<(), RegisterError> {
        let taken = |provider: &str, alias: &str, other: &Registered| RegisterError::AliasTaken {
            tool: tool.name().clone(),
            provider: provider.to_owned(),
            alias: alias.to_owned(),
            other: other.name().clone(),
        };
        for (provider, alias) in &tool.spec().aliases {
            let (provider, alias) = (provider.as_str(), alias.as_str());
            let claimed = self.aliased(provider, alias).or_else(|| self.by_name.get(alias));
            if let Some(other) = claimed.filter(|other| is_other(other.name())) {
                return Err(taken(provider, alias, other));
            }
        }
        let name = tool.name().as_str();
        let mut shadows = self.aliases.get(name).into_iter().flatten();
        match shadows.find(|(_, other)| is_other(other.name())) {
            Some((provider, other)) => Err(taken(provider, name, other)),
            None => Ok(()),
        }
    }

    fn aliased(&self, provider: &str, alias: &str) -> Option<&Arc<Registered>> {
        self.aliases.get(alias)?.get(provider)
    }

    fn insert(&mut self, tool: &Arc<Registered>) {
        let name = tool.name();
        Arc::make_mut(&mut self.by_name).insert(name.clone(), Arc::clone(tool));
        self.ordered.insert(tool.ordinal, Arc::clone(tool));
        if tool.is_advertised() {
            self.offered.insert(tool.ordinal, Arc::clone(tool));
            Arc::make_mut(&mut self.offered_names).insert(name.clone());
        }
        self.skeletons.insert(names::skeleton(name.as_str()), name.clone());
        for (provider, alias) in &tool.spec().aliases {
            let users = self.aliases.entry(alias.as_str().into()).or_default();
            users.insert(provider.as_str().into(), Arc::clone(tool));
        }
        self.generation += 1;
        self.changed.send_replace(self.generation);
    }

    fn forget(&mut self, tool: &Registered) {
        let name = tool.name().as_str();
        Arc::make_mut(&mut self.by_name).remove(name);
        self.ordered.remove(&tool.ordinal);
        if self.offered.remove(&tool.ordinal).is_some() {
            Arc::make_mut(&mut self.offered_names).remove(name);
        }
        self.skeletons.remove(&names::skeleton(name));
        for (provider, alias) in &tool.spec().aliases {
            if let Some(users) = self.aliases.get_mut(alias.as_str()) {
                users.remove(provider.as_str());
            }
        }
        self.generation += 1;
        self.changed.send_replace(self.generation);
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.read();
        f.debug_struct("Registry")
            .field("tools", &state.by_name.len())
            .field("generation", &state.generation)
            .finish_non_exhaustive()
    }
}
