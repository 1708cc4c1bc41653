//! Sub-agents: a call's work is given to a child. The child's last word is its result, or that
//! there is a child.

use std::sync::Arc;

use super::Draft;
use crate::id::{CallId, SessionId};
use crate::json::DEPTH_MAX;
use crate::outcome::{CallResult, ErrorClass, Failure};
use crate::session::child::{Awaits, Delegation};
use crate::session::effect::{Effect, Reply};
use crate::session::event::Event;
use crate::session::input::{ChildOpened, ChildStopped, MessageArrived, ParentTold, is_deeper};
use crate::session::refusal::{Refusal, Stale};
use crate::session::report::{Report, Standing};
use crate::session::state::{Phase, State, Stopping};
use crate::session::suspension::{SuspendReason, SuspensionKind};

impl Draft {
    /// A child is opened with its task; what it may do was settled when the work was given away.
    pub(super) fn open_child(&mut self, opened: ChildOpened) -> Result<(), Refusal> {
        let ChildOpened { delegation, by, parent } = opened;
        match self.state {
            State::Unopened => {}
            State::Open(_) => return Err(Refusal::AlreadyOpen),
            State::Ended { .. } => return Err(Refusal::Ended),
        }
        let config = Arc::new(delegation.config.clone());
        let session = delegation.child;
        self.emit(Event::SessionOpened { session, config, by: by.clone(), parent: Some(parent) })?;
        // What it is measured by is as little its own to change as its task.
        if let Some(goal) = delegation.goal.clone() {
            self.emit(Event::GoalSet { goal, by: by.clone() })?;
        }
        let (message, content) = (delegation.message, delegation.task.clone());
        self.take_message(MessageArrived { message, from: by, content })
    }

    /// The tool of a call gives its work away. The child gets at most what this session has.
    pub(super) fn delegate(
        &mut self,
        call: CallId,
        attempt: u32,
        mut delegation: Delegation,
    ) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let runs = matches!(self.call(call)?.phase, Phase::Running { .. });
        if !runs && !matches!(self.call(call)?.phase, Phase::Cancelling { .. }) {
            return Err(Refusal::Stale(Stale::OtherAttempt));
        }
        if !runs || open.stopping != Stopping::No {
            return self.fail(call, Failure::new(ErrorClass::Cancelled, "[cancelled]"));
        }
        let depth = open.parent.map_or(0, |parent| parent.depth);
        let max = open.config.limits.depth;
        if depth >= max {
            let message = format!("expected at most {max} sessions below the top one; do it here");
            return self.fail(call, Failure::new(ErrorClass::Policy, message));
        }
        if let Awaits::Opening { output } = &delegation.awaits
            && is_deeper(&CallResult::Ok(output.clone()), DEPTH_MAX)
        {
            let message = format!("its result is nested deeper than {DEPTH_MAX} levels");
            return self.fail(call, Failure::new(ErrorClass::ToolError, message));
        }
        let allowance = open.allowance_for(&delegation.config.limits);
        delegation.config = open.config.narrowed_by(&delegation.config);
        delegation.config.limits.spend_per_session = allowance;
        let delegation = Arc::new(delegation);
        self.emit(Event::CallDelegated { call, attempt, delegation })?;
        self.effects.push(Effect::OpenChild { call });
        self.suspend(call, SuspensionKind::Child, SuspendReason::Delegated, None)
    }

    /// Whatever a dead process may have left undone about children is done again.
    pub(super) fn recover_child(&mut self, id: CallId) -> Result<(), Refusal> {
        let waits = match &self.call(id)?.phase {
            Phase::Waiting(wait) => wait.kind == SuspensionKind::Child,
            _ => false,
        };
        if waits {
            self.effects.push(Effect::OpenChild { call: id });
        }
        Ok(())
    }

    pub(super) fn note_child_stopped(&mut self, stopped: &ChildStopped) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if !open.abandoned.contains(&stopped.child) {
            return Err(Refusal::Stale(Stale::Unknown));
        }
        self.emit(Event::ChildStopped { child: stopped.child })
    }

    pub(super) fn note_parent_told(&mut self, told: &ParentTold) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.owed.is_none_or(|owed| owed > told.turn) {
            return Err(Refusal::Stale(Stale::Unknown));
        }
        self.emit(Event::ParentTold { turn: told.turn })
    }

    /// A session below tells where it stands. What is known, or older than what is known, is no
    /// news.
    pub(super) fn take_report(&mut self, report: Arc<Report>) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let known = open.reported.iter().find(|heard| heard.child == report.child);
        let is_old = known.is_some_and(|heard| {
            heard.seq >= report.seq || heard.standing == report.word.standing()
        });
        if is_old {
            self.reply = Reply::AlreadyRecorded;
            return Ok(());
        }
        self.emit(Event::ChildReported { report })
    }

    /// Has the session at the top told where a child stands, when that changed, and again
    /// whenever the child is looked at anew.
    pub(super) fn report_up(&mut self, before: &State) {
        let open = self.state.as_open().or(before.as_open());
        let Some(root) = open.and_then(|open| open.parent).map(|parent| parent.root) else {
            return;
        };
        if self.looks_anew || Standing::of(&self.state) != Standing::of(before) {
            self.effects.push(Effect::ReportUp { root });
        }
    }

    /// Between sessions nothing is sent twice for nothing: once when it comes up, and again
    /// whenever the session is looked at anew.
    pub(super) fn run_errands(&mut self) {
        let State::Open(open) = &self.state else { return };
        let ended = |event: &Event| matches!(event, Event::TurnEnded { .. });
        if let Some(turn) = open.owed
            && (self.looks_anew || self.events.iter().any(ended))
        {
            self.effects.push(Effect::TellParent { turn });
        }
        let children: Vec<SessionId> = open.abandoned.clone();
        let settled = |event: &Event| matches!(event, Event::CallFinished { .. });
        if self.looks_anew || self.events.iter().any(settled) {
            let stop = |child| Effect::StopChild { child };
            self.effects.extend(children.into_iter().map(stop));
        }
    }
}
