//! `haft mcp add` and `remove`: which servers are mounted, written down in `haft.toml`.
//!
//! A command that is mounted runs with the rights of whoever starts Haft. So it is added where
//! that person configures it, and not over the network.

use anyhow::Context as _;
use haft_core::ToolName;
use haft_mcp::{Declared, Setting};

use crate::Verdict;
use crate::config::ConfigFile;

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// What to call the server; its tools' names begin with it.
    #[arg(value_name = "NAME")]
    name: ToolName,
    /// Its address, if it is on the network.
    #[arg(value_name = "URL", required_unless_present = "command", conflicts_with = "command")]
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
    /// How long one call may take.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    config: ConfigFile,
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
    let AddArgs { name, url, command, env, headers, timeout, config } = args;
    let (env, headers) = (env.into_iter().collect(), headers.into_iter().collect());
    let declared = Declared { command, env, url, headers, timeout };
    declared.config(name.clone()).with_context(|| format!("`{name}`"))?;
    config.add_server(&name, &declared)?;
    eprintln!(
        "`{name}` is in `{}`; a running `haft serve` mounts it by itself",
        config.path().display()
    );
    Ok(Verdict::Holds)
}

pub(super) fn remove(args: &RemoveArgs) -> anyhow::Result<Verdict> {
    let RemoveArgs { name, config } = args;
    config.remove_server(name)?;
    eprintln!("`{name}` is no longer in `{}`", config.path().display());
    Ok(Verdict::Holds)
}

fn pair(text: &str) -> Result<(String, Setting), String> {
    let expected = || format!("expected NAME=VALUE, found {text:?}");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    if name.is_empty() {
        return Err(expected());
    }
    let value = Setting::try_from(value.to_owned()).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}
