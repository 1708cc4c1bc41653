//! `haft serve`: the server, put together from arguments and environment.

mod egress;
mod encryption;
mod limits;
mod readiness;
mod streams;
mod watching;
mod worker;
mod workspace;

pub(crate) use encryption::TlsArgs;
pub(crate) use worker::{WorkerArgs, become_worker};

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use haft_agent::provider::{Api, ApiKey, ProviderConfig};
use haft_core::Millis;
use haft_core::session::{Config as SessionConfig, Driver, Limits};
use haft_http::Reach;
use haft_http::egress::EgressSettings;
use haft_mcp::{
    AddedCommands, McpServer, MountRules, Mounts, Questions, ServerSettings, SessionUse,
};
use haft_runtime::{Clock, Haft, HaftBuilder, SealingKey, supervise};
use haft_sandbox::launcher::Launcher;
use haft_server::telemetry::Exporter;
use haft_server::vault_secrets;
use haft_server::{Config, ModelSettings, Models, Server, Tls, WebhookSettings, Workers};
use haft_store::{Store, Tenant};
use haft_tools::{Hands, HandsSettings};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use self::egress::EgressGate;
use self::encryption::Encryption;
use self::limits::LimitArgs;
use self::streams::StreamArgs;
use self::watching::WatchArgs;
use self::worker::ServerPlace;
use crate::Verdict;
use crate::api::ServerNote;
use crate::config::{ConfigFile, DeclaredServers, Operator};
use crate::mcp::confining;
use crate::mounts;
use crate::place::{Place, is_in_use};
use crate::private;
use crate::rules;
use crate::trouble::{Code, Trouble};
use crate::waiting::duration;

/// How long a command that has the store may take to end.
const STORE_WAIT: Duration = Duration::from_secs(3);

/// How long a server that only a restart helps goes on saying so before it ends.
const STOPPED_FOR: Duration = Duration::from_secs(60);

/// How long a call for a browser waits for one to be there.
const CLIENT_GRACE: Millis = Millis::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7800")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    place: Place,
    /// How long a call waits for a person or a client: `300s`, `15m`, `2h`, `7d`. Default: 300s in
    /// the sessions of agents, and what the tool declares for direct calls (`haft tools call`,
    /// MCP).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    suspend_ttl: Option<Millis>,
    /// Deletes sessions that ended, or in which nothing happened, longer ago than this: `90d`. One
    /// in which something waits is never deleted. Default: everything is kept.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    retain: Option<Millis>,
    /// How long running requests, and then running calls, may go on after the server was asked to
    /// stop. A call that still runs then is cut off, and is in doubt if it may have taken effect.
    #[arg(long, value_name = "TIME", env = "HAFT_STOP_TIMEOUT", default_value = "10s", value_parser = duration)]
    stop_timeout: Millis,
    /// A further name under which the server is called, such as that of a reverse proxy.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// A site whose pages may call this server, such as `https://app.example.org`.
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Lets webhooks, and refreshes of vaults' tokens, go to this network, and over plain HTTP.
    #[arg(long, env = "HAFT_WEBHOOK_ALLOW_PRIVATE")]
    webhook_allow_private: bool,
    /// How long a webhook's delivery is tried before it is given up.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    webhook_give_up_after: Millis,
    #[command(flatten)]
    streams: StreamArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    watching: WatchArgs,
    /// The admin key; without it one is made and shown at the first start.
    #[arg(long, env = "HAFT_API_KEY", hide = true, hide_env_values = true)]
    api_key: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Lets admins mount MCP servers over HTTP that are commands on this host, which run with the
    /// rights of this process.
    #[arg(long)]
    allow_mcp_commands: bool,
    /// Lets admins mount MCP servers over HTTP at addresses of this machine and of private networks.
    /// Those of the configuration may be anywhere.
    #[arg(long, env = "HAFT_MCP_ALLOW_PRIVATE")]
    mcp_allow_private: bool,
    /// How long a request of an MCP client waits for someone before it is answered with a handle
    /// to come back with.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    mcp_patience: Millis,
    /// Starts this command beside the server, restarts it when it ends, and ends it with the
    /// server: `--worker "python desk.py"`. May be given several times. It is told where the server
    /// is, and a key, by HAFT_URL, HAFT_API_KEY and HAFT_WORKER. It is one program, perhaps with
    /// variables before it (`A=b python desk.py`), and not several joined by `&&` or `;`. Not
    /// together with --tls-cert.
    #[arg(long = "worker", value_name = "COMMAND")]
    workers: Vec<String>,
    /// Serves as if it were so much later, for rehearsals.
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    clock_ahead: Option<Millis>,
    #[command(flatten)]
    models: ModelArgs,
}

