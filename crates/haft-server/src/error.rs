//! What goes wrong, in the API's own shape, so that the SDKs raise their typed exceptions.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use haft_core::session::Refusal;
use haft_runtime::{InputError, ResolveError};
use haft_store::PutError;
use haft_wire::managed::SentError;
use serde_json::{Value, json};

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Error {
    kind: Kind,
    message: String,
    /// Members beside type and message, for programs.
    details: Option<Value>,
}

/// The kinds of error that the API knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Authentication,
    Conflict,
    Internal,
    Invalid,
    /// Another memory has the path.
    MemoryPathTaken,
    /// A memory is not as its writer saw it.
    MemoryMoved,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    Permission,
    TooLarge,
}

impl Kind {
    const fn status(self) -> StatusCode {
        match self {
            Self::Authentication => StatusCode::UNAUTHORIZED,
            Self::Conflict | Self::MemoryPathTaken | Self::MemoryMoved => StatusCode::CONFLICT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::Permission => StatusCode::FORBIDDEN,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Authentication => "authentication_error",
            Self::Conflict => "conflict_error",
            Self::Internal => "api_error",
            Self::Invalid | Self::MethodNotAllowed => "invalid_request_error",
            Self::MemoryPathTaken => "memory_path_conflict_error",
            Self::MemoryMoved => "memory_precondition_failed_error",
            Self::NotFound => "not_found_error",
            Self::Overloaded => "overloaded_error",
            Self::Permission => "permission_error",
            Self::TooLarge => "request_too_large",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None }
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
        self.kind == Kind::Internal
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
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
        if self.kind.status() == StatusCode::CONFLICT {
            // What was decided stays decided; the SDKs would ask again by themselves.
            let no = axum::http::HeaderValue::from_static("false");
            response.headers_mut().insert("x-should-retry", no);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<haft_store::Error> for Error {
    fn from(error: haft_store::Error) -> Self {
        Self::internal(error)
    }
}

impl From<PutError> for Error {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Moved { .. } => Self::conflict(
                "it was changed by someone else at the same moment; read it again and decide again",
            ),
            PutError::Store(error) => Self::internal(error),
        }
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        match &error {
            InputError::Refused(Refusal::Internal(_))
            | InputError::Store(_)
            | InputError::NoRandomness(_) => Self::internal(error),
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
