//! Following a run to its rest: stored events in their order, live text between them.

use std::sync::Arc;

use haft_core::session::Config;
use haft_core::tool::Definition;
use haft_core::{CallId, SessionId, ToolName};
use haft_runtime::{Live, LiveNews, SessionListener};
use haft_store::{ChangedBy, Loaded, Watch};
use haft_wire::front::{Encode, ToolSchemas};
use serde_json::Value;

use crate::app::App;
use crate::error::Error;
use crate::streams::{Frame, KEEP_ALIVE_EVERY, Source, Streams, TooSlow};

/// How many entries are read at once.
const PAGE: u32 = 512;

/// What a session says from here on; to be had before the run is given its input.
pub(super) struct Ears {
    live: SessionListener,
    watch: Watch,
}

impl Ears {
    pub(super) fn of(app: &App, session: SessionId) -> Self {
        let live = app.haft().live().listen(session);
        Self { live, watch: app.store().watch(session, ChangedBy::Anyone) }
    }
}

/// A run to follow.
pub(super) struct Run<E> {
    pub(super) app: App,
    pub(super) session: SessionId,
    /// How the session was opened, while it is open.
    pub(super) config: Option<Arc<Config>>,
    /// LiveNews from before the run was given its input.
    pub(super) ears: Ears,
    pub(super) encoder: E,
    /// The place in the log that the encoder has seen.
    pub(super) seen: u64,
    /// The place of the input; no rest before it counts.
    pub(super) input: u64,
}

/// The frames of a run until the session rests. A client that goes away stops only these.
pub(super) struct Frames<E> {
    run: Run<E>,
    stage: Stage,
    done: Option<&'static str>,
    keep_alive: Option<&'static str>,
}

enum Stage {
    First(Vec<Value>),
    /// There may be something new in the log.
    Reading,
    Waiting,
    /// Nothing has happened for long.
    Silent,
    /// The last frames of the run are told.
    Told,
    Over,
}

enum WakeReason {
    Appended,
    Text { turn: u32, attempt: u32, text: String },
    Missed,
    Progress { call: CallId, progress: Value },
    Silence,
    Over,
}

impl<E: Encode + Send + Sync + 'static> Run<E> {
    /// Tells these frames, and then those of the run until the session rests.
    pub(super) fn frames(self, first: Vec<Value>) -> Frames<E> {
        Frames { run: self, stage: Stage::First(first), done: None, keep_alive: None }
    }

    /// Reads on in the log; returns the frames and whether that is all.
    async fn news(&mut self) -> Result<(Vec<Value>, bool), Error> {
        let streams = self.app.streams();
        let bytes_max = streams.batch_max();
        let _turn = streams.turn_to_read().await;
        let page =
            self.app.store().entries_within(self.session, self.seen, PAGE, bytes_max).await?;
        let (n_entries, mut bytes, mut frames) = (page.len(), 0, Vec::new());
        for entry in page {
            bytes += entry.body.len();
            let encoded = self.encoder.event(entry.at, &entry.event()?);
            frames.extend(encoded.map_err(Error::internal)?);
            self.seen = entry.seq;
        }
        Ok((frames, n_entries < PAGE as usize && bytes < bytes_max))
    }

    /// Waits until there is something to tell. What was said before something was appended comes
    /// first.
    async fn wait(&mut self) -> WakeReason {
        let Ears { live, watch } = &mut self.ears;
        let heard = async {
            loop {
                match live.heard().await {
                    LiveNews::Live(Live::Text { turn, attempt, text, .. }) => {
                        return WakeReason::Text { turn, attempt, text };
                    }
                    LiveNews::Live(Live::Progress { call, progress, .. }) => {
                        return WakeReason::Progress { call, progress };
                    }
                    // What was erased tells nothing more.
                    LiveNews::Live(Live::Erased { .. }) => return WakeReason::Over,
                    LiveNews::Live(Live::Appended { .. } | Live::Step { .. }) => {}
                    LiveNews::Missed => return WakeReason::Missed,
                }
            }
        };
        tokio::select! {
            biased;
            () = self.app.shutdown().cancelled() => WakeReason::Over,
            heard = heard => heard,
            () = watch.changed() => WakeReason::Appended,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => WakeReason::Silence,
        }
    }
}