/// Where models are found, as the vendors' SDKs have it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ModelArgs {
    #[arg(long, env = "OPENAI_BASE_URL", hide = true)]
    openai_base_url: Option<String>,
    #[arg(long, env = "OPENAI_API_KEY", hide = true, hide_env_values = true)]
    openai_api_key: Option<String>,
    #[arg(long, env = "ANTHROPIC_BASE_URL", hide = true)]
    anthropic_base_url: Option<String>,
    #[arg(long, env = "ANTHROPIC_API_KEY", hide = true, hide_env_values = true)]
    anthropic_api_key: Option<String>,
}

impl Args {
    const fn stop_timeout(&self) -> Duration {
        Duration::from_millis(self.stop_timeout.0)
    }

    /// How far this server goes where somebody else says.
    const fn reach(&self) -> Reach {
        match self.webhook_allow_private {
            true => Reach::Anywhere,
            false => Reach::Public,
        }
    }
}

/// A provider of models that is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderPlace {
    /// What the doctor calls it.
    pub(crate) name: &'static str,
    /// How the names of its environment variables begin.
    pub(crate) vendor: &'static str,
    pub(crate) base_url: String,
    pub(crate) has_key: bool,
}

impl ModelArgs {
    /// Where the configured providers are; the keys stay here.
    pub(crate) fn places(&self) -> Vec<ProviderPlace> {
        let ModelSettings { openai, anthropic, .. } = self.settings();
        let known =
            [("provider.openai", "OPENAI", openai), ("provider.anthropic", "ANTHROPIC", anthropic)];
        let place = |(name, vendor, config): (_, _, Option<ProviderConfig>)| {
            let ProviderConfig { base_url, api_key, .. } = config?;
            Some(ProviderPlace { name, vendor, base_url, has_key: api_key.is_some() })
        };
        known.into_iter().filter_map(place).collect()
    }

    fn settings(&self) -> ModelSettings {
        let reached = |api, usual: &str, base: &Option<String>, key: &Option<String>| {
            if base.is_none() && key.is_none() {
                return None;
            }
            let mut config = ProviderConfig::new(api, base.as_deref().unwrap_or(usual));
            config.api_key = key.as_ref().map(ApiKey::new);
            Some(config)
        };
        let (openai, anthropic) = ("https://api.openai.com/v1", "https://api.anthropic.com");
        ModelSettings {
            openai: reached(Api::OpenAiChat, openai, &self.openai_base_url, &self.openai_api_key),
            anthropic: reached(
                Api::AnthropicMessages,
                anthropic,
                &self.anthropic_base_url,
                &self.anthropic_api_key,
            ),
            ..ModelSettings::default()
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let exporter = args.watching.start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let exporting = exporter.map(Exporter::start);
        let served = serve(args).await;
        if let Some(exporting) = exporting {
            exporting.finish().await;
        }
        served
    })?;
    Ok(Verdict::Holds)
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let encryption = args.tls.load()?;
    worker::refuse_https(&args.workers, encryption.is_some())?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| not_listening(args.listen, &error))?;
    let questions = Questions::new();
    for file in [&args.tls.tls_cert, &args.tls.tls_key].into_iter().flatten() {
        private::file(file)?;
    }
    let configured = args.config.configured()?;
    let obeyed = configured.digest;
    let operator = args.config.operator()?;
    let (haft, mounts, workers) = start(args, configured, &questions, &operator).await?;
    let (config_file, followed) = (args.config.clone(), mounts.clone());
    let follow = move || mounts::follow(config_file.clone(), obeyed, followed.clone());
    drop(tokio::spawn(supervise(haft.store().clone(), "mounts", follow)));
    let mcp = McpServer::new(haft.clone(), questions, mcp_settings(args));
    let local_key = fresh_key()?;
    let tls = encryption.as_ref().map(|it| it.tls.clone());
    let worker_key = fresh_key()?;
    let config = Config {
        egress: EgressSettings::clone(&operator.egress),
        workers: Some(workers.clone()),
        worker_key: Some(worker_key.clone()),
        ..config(args, &local_key, (mcp, mounts), tls.clone())
    };
    let server = Server::bind(haft.clone(), listener, config).await?;
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let noted = ServerNote::new(server.address(), local_key, tls.map(|tls| tls.certificate()));
    let note = noted.leave(&args.place.data);
    let note =
        note.with_context(|| format!("leaving a note in `{}`", args.place.data.display()))?;
    let renewing = encryption.map(|it| renew(it, noted, args.place.data.clone()));
    let supervised = worker::start_all(&args.workers, &ServerPlace::of(&server, worker_key));
    let no_restarts = supervised.stopping();
    announce(args, &server);
    readiness::ready();
    let patience = args.stop_timeout();
    let store = haft.store().clone();
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            () = failed(store) => {}
        }
        let seconds = patience.as_secs();
        let said = format!("stopping: requests and calls that run may go on for {seconds} s\n");
        // The terminal may be gone, which is no reason to go on.
        drop(std::io::stderr().write_all(said.as_bytes()));
        readiness::stopping();
        no_restarts.cancel();
        // What they run must be reported while there is somebody to report to.
        workers.drain(patience).await;
    };
    server.run(stop).await?;
    haft.shutdown(patience).await;
    supervised.end().await;
    if let Some(renewing) = renewing {
        renewing.abort();
        // Whether it was at work or not: from now on nobody writes the note.
        drop(renewing.await);
    }
    drop(note);
    match haft.store().stopped() {
        None => Ok(()),
        Some(error) => Err(not_stored(&error).into()),
    }
}

