//! What one session does to another: opening a child, stopping it, telling the parent and the top.
//!
//! An errand is done at least once: whoever revives the session runs it again until it is noted
//! as done. Each is recognised by the other session, so that it takes effect once.

use std::sync::Arc;

use haft_core::journal::Entry;
use haft_core::session::{
    Awaits, ChildOpened, ChildStopped, Event, Fit, Input, Interrupted, Parent, ParentTold,
    PolicyFacts, Refusal, Report, Resolution, Resolved, Stale, State, TurnEnding, Word, note,
};
use haft_core::{
    Actor, CallId, CallResult, ContentBlock, Directives, ErrorClass, Failure, Output, ResolutionId,
    SessionId,
};
use haft_store::{CreateError, NewSession, Store};
use tracing::Instrument as _;

use super::doing::Running;
use super::{Letter, RETRY_FIRST, RETRY_MAX, SessionTask};
use crate::cancellation::CancellationToken;
use crate::driver::Shared;
use crate::error::InputError;
use crate::job::{Done, JobKey};
use crate::performer::Performer;

/// How much of a sub-agent's last word its parent is shown.
const WORD_BYTES_MAX: usize = 64 * 1024;

/// How many entries are read at once when looking for that word.
const PAGE: u32 = 64;

/// How often a child is looked for that may not be opened yet.
const LOOKS: u32 = 5;

/// Whether an errand is done.
enum Went {
    Done,
    /// It never will be.
    Never(InputError),
    /// It may be possible later.
    NotYet(InputError),
}

/// Something to be done to another session.
enum Errand {
    Open(Box<ChildOpened>),
    Stop { child: SessionId },
    Tell { parent: Parent, child: SessionId, turn: u32 },
    Report { root: SessionId, child: SessionId },
}

impl<P: Performer> SessionTask<P> {
    pub(super) fn open_child(&mut self, call: CallId) {
        let Some(open) = self.state.as_open() else { return };
        let Some(delegation) = open.call(call).and_then(|call| call.child.clone()) else { return };
        let depth = open.parent.map_or(0, |parent| parent.depth) + 1;
        let hears = delegation.awaits.hears();
        let parent = Parent { session: self.session, call, root: open.root(), depth, hears };
        let by = open.opened_by.clone();
        self.run_errand(Errand::Open(Box::new(ChildOpened { delegation, by, parent })));
    }

    pub(super) fn stop_child(&mut self, child: SessionId) {
        self.run_errand(Errand::Stop { child });
    }

    pub(super) fn tell_parent(&mut self, turn: u32) {
        let Some(parent) = self.state.as_open().and_then(|open| open.parent) else { return };
        self.run_errand(Errand::Tell { parent, child: self.session, turn });
    }

    pub(super) fn report_up(&mut self, root: SessionId) {
        self.run_errand(Errand::Report { root, child: self.session });
    }

    /// Runs an errand until it is done, in the place of an earlier one to the same session.
    fn run_errand(&mut self, errand: Errand) {
        let (key, stop) = (errand.key(), CancellationToken::new());
        self.n_jobs += 1;
        let number = self.n_jobs;
        if let Some(earlier) = self.running.insert(key, Running { number, stop: stop.clone() }) {
            earlier.stop.cancel();
        }
        let (mailbox, shared) = (self.mailbox.clone(), Arc::clone(&self.shared));
        let run = self.run.clone().unwrap_or_else(tracing::Span::none);
        let work = async move {
            let input = match errand.run(&shared, &stop).await {
                Some(ended) => errand.done(ended),
                None => Input::Woken,
            };
            let stopped = stop.is_cancelled();
            let done = Done { key, number, input: Box::new(input), stopped };
            // The task may be gone: then the next owner runs the errand.
            mailbox.send(Letter::Done(done)).await.unwrap_or_default();
        };
        tokio::spawn(work.instrument(run));
    }
}

impl Errand {
    fn key(&self) -> JobKey {
        match self {
            Self::Open(opened) => JobKey::Child { child: opened.delegation.child },
            Self::Stop { child } => JobKey::Child { child: *child },
            Self::Tell { .. } => JobKey::Parent,
            Self::Report { .. } => JobKey::Root,
        }
    }

