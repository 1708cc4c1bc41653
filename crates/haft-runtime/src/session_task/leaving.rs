//! How a session's task ends: nothing is left to do, the session is lost, or the node goes away.

use haft_core::session::{Driver, Open};

use super::{Letter, SessionTask};
use crate::driver::Shared;
use crate::error::InputError;
use crate::job::Done;
use crate::performer::Performer;

impl<P: Performer> SessionTask<P> {
    /// Waits a while for the next letter where that is likely to come: a program that has made a
    /// call often makes another, and then nothing has to be taken over and read anew. A session in
    /// which a call waits for someone never stays.
    pub(super) async fn linger(&mut self) {
        let Some(wait) = self.shared.may_linger().filter(|_| self.is_likely_asked_again()) else {
            return;
        };
        let letter = tokio::select! {
            letter = self.letters.recv() => letter,
            () = tokio::time::sleep(wait) => None,
            () = self.shared.drained() => None,
        };
        self.backlog.extend(letter);
        self.was_asked = false;
    }

    fn is_likely_asked_again(&self) -> bool {
        let is_at_rest = |open: &Open| {
            open.config.driver == Driver::Caller && open.calls().all(|call| !call.phase.is_open())
        };
        self.was_asked
            && self.woken.is_none()
            && self.backlog.is_empty()
            && self.letters.is_empty()
            && self.state.as_open().is_some_and(is_at_rest)
    }

    /// Takes itself off the driver's table if no letter has come; whoever writes next starts
    /// another task.
    pub(super) fn leave_if_nothing_waits(&mut self) -> bool {
        self.backlog.is_empty() && self.shared.leave(self.session, || self.letters.is_empty())
    }

    /// Gives the session back. A node that goes away gives all of them back at once, each with a
    /// wake, because this one may have left something to do.
    pub(super) async fn release(&self) {
        let Some(hold) = self.hold.as_ref().filter(|_| !self.shared.is_draining()) else { return };
        if let Err(error) = self.shared.store.release(&hold.lease, self.woken).await {
            tracing::warn!(session = %self.session, %error, "not released; its lease will run out");
        }
    }

    /// The node goes away and has waited for long enough: what runs is stopped, what it did all
    /// the same is recorded, and the rest is for the next owner to recover.
    pub(super) async fn hand_over(mut self) {
        for done in self.stop_jobs(&InputError::ShuttingDown).await {
            if let Err(error) = self.step(&done.input).await {
                tracing::warn!(session = %self.session, %error, "a report is left to the next owner");
                Shared::report_late(&self.shared, self.session, done);
            }
        }
        self.close(&InputError::ShuttingDown);
    }

    /// Whoever owns the session next, possibly this very node, treats what ran here as dead. So
    /// it is stopped first, as far as it can be, and what it did is told to whoever asks.
    pub(super) async fn give_up(mut self, error: &InputError) {
        for done in self.stop_jobs(error).await {
            Shared::report_late(&self.shared, self.session, done);
        }
        self.close(error);
    }

    /// Stops what runs, and returns what was done nevertheless.
    async fn stop_jobs(&mut self, error: &InputError) -> Vec<Done> {
        self.stop(|_| true);
        let mut reports = Vec::new();
        let patience = tokio::time::sleep(self.shared.stop_grace * 2);
        tokio::pin!(patience);
        while !self.running.is_empty() {
            let letter = match self.backlog.pop_front() {
                Some(letter) => Some(letter),
                None => tokio::select! {
                    letter = self.letters.recv() => letter,
                    () = &mut patience => None,
                },
            };
            match letter {
                Some(Letter::Done(done)) => {
                    if self.end_running(done.key, done.number) && done.is_known() {
                        reports.push(done);
                    }
                }
                Some(Letter::NotBegun(task, number)) => {
                    self.end_running(task.key(), number);
                }
                Some(Letter::Input(_, answer)) => {
                    answer.send(Err(error.clone())).unwrap_or_default();
                }
                Some(Letter::Wake(..)) => {}
                None => break,
            }
        }
        reports
    }

    /// Answers everyone who still waits, and leaves.
    fn close(mut self, error: &InputError) {
        self.shared.leave(self.session, || true);
        self.letters.close();
        while let Ok(letter) = self.letters.try_recv() {
            match letter {
                Letter::Input(_, answer) => answer.send(Err(error.clone())).unwrap_or_default(),
                Letter::Done(done) => Shared::report_late(&self.shared, self.session, done),
                Letter::NotBegun(..) | Letter::Wake(..) => {}
            }
        }
    }
}
