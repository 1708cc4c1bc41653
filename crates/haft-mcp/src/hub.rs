//! Tells whoever waits for a call what happens to it.
//!
//! The hub hears the node's live events and hands each to the one who waits for its call: were
//! every waiting request to listen itself, each event would wake all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::session::{Event, Rejection};
use haft_core::{CallId, Outcome};
use haft_runtime::Live;
use serde_json::Value;
use tokio::sync::Notify;

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
    by_call: HashMap<CallId, Vec<(u64, Arc<News>)>>,
    next: u64,
}

/// What was told and not taken yet. A channel has room for many from the start; most calls are
/// told one thing.
#[derive(Debug, Default)]
struct News {
    told: Mutex<VecDeque<Told>>,
    came: Notify,
}

impl News {
    fn put(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push_back(told);
        self.came.notify_one();
    }

    fn take(&self) -> Option<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A wait for what happens to one call.
#[derive(Debug)]
pub(crate) struct Watch {
    hub: Hub,
    call: CallId,
    number: u64,
    news: Arc<News>,
}

impl Hub {
    pub(crate) fn watch(&self, call: CallId) -> Watch {
        let news = Arc::new(News::default());
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_call.entry(call).or_default().push((number, Arc::clone(&news)));
        Watch { hub: self.clone(), call, number, news }
    }

    /// Says that something about a call changed that no event tells.
    pub(crate) fn moved(&self, call: CallId) {
        self.tell(call, || Told::Moved);
    }

    fn tell(&self, call: CallId, told: impl Fn() -> Told) {
        let waiting = self.lock();
        for (_, news) in waiting.by_call.get(&call).into_iter().flatten() {
            news.put(told());
        }
    }

    /// Hands a live event on.
    pub(crate) fn hear(&self, live: &Live) {
        match live {
            Live::Appended { events, .. } => events.iter().for_each(|event| self.pass_on(event)),
            Live::Progress { call, progress, .. } => {
                self.tell(*call, || Told::Progress(progress.clone()));
            }
            Live::Step { .. } | Live::Text { .. } | Live::Erased { .. } => {}
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

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns the next thing that is told.
    pub(crate) async fn next(&mut self) -> Told {
        loop {
            if let Some(told) = self.news.take() {
                return told;
            }
            self.news.came.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.hub.lock();
        if let Some(watching) = waiting.by_call.get_mut(&self.call) {
            watching.retain(|(number, _)| *number != self.number);
            if watching.is_empty() {
                waiting.by_call.remove(&self.call);
            }
        }
    }
}
