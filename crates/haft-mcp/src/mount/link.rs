//! The connection to a mounted server: made when it is needed, made again when it broke, and not
//! tried over and over when it cannot be made.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::Digest;
use haft_http::Reach;
use http::{HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer as RmcpPeer, RoleClient,
    RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::time::Instant;

use super::carrier::Carrier;
use super::desk::{Desk, Handler};
use super::error::why_unconnected;
use super::oauth::{Access, Authorizer, OAuth, Wanted};
use super::offer::listed;
use super::program::{Program, command, remember};
use super::setting::{Secrets, Setting, VaultEntry};
use super::streamable::HttpPeer;

/// How long to wait before the second try.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether another node was given a token.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often a connection is opened in one try: in other words, and with another token.
const OPENINGS_MAX: usize = 3;
/// How many requests beside calls may be under way over HTTP: rmcp queues what is beyond.
const OTHER_REQUESTS: usize = 64;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A program that speaks over its stdin and stdout.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, beside `PATH` and `HOME`: it does not inherit this process's.
        env: BTreeMap<String, Setting>,
    },
    /// A server on the network.
    Http {
        /// Its address.
        url: String,
        /// What is sent with every request, such as the token that opens it.
        headers: BTreeMap<String, Setting>,
        /// How this node is authorized, if the server wants that.
        oauth: OAuth,
    },
}

/// How a mounted server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is connected.
    Up,
    /// It was not needed yet, or ended; the next call connects.
    Idle,
    /// It lets nobody in whom a person has not authorized.
    Unauthorized {
        /// What to do.
        message: String,
    },
    /// It could not be reached.
    Down {
        /// Why.
        message: String,
        /// How many times in a row.
        failures: u32,
    },
}

/// A connection that may break and be made again.
pub(super) struct Link {
    peer: Peer,
    bounds: Bounds,
    secrets: Secrets,
    state: tokio::sync::Mutex<State>,
    health: Mutex<Health>,
    /// What the server offers over this connection, by its names; `None` until it was asked.
    offered: Mutex<Option<Offered>>,
    /// The last that a program said on its stderr.
    last_lines: Arc<Mutex<VecDeque<String>>>,
    desk: Arc<Desk>,
    admission: Admission,
}

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) connect_timeout: Duration,
    pub(super) message_bytes_max: usize,
    /// How many calls are sent at once, at most.
    pub(super) calls_max: usize,
    /// Which addresses the server may be at.
    pub(super) reach: Reach,
    /// How many tools the server may offer.
    pub(super) tools_max: usize,
}

/// What lets this node in at a server.
pub(super) enum Admission {
    /// What the mount has: what it is given, and what gets the tokens for a server on the network.
    Own(Option<Box<Authorizer>>),
    /// A credential that a session brings, and nothing in its place.
    Brought(VaultEntry),
}

/// What a server said that it offers.
struct Offered {
    /// How often it may have changed that before it was asked.
    n_changes: u64,
    by_name: BTreeMap<String, Digest>,
}

/// Why there is no connection.
enum Unconnected {
    NotLetIn(Wanted),
    /// It answered, and not to what it was asked.
    NotUnderstood(String),
    /// It does not take `initialize`, and has said too late that it speaks the current revision.
    OnlyCurrent(String),
    Failed(String),
}

/// With which revision's words a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// Those of the current one, and then of the earlier one if the server says no to them.
    Current,
    /// Those of the earlier one: some servers say yes to whatever they do not know.
    Earlier,
    /// Those of the current one, for a server that takes its time to answer them.
    OnlyCurrent,
}

impl Opening {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Current => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
            Self::Earlier => ClientLifecycleMode::Initialize,
            Self::OnlyCurrent => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// A connection, and the secret that the server was shown over it.
#[derive(Clone)]
pub(super) struct Connected {
    pub(super) peer: RmcpPeer<RoleClient>,
    shown: Option<String>,
}

#[derive(Default)]
struct State {
    running: Option<RunningService<RoleClient, Handler>>,
    /// The first of the secrets that it was made with.
    shown: Option<String>,
    failures: u32,
    next_try: Option<Instant>,
}

impl State {
    /// Has nobody try for a while, which grows.
    fn rest(&mut self) {
        let wait = BACKOFF.saturating_mul(1 << self.failures.min(10)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        self.next_try = Some(Instant::now() + wait);
    }
}

impl Link {
    pub(super) fn new(
        peer: Peer,
        bounds: Bounds,
        desk: Arc<Desk>,
        secrets: Secrets,
        admission: Admission,
    ) -> Self {
        Self {
            peer,
            bounds,
            secrets,
            state: tokio::sync::Mutex::default(),
            health: Mutex::new(Health::Idle),
            offered: Mutex::default(),
            last_lines: Arc::default(),
            desk,
            admission,
        }
    }

