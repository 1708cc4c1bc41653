//! `haft mcp add` and `remove`: which servers are mounted, written down in `haft.toml`.
//!
//! A command that is mounted runs with the rights of whoever starts Haft. So it is added where
//! that person configures it, and not over the network.

use haft_core::ToolName;
use haft_http::egress::HostRule;
use haft_mcp::{Declared, Grant, Networking, OAuth, SandboxRoot, Setting};

use crate::Verdict;
use crate::config::ConfigFile;
use crate::place::causes;
use crate::trouble::{Code, Trouble};
use crate::trust;

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// What to call the server; its tools' names begin with it.
    #[arg(value_name = "NAME")]
    name: ToolName,
    /// Its address, if it is on the network.
    #[arg(value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The program that speaks over its stdin and stdout, and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    /// A variable for the program, as `NAME=VALUE` or `NAME=vault://VAULT/CREDENTIAL`.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, Setting)>,
    /// A header for the address, as `NAME=VALUE`, such as
    /// `Authorization=Bearer vault://VAULT/CREDENTIAL`.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, Setting)>,
    /// Runs the program in a sandbox: it sees the directories of --root and reaches the hosts of
    /// --allow-host, and nothing else.
    #[arg(long, requires = "command")]
    sandbox: bool,
    /// A directory that a sandboxed program sees, as `HOST=AT` or, to let it write, `HOST=AT:rw`.
    #[arg(long = "root", value_name = "HOST=AT", value_parser = root, requires = "sandbox")]
    roots: Vec<SandboxRoot>,
    /// A host that a sandboxed program reaches: `example.com`, `example.com:8443`,
    /// `*.example.com`.
    #[arg(long = "allow-host", value_name = "HOST", requires = "sandbox")]
    allowed_hosts: Vec<HostRule>,
    #[command(flatten)]
    oauth: OAuthArgs,
    /// How long one call may take.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// How long starting or reaching it may take (default 180).
    #[arg(long, value_name = "SECONDS")]
    start_timeout: Option<u64>,
    /// How many of its calls are sent at once, at most (default 16). The others wait in Haft.
    #[arg(long, value_name = "CALLS")]
    max_concurrent: Option<u32>,
    #[command(flatten)]
    config: ConfigFile,
}

/// Who this node is at an address that wants to be authorized. Without any of it, the node
/// registers itself there, and `haft mcp authorize` sends a person.
#[derive(Debug, clap::Args)]
struct OAuthArgs {
    /// The client that this node was registered as at the address.
    #[arg(long, value_name = "ID", help_heading = "OAuth")]
    client_id: Option<String>,
    /// The secret of that client, as `vault://VAULT/CREDENTIAL`.
    #[arg(long, value_name = "SECRET", help_heading = "OAuth", value_parser = setting)]
    client_secret: Option<Setting>,
    /// The client has a right of its own: tokens are got without a person.
    #[arg(long, requires = "client_secret", help_heading = "OAuth")]
    client_credentials: bool,
    /// The address of a document about this node that stands for a registration.
    #[arg(long, value_name = "URL", help_heading = "OAuth")]
    client_metadata_url: Option<String>,
    /// What to ask to be allowed; may be given several times. What the server names, if not.
    #[arg(long = "scope", value_name = "SCOPE", help_heading = "OAuth")]
    scopes: Vec<String>,
}

impl OAuthArgs {
    /// Returns what was said, if anything was.
    fn declared(self) -> Option<OAuth> {
        let grant = match self.client_credentials {
            true => Grant::ClientCredentials,
            false => Grant::AuthorizationCode,
        };
        let Self { client_id, client_secret, client_metadata_url, scopes, .. } = self;
        let oauth = OAuth { grant, client_id, client_secret, client_metadata_url, scopes };
        (oauth != OAuth::default()).then_some(oauth)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    name: ToolName,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn add(args: AddArgs) -> anyhow::Result<Verdict> {
    let AddArgs { name, url, command, env, headers, oauth, timeout, config, .. } = args;
    let AddArgs { start_timeout, max_concurrent, .. } = args;
    let AddArgs { sandbox, roots, allowed_hosts, .. } = args;
    let networking = (!allowed_hosts.is_empty()).then_some(Networking::Limited { allowed_hosts });
    let (env, headers) = (env.into_iter().collect(), headers.into_iter().collect());
    let oauth = oauth.declared();
    if url.is_none() && command.is_empty() {
        let what = format!("`{name}` has neither an address nor a program");
        let next = format!("`haft mcp add {name} URL`, or `haft mcp add {name} -- CMD ARGS`");
        return Err(Trouble::new(Code::BadArguments, what).next(next).into());
    }
    let declared = Declared {
        command,
        env,
        url,
        headers,
        oauth,
        timeout,
        start_timeout,
        max_concurrent,
        sandbox,
        roots,
        networking,
        ..Declared::default()
    };
    declared.config(name.clone()).map_err(|error| {
        Trouble::new(Code::BadConfig, format!("`{name}` cannot be mounted like this"))
            .why(causes(&error))
            .next("`haft help mcp add` tells what a server takes")
    })?;
    let written = config.add_server(&name, &declared)?;
    trust::pin(config.path(), &written)?;
    eprintln!(
        "`{name}` is in `{}`; a running `haft serve` mounts it by itself",
        config.path().display()
    );
    Ok(Verdict::Holds)
}

pub(super) fn remove(args: &RemoveArgs) -> anyhow::Result<Verdict> {
    let RemoveArgs { name, config } = args;
    let left = config.remove_server(name)?;
    trust::pin(config.path(), &left)?;
    eprintln!("`{name}` is no longer in `{}`", config.path().display());
    Ok(Verdict::Holds)
}

fn root(text: &str) -> Result<SandboxRoot, String> {
    let expected = || format!("expected HOST=AT or HOST=AT:rw, found {text:?}");
    let (host, at) = text.split_once('=').ok_or_else(expected)?;
    let (at, write) = at.strip_suffix(":rw").map_or((at, false), |at| (at, true));
    if host.is_empty() || !at.starts_with('/') {
        return Err(expected());
    }
    Ok(SandboxRoot { host: host.to_owned(), at: at.to_owned(), write })
}

fn pair(text: &str) -> Result<(String, Setting), String> {
    let expected = || format!("expected NAME=VALUE, found {text:?}");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    if name.is_empty() {
        return Err(expected());
    }
    Ok((name.to_owned(), setting(value)?))
}

fn setting(text: &str) -> Result<Setting, String> {
    Setting::try_from(text.to_owned()).map_err(|error| error.to_string())
}
