//! A server as `haft.toml`, the API and the store describe it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use haft_core::{Millis, ToolName};
use haft_http::egress::HostRule;
use serde::{Deserialize, Serialize};

use super::oauth::OAuth;
use super::setting::Setting;
use super::{MountConfig, Peer};

/// The longest that a call of a mounted server may be allowed to take.
const TIMEOUT_SECONDS_MAX: u64 = 24 * 3600;
/// The longest that connecting to a server may be allowed to take.
const START_SECONDS_MAX: u64 = 3600;
/// The most calls that may be sent at once.
const CONCURRENT_MAX: u32 = 1000;
/// The largest message that may be read from a server.
const MESSAGE_BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 30);
/// How many tools a server may be allowed to offer.
const TOOLS: RangeInclusive<u64> = 1..=20_000;
/// Headers that hold nothing but secrets.
const SECRET_HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// What somebody says about a server that is to be mounted: a command or an address, and what it
/// is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The program that speaks over its stdin and stdout, and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The program's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Setting>,
    /// The address of a server on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is sent with every request to the address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Setting>,
    /// How this node is authorized at the address, if that is not as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,
    /// How long one call may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// How long starting or reaching it may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout: Option<u64>,
    /// How many of its calls are sent at once, at most; the others wait in Haft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// The same for single tools, by the names that the server gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_limits: BTreeMap<String, u32>,
    /// The tools whose results are taken as they come, by the names that the server gives them:
    /// without this, a result that does not fit the tool's own `outputSchema` fails its call.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unchecked_output: BTreeSet<String>,
    /// How many tools it may offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<u32>,
    /// The largest message that is read from it, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_message_bytes: Option<u64>,
    /// Whether the program runs in a sandbox. Without it, it has the rights of this process.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sandbox: bool,
    /// The directories that a sandboxed program sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<SandboxRoot>,
    /// What a sandboxed program reaches; nothing unless this is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
}

/// A directory that a sandboxed program sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxRoot {
    /// Where it is on the host.
    pub host: String,
    /// Where the program sees it.
    pub at: String,
    /// Whether the program may change what is in it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub write: bool,
}

/// What a sandboxed program reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Networking {
    /// The public internet.
    Unrestricted {},
    /// These hosts only.
    Limited {
        /// Names, with a port where it is not 80 or 443.
        allowed_hosts: Vec<HostRule>,
    },
}

/// What a mounted program may see and reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// The directories that it sees.
    pub roots: Vec<SandboxRoot>,
    /// What it reaches, if anything.
    pub networking: Option<Networking>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What is wrong with the description of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// Where it is cannot be told.
    #[error("expected either `command`, with the program first, or `url`")]
    NoPlace,
    /// What belongs to the other kind of server.
    #[error("`{member}` is for a server with {of}")]
    Misplaced {
        /// The member.
        member: &'static str,
        /// Which servers it is for.
        of: &'static str,
    },
    /// An address that is none.
    #[error("`url`: expected an address that begins with `https://` or `http://`, found {found:?}")]
    Url {
        /// What was given.
        found: String,
    },
    /// A header that is none.
    #[error("`headers`: {name:?} cannot be the name of a header")]
    Header {
        /// What was given.
        name: String,
    },
    /// A secret that anybody could read.
    #[error(
        "`{member}`: `{name}` holds a secret: keep it in a vault and write `vault://VAULT/ENTRY`"
    )]
    OpenSecret {
        /// The member.
        member: &'static str,
        /// What in it.
        name: String,
    },
    /// Something that has to be there.
    #[error("`oauth`: {of} needs a `{member}`")]
    Missing {
        /// What.
        member: &'static str,
        /// Why.
        of: &'static str,
    },
    /// Two ways to be let in.
    #[error("`oauth`: the header `Authorization` lets it in already; leave one of them out")]
    Twice,
    /// A document about this node that is none.
    #[error(
        "`oauth`: expected a `client_metadata_url` that begins with `https://` and has a path, \
         found {found:?}"
    )]
    Document {
        /// What was given.
        found: String,
    },
    /// A number outside its range.
    #[error("`{member}`: expected {expected}, found {found}")]
    OutOfRange {
        /// The member.
        member: String,
        /// What it may be.
        expected: String,
        /// What was given.
        found: u64,
    },
}