    pub(super) fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Returns the connection, making it if need be.
    pub(super) async fn connected(&self) -> Result<Connected, String> {
        let mut state = self.state.lock().await;
        if let Some(running) = &state.running
            && !running.is_closed()
            && !running.peer().is_transport_closed()
        {
            return Ok(Connected { peer: running.peer().clone(), shown: state.shown.clone() });
        }
        let broke = state.running.take().is_some();
        *lock(&self.offered) = None;
        if let Some(wait) = state.next_try.map(|at| at.saturating_duration_since(Instant::now()))
            && !wait.is_zero()
            && !self.was_given_elsewhere().await
        {
            let why = match self.health() {
                Health::Down { message, .. } | Health::Unauthorized { message } => message,
                Health::Up | Health::Idle => "the server is down".to_owned(),
            };
            return Err(format!("{why}; it is tried again in {} ms", wait.as_millis()));
        }
        // Much goes on in there, which is too deep a future to be part of every call's.
        let patience = self.bounds.connect_timeout;
        match tokio::time::timeout(patience, Box::pin(self.connect())).await {
            Ok(Ok(running)) => {
                let (peer, shown) = (running.peer().clone(), self.desk.given());
                let connected = Connected { peer, shown: shown.clone() };
                *state = State { running: Some(running), shown, ..State::default() };
                *lock(&self.health) = Health::Up;
                if broke {
                    self.desk.changed();
                }
                Ok(connected)
            }
            Ok(Err(message)) => Err(self.failed(&mut state, message)),
            Err(_) => {
                let message = format!(
                    "it did not answer within {} s; raise `start_timeout` of the mount if it needs \
                     longer to start",
                    patience.as_secs()
                );
                Err(self.failed(&mut state, message))
            }
        }
    }

    /// Waits for as long as nobody tries to connect, and at least so long; or until another node
    /// was given the token that is waited for.
    pub(super) async fn rested(&self, at_least: Duration) {
        let next_try = self.state.lock().await.next_try;
        let soonest = Instant::now() + at_least;
        let until = next_try.map_or(soonest, |at| at.max(soonest));
        while Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
            if self.was_given_elsewhere().await {
                return self.authorized().await;
            }
        }
    }

    async fn was_given_elsewhere(&self) -> bool {
        match self.authorizer() {
            Some(authorizer) => authorizer.was_given_elsewhere().await,
            None => false,
        }
    }

    fn failed(&self, state: &mut State, message: String) -> String {
        let said: Vec<String> = lock(&self.last_lines).drain(..).collect();
        let message = match said.is_empty() {
            true => message,
            false => format!("{message}; it said: {}", said.join(" | ")),
        };
        let message = self.desk.redactor().text(&message).into_owned();
        state.rest();
        let failures = state.failures;
        *lock(&self.health) = match self.waits_for_a_person() {
            true => Health::Unauthorized { message: message.clone() },
            false => Health::Down { message: message.clone(), failures },
        };
        message
    }

    fn waits_for_a_person(&self) -> bool {
        self.authorizer().is_some_and(Authorizer::is_wanted)
    }

    async fn connect(&self) -> Result<RunningService<RoleClient, Handler>, String> {
        let mut opening = Opening::Current;
        for _ in 0..OPENINGS_MAX {
            match self.connect_once(opening).await {
                Ok(running) => return Ok(running),
                Err(Unconnected::NotLetIn(wanted)) => self.renew(wanted, self.desk.given()).await?,
                Err(Unconnected::NotUnderstood(_)) if opening == Opening::Current => {
                    opening = Opening::Earlier;
                }
                Err(Unconnected::OnlyCurrent(_)) if opening == Opening::Current => {
                    opening = Opening::OnlyCurrent;
                }
                Err(
                    Unconnected::NotUnderstood(message)
                    | Unconnected::OnlyCurrent(message)
                    | Unconnected::Failed(message),
                ) => return Err(message),
            }
        }
        match &self.admission {
            Admission::Brought(entry) => Err(not_let_in(entry)),
            Admission::Own(_) => {
                Err("the server lets this node in with no token that it was given".to_owned())
            }
        }
    }