/// Waits until only a restart helps, and for a while longer, so that whoever probes is told.
async fn failed(store: Store) {
    store.until_stopped().await;
    tokio::time::sleep(STOPPED_FOR).await;
}

fn not_stored(error: &haft_store::Error) -> Trouble {
    Trouble::new(Code::BadStore, "the server ended because its store takes no more writes")
        .why(error)
        .next("check the disk and the files of the store, then start the server again")
}

/// Follows the certificate's files, and writes each new certificate into the note.
fn renew(encryption: Encryption, note: ServerNote, data: PathBuf) -> JoinHandle<()> {
    tokio::spawn(encryption.follow(move |tls| {
        let note = note.renewed(tls.certificate());
        if let Err(error) = note.write(&data) {
            tracing::error!(%error, "commands in this directory do not trust the new certificate");
        }
    }))
}

fn config(
    args: &Args,
    local_key: &str,
    (mcp, mounts): (McpServer, Mounts),
    tls: Option<Tls>,
) -> Config {
    Config {
        admin_key: args.api_key.clone(),
        local_key: Some(local_key.to_owned()),
        suspend_ttl: args.suspend_ttl,
        stop_timeout: args.stop_timeout(),
        uploads: Some(args.place.data.join("uploads")),
        data: Some(args.place.data.clone()),
        retain: args.retain,
        hosts: args.hosts.clone(),
        mcp: Some(mcp),
        mounts: Some(mounts),
        mcp_commands: added_commands(args),
        origins: args.origins.clone(),
        streams: args.streams.settings(),
        limits: args.limits.settings(),
        webhooks: WebhookSettings {
            reach: args.reach(),
            give_up_after: args.webhook_give_up_after,
        },
        egress: EgressSettings::default(),
        client_grace: Some(CLIENT_GRACE),
        workers: None,
        worker_key: None,
        tls,
    }
}

fn not_listening(address: SocketAddr, error: &std::io::Error) -> Trouble {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let what = format!("something else listens on {address}");
            Trouble::new(Code::AddressInUse, what)
                .why("it may be another `haft serve`")
                .next("stop it, or listen elsewhere, such as with `--listen 127.0.0.1:7801`")
        }
        _ => Trouble::new(Code::BadConfig, format!("nobody can listen on {address} here"))
            .why(error)
            .next("name an address of this machine with --listen"),
    }
}

/// Says five lines on a fresh directory, which are all that a person needs.
fn announce(args: &Args, server: &Server) {
    let (base, data) = (server.base_address(), args.place.data.display());
    let console = server.console_address();
    let mut said = format!(
        "console  {console}\napi      {base}/v1\nmcp      {base}/mcp\n\
         data     {data}  (`haft chat`, `haft pending` and `haft approve` find the server here)\n"
    );
    if args.place.database_url.is_some() {
        said.push_str("store    the PostgreSQL database of --database-url\n");
    }
    if let Some(key) = server.first_key() {
        said.push_str(&format!("key      {}  (shown this once)\n", key.reveal()));
    }
    // A reader that has gone away, as in `haft serve | head -1`, is no reason not to serve.
    drop(std::io::stdout().write_all(said.as_bytes()));
}

/// A client's calls share a session, so that its workspace and shell are there for the next.
fn mcp_settings(args: &Args) -> ServerSettings {
    let limits = Limits { calls_per_run: u32::MAX, calls_per_turn: u32::MAX, ..Limits::default() };
    ServerSettings {
        config: SessionConfig {
            driver: Driver::Caller,
            limits,
            suspend_ttl: args.suspend_ttl,
            ..SessionConfig::default()
        },
        sessions: SessionUse::One,
        patience: Duration::from_millis(args.mcp_patience.0),
        ..ServerSettings::default()
    }
}

fn added_commands(args: &Args) -> AddedCommands {
    match args.allow_mcp_commands {
        true => AddedCommands::Allowed,
        false => AddedCommands::Refused,
    }
}