impl<E: Encode + Send + Sync + 'static> Frames<E> {
    /// Tells this after the last frame of the run.
    pub(super) fn then(self, done: &'static str) -> Self {
        Self { done: Some(done), ..self }
    }

    /// Tells this while nothing happens, instead of a comment.
    pub(super) fn keeping_alive_by(self, data: &'static str) -> Self {
        Self { keep_alive: Some(data), ..self }
    }

    /// Returns the next values to tell; none when there is something to wait for first.
    async fn step(&mut self) -> Vec<Value> {
        let run = &mut self.run;
        match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::First(first) => {
                self.stage = Stage::Reading;
                first
            }
            Stage::Reading => match run.news().await {
                Ok((frames, true)) if run.seen >= run.input && run.encoder.rest().is_some() => {
                    self.stage = Stage::Told;
                    let schemas = schemas(&run.app, run.config.as_deref());
                    [frames, run.encoder.finish(&schemas)].concat()
                }
                Ok((frames, is_all)) => {
                    self.stage = if is_all { Stage::Waiting } else { Stage::Reading };
                    frames
                }
                Err(error) => {
                    self.stage = Stage::Told;
                    vec![run.encoder.broken(&error.to_string())]
                }
            },
            Stage::Waiting => match run.wait().await {
                WakeReason::Over => {
                    self.stage = Stage::Told;
                    vec![run.encoder.broken("the server is going away; ask again")]
                }
                WakeReason::Appended => {
                    self.stage = Stage::Reading;
                    Vec::new()
                }
                WakeReason::Missed => {
                    run.encoder.missed();
                    Vec::new()
                }
                WakeReason::Silence => {
                    self.stage = Stage::Silent;
                    Vec::new()
                }
                WakeReason::Text { turn, attempt, text } => run.encoder.delta(turn, attempt, &text),
                WakeReason::Progress { call, progress } => {
                    vec![run.encoder.progress(call, &progress)]
                }
            },
            stage @ (Stage::Silent | Stage::Told | Stage::Over) => {
                self.stage = stage;
                Vec::new()
            }
        }
    }
}

impl<E: Encode + Send + Sync + 'static> Source for Frames<E> {
    async fn next(&mut self) -> Option<Vec<Frame>> {
        let streams = self.run.app.streams().clone();
        let frame = |data: &str| Frame::data(streams.own(data));
        loop {
            match self.stage {
                Stage::Over => return None,
                Stage::Told => {
                    self.stage = Stage::Over;
                    return Some(self.done.into_iter().map(frame).collect());
                }
                Stage::Silent => {
                    self.stage = Stage::Waiting;
                    return Some(vec![self.keep_alive.map_or_else(Frame::keep_alive, frame)]);
                }
                Stage::First(_) | Stage::Reading | Stage::Waiting => {}
            }
            let values = self.step().await;
            if !values.is_empty() {
                return Some(values.iter().map(|value| frame(&value.to_string())).collect());
            }
        }
    }

    fn too_slow(&self, streams: &Streams, why: &TooSlow) -> Frame {
        let broken = self.run.encoder.broken(&why.message());
        Frame::data(streams.own(broken.to_string()))
    }
}

/// How a session was opened, as long as it is open.
pub(super) fn config_of(loaded: &Loaded) -> Option<Arc<Config>> {
    loaded.state.as_open().map(|open| Arc::clone(&open.config))
}

/// The schemas of the session's own tools and of the node's.
fn schemas(app: &App, config: Option<&Config>) -> impl Fn(&ToolName) -> Option<ToolSchemas> {
    move |tool| {
        let own = config.and_then(|config| config.toolset.own(tool.as_str()));
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
