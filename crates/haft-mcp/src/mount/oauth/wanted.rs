//! What a server that does not let us in wants.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

/// What a server that does not let us in wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A token, or another one.
    Token {
        /// Its words, which say where tokens are given.
        challenge: String,
    },
    /// A token that is good for more.
    Scope {
        /// Its words.
        challenge: String,
        /// For what.
        scope: Option<String>,
    },
}

impl Wanted {
    pub(crate) fn of_connecting(error: &ClientInitializeError) -> Option<Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::of(error.error.as_ref()),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                Self::of_connecting(fallback)
            }
            _ => None,
        }
    }

    pub(crate) fn of_request(error: &ServiceError) -> Option<Self> {
        match error {
            ServiceError::TransportSend(error) => Self::of(error.error.as_ref()),
            _ => None,
        }
    }

    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<AuthRequiredError>() {
                let challenge = error.www_authenticate_header.clone();
                return Some(Self::Token { challenge });
            }
            if let Some(error) = error.downcast_ref::<InsufficientScopeError>() {
                let challenge = error.www_authenticate_header.clone();
                return Some(Self::Scope { challenge, scope: error.required_scope.clone() });
            }
            next = error.source();
        }
        None
    }

    pub(super) fn challenge(&self) -> &str {
        match self {
            Self::Token { challenge } | Self::Scope { challenge, .. } => challenge,
        }
    }

    /// Returns what it names that a token must be good for beside what it is.
    pub(super) fn scopes(&self) -> impl Iterator<Item = String> {
        let scope = match self {
            Self::Scope { scope, .. } => scope.as_deref(),
            Self::Token { .. } => None,
        };
        scope.unwrap_or_default().split_whitespace().map(str::to_owned)
    }
}