async fn start(
    args: &Args,
    configured: DeclaredServers,
    questions: &Questions,
    operator: &Operator,
) -> anyhow::Result<(Haft, Mounts, Workers)> {
    let prepared = Prepared::soon(args, questions, operator).await?;
    let Prepared { mut builder, store, key, workers } = prepared;
    if let Some(ahead) = args.clock_ahead {
        builder = builder.clock(Clock::Ahead(ahead));
    }
    let with = (questions, key, Tenant::new("default")?);
    let added_reach = match args.mcp_allow_private {
        true => Reach::Anywhere,
        false => Reach::Public,
    };
    let rules =
        MountRules { added_reach, confine: Some(confining(&args.config, &args.place.data)) };
    let mounts = mounts::made(builder.registry(), store.clone(), with, args.reach(), rules);
    mounts.restore(configured.servers, added_commands(args)).await?;
    Ok((builder.start(store)?, mounts, workers))
}

/// A node that has not started: the managed tools and the models, over the store of a place.
struct Prepared {
    builder: HaftBuilder,
    store: Store,
    key: SealingKey,
    workers: Workers,
}

impl Prepared {
    /// Waits for a command that has the store, which most have for a moment only.
    async fn soon(args: &Args, questions: &Questions, operator: &Operator) -> anyhow::Result<Self> {
        let deadline = Instant::now() + STORE_WAIT;
        loop {
            match Self::over(&args.place, &args.models, questions, operator).await {
                Err(error) if is_in_use(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                prepared => return prepared,
            }
        }
    }

    async fn over(
        place: &Place,
        models: &ModelArgs,
        questions: &Questions,
        operator: &Operator,
    ) -> anyhow::Result<Self> {
        let data = &place.data;
        place.make()?;
        private::declare(place, private::LENT)?;
        let store = place.open().await?;
        let launcher = Launcher::this_program();
        let key = sealing_key(&data.join("sealing-key"))?;
        let rules = rules::of(data)?;
        let egress = egress_gate(operator, &store, &key)?;
        let (data, sessions) = (data.clone(), store.clone());
        let hands = Hands::finding(HandsSettings::new(launcher), move |session| {
            workspace::of(sessions.clone(), data.clone(), Arc::clone(&egress), session)
        });
        let models = Models::new(models.settings());
        let builder = Haft::builder().sealing_key(key.clone()).policy_file(rules).model(models);
        let builder = builder.floor(operator.floor);
        let builder = haft_server::install(haft_mcp::install(builder, questions));
        let builder = haft_tools::install(builder, hands).registered()?;
        // Their calls wait for them, also where no worker can come.
        let workers = Workers::new(builder.registry(), store.clone());
        workers.restore().await?;
        Ok(Self { builder, store, key, workers })
    }
}

/// What gives sessions their networks, with credentials from the vaults of the first tenant.
fn egress_gate(
    operator: &Operator,
    store: &Store,
    key: &SealingKey,
) -> anyhow::Result<Arc<EgressGate>> {
    let tenant = Tenant::new("default")?;
    let secrets = vault_secrets(store.clone(), tenant.clone(), key.clone(), Reach::Public);
    let gate = EgressGate::new(Arc::clone(&operator.egress), secrets, tenant);
    let bad = |why| Trouble::new(Code::BadConfig, "the configuration cannot be used").why(why);
    Ok(Arc::new(gate.map_err(bad)?))
}

/// Starts a node for a command that works where no server runs. It mounts no other servers: that
/// would start their programs for every look at a list.
pub(crate) async fn start_for_command(
    place: &Place,
    models: &ModelArgs,
    questions: &Questions,
    operator: &Operator,
) -> anyhow::Result<Haft> {
    let Prepared { builder, store, .. } =
        Prepared::over(place, models, questions, operator).await?;
    Ok(builder.start(store)?)
}

/// Reads the key under which secrets are kept, or makes one that only this user can read.
pub(crate) fn sealing_key(path: &Path) -> anyhow::Result<SealingKey> {
    let bad = |why: String| {
        let what = format!("the sealing key `{}` cannot be used", path.display());
        let next = "give it to this user, or put back the one that belongs to the store";
        Trouble::new(Code::BadSealingKey, what).why(why).next(next)
    };
    let mut key = [0u8; 32];
    match fs::read(path) {
        Ok(kept) => {
            let found = kept.len();
            let kept = <[u8; 32]>::try_from(kept);
            key = kept.map_err(|_| bad(format!("expected 32 bytes, found {found}")))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            getrandom::fill(&mut key)?;
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            let kept = made.and_then(|mut file| {
                file.write_all(&key)?;
                file.sync_all()
            });
            kept.map_err(|error| bad(error.to_string()))?;
        }
        Err(error) => return Err(bad(error.to_string()).into()),
    }
    Ok(SealingKey::new(key))
}

/// Makes a key that opens a node of this process, for as long as it lives.
pub(crate) fn fresh_key() -> anyhow::Result<String> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random)?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("haft_local_{hex}"))
}
