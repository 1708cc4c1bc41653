//! `haft mcp`: the node's tools for one MCP client, over stdin and stdout, and the servers whose
//! tools a node has.

mod confined;
mod mounted;
mod servers;

pub(crate) use confined::confining;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::session::{Config, Driver, Limits};
use haft_core::{Actor, ActorId, Millis};
use haft_http::Reach;
use haft_mcp::{
    AddedCommands, Consent, McpServer, MountRules, Mounts, Principal, Questions, ServerSettings,
    SessionUse,
};
use haft_runtime::Haft;
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts as Roots, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::Tenant;
use haft_tools::{Hands, HandsSettings, Workspace};

use crate::Verdict;
use crate::config::ConfigFile;
use crate::mounts;
use crate::place::Place;
use crate::private;
use crate::rules;
use crate::serve::sealing_key;
use crate::trouble::{Code, Trouble};
use crate::waiting::duration;

/// How long what runs may go on after the client has hung up.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Mounts another server: `haft mcp add NAME -- CMD…`, `haft mcp add NAME URL`.
    Add(servers::AddArgs),
    /// Takes a mounted server away.
    Remove(servers::RemoveArgs),
    /// Lists the mounted servers: how they are, their tools, and what waits to be accepted.
    List(mounted::ListArgs),
    /// Accepts what a server changed or added, showing what that is.
    Accept(mounted::AcceptArgs),
    /// Runs the program of a sandboxed server.
    #[command(hide = true)]
    Confined(confined::Args),
    /// Authorizes this node at a server that wants it: prints the address that a person opens.
    Authorize(mounted::AuthorizeArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    #[command(flatten)]
    place: Place,
    /// The configuration, for the servers that it mounts. None is read unless it is named: a
    /// client starts this in whatever directory it works in, and what is mounted runs here.
    #[arg(long, value_name = "FILE", env = "HAFT_CONFIG")]
    config: Option<PathBuf>,
    /// The directory that the tools work in; they see it as `/workspace`.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// On whose behalf the client calls.
    #[arg(long, value_name = "NAME", env = "USER", default_value = "local")]
    user: String,
    /// Whose sessions they are.
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// Takes a yes that the client collects from its user for an approval. Without it, somebody
    /// else approves.
    #[arg(long)]
    consent_approves: bool,
    /// Where people approve, for those who are told that something waits.
    #[arg(long, value_name = "URL")]
    approve_at: Option<String>,
    /// How long a call waits for a person: `300s`, `15m`, `2h`, `7d`. Default: what its tool
    /// declares.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    suspend_ttl: Option<Millis>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Verdict> {
    match args.command {
        None => run_server(&args.serve),
        Some(Command::Add(args)) => servers::add(args),
        Some(Command::Remove(args)) => servers::remove(&args),
        Some(Command::List(args)) => mounted::list(&args),
        Some(Command::Accept(args)) => mounted::accept(&args),
        Some(Command::Confined(args)) => confined::run(&args),
        Some(Command::Authorize(args)) => mounted::authorize(&args),
    }
}

fn run_server(args: &ServeArgs) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))?;
    // A client that hangs up leaves a read of stdin behind, which nothing can end.
    runtime.shutdown_background();
    Ok(Verdict::Holds)
}

async fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let (actor, tenant) = (Actor::user(ActorId::new(&args.user)?), Tenant::new(&args.tenant)?);
    let questions = Questions::new();
    let (haft, _mounts) = start(args, &questions, tenant.clone()).await?;
    let server = McpServer::new(haft.clone(), questions, settings(args));
    let served = server.serve_stdio(Principal { actor, tenant }).await;
    haft.shutdown(PATIENCE).await;
    Ok(served?)
}

async fn start(
    args: &ServeArgs,
    questions: &Questions,
    tenant: Tenant,
) -> anyhow::Result<(Haft, Mounts)> {
    let data = &args.place.data;
    args.place.make()?;
    private::declare(&args.place, &[])?;
    private::declare_usual_below(&args.root)?;
    let store = args.place.open().await?;
    let workspace = workspace(&args.root)?;
    let hands = HandsSettings::new(Launcher::this_program());
    let hands = Hands::new(hands, move |_| Ok(workspace.clone()));
    let key = sealing_key(&data.join("sealing-key"))?;
    // What it says about every agent only asks for more, unless the file was named.
    let config = args.config.clone().map_or_else(ConfigFile::usual, ConfigFile::at);
    let floor = config.operator()?.floor;
    let builder = Haft::builder().sealing_key(key.clone()).policy_file(rules::of(data)?);
    let builder = builder.floor(floor);
    let builder = haft_mcp::install(builder, questions);
    let builder = haft_tools::install(builder, hands).registered()?;
    let with = (questions, key, tenant);
    let rules = MountRules { added_reach: Reach::Public, confine: Some(confining(&config, data)) };
    let mounts = mounts::made(builder.registry(), store.clone(), with, Reach::Public, rules);
    let configured = args.config.clone().map(|path| ConfigFile::at(path).servers()).transpose()?;
    mounts.restore(configured.unwrap_or_default(), AddedCommands::Refused).await?;
    Ok((builder.start(store)?, mounts))
}

fn settings(args: &ServeArgs) -> ServerSettings {
    // A client may go on for as long as it likes; what bounds a model's run does not bound it.
    let limits = Limits { calls_per_run: u32::MAX, calls_per_turn: u32::MAX, ..Limits::default() };
    ServerSettings {
        config: Config {
            driver: Driver::Caller,
            limits,
            suspend_ttl: args.suspend_ttl,
            ..Config::default()
        },
        sessions: SessionUse::One,
        consent: match args.consent_approves {
            true => Consent::Approves,
            false => Consent::IsNoApproval,
        },
        approve_at: args.approve_at.clone(),
        ..ServerSettings::default()
    }
}

fn workspace(root: &Path) -> anyhow::Result<Workspace> {
    let host = root.canonicalize().map_err(|error| {
        Trouble::new(Code::BadConfig, format!("there is no directory `{}`", root.display()))
            .why(error)
            .next("name the directory to work in with --root")
    })?;
    let home = VirtualPath::parse("/workspace", &VirtualPath::top())?;
    let root = Root { at: home.clone(), host, access: Access::ReadWrite };
    let roots = Roots::open([root]).map_err(|error| {
        Trouble::new(Code::BadConfig, "the tools cannot work in this directory")
            .why(error)
            .next("name another directory with --root, or keep the data elsewhere with --data")
    })?;
    Ok(Workspace::new(roots, home))
}
