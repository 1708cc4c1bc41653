//! What was accepted of each server's tools: each whole object, by its hash.
//!
//! A name that is not pinned waits like one whose object changed, so that renaming a tool gets
//! around nothing.

use std::collections::BTreeMap;

use haft_core::{Actor, Digest, Timestamp, ToolName, text_diff};
use haft_store::{Error, Expected, Place, Put, PutError, Store, Tenant, Which};
use serde_json::Value;

/// Where pins are kept.
const SPACE: &str = "mcp-pins";

/// A tool that waits to be accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What the server calls it.
    pub tool: String,
    /// What it is now, whole.
    pub offered: Value,
    /// Its hash: what is accepted.
    pub digest: Digest,
    /// What it was when it was last accepted; `None` for a new one.
    pub pinned: Option<Value>,
    /// The difference, as a unified diff.
    pub diff: String,
}

/// What a server offers, sorted by what was accepted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) pinned: Vec<Value>,
    pub(super) pending: Vec<Change>,
}

pub(super) struct Pins {
    store: Store,
    tenant: Tenant,
}

/// What was accepted, by the names that the server gives.
type Accepted = BTreeMap<String, Value>;

impl Pins {
    pub(super) fn new(store: Store, tenant: Tenant) -> Self {
        Self { store, tenant }
    }

    /// Sorts what a server offers. Nothing was ever accepted of a server that is mounted for the
    /// first time, and whoever mounts it accepts what it offers then.
    pub(super) async fn sort(
        &self,
        mount: &ToolName,
        offered: Vec<Value>,
        by: &Actor,
        now: Timestamp,
    ) -> Result<Sorted, Error> {
        let Some((_, accepted)) = self.read(mount).await? else {
            let accepted = offered.iter().map(|body| (name_of(body), body.clone())).collect();
            self.write(mount, Expected::Absent, &accepted, by, now).await?;
            return Ok(Sorted { pinned: offered, pending: Vec::new() });
        };
        let mut sorted = Sorted::default();
        for body in offered {
            let (name, digest) = (name_of(&body), Digest::of_json(&body));
            let pinned = accepted.get(&name);
            if pinned.is_some_and(|pinned| Digest::of_json(pinned) == digest) {
                sorted.pinned.push(body);
                continue;
            }
            let diff = diff(pinned, &body);
            let pinned = pinned.cloned();
            sorted.pending.push(Change { tool: name, offered: body, digest, pinned, diff });
        }
        Ok(sorted)
    }

    /// Returns what was accepted of a server; `None` when it was never mounted.
    pub(super) async fn accepted(&self, mount: &ToolName) -> Result<Option<Vec<Value>>, Error> {
        let found = self.read(mount).await?;
        Ok(found.map(|(_, accepted)| accepted.into_values().collect()))
    }

    pub(super) async fn accept(
        &self,
        mount: &ToolName,
        change: &Change,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        loop {
            let (expected, mut accepted) = match self.read(mount).await? {
                Some((version, accepted)) => (Expected::Version(version), accepted),
                None => (Expected::Absent, Accepted::new()),
            };
            accepted.insert(change.tool.clone(), change.offered.clone());
            if self.write(mount, expected, &accepted, by, now).await? {
                return Ok(());
            }
        }
    }

    async fn read(&self, mount: &ToolName) -> Result<Option<(u64, Accepted)>, Error> {
        let found = self.store.version(&self.place(mount)?, Which::Latest).await?;
        Ok(found.map(|found| {
            let body = found.body.unwrap_or_default();
            // What cannot be read accepts nothing.
            (found.info.number, serde_json::from_slice(&body).unwrap_or_default())
        }))
    }

    /// Returns whether it was written; if not, someone else wrote first.
    async fn write(
        &self,
        mount: &ToolName,
        expected: Expected,
        accepted: &Accepted,
        by: &Actor,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let body = Some(serde_json::to_vec(accepted).unwrap_or_default());
        let put = Put { place: self.place(mount)?, expected, body };
        match self.store.put_versions(vec![put], by, now).await {
            Ok(_) => Ok(true),
            Err(PutError::Moved { .. }) => Ok(false),
            Err(PutError::Store(error)) => Err(error),
        }
    }

    fn place(&self, mount: &ToolName) -> Result<Place, Error> {
        Place::new(self.tenant.clone(), SPACE, mount.as_str())
    }
}

fn name_of(body: &Value) -> String {
    body["name"].as_str().unwrap_or_default().to_owned()
}

fn diff(pinned: Option<&Value>, offered: &Value) -> String {
    let pretty = |value: &Value| format!("{value:#}\n");
    let (old, new) = (pinned.map(pretty).unwrap_or_default(), pretty(offered));
    text_diff::unified(["accepted", "offered"], &old, &new, &|| false)
}
