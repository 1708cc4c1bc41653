//! What goes wrong, in the API's own shape, so that the SDKs raise their typed exceptions.

use std::time::Duration;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use haft_core::session::Refusal;
use haft_runtime::{InputError, RequestError, ResolveError};
use haft_store::{ArtifactError, ErrorKind, PutError};
use haft_wire::managed::SentError;
use serde_json::{Value, json};

use crate::keys::KeyError;
use crate::limits::{self, TooMany};

/// How soon a request is worth sending again when the store or the node is in trouble.
const RETRY_AFTER_SECONDS: &str = "1";

/// The code of what is stored and cannot be read.
const DAMAGED: &str = "damaged";

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Error {
    kind: Kind,
    message: String,
    /// Members beside type and message, for programs.
    details: Option<Value>,
    /// How soon the request is worth sending again, where that is known.
    retry_after: Option<Duration>,
}

/// The kinds of error that the API knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Authentication,
    Conflict,
    Internal,
    Invalid,
    /// The idempotency key was used for another request.
    KeyReused,
    /// Another memory has the path.
    MemoryPathTaken,
    /// A memory is not as its writer saw it.
    MemoryMoved,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    Permission,
    /// A limit of the key or of its tenant was reached.
    RateLimited,
    TooLarge,
    /// The same request is being worked on.
    UnderWay,
}

