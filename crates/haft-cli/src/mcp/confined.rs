//! `haft mcp confined`: runs the program of a mounted server in a sandbox, in the place of this
//! process. It is what `sandbox = true` starts, and not for people.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haft_core::Digest;
use haft_http::egress::{Allowance, Egress, EgressSettings};
use haft_mcp::{Confine, Confinement, Networking};
use haft_sandbox::environment::Variables;
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::policy::{Gateway, Limits, Network, Policy};
use haft_sandbox::process::{Command, Exit, Sandbox};
use haft_sandbox::virtual_path::VirtualPath;
use tokio::runtime::Handle;

use crate::config::ConfigFile;
use crate::place::Place;
use crate::trouble::{Code, Trouble};
use crate::{Verdict, private, trust};

/// A server lives for as long as its mount; the sandbox wants a limit.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// What whoever starts the program sets for every program; the sandbox has its own.
const OF_THE_SANDBOX: [&str; 4] = ["HOME", "LANG", "PATH", "XDG_CONFIG_HOME"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the program sees and reaches.
    #[arg(long, value_parser = confinement)]
    confinement: Confinement,
    /// The configuration, for what the operator says about every sandbox.
    #[arg(long = "config")]
    config: Option<PathBuf>,
    /// The digest of the configuration that was obeyed when the server was mounted.
    #[arg(long, requires = "config")]
    obeyed: Option<Digest>,
    /// The data directory, which no root may show.
    #[arg(long = "data")]
    data: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn confinement(json: &str) -> Result<Confinement, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Returns what has programs run by [`run`], under what a configuration says, and without a sight of
/// the data directory.
pub(crate) fn confining(config: &ConfigFile, data: &Path) -> Arc<Confine> {
    let obeyed = config.untrusted_text().map(|text| Digest::of_bytes(text.as_bytes())).ok();
    let (config, data) = (config.path().to_owned(), data.display().to_string());
    Arc::new(move |confinement| {
        let json = serde_json::to_string(confinement).unwrap_or_default();
        let mut words = ["/proc/self/exe", "mcp", "confined", "--confinement", &json]
            .map(str::to_owned)
            .to_vec();
        if let Some(obeyed) = obeyed.filter(|_| config.exists()) {
            words.extend(["--config".to_owned(), config.display().to_string()]);
            words.extend(["--obeyed".to_owned(), obeyed.to_string()]);
        }
        words.extend(["--data".to_owned(), data.clone(), "--".to_owned()]);
        words
    })
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let config = args.config.clone().map_or_else(ConfigFile::usual, ConfigFile::at);
    require_obeyed(&config, args.obeyed)?;
    let egress = config.operator()?.egress;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    if let Some(data) = &args.data {
        require_apart(&args.confinement, data)?;
        private::declare(&Place { data: data.clone(), database_url: None }, &[])?;
        private::file(config.path())?;
    }
    let (policy, cwd) = policy(&args.confinement, egress, runtime.handle())?;
    let sandbox = Sandbox::open(&Launcher::this_program(), &policy)?;
    let mut command = Command::new(&args.command, cwd);
    command.variables = variables()?;
    command.limits = Limits { wall: LIFE, cpu: LIFE, ..Limits::WORK };
    let standard = [
        std::io::stdin().as_fd().try_clone_to_owned(),
        std::io::stdout().as_fd().try_clone_to_owned(),
        std::io::stderr().as_fd().try_clone_to_owned(),
    ];
    let standard: Result<Vec<OwnedFd>, _> = standard.into_iter().collect();
    let standard = <[OwnedFd; 3]>::try_from(standard?)
        .map_err(|_| anyhow::anyhow!("this process has no standard files"))?;
    let finished = sandbox.run_attached(command, standard)?.wait();
    match finished.exit {
        Exit::Exited(0) => Ok(Verdict::Holds),
        exit => Err(ended(exit).into()),
    }
}

/// Refuses a configuration that has changed since its user or a running server obeyed it.
fn require_obeyed(config: &ConfigFile, obeyed: Option<Digest>) -> anyhow::Result<()> {
    let text = config.untrusted_text()?;
    if obeyed.is_none_or(|obeyed| obeyed == Digest::of_bytes(text.as_bytes())) {
        return Ok(());
    }
    Ok(trust::require(config.path(), &text)?)
}

/// Refuses a root that shows Haft's own state, or lies in it.
fn require_apart(confinement: &Confinement, data: &Path) -> anyhow::Result<()> {
    let data = data.canonicalize()?;
    for root in &confinement.roots {
        let host = Path::new(&root.host).canonicalize()?;
        if data.starts_with(&host) || host.starts_with(&data) {
            let what = format!("the root `{}` shows the data directory", root.host);
            return Err(Trouble::new(Code::BadConfig, what)
                .why("a mounted server must not reach Haft's own state")
                .next("name another directory in `roots`, or move the data directory with --data")
                .into());
        }
    }
    Ok(())
}

fn ended(exit: Exit) -> Trouble {
    let why = match exit {
        Exit::Exited(code) => format!("it ended with {code}"),
        Exit::Signalled(signal) => format!("it was ended by signal {signal}"),
        Exit::MemoryLimit => "its sandbox used up its memory".to_owned(),
        Exit::CpuTime | Exit::TimedOut | Exit::OutputLimit | Exit::Killed => {
            "it reached a limit of its sandbox".to_owned()
        }
        Exit::Lost => "its sandbox ended".to_owned(),
    };
    Trouble::new(Code::Failed, "the program of a mounted server ended").why(why)
}

/// What the program was given beside what every program is.
fn variables() -> anyhow::Result<Variables> {
    let mut variables = Variables::new();
    for (name, value) in std::env::vars() {
        if !OF_THE_SANDBOX.contains(&name.as_str()) {
            variables.set(&name, &value)?;
        }
    }
    Ok(variables)
}

fn policy(
    confinement: &Confinement,
    settings: Arc<EgressSettings>,
    runtime: &Handle,
) -> anyhow::Result<(Policy, VirtualPath)> {
    let at = |path: &str| VirtualPath::parse(path, &VirtualPath::top());
    let mut roots = Vec::new();
    for root in &confinement.roots {
        let access = if root.write { Access::ReadWrite } else { Access::ReadOnly };
        roots.push(Root { at: at(&root.at)?, host: PathBuf::from(&root.host), access });
    }
    let cwd = match roots.first() {
        Some(root) => root.at.clone(),
        None => at("/tmp")?,
    };
    let mut policy = Policy::new(Mounts::open(roots)?);
    let allowance = match &confinement.networking {
        None => return Ok((policy, cwd)),
        Some(Networking::Unrestricted {}) => Allowance::Public,
        Some(Networking::Limited { allowed_hosts }) => Allowance::Only(allowed_hosts.clone()),
    };
    let (egress, runtime) = (Egress::new(allowance, settings), runtime.clone());
    policy.network = Network::Gateway(Gateway::new("its hosts", move |listener| {
        Ok(Box::new(egress.clone().serve(&runtime, listener)?))
    }));
    Ok((policy, cwd))
}
