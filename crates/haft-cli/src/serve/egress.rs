//! What the commands of a session reach: its environment's network, as far as the operator gives it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use haft_core::session::Network as Wanted;
use haft_http::egress::{Allowance, Credential, Credentials, Egress, EgressSettings, HostRule};
use haft_http::{HeaderName, HeaderValue};
use haft_mcp::{Secrets, Setting};
use haft_sandbox::policy::{Gateway, Network};
use haft_store::Tenant;
use tokio::runtime::Handle;

/// Gives sessions their networks.
pub(super) struct EgressGate {
    settings: Arc<EgressSettings>,
    credentials: Option<Arc<dyn Credentials>>,
    /// Whose vaults hold the credentials; nobody else's sessions use them.
    tenant: Tenant,
}

impl EgressGate {
    pub(super) fn new(
        settings: Arc<EgressSettings>,
        secrets: Secrets,
        tenant: Tenant,
    ) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        for (host, credential) in &settings.credentials {
            let header = HeaderName::try_from(credential.header.as_str());
            let header = header.map_err(|error| format!("[egress]: credentials: {error}"))?;
            let value = Setting::try_from(credential.value.clone());
            let value = value.map_err(|error| format!("[egress]: credentials: {error}"))?;
            if value.secret().is_none() {
                return Err(format!(
                    "[egress]: credentials: what lets in at `{host}` is a secret: keep it in a \
                     vault and write `vault://VAULT/CREDENTIAL`"
                ));
            }
            known.insert(host.to_string(), (header, value));
        }
        let credentials = (!known.is_empty())
            .then(|| Arc::new(VaultCredentials { secrets, known }) as Arc<dyn Credentials>);
        Ok(Self { settings, credentials, tenant })
    }

    /// The network of an environment. Without the operator's word the host's own is the public
    /// internet: that is what sessions of earlier versions were opened for.
    pub(super) fn network(
        &self,
        wanted: &Wanted,
        tenant: Option<&Tenant>,
    ) -> Result<Network, String> {
        let (allowance, reaches) = match wanted {
            Wanted::Off => return Ok(Network::Off),
            Wanted::Host if self.settings.host_network => return Ok(Network::Host),
            Wanted::Host | Wanted::Public => (Allowance::Public, "the public internet".to_owned()),
            Wanted::Limited(allowed) => {
                let rules: Result<Vec<HostRule>, _> =
                    allowed.hosts.iter().map(|host| host.parse()).collect();
                let mut rules = rules.map_err(|error| error.to_string())?;
                if allowed.package_managers {
                    rules.extend(self.settings.package_hosts.iter().cloned());
                }
                let names: Vec<String> = rules.iter().map(ToString::to_string).collect();
                (Allowance::Only(rules), names.join(", "))
            }
        };
        let mut egress = Egress::new(allowance, Arc::clone(&self.settings));
        if let Some(credentials) =
            self.credentials.as_ref().filter(|_| tenant == Some(&self.tenant))
        {
            egress = egress.with_credentials(Arc::clone(credentials));
        }
        let runtime = Handle::current();
        Ok(Network::Gateway(Gateway::new(&reaches, move |listener| {
            Ok(Box::new(egress.clone().serve(&runtime, listener)?))
        })))
    }
}

/// Credentials whose secrets are in vaults, looked up for each request.
struct VaultCredentials {
    secrets: Secrets,
    known: BTreeMap<String, (HeaderName, Setting)>,
}

type Found<'a> = Pin<Box<dyn Future<Output = Result<Option<Credential>, String>> + Send + 'a>>;

impl Credentials for VaultCredentials {
    fn of<'a>(&'a self, host: &'a str) -> Found<'a> {
        Box::pin(async move {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            let Some((header, setting)) = self.known.get(&host) else { return Ok(None) };
            let value = self.secrets.value(header.as_str(), setting).await?;
            let value = HeaderValue::try_from(value)
                .map_err(|_| "its secret cannot be sent in a header".to_owned())?;
            Ok(Some((header.clone(), value)))
        })
    }
}