impl Kind {
    const fn status(self) -> StatusCode {
        match self {
            Self::Authentication => StatusCode::UNAUTHORIZED,
            Self::Conflict | Self::MemoryPathTaken | Self::MemoryMoved | Self::UnderWay => {
                StatusCode::CONFLICT
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Permission => StatusCode::FORBIDDEN,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Authentication => "authentication_error",
            Self::Conflict | Self::UnderWay => "conflict_error",
            Self::Internal => "api_error",
            Self::Invalid | Self::KeyReused | Self::MethodNotAllowed => "invalid_request_error",
            Self::MemoryPathTaken => "memory_path_conflict_error",
            Self::MemoryMoved => "memory_precondition_failed_error",
            Self::NotFound => "not_found_error",
            Self::Overloaded => "overloaded_error",
            Self::Permission => "permission_error",
            Self::RateLimited => "rate_limit_error",
            Self::TooLarge => "request_too_large",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, retry_after: None }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// The API describes it, and this server does not do it: never silently left out.
    pub(crate) fn unsupported(what: &str) -> Self {
        Self::invalid(format!("{what} is not supported by this server"))
    }

    /// Also for what belongs to someone else, so that nobody learns what there is.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        Self::new(Kind::NotFound, format!("no {what} `{id}`"))
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Whether it is ours, and not the caller's.
    pub(crate) fn is_internal(&self) -> bool {
        matches!(self.kind, Kind::Internal | Kind::Overloaded)
    }

    /// Whether what is stored cannot be read; asking again does not help.
    pub(crate) fn is_of_damage(&self) -> bool {
        self.kind == Kind::Internal
            || self.details.as_ref().is_some_and(|details| details["code"] == DAMAGED)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
    }

    /// Says which part of the request it is about.
    pub(crate) fn at(self, path: &str) -> Self {
        Self { message: format!("{path}: {}", self.message), ..self }
    }

    /// Adds members beside type and message, for programs.
    pub(crate) fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Something of ours: the caller is told that it went wrong, the log is told what.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(Kind::Internal, "the server could not do this; its log says why")
    }

    /// Writes the error as JSON-RPC does, for a request whose id nobody has read.
    pub(crate) fn into_rpc_response(self) -> Response {
        const SERVER_ERROR: i32 = -32000;
        let error = json!({
            "code": SERVER_ERROR, "message": self.message, "data": { "type": self.kind.word() },
        });
        let body = Json(json!({ "jsonrpc": "2.0", "id": null, "error": error })).into_response();
        let mut response = self.into_response();
        response.extensions_mut().remove::<Self>();
        let (mut parts, _) = response.into_parts();
        parts.headers.extend(body.headers().clone());
        Response::from_parts(parts, body.into_body())
    }

    /// The body of the answer, once it is known which request it answers.
    pub(crate) fn body(&self, request_id: &str) -> Value {
        let mut error = json!({ "type": self.kind.word(), "message": self.message });
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        json!({ "type": "error", "error": error, "request_id": request_id })
    }
}

impl IntoResponse for Error {
    /// The body is written by [`crate::guard::answered`], which knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        let says = HeaderValue::from_static;
        match self.kind {
            // What was decided stays decided; the SDKs would ask again by themselves.
            Kind::Conflict | Kind::MemoryPathTaken | Kind::MemoryMoved | Kind::KeyReused => {
                response.headers_mut().insert("x-should-retry", says("false"));
            }
            Kind::Overloaded | Kind::RateLimited | Kind::UnderWay => {
                response.headers_mut().insert("x-should-retry", says("true"));
                let after = match self.retry_after {
                    Some(wait) => HeaderValue::from(limits::seconds(wait)),
                    None => says(RETRY_AFTER_SECONDS),
                };
                response.headers_mut().insert(RETRY_AFTER, after);
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<TooMany> for Error {
    fn from(too_many: TooMany) -> Self {
        let error = Self::new(Kind::RateLimited, too_many.to_string());
        Self { retry_after: Some(too_many.retry_after), ..error }
    }
}

impl From<haft_store::Error> for Error {
    /// Trouble with the store is never the caller's and may pass; whoever sends the request again is
    /// answered as if nothing had been wrong.
    fn from(error: haft_store::Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::invalid(error.to_string()),
            ErrorKind::Repeated => Self::new(Kind::UnderWay, error.to_string()),
            ErrorKind::Unknown => {
                tracing::error!(%error, "the store has trouble");
                Self::new(
                    Kind::Overloaded,
                    "the store was lost while this was being recorded, and whether it was is not \
                     known; send the same request again with the same Idempotency-Key, or look \
                     before you send it anew",
                )
            }
            ErrorKind::Corrupt => {
                tracing::error!(%error, "something stored cannot be read");
                Self::new(
                    Kind::Overloaded,
                    "what is stored of this cannot be read; `haft audit verify` says more, and \
                     `haft repair` may help",
                )
                .with_details(json!({ "code": DAMAGED }))
            }
            kind => {
                tracing::error!(%error, ?kind, "the store has trouble");
                Self::new(
                    Kind::Overloaded,
                    "the store has trouble and took nothing of this; try again shortly, the \
                     server's log says more",
                )
            }
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::BadKey => Self::invalid(error.to_string()),
            RequestError::Reused => Self::new(Kind::KeyReused, error.to_string())
                .with_details(json!({ "code": "idempotency_key_reused" })),
            RequestError::UnderWay => Self::new(Kind::UnderWay, error.to_string()),
            RequestError::Store(error) => error.into(),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            error @ (KeyError::NotKept(_) | KeyError::NoRandomness(_)) => Self::internal(error),
        }
    }
}

impl From<ArtifactError> for Error {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Store(error) => error.into(),
            error @ ArtifactError::Taken { .. } => Self::internal(error),
        }
    }
}

impl From<PutError> for Error {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Moved { .. } => Self::conflict(
                "it was changed by someone else at the same moment; read it again and decide again",
            ),
            PutError::Store(error) => error.into(),
        }
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        match &error {
            InputError::Store(error) => error.clone().into(),
            InputError::Key(error) => error.clone().into(),
            InputError::UnderWayElsewhere => Self::new(Kind::UnderWay, error.to_string()),
            InputError::Refused(Refusal::Internal(_)) | InputError::NoRandomness(_) => {
                Self::internal(error)
            }
            InputError::Refused(Refusal::NotAllowed { .. }) => {
                Self::new(Kind::Permission, error.to_string())
            }
            InputError::Refused(_) => Self::invalid(error.to_string()),
            InputError::UnknownSession => Self::new(Kind::NotFound, error.to_string()),
            InputError::OwnedElsewhere { .. }
            | InputError::LeaseLapsed
            | InputError::Overloaded
            | InputError::StoreAway(_)
            | InputError::ShuttingDown => Self::new(Kind::Overloaded, error.to_string()),
        }
    }
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Input(error) => error.into(),
            error @ ResolveError::ToolGone { .. } => {
                let details = json!({ "code": "no_tool" });
                Self::invalid(error.to_string()).with_details(details)
            }
            error @ ResolveError::NotKept { .. } => Self::internal(error),
        }
    }
}

impl From<SentError> for Error {
    fn from(error: SentError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<haft_core::journal::JournalError> for Error {
    fn from(error: haft_core::journal::JournalError) -> Self {
        Self::internal(error)
    }
}
