//! A stream as the body of an answer: server-sent events, as fast as their reader takes them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use futures_util::stream;
use serde_json::json;

use super::lane::{Frame, Lane, Next};
use super::{StreamSettings, Streams};

/// How long a stream is silent before a sign is sent that it is still there.
pub(crate) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Where the events of a stream come from.
pub(crate) trait Source: Send + 'static {
    /// Waits for what is sent next: a batch that is bounded in bytes. `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Vec<Frame>>> + Send;

    /// The last event for a reader that was too slow.
    fn too_slow(&self, streams: &Streams, why: &TooSlow) -> Frame {
        Frame::event("error", streams.own(why.as_error()))
    }
}

/// Why a stream was ended, and where its reader resumes.
#[derive(Debug)]
pub(crate) struct TooSlow {
    after: Option<String>,
    stalled_max: Duration,
}

impl TooSlow {
    pub(crate) fn message(&self) -> String {
        let waited = self.stalled_max.as_secs_f32();
        let resume = match &self.after {
            Some(id) => format!("ask again with the header `Last-Event-ID: {id}`"),
            None => "ask again as before: nothing was sent that could be resumed after".to_owned(),
        };
        format!(
            "this stream was ended because its reader was too slow: it took nothing for {waited} s, \
             or less while the server's streams held too much memory; {resume}"
        )
    }

    fn as_error(&self) -> String {
        let error = json!({
            "type": "slow_reader_error", "message": self.message(), "last_event_id": self.after,
        });
        json!({ "type": "error", "error": error }).to_string()
    }
}

struct SseBody<S> {
    streams: Streams,
    lane: Arc<Lane>,
    /// `None` once nothing comes from it any more.
    source: Option<S>,
}

/// Answers with what comes from a source.
pub(crate) fn respond(streams: &Streams, source: impl Source) -> Response {
    let body = SseBody { streams: streams.clone(), lane: streams.lane(), source: Some(source) };
    let pieces = stream::unfold(body, |mut body| async {
        let piece = body.next().await?;
        Some((Ok::<_, Infallible>(piece), body))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl<S: Source> SseBody<S> {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.lane.take() {
                Next::Piece(piece) => return Some(piece),
                Next::Nothing => {}
                Next::Ended { after, is_cut } => return self.end(after, is_cut),
            }
            self.streams.make_room().await;
            match self.source.as_mut()?.next().await {
                Some(frames) => self.lane.put(frames),
                None => self.source = None,
            }
        }
    }

    /// Says why the stream ends, once.
    fn end(&mut self, after: Option<String>, is_cut: bool) -> Option<Bytes> {
        let source = self.source.take()?;
        let StreamSettings { stalled_max, .. } = self.streams.0.settings;
        let frame = source.too_slow(&self.streams, &TooSlow { after, stalled_max });
        let lane = Lane::default();
        lane.put(vec![frame]);
        // An event that was cut off becomes this one: its type is the last that was given.
        let mut last = if is_cut { b"\n".to_vec() } else { Vec::new() };
        while let Next::Piece(piece) = lane.take() {
            last.extend_from_slice(&piece);
        }
        Some(last.into())
    }
}
