//! Tells whoever waits for a call what happens to it.
//!
//! One listener reads the node's live events and hands each to the one who waits for its call:
//! were every waiting request to listen itself, each event would wake all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::session::{Event, Rejection};
use haft_core::{CallId, Outcome};
use haft_runtime::Live;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What is told about a call.
#[derive(Debug)]
pub(crate) enum Told {
    /// It is over.
    Ended(Box<Outcome>),
    /// It was not taken.
    Rejected(Box<Rejection>),
    /// Something about it changed; look.
    Moved,
    /// How far it is.
    Progress(Value),
}

/// Who waits for which call; a clone shares it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    by_call: HashMap<CallId, Vec<(u64, UnboundedSender<Told>)>>,
    next: u64,
}

/// A wait for what happens to one call.
#[derive(Debug)]
pub(crate) struct Watch {
    hub: Hub,
    call: CallId,
    number: u64,
    told: UnboundedReceiver<Told>,
}

impl Hub {
    pub(crate) fn watch(&self, call: CallId) -> Watch {
        let (sender, told) = unbounded_channel();
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_call.entry(call).or_default().push((number, sender));
        Watch { hub: self.clone(), call, number, told }
    }

    /// Says that something about a call changed that no event tells.
    pub(crate) fn moved(&self, call: CallId) {
        self.tell(call, || Told::Moved);
    }

    fn tell(&self, call: CallId, told: impl Fn() -> Told) {
        let waiting = self.lock();
        for (_, sender) in waiting.by_call.get(&call).into_iter().flatten() {
            // Whoever has just stopped waiting is not told.
            sender.send(told()).unwrap_or_default();
        }
    }

    /// Hands live events on until the node is gone.
    pub(crate) async fn listen(self, mut live: Receiver<Live>) {
        loop {
            match live.recv().await {
                Ok(Live::Appended { events, .. }) => events.iter().for_each(|e| self.pass_on(e)),
                Ok(Live::Progress { call, progress, .. }) => {
                    self.tell(call, || Told::Progress(progress.clone()));
                }
                Ok(Live::Step { .. } | Live::Text { .. }) => {}
                Err(RecvError::Lagged(_)) => self.all_moved(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn pass_on(&self, event: &Event) {
        match event {
            Event::CallFinished { outcome } => {
                self.tell(outcome.call, || Told::Ended(Box::new(outcome.clone())));
            }
            Event::CallRejected { call, rejection, .. } => {
                self.tell(*call, || Told::Rejected(Box::new(rejection.clone())));
            }
            Event::CallSuspended { call, .. } => self.moved(*call),
            _ => {}
        }
    }

    fn all_moved(&self) {
        let waiting = self.lock();
        for (_, sender) in waiting.by_call.values().flatten() {
            sender.send(Told::Moved).unwrap_or_default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns the next thing that is told.
    pub(crate) async fn next(&mut self) -> Told {
        // The hub keeps the sending side as long as this watch lives.
        self.told.recv().await.unwrap_or(Told::Moved)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.hub.lock();
        if let Some(senders) = waiting.by_call.get_mut(&self.call) {
            senders.retain(|(number, _)| *number != self.number);
            if senders.is_empty() {
                waiting.by_call.remove(&self.call);
            }
        }
    }
}
