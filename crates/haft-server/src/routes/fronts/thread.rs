//! A client's thread as a session of ours.

use haft_core::journal::Head;
use haft_core::session::{Refusal, Stale, State as SessionState, evolve};
use haft_core::{
    CallResult, ContentBlock, Digest, Directives, ErrorClass, Failure, MessageId, Output,
    ResolutionId, SessionId,
};
use haft_runtime::{InputError, ResolveError, Response, Verdict, fresh_bits};
use haft_store::{Expected, Loaded, Request};
use haft_wire::front::{Posted, PostedMessage, Said, Settled};
use serde_json::json;

use crate::app::App;
use crate::caller::Caller;
use crate::default_environment;
use crate::error::Error;
use crate::keys::Scope;
use crate::objects::Sort;
use crate::plan::config;
use crate::routes::haft::listed_row;
use crate::routes::v1::sessions::cast;
use crate::session::beside;

/// How many entries of a log are read at once.
const PAGE: u32 = 512;

/// What became of what a client posted.
pub(super) enum Taken {
    /// It is durable; the log goes so far.
    To(u64),
    /// Someone else had decided otherwise.
    TooLate(String),
}

/// A thread of a caller with an agent.
pub(super) struct Thread<'a> {
    pub(super) app: &'a App,
    pub(super) caller: &'a Caller,
    pub(super) agent: &'a str,
    /// Where its sessions work, when the client says.
    pub(super) environment: Option<&'a str>,
}

