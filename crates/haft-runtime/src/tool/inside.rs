//! What a tool's code may ask of the session that it runs for, and tell other sessions.

use std::sync::Arc;

use haft_core::permission::{Derivation, Question};
use haft_core::session::{Input, Open, PolicyFacts, Reply, accept};
use haft_core::{Arguments, SessionId};
use haft_store::{Append, AppendError, Fence, FollowedBy};

use super::{ToolArguments, ToolContext};
use crate::error::InputError;
use crate::live::Live;
use crate::registry::Registered;
use crate::toolbox::{Wish, heard};

/// What would become of a call if it were made now.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// What each source of permission says, and what they add up to.
    pub derivation: Derivation,
    /// The precondition that does not hold, in words for the model.
    pub unmet_precondition: Option<String>,
}

#[haft_macros::boxed]
impl ToolContext {
    /// Finds a tool as a session knows it: its own, else the node's.
    pub fn tool(&self, open: &Open, name: &str) -> Option<Arc<Registered>> {
        match open.config.toolset.own(name) {
            Some(own) => Registered::declared(own.clone()).ok().map(Arc::new),
            None => self.tools().get(name),
        }
    }

    /// Hears every source of permission about a call that nobody has made.
    pub async fn weigh(
        &self,
        open: &Open,
        tool: &Registered,
        arguments: &ToolArguments,
    ) -> Weighed {
        let spec = tool.spec();
        let arguments = Arguments::plain(spec.redaction.record_view(arguments));
        let (session, opened_by, store) = (open.session, &open.opened_by, self.store());
        let config = &open.config;
        let wish = Wish { session, opened_by, spec, arguments: &arguments, config, store };
        let facts = self.surroundings().policies.facts(wish).await;
        let PolicyFacts { reports, unmet_precondition } =
            heard(&open.config.toolset, &spec.name, facts);
        let question = Question {
            contract: spec.contract(),
            arguments: &arguments,
            level: open.config.level,
            profile: open.config.profile,
            exposure: &open.config.exposure,
            reports: &reports,
            grants: open.grants(),
            now: self.now(),
        };
        Weighed { derivation: question.derive(), unmet_precondition }
    }

    /// Records an input that needs no owner, in any session; whoever owns it goes on from there.
    ///
    /// # Errors
    ///
    /// When the session refuses it, or it could not be recorded.
    pub async fn record(&self, session: SessionId, input: Input) -> Result<Reply, InputError> {
        let store = self.store().ok_or(InputError::UnknownSession)?;
        loop {
            let loaded = store.load(session).await?.ok_or(InputError::UnknownSession)?;
            let at = self.now();
            let decision = accept(&loaded.state, at, input.clone())?;
            if decision.events.is_empty() {
                return Ok(decision.reply);
            }
            let (expected, events) = (loaded.head, decision.events);
            let fence = Fence::Anyone;
            let (snapshot, followed_by) = (None, FollowedBy::Anyone);
            let request = None;
            let append =
                Append { session, fence, expected, at, events, snapshot, followed_by, request };
            match store.append(&append).await {
                Ok(_) => {
                    let (first_seq, events) = (expected.seq + 1, append.events.into());
                    self.surroundings().live.send(Live::Appended { session, first_seq, events });
                    return Ok(decision.reply);
                }
                Err(AppendError::HeadMoved { .. } | AppendError::Fenced { .. }) => {}
                Err(AppendError::UnknownSession) => return Err(InputError::UnknownSession),
                Err(AppendError::Store(error)) => return Err(InputError::Store(error)),
            }
        }
    }
}
