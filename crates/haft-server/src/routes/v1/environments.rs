//! `/v1/environments`: where agents work.

use std::collections::BTreeMap;

use haft_core::session::{AllowedHosts, Network};
use haft_http::Endpoint;
use haft_http::egress::{EgressSettings, HostRule};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::kept::{Kept, Null};
use crate::app::App;
use crate::error::Error;
use crate::input::read;
use crate::objects::{Members, Object, Sort};
use crate::plan::checked_metadata;

const MANAGERS: [&str; 6] = ["apt", "cargo", "gem", "go", "npm", "pip"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Environment")]
pub(super) struct Declared {
    name: String,
    config: Option<Cloud>,
    description: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cloud {
    #[serde(rename = "type")]
    kind: String,
    networking: Option<Networking>,
    packages: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Networking {
    #[serde(rename = "type")]
    kind: String,
    allow_mcp_servers: Option<bool>,
    allow_package_managers: Option<bool>,
    allowed_hosts: Option<Vec<String>>,
}

impl Kept for Declared {
    const SORT: Sort = Sort::Environment;
    const KIND: &'static str = "environment";
    const NULL: Null = Null::Resets;

    fn require_allowed(&self, app: &App) -> Result<(), Error> {
        let networking = self.config.as_ref().and_then(|config| config.networking.as_ref());
        networking.map_or(Ok(()), |networking| require_given(networking, app.egress()))
    }

    fn settled(&self) -> Result<Members, Error> {
        if !(1..=256).contains(&self.name.chars().count()) {
            return Err(Error::invalid("name: expected 1 to 256 characters"));
        }
        if self.scope.is_some() {
            return Err(Error::unsupported("`scope`"));
        }
        checked_metadata(&self.metadata)?;
        let networking = match &self.config {
            Some(config) => config.networking()?,
            None => limited(),
        };
        let none = || MANAGERS.map(|manager| (manager.to_owned(), json!([])));
        let packages = Map::from_iter(none());
        let kept = json!({
            "name": self.name,
            "config": { "type": "cloud", "networking": networking, "packages": packages },
            "description": self.description.clone().unwrap_or_default(),
            "metadata": self.metadata,
        });
        match kept {
            Value::Object(members) => Ok(members),
            _ => Err(Error::internal("an environment is an object")),
        }
    }
}

/// The network is off unless an environment says otherwise.
fn limited() -> Value {
    json!({
        "type": "limited", "allow_mcp_servers": false, "allow_package_managers": false,
        "allowed_hosts": [],
    })
}

impl Cloud {
    fn networking(&self) -> Result<Value, Error> {
        if self.kind != "cloud" {
            return Err(Error::unsupported(&format!("an environment of type {:?}", self.kind)));
        }
        let is_list_of_some =
            |value: &Value| value.as_array().is_none_or(|packages| !packages.is_empty());
        for (manager, packages) in self.packages.iter().flatten() {
            if manager != "type" && !packages.is_null() && is_list_of_some(packages) {
                return Err(Error::unsupported(&format!("`config.packages.{manager}`")));
            }
        }
        match &self.networking {
            None => Ok(limited()),
            Some(given) => given.settled(),
        }
    }
}

impl Networking {
    fn settled(&self) -> Result<Value, Error> {
        match self.kind.as_str() {
            "unrestricted" | "host" => {
                let limits = [
                    ("allow_mcp_servers", self.allow_mcp_servers.is_some()),
                    ("allow_package_managers", self.allow_package_managers.is_some()),
                    ("allowed_hosts", self.allowed_hosts.is_some()),
                ];
                match limits.into_iter().find(|(_, is_given)| *is_given) {
                    Some((member, _)) => Err(Error::invalid(format!(
                        "config.networking.{member}: is for networking of type `limited`"
                    ))),
                    None => Ok(json!({ "type": self.kind })),
                }
            }
            "limited" => {
                let hosts = self.allowed_hosts.as_deref().unwrap_or_default();
                for host in hosts {
                    host.parse::<HostRule>().map_err(|error| {
                        Error::invalid(format!("config.networking.allowed_hosts: {error}"))
                    })?;
                }
                Ok(json!({
                    "type": "limited",
                    "allow_mcp_servers": self.allow_mcp_servers.unwrap_or_default(),
                    "allow_package_managers": self.allow_package_managers.unwrap_or_default(),
                    "allowed_hosts": hosts,
                }))
            }
            _ => {
                Err(Error::invalid("config.networking.type: expected `limited` or `unrestricted`"))
            }
        }
    }
}

/// Refuses a network that the operator gives to nobody.
fn require_given(networking: &Networking, egress: &EgressSettings) -> Result<(), Error> {
    if networking.kind == "host" && !egress.host_network {
        return Err(Error::invalid(
            "config.networking.type: the host's own network is given only where the operator says \
             `host_network = true` in `[egress]`; `unrestricted` is the public internet",
        ));
    }
    if networking.allow_package_managers == Some(true) && egress.package_hosts.is_empty() {
        return Err(Error::unsupported(
            "`networking.allow_package_managers` without `package_hosts` in the operator's `[egress]`",
        ));
    }
    Ok(())
}

/// What commands in an environment reach, for an agent with these MCP servers.
pub(super) fn network(environment: &Object, servers: &Value) -> Result<Network, Error> {
    let config = environment.members.get("config");
    let networking = config.and_then(|config| config.get("networking")).cloned();
    let networking: Networking = read(networking.unwrap_or_else(limited))?;
    match networking.kind.as_str() {
        "unrestricted" => Ok(Network::Public),
        "host" => Ok(Network::Host),
        _ => {
            let mut hosts = networking.allowed_hosts.unwrap_or_default();
            if networking.allow_mcp_servers == Some(true) {
                hosts.extend(hosts_of(servers));
            }
            let package_managers = networking.allow_package_managers.unwrap_or_default();
            match hosts.is_empty() && !package_managers {
                true => Ok(Network::Off),
                false => Ok(Network::Limited(AllowedHosts { hosts, package_managers })),
            }
        }
    }
}

/// The hosts of an agent's MCP servers.
fn hosts_of(servers: &Value) -> impl Iterator<Item = String> {
    let urls = servers.as_array().into_iter().flatten().filter_map(|server| server["url"].as_str());
    let endpoints = urls.filter_map(|url| Endpoint::exactly(url).ok());
    endpoints.map(|endpoint| match endpoint.host() {
        v6 if v6.contains(':') => format!("[{v6}]:{}", endpoint.port()),
        host => format!("{host}:{}", endpoint.port()),
    })
}
