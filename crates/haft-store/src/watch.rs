//! Who waits for which session: one table per store handle, one channel per session.
//!
//! A session that nobody waits for has no entry, so that an append which interests nobody costs
//! one look at a counter. The backends tell the table of every append that they made durable;
//! PostgreSQL also tells it of what other nodes appended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::SessionId;
use tokio::sync::watch;

/// Whose changes of a session are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedBy {
    /// Anyone's, this store handle's own included.
    Anyone,
    /// Those of other nodes, for whoever is told of this node's own changes in another way. Where
    /// several nodes share this store handle, the changes of all of them are told.
    OtherNodes,
}

/// What is known of a session that someone waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LogMark {
    /// The last entry of its log that was told of, or that a waiting reader has read.
    seq: u64,
    /// How often something beside the log was said to have changed.
    n_touched: u64,
}

#[derive(Debug, Default)]
struct Channels {
    anyone: Option<watch::Sender<LogMark>>,
    other_nodes: Option<watch::Sender<LogMark>>,
    n_watching: usize,
}

#[derive(Debug, Default)]
struct Table {
    sessions: Mutex<HashMap<SessionId, Channels>>,
    /// How many sessions there are in the table, to be read without its lock.
    len: AtomicUsize,
    /// Counts what other nodes have told, about whatever session.
    others: watch::Sender<u64>,
    /// How many nodes work over this handle.
    n_nodes: AtomicUsize,
}

/// The sessions that someone waits for. A clone is the same table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches(Arc<Table>);

impl Watches {
    pub(crate) fn watch(&self, session: SessionId, changed_by: ChangedBy) -> Watch {
        let mut sessions = self.lock();
        let channels = sessions.entry(session).or_default();
        channels.n_watching += 1;
        let channel = match changed_by {
            ChangedBy::Anyone => &mut channels.anyone,
            ChangedBy::OtherNodes => &mut channels.other_nodes,
        };
        let changes = channel.get_or_insert_default().subscribe();
        self.0.len.store(sessions.len(), Ordering::SeqCst);
        Watch { watches: self.clone(), session, changes }
    }

    /// This handle appended up to `seq`.
    pub(crate) fn appended(&self, session: SessionId, seq: u64) {
        if self.is_empty() {
            return;
        }
        let tells_others = self.0.n_nodes.load(Ordering::Relaxed) > 1;
        if let Some(channels) = self.lock().get(&session) {
            let others = channels.other_nodes.iter().filter(|_| tells_others);
            channels.anyone.iter().chain(others).for_each(|channel| tell(channel, seq));
        }
    }

    /// Another node appended up to `seq`.
    pub(crate) fn appended_elsewhere(&self, session: SessionId, seq: u64) {
        if let Some(channels) = self.lock().get(&session) {
            channels.each().for_each(|channel| tell(channel, seq));
        }
    }

    /// Something that belongs to the session but not to its log has changed.
    pub(crate) fn touched(&self, session: SessionId) {
        if let Some(channels) = self.lock().get(&session) {
            channels.touch();
        }
    }

