//! Standing permission beyond a session: given, looked at, taken back.

use haft_core::permission::StandingGrant;
use haft_core::{Actor, ActorKind, CallId, GrantId, SessionId};
use haft_store::Tenant;

use super::resolving::GrantTerms;
use super::settling::Settled;
use super::{Haft, InputError};
use crate::standing::{HeldGrant, Holder, LedgerError};

/// The grants that stand beyond a session.
#[derive(Debug)]
pub struct Grants<'a> {
    haft: &'a Haft,
}

/// Why a grant was not given or taken back.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GrantError {
    /// An agent gives itself nothing.
    #[error("`{by}` is an agent and may not give or take permission; a person may")]
    NotAllowed {
        /// Who tried.
        by: Actor,
    },
    /// There is no such tool.
    #[error("no tool `{tool}` is registered on this node")]
    UnknownTool {
        /// The name.
        tool: String,
    },
    /// The grant would never apply.
    #[error("`{tool}` always asks; a standing permission would never apply")]
    NeverApplies {
        /// The tool.
        tool: String,
    },
    /// There is no such grant.
    #[error("no grant `{grant}` of this tenant")]
    UnknownGrant {
        /// The grant.
        grant: GrantId,
    },
    /// The node cannot do it now.
    #[error(transparent)]
    Node(#[from] InputError),
    /// The grants cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Haft {
    /// Returns the grants that stand beyond a session.
    pub const fn grants(&self) -> Grants<'_> {
        Grants { haft: self }
    }
}

/// A grant that was given, and what it settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenGrant {
    /// The grant, as it was given.
    pub grant: StandingGrant,
    /// The calls that waited and go on because of it.
    pub settled: Vec<(SessionId, CallId)>,
}

#[haft_macros::boxed]
impl Grants<'_> {
    /// Returns a standing permission for a tool as it is registered now, which nobody has been
    /// given. It can be held against calls.
    ///
    /// # Errors
    ///
    /// When an agent tries, or the tool is unknown or always asks.
    pub fn propose(
        &self,
        tool: &str,
        terms: GrantTerms,
        by: Actor,
    ) -> Result<StandingGrant, GrantError> {
        require_person(&by)?;
        let found = self.haft.registry().get(tool);
        let found = found.ok_or_else(|| GrantError::UnknownTool { tool: tool.to_owned() })?;
        let contract = found.spec().contract();
        if contract.gate.always_asks() {
            return Err(GrantError::NeverApplies { tool: tool.to_owned() });
        }
        let id = GrantId::from_bits(self.haft.driver.fresh()?);
        Ok(terms.granted(id, contract, by, self.haft.toolbox.now()))
    }

    /// Gives a standing permission for a tool as it is registered now, and lets it settle the
    /// calls that wait and that it covers. A tool that changes is no longer covered.
    ///
    /// # Errors
    ///
    /// When an agent tries, or the tool is unknown or always asks.
    pub async fn give(
        &self,
        tenant: &Tenant,
        holder: Holder,
        tool: &str,
        terms: GrantTerms,
        by: Actor,
    ) -> Result<GivenGrant, GrantError> {
        let grant = self.propose(tool, terms, by)?;
        let ledger = self.haft.ledger();
        let fresh = ledger.add(tenant, holder, grant.clone()).await?;
        // It is given, whatever comes of this; what is left over is settled by whoever looks next.
        let settled = self.haft.settle(&ledger, &fresh).await.unwrap_or_else(|error| {
            tracing::warn!(%error, grant = %grant.id, "what waits is settled later");
            Settled::default()
        });
        Ok(GivenGrant { grant, settled: settled.calls })
    }

    /// Returns a tenant's grants, with what is left of each.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn list(&self, tenant: &Tenant) -> Result<Vec<HeldGrant>, GrantError> {
        Ok(self.haft.ledger().list(tenant).await?)
    }

    /// Takes a grant back. A call that it has let through already goes on.
    ///
    /// # Errors
    ///
    /// When an agent tries, or there is no such grant.
    pub async fn revoke(
        &self,
        tenant: &Tenant,
        grant: GrantId,
        by: Actor,
    ) -> Result<(), GrantError> {
        require_person(&by)?;
        match self.haft.ledger().remove(tenant, grant, &by).await? {
            true => Ok(()),
            false => Err(GrantError::UnknownGrant { grant }),
        }
    }
}

fn require_person(by: &Actor) -> Result<(), GrantError> {
    match by.kind {
        ActorKind::Agent => Err(GrantError::NotAllowed { by: by.clone() }),
        ActorKind::User | ActorKind::Service | ActorKind::System => Ok(()),
    }
}