    /// What the session hears of an errand that has ended.
    fn done(&self, ended: Result<(), InputError>) -> Input {
        match self {
            Self::Open(opened) => match (ended, &opened.delegation.awaits) {
                (Ok(()), Awaits::Word) => Input::Woken,
                (Ok(()), Awaits::Opening { output }) => {
                    Input::Resolved(opening(opened, CallResult::Ok(output.clone())))
                }
                (Err(error), _) => {
                    let message = format!("the sub-agent's session cannot be opened: {error}");
                    let failure = Failure::new(ErrorClass::Internal, message);
                    Input::Resolved(opening(opened, CallResult::Err(failure)))
                }
            },
            Self::Stop { child } => Input::ChildStopped(ChildStopped { child: *child }),
            Self::Tell { turn, .. } => Input::ParentTold(ParentTold { turn: *turn }),
            Self::Report { .. } => Input::RootTold,
        }
    }

    /// Returns how it ended; `None` when it was stopped. It is stopped between two tries only: one
    /// that is given up while it writes to the other session could leave that one unlooked at.
    async fn run<P: Performer>(
        &self,
        shared: &Arc<Shared<P>>,
        stop: &CancellationToken,
    ) -> Option<Result<(), InputError>> {
        let (mut wait, mut looks) = (RETRY_FIRST, 0);
        loop {
            looks += 1;
            let went = match self {
                Self::Open(opened) => open_child(shared, opened).await,
                Self::Stop { child } => stop_child(shared, *child, looks).await,
                Self::Tell { parent, child, turn } => {
                    tell_parent(shared, *parent, *child, *turn).await
                }
                Self::Report { root, child } => report_up(shared, *root, *child).await,
            };
            let error = match went {
                Went::Done => return Some(Ok(())),
                Went::Never(error) => return Some(Err(error)),
                Went::NotYet(error) => error,
            };
            tracing::debug!(%error, "an errand to another session is not done yet");
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }
}

/// Opens a child unless it exists, and has it looked at in either case.
async fn open_child<P: Performer>(shared: &Arc<Shared<P>>, opened: &ChildOpened) -> Went {
    match create_child(shared, opened).await {
        Ok(child) => {
            Shared::wake(shared, child, None);
            Went::Done
        }
        Err(InputError::Store(error)) => Went::NotYet(InputError::Store(error)),
        Err(error) => {
            tracing::error!(%error, parent = %opened.parent.session, "a child cannot be opened");
            Went::Never(error)
        }
    }
}

/// Ends the wait of a call for its child's opening.
fn opening(opened: &ChildOpened, result: CallResult) -> Resolved {
    let (directives, fit) = (Directives::default(), Fit::Fits);
    Resolved {
        // No turn is the child's 0th: what it says later has other ids.
        id: ResolutionId::from_bits(opened.delegation.child.bits()),
        call: opened.parent.call,
        round: None,
        by: Actor::system(),
        resolution: Resolution::Result { result, directives, fit },
        policy: PolicyFacts::default(),
    }
}

async fn create_child<P: Performer>(
    shared: &Shared<P>,
    opened: &ChildOpened,
) -> Result<SessionId, InputError> {
    let session = opened.delegation.child;
    let parent = shared.store.load(opened.parent.session).await?;
    let tenant = parent.ok_or(InputError::UnknownSession)?.tenant;
    let now = shared.clock.now();
    let decision = note(&State::Unopened, now, Input::ChildOpened(opened.clone()))?;
    let new = NewSession { session, tenant, at: now, events: decision.events, owner: None };
    match shared.store.create_session(&new).await {
        Ok(_) | Err(CreateError::Exists) => {}
        Err(CreateError::Store(error)) => return Err(InputError::Store(error)),
    }
    // Whoever is alive looks at it, also when this process ends right here.
    shared.store.wake(session).await?;
    Ok(session)
}

async fn stop_child<P: Performer>(shared: &Arc<Shared<P>>, child: SessionId, looks: u32) -> Went {
    let note = Some("whoever had asked for this does not wait for it any more".to_owned());
    let input = Input::Interrupted(Interrupted { by: Actor::system(), note });
    match Shared::input(shared, child, input).await {
        Err(InputError::UnknownSession) if looks < LOOKS => {
            Went::NotYet(InputError::UnknownSession)
        }
        Ok(_) | Err(InputError::Refused(_) | InputError::UnknownSession) => Went::Done,
        Err(error) => Went::NotYet(error),
    }
}

async fn tell_parent<P: Performer>(
    shared: &Arc<Shared<P>>,
    parent: Parent,
    child: SessionId,
    turn: u32,
) -> Went {
    // Whoever watches the top sees the child come to rest before what comes of that.
    if let went @ (Went::NotYet(_) | Went::Never(_)) = report_up(shared, parent.root, child).await {
        return went;
    }
    let result = match last_word(&shared.store, child, turn).await {
        Ok(result) => result,
        Err(error) => return Went::NotYet(InputError::Store(error)),
    };
    let (directives, fit) = (Directives::default(), Fit::Fits);
    let resolved = Resolved {
        // The same whenever this turn's word is told again.
        id: ResolutionId::from_bits(child.bits().wrapping_add(u128::from(turn))),
        call: parent.call,
        round: None,
        by: Actor::system(),
        resolution: Resolution::Result { result, directives, fit },
        policy: PolicyFacts::default(),
    };
    match Shared::record(shared, parent.session, Input::Resolved(resolved)).await {
        // The child was faster than the word that the parent waits for it.
        Err(error @ InputError::Refused(Refusal::Stale(Stale::NotAwaiting))) => Went::NotYet(error),
        Ok(_) | Err(InputError::Refused(_) | InputError::UnknownSession) => Went::Done,
        Err(error) => Went::NotYet(error),
    }
}

/// Tells the session at the top where a child stands by now.
async fn report_up<P: Performer>(
    shared: &Arc<Shared<P>>,
    root: SessionId,
    child: SessionId,
) -> Went {
    let report = match report(&shared.store, child).await {
        Ok(Some(report)) => Input::ChildReported(Arc::new(report)),
        Ok(None) => return Went::Done,
        Err(error) => return Went::NotYet(InputError::Store(error)),
    };
    match Shared::record(shared, root, report).await {
        Ok(_) | Err(InputError::Refused(_) | InputError::UnknownSession) => Went::Done,
        Err(error) => Went::NotYet(error),
    }
}

async fn report(store: &Store, child: SessionId) -> Result<Option<Report>, haft_store::Error> {
    let Some(loaded) = store.load(child).await? else { return Ok(None) };
    let seq = loaded.head.seq;
    let last = store.entries(child, seq.saturating_sub(u64::from(PAGE)), PAGE).await?;
    let events = last.iter().rev().map(Entry::event).collect::<Result<Vec<_>, _>>()?;
    let ending = |turn| {
        let mut endings = events.iter().filter_map(|event| match event {
            Event::TurnEnded { turn: ended, ending } if *ended == turn => Some(ending.clone()),
            _ => None,
        });
        endings.next().unwrap_or(TurnEnding::Completed)
    };
    let agent = loaded.state.as_open().and_then(|open| open.config.agent.as_ref());
    let agent = agent.map(|agent| agent.id.clone());
    Ok(Some(Report { child, agent, seq, word: Word::of(&loaded.state, ending) }))
}

/// Returns what a run came to: what was said in its last turn, or why it ended otherwise.
async fn last_word(
    store: &Store,
    session: SessionId,
    turn: u32,
) -> Result<CallResult, haft_store::Error> {
    let mut before = store.load(session).await?.map_or(0, |loaded| loaded.head.seq);
    let (mut ending, mut said) = (None, String::new());
    while before > 0 {
        let after = before.saturating_sub(u64::from(PAGE));
        let entries = store.entries(session, after, PAGE).await?;
        let events = entries.iter().rev().filter(|entry| entry.seq <= before).map(Entry::event);
        for event in events {
            match event? {
                Event::TurnEnded { turn: ended, ending: how } if ended == turn => {
                    ending = Some(how);
                }
                Event::TurnAnswered { turn: answered, content, .. } if answered == turn => {
                    said = text_of(&content);
                    return Ok(word(ending, &said));
                }
                Event::TurnStarted { turn: started, .. } if started <= turn => {
                    return Ok(word(ending, &said));
                }
                _ => {}
            }
        }
        before = after;
    }
    Ok(word(ending, &said))
}

fn text_of(content: &[ContentBlock]) -> String {
    let mut text = content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n");
    if text.len() > WORD_BYTES_MAX {
        let at = (0..=WORD_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(at);
        text.push_str("\n[the rest is in the sub-agent's session]");
    }
    text
}

fn word(ending: Option<TurnEnding>, said: &str) -> CallResult {
    let failed = |class, message| CallResult::Err(Failure::new(class, message));
    match ending {
        Some(TurnEnding::Completed | TurnEnding::Terminal | TurnEnding::Settled) | None => {
            let said = if said.is_empty() { "(the sub-agent said nothing)" } else { said };
            CallResult::Ok(Output::of_text(said))
        }
        Some(TurnEnding::Limit { limit }) => failed(
            ErrorClass::ToolError,
            format!("the sub-agent stopped at its limit `{limit}`; its last words: {said}"),
        ),
        Some(TurnEnding::Interrupted) => {
            failed(ErrorClass::Cancelled, "[cancelled] the sub-agent was interrupted".to_owned())
        }
        Some(TurnEnding::Failed { failure }) => failed(
            ErrorClass::Upstream,
            format!("the sub-agent could not go on: {}", failure.message),
        ),
    }
}