    /// Anything may have changed.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn touched_all(&self) {
        self.lock().values().for_each(Channels::touch);
        self.others_spoke();
    }

    /// Notes that another node said that it did something.
    #[cfg(any(test, feature = "postgres"))]
    pub(crate) fn others_spoke(&self) {
        self.0.others.send_modify(|count| *count += 1);
    }

    pub(crate) fn others(&self) -> watch::Receiver<u64> {
        self.0.others.subscribe()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len.load(Ordering::SeqCst) == 0
    }

    /// Returns the sessions that someone waits for.
    #[cfg(feature = "postgres")]
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.lock().keys().copied().collect()
    }

    fn forget(&self, session: SessionId) {
        let mut sessions = self.lock();
        let is_last = sessions.get_mut(&session).is_some_and(|channels| {
            channels.n_watching -= 1;
            channels.n_watching == 0
        });
        if is_last {
            sessions.remove(&session);
        }
        self.0.len.store(sessions.len(), Ordering::SeqCst);
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Channels>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channels {
    fn each(&self) -> impl Iterator<Item = &watch::Sender<LogMark>> {
        self.anyone.iter().chain(&self.other_nodes)
    }

    fn touch(&self) {
        self.each().for_each(|channel| channel.send_modify(|known| known.n_touched += 1));
    }
}

/// Tells that a log ends with an entry, if that is new.
fn tell(channel: &watch::Sender<LogMark>, seq: u64) {
    channel.send_if_modified(|known| known.reaches(seq));
}

/// A node that works over a store handle, until this is dropped.
#[derive(Debug)]
pub struct NodeHere(Watches);

impl NodeHere {
    pub(crate) fn enter(watches: &Watches) -> Self {
        watches.0.n_nodes.fetch_add(1, Ordering::Relaxed);
        Self(watches.clone())
    }
}

impl Drop for NodeHere {
    fn drop(&mut self) {
        self.0.0.n_nodes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LogMark {
    /// Takes note of a log's end; returns whether it was further than what was known.
    fn reaches(&mut self, seq: u64) -> bool {
        let is_new = seq > self.seq;
        self.seq = self.seq.max(seq);
        is_new
    }
}

/// Waits for changes of one session, and costs nothing until there is one.
#[derive(Debug)]
pub struct Watch {
    watches: Watches,
    session: SessionId,
    changes: watch::Receiver<LogMark>,
}

impl Watch {
    /// Waits until something may have changed since this last returned. Several changes may be
    /// told as one. It can be dropped while it waits without missing anything.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The table outlives its watches, so that this cannot be; looking in a loop would
            // help nobody.
            std::future::pending::<()>().await;
        }
    }

    /// Says how far the log was read, so that nobody looks for what is known. Whoever else watches
    /// the session is told if that is news.
    pub fn has_read(&self, seq: u64) {
        self.watches.appended_elsewhere(self.session, seq);
    }

    /// Returns the last entry of the log that is known of.
    pub fn known_seq(&self) -> u64 {
        self.changes.borrow().seq
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.forget(self.session);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const SESSION: SessionId = SessionId::from_bits(7);

    fn is_told(watch: &mut Watch) -> bool {
        pin!(watch.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn whoever_waits_is_told_of_its_own_session_once() {
        let watches = Watches::default();
        let mut watch = watches.watch(SESSION, ChangedBy::Anyone);
        watches.appended(SessionId::from_bits(8), 1);
        assert!(!is_told(&mut watch), "another session");
        watches.appended(SESSION, 3);
        watches.appended(SESSION, 4);
        assert!(is_told(&mut watch));
        assert!(!is_told(&mut watch), "both were told as one");
        watches.appended_elsewhere(SESSION, 4);
        assert!(!is_told(&mut watch), "that is known");
        watches.touched(SESSION);
        assert!(is_told(&mut watch));
    }

    #[test]
    fn this_nodes_own_appends_do_not_wake_who_waits_for_other_nodes() {
        let watches = Watches::default();
        let mut watch = watches.watch(SESSION, ChangedBy::OtherNodes);
        watches.appended(SESSION, 3);
        assert!(!is_told(&mut watch));
        watches.appended_elsewhere(SESSION, 2);
        assert!(is_told(&mut watch), "what another node did before is told all the same");
        watches.appended_elsewhere(SESSION, 2);
        assert!(!is_told(&mut watch), "that is known");
        let nodes = [NodeHere::enter(&watches), NodeHere::enter(&watches)];
        watches.appended(SESSION, 4);
        assert!(is_told(&mut watch), "it may be the other node over this handle");
        drop(nodes);
        watches.appended(SESSION, 5);
        assert!(!is_told(&mut watch));
    }

    #[test]
    fn what_was_read_is_told_once_and_a_session_is_forgotten_with_its_last_watch() {
        let watches = Watches::default();
        let mut watch = watches.watch(SESSION, ChangedBy::Anyone);
        let second = watches.watch(SESSION, ChangedBy::OtherNodes);
        watch.has_read(9);
        assert!(is_told(&mut watch), "others may not have read it");
        watches.appended(SESSION, 9);
        assert!(!is_told(&mut watch));
        assert_eq!(watch.known_seq(), 9);
        drop(watch);
        assert_eq!(watches.sessions(), [SESSION]);
        drop(second);
        assert!(watches.is_empty() && watches.sessions().is_empty());
    }
}
