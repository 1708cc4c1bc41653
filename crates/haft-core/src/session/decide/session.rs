//! Opening, reconfiguring, and messages.

use std::sync::Arc;

use super::Draft;
use crate::actor::{Actor, ActorKind};
use crate::session::config::{Config, Driver, MessageRule};
use crate::session::effect::Reply;
use crate::session::event::{Event, InterruptCause};
use crate::session::input::{GoalSet, MessageArrived, Opened, Reconfigured, TurnAsked};
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, State, Stopping};

impl Draft {
    pub(super) fn open_session(&mut self, opened: Opened) -> Result<(), Refusal> {
        match self.state {
            State::Unopened => self.emit(Event::SessionOpened {
                session: opened.session,
                config: Arc::new(opened.config),
                by: opened.by,
                parent: None,
            }),
            State::Open(_) => Err(Refusal::AlreadyOpen),
            State::Ended { .. } => Err(Refusal::Ended),
        }
    }

    pub(super) fn reconfigure(&mut self, reconfigured: Reconfigured) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if reconfigured.config.driver != open.config.driver {
            let word = |driver| match driver {
                Driver::Model => "a model",
                Driver::Caller => "its caller",
            };
            return Err(Refusal::WrongDriver {
                expected: word(reconfigured.config.driver),
                found: word(open.config.driver),
            });
        }
        refuse_agent(&reconfigured.by, "change how the session behaves")?;
        let whose = |config: &Config| config.agent.as_ref().map(|agent| agent.id.clone());
        if whose(&open.config) != whose(&reconfigured.config) {
            return Err(Refusal::NotAllowed {
                actor: reconfigured.by,
                action: "change whose session it is",
                reason: "its agent stays what it was when it was opened",
            });
        }
        let config = Arc::new(reconfigured.config);
        self.emit(Event::SessionReconfigured { config, by: reconfigured.by })
    }

    /// An agent may set itself a goal, and never replace one that someone else set: what lets it
    /// change shared things is measured by that.
    pub(super) fn set_goal(&mut self, set: GoalSet) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.stopping == Stopping::Session {
            return Err(Refusal::Ended);
        }
        if let Some(active) = &open.goal {
            if active.goal == set.goal && active.by == set.by {
                self.reply = Reply::AlreadyRecorded;
                return Ok(());
            }
            if active.by.kind != ActorKind::Agent && set.by.kind == ActorKind::Agent {
                return Err(Refusal::NotAllowed {
                    actor: set.by,
                    action: "replace the session's goal",
                    reason: "someone else set it, and only a person or a program may replace it",
                });
            }
        }
        self.emit(Event::GoalSet { goal: set.goal, by: set.by })
    }

    pub(super) fn ask_model_again(&mut self, asked: &TurnAsked) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.config.driver != Driver::Model {
            return Err(Refusal::WrongDriver { expected: "a model", found: "its caller" });
        }
        if open.activity != Activity::Idle || open.turn == 0 {
            return Err(Refusal::Busy);
        }
        refuse_agent(&asked.by, "have itself asked again")?;
        self.start_turn()
    }

    pub(super) fn take_message(&mut self, arrived: MessageArrived) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.config.driver != Driver::Model {
            return Err(Refusal::WrongDriver { expected: "a model", found: "its caller" });
        }
        if open.stopping == Stopping::Session {
            return Err(Refusal::Ended);
        }
        if open.heard.contains(&arrived.message) {
            self.reply = Reply::AlreadyRecorded;
            return Ok(());
        }
        let busy = open.activity != Activity::Idle;
        let steer = match open.config.on_message {
            MessageRule::Refuse if busy => return Err(Refusal::Busy),
            MessageRule::Steer => busy,
            MessageRule::Refuse | MessageRule::Queue => false,
        };
        let by = arrived.from.clone();
        self.emit(Event::MessageReceived {
            message: arrived.message,
            from: arrived.from,
            content: arrived.content,
        })?;
        if busy {
            self.reply = Reply::Queued;
        }
        if steer {
            self.stop_turn(by, None, InterruptCause::Message)?;
        }
        Ok(())
    }
}

/// A model's credentials never carry a person's decisions.
pub(super) fn refuse_agent(actor: &Actor, action: &'static str) -> Result<(), Refusal> {
    match actor.kind {
        ActorKind::User | ActorKind::Service | ActorKind::System => Ok(()),
        ActorKind::Agent => Err(Refusal::NotAllowed {
            actor: actor.clone(),
            action,
            reason: "an agent decides nothing about itself",
        }),
    }
}