    async fn renew(&self, wanted: Wanted, shown: Option<String>) -> Result<(), String> {
        match &self.admission {
            Admission::Own(Some(authorizer)) => authorizer.renew(wanted).await,
            Admission::Own(None) => Err("the server takes no token that it was given".to_owned()),
            Admission::Brought(entry) => self.renew_brought(entry, &wanted, shown).await,
        }
    }

    /// Has another secret put in place of the one that a session brought. Where the server wants a
    /// token that is good for more, another one is of no use.
    async fn renew_brought(
        &self,
        entry: &VaultEntry,
        wanted: &Wanted,
        shown: Option<String>,
    ) -> Result<(), String> {
        if let (Wanted::Token { .. }, Some(shown)) = (wanted, shown)
            && self.secrets.renewed(entry, shown).await?
        {
            return Ok(());
        }
        Err(not_let_in(entry))
    }

    /// Does what can be done without a person about a request that was not let in, so that it may
    /// be made again: nothing came of it. There may be a later connection than the one that it went
    /// over by now, with another secret.
    pub(super) async fn let_in(&self, wanted: Wanted, over: Connected) -> Result<(), String> {
        let renewed = Box::pin(self.renew(wanted, over.shown)).await;
        match &renewed {
            Ok(()) => self.open_anew().await,
            Err(message) => {
                let message = self.desk.redactor().text(message).into_owned();
                *lock(&self.health) = Health::Unauthorized { message };
                self.state.lock().await.rest();
            }
        }
        renewed
    }

    /// Has the next call make a connection with the token that there is then. What is under way
    /// over the one that there was ends there.
    async fn open_anew(&self) {
        let before = std::mem::take(&mut *self.state.lock().await);
        if let Some(running) = before.running {
            let desk = Arc::clone(&self.desk);
            tokio::spawn(async move {
                desk.finish_current().await;
                drop(running);
            });
        }
    }

    /// Gets the tokens for a server on the network.
    pub(super) fn authorizer(&self) -> Option<&Authorizer> {
        match &self.admission {
            Admission::Own(authorizer) => authorizer.as_deref(),
            Admission::Brought(_) => None,
        }
    }

    /// Returns the credential that a session brings, if that is what lets this node in.
    pub(super) fn brought(&self) -> Option<&VaultEntry> {
        match &self.admission {
            Admission::Own(_) => None,
            Admission::Brought(entry) => Some(entry),
        }
    }

    /// Says that this node was authorized, so that the next call connects at once.
    pub(super) async fn authorized(&self) {
        self.open_anew().await;
        *lock(&self.health) = Health::Idle;
    }

    async fn connect_once(
        &self,
        opening: Opening,
    ) -> Result<RunningService<RoleClient, Handler>, Unconnected> {
        let handler = Handler(Arc::clone(&self.desk));
        let lifecycle = opening.lifecycle();
        let mut secrets = Vec::new();
        let late_yes = Arc::new(AtomicBool::new(false));
        let carrier = match &self.peer {
            Peer::Command { program, args, env } => {
                let env = self.secrets.resolved(env, &mut secrets).await;
                let env = env.map_err(Unconnected::Failed)?;
                self.desk.keep_quiet_about(secrets);
                let started = self.started(program, args, &env, Arc::clone(&late_yes));
                Carrier::Process(Box::new(started.map_err(Unconnected::Failed)?))
            }
            Peer::Http { url, headers, .. } => {
                let headers = self.secrets.resolved(headers, &mut secrets).await;
                let headers = headers.and_then(sent_headers).map_err(Unconnected::Failed)?;
                self.desk.keep_quiet_about(secrets);
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                let config = config
                    .custom_headers(headers)
                    .max_concurrent_requests(self.bounds.calls_max + OTHER_REQUESTS)
                    .max_sse_event_size(self.bounds.message_bytes_max);
                let peer = HttpPeer::new(url, self.access().await?, self.bounds.reach)
                    .map_err(Unconnected::Failed)?;
                Carrier::Http(StreamableHttpClientTransport::with_client(peer, config))
            }
        };
        let running = handler.serve_with_lifecycle(carrier, lifecycle).await;
        running.map_err(|error| match unconnected(&error) {
            Unconnected::Failed(message) if late_yes.load(Ordering::Relaxed) => {
                Unconnected::OnlyCurrent(message)
            }
            other => other,
        })
    }