impl Declared {
    /// Checks it, and returns the server that it describes.
    ///
    /// # Errors
    ///
    /// When it describes none.
    pub fn config(&self, name: ToolName) -> Result<MountConfig, DeclaredError> {
        let mut config = MountConfig::new(name, self.peer()?);
        if let Some(seconds) = self.timeout {
            let range = 1..=TIMEOUT_SECONDS_MAX;
            config.timeout = Millis::from_secs(within("timeout", range, "seconds", seconds)?);
        }
        if let Some(seconds) = self.start_timeout {
            let range = 1..=START_SECONDS_MAX;
            let seconds = within("start_timeout", range, "seconds", seconds)?;
            config.connect_timeout = Duration::from_secs(seconds);
        }
        if let Some(limit) = self.max_concurrent {
            config.max_concurrent = concurrent("max_concurrent", limit)?;
        }
        for (tool, limit) in &self.tool_limits {
            let limit = concurrent(&format!("tool_limits.{tool}"), *limit)?;
            config.tool_limits.insert(tool.clone(), limit);
        }
        config.unchecked_output.clone_from(&self.unchecked_output);
        if let Some(n) = self.max_tools {
            config.max_tools = within("max_tools", TOOLS, "tools", n.into()).map(|_| n)?;
        }
        if let Some(bytes) = self.max_message_bytes {
            let bytes = within("max_message_bytes", MESSAGE_BYTES, "bytes", bytes)?;
            config.max_message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        config.confinement = self.confinement()?;
        Ok(config)
    }

    fn confinement(&self) -> Result<Option<Confinement>, DeclaredError> {
        let misplaced =
            |member| DeclaredError::Misplaced { member, of: "a `command` and `sandbox = true`" };
        match self.sandbox {
            true if self.command.is_empty() => Err(misplaced("sandbox")),
            true => {
                let (roots, networking) = (self.roots.clone(), self.networking.clone());
                Ok(Some(Confinement { roots, networking }))
            }
            false if !self.roots.is_empty() => Err(misplaced("roots")),
            false if self.networking.is_some() => Err(misplaced("networking")),
            false => Ok(None),
        }
    }

    fn peer(&self) -> Result<Peer, DeclaredError> {
        match (self.command.split_first(), &self.url) {
            (Some((program, args)), None) => {
                if !self.headers.is_empty() {
                    return Err(DeclaredError::Misplaced { member: "headers", of: "a `url`" });
                }
                if self.oauth.is_some() {
                    return Err(DeclaredError::Misplaced { member: "oauth", of: "a `url`" });
                }
                let (program, args, env) = (program.clone(), args.to_vec(), self.env.clone());
                Ok(Peer::Command { program, args, env })
            }
            (None, Some(url)) => {
                if !self.env.is_empty() {
                    return Err(DeclaredError::Misplaced { member: "env", of: "a `command`" });
                }
                let uri = url.parse::<http::Uri>().ok();
                let scheme = uri.as_ref().and_then(|uri| uri.scheme_str());
                if !matches!(scheme, Some("http" | "https")) {
                    return Err(DeclaredError::Url { found: url.clone() });
                }
                self.headers.iter().try_for_each(|(name, value)| checked_header(name, value))?;
                let (headers, oauth) = (self.headers.clone(), self.oauth.clone());
                if let Some(oauth) = &oauth {
                    oauth.checked()?;
                    if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
                        return Err(DeclaredError::Twice);
                    }
                }
                Ok(Peer::Http { url: url.clone(), headers, oauth: oauth.unwrap_or_default() })
            }
            _ => Err(DeclaredError::NoPlace),
        }
    }
}

fn within(
    member: &str,
    range: RangeInclusive<u64>,
    unit: &str,
    found: u64,
) -> Result<u64, DeclaredError> {
    if range.contains(&found) {
        return Ok(found);
    }
    let expected = format!("{} to {} {unit}", range.start(), range.end());
    Err(DeclaredError::OutOfRange { member: member.to_owned(), expected, found })
}

fn concurrent(member: &str, limit: u32) -> Result<u32, DeclaredError> {
    within(member, 1..=CONCURRENT_MAX.into(), "calls", limit.into()).map(|_| limit)
}

/// Whether a header holds nothing but secrets.
pub(super) fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

fn checked_header(name: &str, value: &Setting) -> Result<(), DeclaredError> {
    let known = http::HeaderName::try_from(name);
    let known = known.map_err(|_| DeclaredError::Header { name: name.to_owned() })?;
    if is_secret_header(known.as_str()) && value.secret().is_none() {
        return Err(DeclaredError::OpenSecret { member: "headers", name: name.to_owned() });
    }
    Ok(())
}