impl Thread<'_> {
    /// The session of a thread: nobody else's thread leads to it.
    pub(super) fn session(&self, name: &str) -> SessionId {
        let (tenant, actor) = (self.caller.tenant.to_string(), self.caller.actor.to_string());
        let parts = ["thread", &tenant, &actor, self.agent, name];
        SessionId::from_bits(bits_of(&parts))
    }

    /// Reads a session of a thread, if there is one.
    pub(super) async fn find(&self, session: SessionId) -> Result<Option<Loaded>, Error> {
        let loaded = self.app.store().load(session).await?;
        Ok(loaded.filter(|loaded| loaded.tenant == self.caller.tenant))
    }

    /// Reads the session of a thread, opening it if it is new.
    pub(super) async fn find_or_open(&self, name: &str) -> Result<(SessionId, Loaded), Error> {
        let session = self.session(name);
        let has_opened = Request::current().is_some_and(|it| it.has_opened(session));
        if let Some(loaded) = self.find(session).await?.filter(|_| !has_opened) {
            return Ok((session, self.as_it_was(session, loaded).await?));
        }
        self.caller.require(Scope::Write)?;
        self.open(session, name).await?;
        let loaded = self.find(session).await?;
        let loaded = loaded.ok_or_else(|| Error::internal("a session that was opened is gone"))?;
        Ok((session, self.as_it_was(session, loaded).await?))
    }

    /// What is sent again is read against the session as it was when it first came, and told from
    /// there.
    async fn as_it_was(&self, session: SessionId, loaded: Loaded) -> Result<Loaded, Error> {
        let before = Request::current().and_then(|request| request.log_before(session));
        let Some(before) = before else { return Ok(loaded) };
        let (mut state, mut head) = (SessionState::Unopened, Head::EMPTY);
        while head.seq < before {
            let limit = u32::try_from(before - head.seq).unwrap_or(PAGE).min(PAGE);
            let page = self.app.store().entries(session, head.seq, limit).await?;
            if page.is_empty() {
                return Err(Error::internal("a session's log is shorter than it was"));
            }
            for entry in page {
                state = evolve(state, entry.at, &entry.event()?).map_err(Error::internal)?;
                head = Head { seq: entry.seq, hash: entry.hash };
            }
        }
        Ok(Loaded { state, head, ..loaded })
    }

    async fn open(&self, session: SessionId, name: &str) -> Result<(), Error> {
        let Self { app, caller, agent, .. } = self;
        let environment = self.environment().await?;
        let cast = cast(app, caller, (agent, None), &environment).await?;
        let members = beside(Some(name), &json!({}), &cast);
        let config = config(cast, &app.ground(&self.caller.tenant))?;
        let (tenant, by) = (caller.tenant.clone(), caller.actor.clone());
        match app.haft().open_as(session, tenant, config, by).await {
            // Two first messages at once open one session.
            Ok(_) | Err(InputError::Refused(Refusal::AlreadyOpen)) => {}
            Err(error) => return Err(error.into()),
        }
        let place = Sort::Session.place(&caller.tenant, &session.to_string())?;
        let put = app.objects().put(place, Expected::Absent, &members, &caller.actor, app.now());
        match put.await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The environment that the client names, or the tenant's default.
    async fn environment(&self) -> Result<String, Error> {
        match self.environment {
            Some(named) => Ok(named.to_owned()),
            None => default_environment::of(self.app, &self.caller.tenant).await,
        }
    }

    /// Gives a session what a client posted; a session that was just loaded is not read again.
    pub(super) async fn take(
        &self,
        (session, loaded): (SessionId, &Loaded),
        message: Option<PostedMessage>,
        decisions: Vec<Posted>,
    ) -> Result<Taken, Error> {
        // What is sent again was read as the session was long ago.
        let is_again = Request::current().and_then(|it| it.log_before(session)).is_some();
        let mut seen = (!is_again && !decisions.is_empty()).then(|| loaded.clone());
        for posted in decisions {
            self.caller.require(Scope::Approve)?;
            if let Err(stale) = self.decide((session, seen.take()), posted).await? {
                return Ok(Taken::TooLate(stale.to_string()));
            }
        }
        if let Some(PostedMessage { id, text }) = message {
            self.caller.require(Scope::Write)?;
            let message = MessageId::from_bits(bits_of(&["message", &session.to_string(), &id]));
            let content = vec![ContentBlock::Text { text }];
            let by = self.caller.actor.clone();
            self.app.haft().say_as(session, message, by, content).await?;
        }
        let row = listed_row(self.app, self.caller, session).await?;
        Ok(Taken::To(row.map_or(0, |row| row.head_seq)))
    }

    /// Whoever says what was said already is right; whoever says something else is too late.
    async fn decide(
        &self,
        (session, seen): (SessionId, Option<Loaded>),
        posted: Posted,
    ) -> Result<Result<(), Stale>, Error> {
        let Posted { call, round, said } = posted;
        let response = response(said);
        let kind = response.kind();
        let id = ResolutionId::from_bits(fresh_bits(self.app.now()).map_err(Error::internal)?);
        let by = self.caller.actor.clone();
        let haft = self.app.haft();
        let resolved = match seen {
            Some(loaded) => {
                haft.resolve_seen((session, loaded), call, round, id, by, response).await
            }
            None => haft.resolve_as(session, call, round, id, by, response).await,
        };
        match resolved {
            Ok(_) => Ok(Ok(())),
            Err(ResolveError::Input(InputError::Refused(Refusal::Stale(stale)))) => {
                let is_same =
                    matches!(&stale, Stale::Decided { decision, .. } if *decision == kind);
                Ok(if is_same { Ok(()) } else { Err(stale) })
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn response(said: Said) -> Response {
    match said {
        Said::Approve { arguments, note } => Response::Approve { arguments, note, grant: None },
        Said::Deny { note } => Response::Deny { note },
        Said::Answer { value } => Response::Answer { value },
        Said::Ran { result } => {
            let result = match result {
                Ok(value) => CallResult::Ok(Output::of_value(value)),
                Err(message) => CallResult::Err(Failure::new(ErrorClass::ToolError, message)),
            };
            Response::Result { result, directives: Directives::default() }
        }
        Said::Settle(Settled::Happened { value }) => Response::Settle(Verdict::Happened { value }),
        Said::Settle(Settled::RunAgain) => Response::Settle(Verdict::RunAgain),
        Said::Settle(Settled::GiveUp) => Response::Settle(Verdict::GiveUp),
    }
}

fn bits_of(parts: &[&str]) -> u128 {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let digest = Digest::of_parts(&parts);
    digest.as_bytes().iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}
