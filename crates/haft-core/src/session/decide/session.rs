//! Opening, reconfiguring, and messages.

use std::sync::Arc;

use super::Draft;
use crate::actor::{Actor, ActorKind};
use crate::session::config::{Driver, MessageRule};
use crate::session::effect::Reply;
use crate::session::event::{Event, InterruptCause};
use crate::session::input::{MessageArrived, Opened, Reconfigured, TurnAsked};
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
        let config = Arc::new(reconfigured.config);
        self.emit(Event::SessionReconfigured { config, by: reconfigured.by })
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
