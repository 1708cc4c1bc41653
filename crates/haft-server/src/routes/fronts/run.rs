//! Following a run to its rest: stored events in their order, live text between them.

use std::time::Duration;

use futures_util::stream::{self, Stream};
use haft_core::session::State;
use haft_core::tool::Definition;
use haft_core::{SessionId, ToolName};
use haft_runtime::Live;
use haft_wire::front::{Encode, ToolSchemas};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::app::App;
use crate::error::Error;

/// How many frames a slow client may be behind before it holds up its own stream.
const FRAMES: usize = 64;
/// How many entries are read at once.
const PAGE: u32 = 512;
/// How often the log is looked at beside the live events: another node may append to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A run to follow.
pub(super) struct Run<E> {
    pub(super) app: App,
    pub(super) session: SessionId,
    /// Heard from before the run was given its input.
    pub(super) live: Receiver<Live>,
    pub(super) encoder: E,
    /// The place in the log that the encoder has seen.
    pub(super) seen: u64,
    /// The place of the input; no rest before it counts.
    pub(super) input: u64,
}

/// The client is gone, or nothing more can be told.
struct Over;

enum Heard {
    Appended,
    Text { turn: u32, attempt: u32, text: String },
    Missed,
    Progress { call: haft_core::CallId, progress: Value },
}

impl<E: Encode + Send + 'static> Run<E> {
    /// Frames until the session rests. A client that goes away stops only its frames.
    pub(super) fn frames(mut self, first: Vec<Value>) -> impl Stream<Item = Value> + use<E> {
        let (sender, receiver) = mpsc::channel(FRAMES);
        tokio::spawn(async move {
            // An error here only says that there is nobody left to tell.
            let told: Result<(), Over> = async {
                tell(&sender, first).await?;
                self.follow(&sender).await
            }
            .await;
            told.unwrap_or(());
        });
        stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|frame| (frame, receiver))
        })
    }

    async fn follow(&mut self, sender: &mpsc::Sender<Value>) -> Result<(), Over> {
        loop {
            match self.news().await {
                Ok(frames) => tell(sender, frames).await?,
                Err(error) => {
                    return tell(sender, vec![self.encoder.broken(&error.to_string())]).await;
                }
            }
            if self.seen >= self.input && self.encoder.rest().is_some() {
                let schemas = schemas(self.app.clone(), self.session).await;
                let frames = self.encoder.finish(&schemas);
                return tell(sender, frames).await;
            }
            let frames = match self.wait().await {
                None => vec![self.encoder.broken("the server is going away; ask again")],
                Some(Heard::Appended) => continue,
                Some(Heard::Missed) => {
                    self.encoder.missed();
                    continue;
                }
                Some(Heard::Text { turn, attempt, text }) => {
                    self.encoder.delta(turn, attempt, &text)
                }
                Some(Heard::Progress { call, progress }) => {
                    vec![self.encoder.progress(call, &progress)]
                }
            };
            tell(sender, frames).await?;
        }
    }

    /// What was appended since.
    async fn news(&mut self) -> Result<Vec<Value>, Error> {
        let mut frames = Vec::new();
        loop {
            let page = self.app.store().entries(self.session, self.seen, PAGE).await?;
            for entry in &page {
                let encoded = self.encoder.event(entry.at, &entry.event()?);
                frames.extend(encoded.map_err(Error::internal)?);
                self.seen = entry.seq;
            }
            if page.len() < PAGE as usize {
                return Ok(frames);
            }
        }
    }

    /// Waits until there is something to tell; `None` when the server goes away.
    async fn wait(&mut self) -> Option<Heard> {
        let (live, of) = (&mut self.live, self.session);
        let heard = async {
            loop {
                match live.recv().await {
                    Ok(Live::Appended { session, .. }) if session == of => {
                        return Heard::Appended;
                    }
                    Ok(Live::Text { session, turn, attempt, text }) if session == of => {
                        return Heard::Text { turn, attempt, text };
                    }
                    Ok(Live::Progress { session, call, progress }) if session == of => {
                        return Heard::Progress { call, progress };
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Heard::Missed,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = self.app.shutdown().cancelled() => None,
            heard = heard => Some(heard),
            () = tokio::time::sleep(LOOK_EVERY) => Some(Heard::Appended),
        }
    }
}

/// The schemas of the session's own tools and of the node's.
async fn schemas(app: App, session: SessionId) -> impl Fn(&ToolName) -> Option<ToolSchemas> {
    let loaded = app.store().load(session).await.ok().flatten();
    let config = loaded.and_then(|loaded| match loaded.state {
        State::Open(open) => Some(open.config),
        State::Unopened | State::Ended { .. } => None,
    });
    move |tool| {
        let own = config.as_ref().and_then(|config| config.toolset.own(tool.as_str()));
        own.map(schemas_of).or_else(|| {
            let registered = app.haft().registry().get(tool.as_str())?;
            Some(schemas_of(registered.spec()))
        })
    }
}

fn schemas_of(definition: &Definition) -> ToolSchemas {
    let value = |schema: &haft_core::tool::Schema| schema.value().clone();
    ToolSchemas {
        input: value(&definition.input_schema),
        output: definition.output_schema.as_ref().map(value),
    }
}

async fn tell(sender: &mpsc::Sender<Value>, frames: Vec<Value>) -> Result<(), Over> {
    for frame in frames {
        sender.send(frame).await.map_err(|_| Over)?;
    }
    Ok(())
}
