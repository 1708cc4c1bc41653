//! Proactive work: wakes are queued, fall due, and are answered by a turn.

use super::Draft;
use super::session::refuse_agent;
use crate::actor::Actor;
use crate::session::config::Driver;
use crate::session::effect::Reply;
use crate::session::event::Event;
use crate::session::input::{WakeCancelled, WakeQueued};
use crate::session::refusal::Refusal;
use crate::session::state::{Open, Stopping};
use crate::session::wake::{
    DELAY_MAX, Directive, FOLLOW_UPS_MAX, FollowUp, Learning, Next, PER_ANSWER_MAX, Priority,
    QUEUED_MAX, Wake,
};

const FOLLOW_UP: &str = "follow_up";
const TITLE_CHARS_MAX: usize = 120;
const DETAIL_CHARS_MAX: usize = 400;

impl Draft {
    pub(super) fn take_wake(&mut self, queued: WakeQueued) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.config.driver != Driver::Model {
            return Err(Refusal::WrongDriver { expected: "a model", found: "its caller" });
        }
        if open.stopping == Stopping::Session {
            return Err(Refusal::Ended);
        }
        refuse_agent(&queued.by, "queue a wake from outside its answers")?;
        if is_queued(open, &queued.wake) {
            self.reply = Reply::AlreadyRecorded;
            return Ok(());
        }
        if open.wakes.len() >= QUEUED_MAX {
            let message = format!("expected at most {QUEUED_MAX} queued wakes; cancel one first");
            return Err(Refusal::Misfit { message });
        }
        self.emit(Event::WakeQueued { wake: queued.wake })
    }

    pub(super) fn cancel_wake(&mut self, cancelled: WakeCancelled) -> Result<(), Refusal> {
        let open = self.require_open()?;
        refuse_agent(&cancelled.by, "cancel a wake")?;
        if !open.wakes.iter().chain(&open.due).any(|wake| wake.id == cancelled.wake) {
            let message = "expected a wake that is queued; this one is not, or not any more";
            return Err(Refusal::Misfit { message: message.to_owned() });
        }
        self.emit(Event::WakeCancelled { wake: cancelled.wake, by: cancelled.by })
    }

    /// Whoever interrupts a session wants it to be quiet.
    pub(super) fn cancel_wakes(&mut self, by: &Actor) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let wakes: Vec<_> = open.wakes.iter().chain(&open.due).map(|wake| wake.id).collect();
        for wake in wakes {
            self.emit(Event::WakeCancelled { wake, by: by.clone() })?;
        }
        Ok(())
    }

    /// Takes what the model says about how its work goes on, as far as it may say that.
    pub(super) fn follow_directive(
        &mut self,
        turn: u32,
        directive: Directive,
    ) -> Result<(), Refusal> {
        let Directive { next, summary, wakes, learnings } = directive;
        for wake in wakes.into_iter().take(PER_ANSWER_MAX) {
            self.queue(wake)?;
        }
        for learning in learnings.into_iter().take(PER_ANSWER_MAX) {
            self.emit(Event::LearningCaptured { learning: bounded(learning) })?;
        }
        let follow_up = match next {
            Next::Sleep => FollowUp::None,
            Next::Continue { .. } if self.require_open()?.follow_ups >= FOLLOW_UPS_MAX => {
                FollowUp::Refused
            }
            Next::Continue { wake: id, after } => {
                self.queue(Wake {
                    id,
                    due: self.now + after,
                    reason: "You said that you would go on.".to_owned(),
                    note: summary.clone(),
                    dedupe_key: Some(FOLLOW_UP.to_owned()),
                    priority: Priority::Normal,
                })?;
                FollowUp::Queued
            }
        };
        self.emit(Event::LoopDirected { turn, summary, follow_up })
    }

    fn queue(&mut self, mut wake: Wake) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if is_queued(open, &wake) || open.wakes.len() >= QUEUED_MAX {
            return Ok(());
        }
        wake.due = wake.due.min(self.now + DELAY_MAX);
        self.emit(Event::WakeQueued { wake })
    }

    /// Notes which wakes are due; those that matter most first.
    pub(super) fn ring(&mut self) -> Result<(), Refusal> {
        let Some(open) = self.state.as_open().filter(|open| open.stopping == Stopping::No) else {
            return Ok(());
        };
        let due = open.wakes.iter().filter(|wake| wake.due <= self.now);
        let mut due: Vec<_> = due.map(|wake| (wake.priority, wake.due, wake.id)).collect();
        due.sort_by_key(|(priority, due, id)| (std::cmp::Reverse(*priority), *due, *id));
        for (.., wake) in due {
            self.emit(Event::WakeFellDue { wake })?;
        }
        Ok(())
    }
}

fn is_queued(open: &Open, wake: &Wake) -> bool {
    let same = |queued: &Wake| {
        let key = queued.dedupe_key.is_some() && queued.dedupe_key == wake.dedupe_key;
        queued.id == wake.id || key
    };
    open.wakes.iter().chain(&open.due).any(same)
}

fn bounded(learning: Learning) -> Learning {
    let cut = |text: String, max| match text.char_indices().nth(max) {
        Some((at, _)) => text[..at].to_owned(),
        None => text,
    };
    let Learning { title, detail, .. } = learning;
    let (title, detail) = (cut(title, TITLE_CHARS_MAX), cut(detail, DETAIL_CHARS_MAX));
    Learning { title, detail, ..learning }
}