    /// Returns what gives the tokens for a server that this node was authorized at.
    async fn access(&self) -> Result<Option<Arc<Access>>, Unconnected> {
        match self.authorizer() {
            Some(authorizer) => authorizer.access().await.map_err(Unconnected::Failed),
            None => Ok(None),
        }
    }

    fn started(
        &self,
        program: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        late_yes: Arc<AtomicBool>,
    ) -> Result<Program, String> {
        lock(&self.last_lines).clear();
        let command = command(program, args, env);
        let started = Program::start(command, self.bounds.message_bytes_max, late_yes);
        let (process, stderr) = started.map_err(|error| format!("`{program}`: {error}"))?;
        if let Some(stderr) = stderr {
            // It may say a secret, so it is not passed on to where this process says its own.
            tokio::spawn(remember(stderr, Arc::clone(&self.last_lines)));
        }
        Ok(process)
    }

    /// Returns what the server offers now.
    pub(super) async fn tools(&self) -> Result<Vec<Value>, String> {
        let connected = self.connected().await?;
        let mut n_changes = self.desk.n_changes();
        let mut tools = listed(&connected.peer, self.bounds.tools_max).await;
        if let Some(wanted) = tools.as_ref().err().and_then(Wanted::of_request) {
            self.let_in(wanted, connected).await?;
            let connected = self.connected().await?;
            n_changes = self.desk.n_changes();
            tools = listed(&connected.peer, self.bounds.tools_max).await;
        }
        let redactor = self.desk.redactor();
        let tools = tools.map_err(|error| redactor.text(&error.to_string()).into_owned())??;
        let mut bodies = Vec::with_capacity(tools.len());
        for tool in tools {
            let Ok(mut body) = serde_json::to_value(tool) else { continue };
            redactor.value(&mut body);
            bodies.push(body);
        }
        let digests = bodies.iter().map(|body| {
            let name = body["name"].as_str().unwrap_or_default();
            (name.to_owned(), Digest::of_json(body))
        });
        *lock(&self.offered) = Some(Offered { n_changes, by_name: digests.collect() });
        Ok(bodies)
    }

    /// Returns whether the server still offers a tool as it was accepted.
    pub(super) async fn offers(&self, tool: &str, digest: Digest) -> Result<bool, String> {
        let n_changes = self.desk.n_changes();
        let is_known = |offered: &Offered| offered.n_changes >= n_changes;
        if !lock(&self.offered).as_ref().is_some_and(is_known) {
            self.tools().await?;
        }
        let offered = lock(&self.offered);
        Ok(offered.as_ref().is_some_and(|offered| offered.by_name.get(tool) == Some(&digest)))
    }

    pub(super) async fn close(&self) {
        let running = self.state.lock().await.running.take();
        if let Some(running) = running {
            // It ends either way; whoever unmounts need not know how.
            running.cancel().await.ok();
        }
        *lock(&self.health) = Health::Idle;
    }
}

fn not_let_in(entry: &VaultEntry) -> String {
    format!(
        "the server does not let {entry} in, which this session brings: whoever keeps the vault \
         has to put a secret there that it takes"
    )
}

fn unconnected(error: &ClientInitializeError) -> Unconnected {
    match (Wanted::of_connecting(error), error) {
        (Some(wanted), _) => Unconnected::NotLetIn(wanted),
        (None, ClientInitializeError::ExpectedInitResult(_)) => {
            Unconnected::NotUnderstood(error.to_string())
        }
        (None, _) => Unconnected::Failed(why_unconnected(error)),
    }
}

fn sent_headers(
    headers: BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let wrong = || format!("the header `{name}` has a value that cannot be sent");
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        sent.insert(HeaderName::try_from(&name).map_err(|_| wrong())?, value);
    }
    Ok(sent)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
