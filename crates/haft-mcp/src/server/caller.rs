//! What a request says about the client behind it.

use std::collections::BTreeSet;

use rmcp::model::{ClientCapabilities, ErrorData, LoggingLevel, ProgressToken, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use crate::principal::Principal;
use crate::questions::Kind;

/// The client behind a request.
pub(super) struct Caller {
    pub(super) principal: Principal,
    pub(super) era: Era,
    /// What it can be asked for.
    pub(super) can: BTreeSet<Kind>,
    pub(super) knows_tasks: bool,
    pub(super) progress: Option<ProgressToken>,
    /// The least level of log messages it wants; `None` for none at all.
    pub(super) log_level: Option<LoggingLevel>,
    /// Where it hears what happens on the way; `None` if it wants to hear nothing.
    pub(super) peer: Option<Peer<RoleServer>>,
    /// Cancelled when the client no longer waits for the answer.
    pub(super) gone: CancellationToken,
}

/// How a client is asked for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// While its request is under way, by a request to it.
    Legacy,
    /// In the answer to its request, which it then makes again.
    Modern,
}

/// Returns on whose behalf a request is made; `otherwise` where requests do not say so themselves.
pub(super) fn principal<'a>(
    context: &'a RequestContext<RoleServer>,
    otherwise: Option<&'a Principal>,
) -> Result<&'a Principal, ErrorData> {
    let over_http = context.extensions.get::<http::request::Parts>();
    let principal = over_http.and_then(|parts| parts.extensions.get()).or(otherwise);
    let nobody = || ErrorData::internal_error("nobody stands behind this request", None);
    principal.ok_or_else(nobody)
}

impl Caller {
    pub(super) fn of(
        context: &RequestContext<RoleServer>,
        principal: Option<&Principal>,
        session_level: Option<LoggingLevel>,
    ) -> Result<Self, ErrorData> {
        let principal = self::principal(context, principal)?.clone();
        let is_modern = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let capabilities = context.client_capabilities().unwrap_or_default();
        Ok(Self {
            principal,
            era: if is_modern { Era::Modern } else { Era::Legacy },
            can: asked_for(&capabilities),
            knows_tasks: is_modern && capabilities.supports_tasks(),
            progress: context.meta.get_progress_token(),
            log_level: if is_modern { context.meta.log_level() } else { session_level },
            peer: Some(context.peer.clone()),
            gone: context.ct.clone(),
        })
    }

    /// The client behind a request that stands alone and wants to hear nothing but its answer.
    pub(super) fn alone(
        principal: Principal,
        capabilities: &ClientCapabilities,
        gone: CancellationToken,
    ) -> Self {
        Self {
            principal,
            era: Era::Modern,
            can: asked_for(capabilities),
            knows_tasks: capabilities.supports_tasks(),
            progress: None,
            log_level: None,
            peer: None,
            gone,
        }
    }
}

/// Returns what a client can be asked for.
fn asked_for(capabilities: &ClientCapabilities) -> BTreeSet<Kind> {
    let declared = [
        (Kind::Elicitation, capabilities.elicitation.is_some()),
        (Kind::Sampling, capabilities.sampling.is_some()),
        (Kind::Roots, capabilities.roots.is_some()),
    ];
    declared.into_iter().filter(|(_, can)| *can).map(|(kind, _)| kind).collect()
}
