//! On whose behalf a client speaks.

use haft_core::Actor;
use haft_store::Tenant;

/// Whoever stands behind a connection or a request.
///
/// Over HTTP, whatever authenticates requests puts one into the request's extensions; over stdio
/// it is whoever started the process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// Who.
    pub actor: Actor,
    /// Whose sessions and artifacts they reach.
    pub tenant: Tenant,
}

/// Which credential a request was authenticated with: the name of an API key, for example, never
/// the key itself.
///
/// Whatever authenticates requests puts one beside the [`Principal`]. A transport session answers
/// only to the credential that began it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CredentialId(pub String);
