//! Who is let in, how much they may ask for, and for how long.
//!
//! Stands before every path that needs a key. A request is known by its key before anything of its
//! body is read; it is counted; and it is over when its key is, whatever it was doing: a stream that
//! goes on, a long poll, a download.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::app::App;
use crate::caller::{Caller, shows_key};
use crate::error::{Error, Kind};
use crate::key_holds::KeyHold;
use crate::limits::Permit;
use crate::routes::{LOGIN_AT, MCP_AT};

/// How long a request that shows no key may take as a whole.
const UNKNOWN_WITHIN: Duration = Duration::from_secs(15);

/// Lets a request in with the key that it shows, if it shows one.
pub(crate) async fn admitted(State(app): State<App>, request: Request, next: Next) -> Response {
    // Who signs in may still show a key that is over.
    if !shows_key(request.headers()) || request.uri().path() == LOGIN_AT {
        // The handlers refuse what needs a key; what needs none is over soon.
        return match tokio::time::timeout(UNKNOWN_WITHIN, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Error::new(Kind::Invalid, "the request took too long").into_response(),
        };
    }
    let is_mcp = request.uri().path() == MCP_AT;
    let (mut parts, body) = request.into_parts();
    let caller = match Caller::from_request_parts(&mut parts, &app).await {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    let entered = app.limits().enter(caller.key(), caller.tenant.as_str(), Instant::now());
    let permit = match entered {
        Ok(permit) => permit,
        Err(too_many) if is_mcp => return Error::from(too_many).into_rpc_response(),
        Err(too_many) => return Error::from(too_many).into_response(),
    };
    let hold = caller.hold().clone();
    parts.extensions.insert(caller);
    let body = Body::new(Metered { body, permit: permit.clone(), until: Until::Read });
    let response = tokio::select! {
        biased;
        response = next.run(Request::from_parts(parts, body)) => response,
        () = hold.ended().cancelled() => return ended().into_response(),
    };
    let (parts, body) = response.into_parts();
    let media_type = parts.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let is_stream = media_type.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
    let until = match body.size_hint().exact() {
        // It is there already, and the request was allowed when it was made.
        Some(_) => Until::Read,
        None => {
            let ended = Box::pin(hold.ended().clone().cancelled_owned());
            Until::KeyEnded { ended, is_stream, _hold: hold }
        }
    };
    Response::from_parts(parts, Body::new(Metered { body, permit, until }))
}

fn ended() -> Error {
    Error::new(Kind::Authentication, "this API key was revoked or has expired")
}

/// A body whose bytes are charged, and which may end before it is whole.
struct Metered {
    body: Body,
    permit: Permit,
    until: Until,
}

/// When a body ends beside its own end.
enum Until {
    /// When it was read.
    Read,
    /// When the key is over, which is held until then.
    KeyEnded {
        ended: Pin<Box<WaitForCancellationFutureOwned>>,
        is_stream: bool,
        _hold: Arc<KeyHold>,
    },
}

impl hyper::body::Body for Metered {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if let Until::KeyEnded { ended: key_ended, is_stream, .. } = &mut this.until
            && key_ended.as_mut().poll(context).is_ready()
        {
            // A stream may end anywhere; the end of anything else would seem to be its whole.
            let error = (!*is_stream).then(|| Err(io::Error::other(ended())));
            this.until = Until::Read;
            this.body = Body::empty();
            return Poll::Ready(error);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.permit.charge(data.len());
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
