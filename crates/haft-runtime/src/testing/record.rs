//! What was recorded of a session, with the questions that tests ask of it.

use haft_core::session::Event;
use haft_core::{CallId, Outcome, SessionId};

use crate::haft::Haft;

/// The events of a session, in their order.
#[derive(Debug, Clone)]
pub struct Record {
    events: Vec<Event>,
}

impl Record {
    pub(super) async fn read(haft: &Haft, session: SessionId) -> Self {
        let mut events = Vec::new();
        loop {
            let page = haft.store().entries(session, events.len() as u64, 256).await;
            let page = page.unwrap_or_else(|error| panic!("the log cannot be read: {error}"));
            if page.is_empty() {
                return Self { events };
            }
            for entry in &page {
                let event = entry.event();
                events.push(event.unwrap_or_else(|error| panic!("no event: {error}")));
            }
        }
    }

    /// Returns the events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the names of the events, such as `call.started`.
    pub fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(Event::name).collect()
    }

    /// Returns the names of a call's events.
    pub fn names_of(&self, call: CallId) -> Vec<&'static str> {
        self.events.iter().filter(|event| event.call() == Some(call)).map(Event::name).collect()
    }

    /// Returns the outcomes of calls that ended, in the order in which they did.
    pub fn outcomes(&self) -> Vec<&Outcome> {
        let ended = self.events.iter().filter_map(|event| match event {
            Event::CallFinished { outcome } => Some(outcome),
            _ => None,
        });
        ended.collect()
    }

    /// Returns the calls that were proposed, in their order.
    pub fn calls(&self) -> Vec<CallId> {
        let proposed = self.events.iter().filter_map(|event| match event {
            Event::CallProposed { call, .. } | Event::CallRejected { call, .. } => Some(*call),
            _ => None,
        });
        proposed.collect()
    }

    /// Fails unless every call has exactly one end.
    ///
    /// # Panics
    ///
    /// When one has none, or more than one.
    pub fn assert_paired(&self) {
        for call in self.calls() {
            let ends = self.names_of(call).into_iter();
            let n_ends = ends.filter(|name| matches!(*name, "call.finished" | "call.rejected"));
            let n_ends = n_ends.count();
            assert!(n_ends == 1, "{call} has {n_ends} ends: {:?}", self.names_of(call));
        }
    }
}
