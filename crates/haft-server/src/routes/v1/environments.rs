//! `/v1/environments`: where agents work.

use std::collections::BTreeMap;

use haft_core::session::Network;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::kept::{Kept, Null};
use crate::error::Error;
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
        let unsupported = |what: &str| Err(Error::unsupported(&format!("`networking.{what}`")));
        match self.kind.as_str() {
            "unrestricted" => Ok(json!({ "type": "unrestricted" })),
            "limited" if self.allow_mcp_servers == Some(true) => unsupported("allow_mcp_servers"),
            "limited" if self.allow_package_managers == Some(true) => {
                unsupported("allow_package_managers")
            }
            "limited" if self.allowed_hosts.as_ref().is_some_and(|hosts| !hosts.is_empty()) => {
                unsupported("allowed_hosts")
            }
            "limited" => Ok(limited()),
            _ => {
                Err(Error::invalid("config.networking.type: expected `limited` or `unrestricted`"))
            }
        }
    }
}

/// What commands in an environment reach.
pub(super) fn network(environment: &Object) -> Network {
    let kind = environment.members.get("config");
    let kind = kind.and_then(|config| config.pointer("/networking/type"));
    match kind.and_then(Value::as_str) {
        Some("unrestricted") => Network::Host,
        _ => Network::Off,
    }
}
