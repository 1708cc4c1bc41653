//! The record of authority: every version of what gives power, in a chain of its own.
//!
//! API keys, standing grants, agents with their permission policies, environments with their
//! networks, tools of workers, and what was accepted of mounted servers are versions like others, and each of them has an entry here that is chained by
//! its hash to the one before. A row that was changed, put in or taken out beside the chain is found
//! by an audit, and is not obeyed. Sessions keep where the chain ended when they were opened, so
//! that its latest entries cannot be cut off either; a checkpoint that is kept elsewhere shows the
//! same.
//!
//! The chain has no key: it shows what was changed afterwards, and not that whoever can write to the
//! database has added to it in its own form.

use haft_core::Digest;
use haft_core::journal::Head;

/// The spaces whose versions give power.
pub(crate) const SPACES: [&str; 7] =
    ["grants", "keys", "mcp-pins", "mcp-servers", "v1/agents", "v1/environments", "worker-tools"];

/// Returns whether the versions of a space are in the record.
pub(crate) fn is_recorded(space: &str) -> bool {
    SPACES.contains(&space)
}

/// An entry of the record: one version of something that gives power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthorityEntry {
    /// Its place in the record, from 1.
    pub(crate) number: u64,
    pub(crate) tenant: String,
    pub(crate) space: String,
    pub(crate) key: String,
    /// The number of the version at its place.
    pub(crate) version: u64,
    /// The hash of its content; `None` when it says that the thing is gone.
    pub(crate) digest: Option<Vec<u8>>,
    /// Who wrote it, as it is stored.
    pub(crate) author: String,
    /// When, in milliseconds.
    pub(crate) at: i64,
    /// The hash of all of this and of the entry before.
    pub(crate) hash: Digest,
}

impl AuthorityEntry {
    /// Makes the entry that follows.
    pub(crate) fn after(
        head: Head,
        (tenant, space, key): (&str, &str, &str),
        version: u64,
        digest: Option<&[u8]>,
        (author, at): (&str, i64),
    ) -> Self {
        let mut entry = Self {
            number: head.seq + 1,
            tenant: tenant.to_owned(),
            space: space.to_owned(),
            key: key.to_owned(),
            version,
            digest: digest.map(<[u8]>::to_vec),
            author: author.to_owned(),
            at,
            hash: Digest::ZERO,
        };
        entry.hash = entry.chained(head.hash);
        entry
    }

    /// Returns the hash that it has after the entry before it.
    pub(crate) fn chained(&self, previous: Digest) -> Digest {
        Digest::of_parts(&[
            previous.as_bytes(),
            &self.number.to_be_bytes(),
            self.tenant.as_bytes(),
            self.space.as_bytes(),
            self.key.as_bytes(),
            &self.version.to_be_bytes(),
            self.digest.as_deref().unwrap_or_default(),
            self.author.as_bytes(),
            &self.at.to_be_bytes(),
        ])
    }

    /// Returns where the record ends with it, if it follows.
    pub(crate) fn follows(&self, head: Head) -> Option<Head> {
        let is_next = self.number == head.seq + 1 && self.chained(head.hash) == self.hash;
        is_next.then_some(Head { seq: self.number, hash: self.hash })
    }

    pub(crate) fn head(&self) -> Head {
        Head { seq: self.number, hash: self.hash }
    }
}
