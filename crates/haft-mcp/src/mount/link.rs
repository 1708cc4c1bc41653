//! The connection to a mounted server: made when it is needed, made again when it broke, and not
//! tried over and over when it cannot be made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_runtime::ToolContext;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer as RmcpPeer, RequestContext,
    RoleClient, RunningService,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::questions::{Kind, Question, Questions};

/// How long to wait before the second try.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Peer {
    /// A program that speaks over its stdin and stdout.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, beside `PATH` and `HOME`: it does not inherit this process's.
        env: BTreeMap<String, String>,
    },
    /// A server on the network.
    Http {
        /// Its address.
        url: String,
        /// The token that opens it.
        bearer: Option<String>,
    },
}

/// How a mounted server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is connected.
    Up,
    /// It was not needed yet, or ended; the next call connects.
    Idle,
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
    connect_timeout: Duration,
    state: tokio::sync::Mutex<State>,
    health: Mutex<Health>,
    desk: Arc<Desk>,
}

#[derive(Default)]
struct State {
    running: Option<RunningService<RoleClient, Handler>>,
    failures: u32,
    next_try: Option<Instant>,
}

/// What the server's own requests are answered from.
struct Desk {
    questions: Questions,
    /// The calls under way, the latest last.
    calls: Mutex<Vec<Arc<Call>>>,
    changed: watch::Sender<u64>,
    next: AtomicU64,
}

/// A call under way.
pub(super) struct Call {
    id: u64,
    pub(super) context: ToolContext,
    /// How many questions were asked on its behalf.
    n_asked: AtomicU32,
}

#[derive(Clone)]
struct Handler(Arc<Desk>);

impl Link {
    pub(super) fn new(peer: Peer, connect_timeout: Duration, questions: Questions) -> Self {
        let desk = Desk {
            questions,
            calls: Mutex::default(),
            changed: watch::Sender::new(0),
            next: AtomicU64::new(0),
        };
        let (state, health) = (Default::default(), Mutex::new(Health::Idle));
        Self { peer, connect_timeout, state, health, desk: Arc::new(desk) }
    }

    pub(super) fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.desk.changed.subscribe()
    }

    pub(super) fn questions(&self) -> &Questions {
        &self.desk.questions
    }

    /// Returns the connection, making it if need be.
    pub(super) async fn peer(&self) -> Result<RmcpPeer<RoleClient>, String> {
        let mut state = self.state.lock().await;
        if let Some(running) = &state.running
            && !running.is_closed()
            && !running.peer().is_transport_closed()
        {
            return Ok(running.peer().clone());
        }
        state.running = None;
        if let Some(wait) = state.next_try.map(|at| at.saturating_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            return Err(format!(
                "the server is down; it is tried again in {} ms",
                wait.as_millis()
            ));
        }
        match tokio::time::timeout(self.connect_timeout, self.connect()).await {
            Ok(Ok(running)) => {
                let peer = running.peer().clone();
                *state = State { running: Some(running), ..State::default() };
                *lock(&self.health) = Health::Up;
                Ok(peer)
            }
            Ok(Err(message)) => Err(self.failed(&mut state, message)),
            Err(_) => Err(self.failed(&mut state, "it did not answer in time".to_owned())),
        }
    }

    fn failed(&self, state: &mut State, message: String) -> String {
        let wait = BACKOFF.saturating_mul(1 << state.failures.min(10)).min(BACKOFF_MAX);
        state.failures = state.failures.saturating_add(1);
        state.next_try = Some(Instant::now() + wait);
        let failures = state.failures;
        *lock(&self.health) = Health::Down { message: message.clone(), failures };
        message
    }

    async fn connect(&self) -> Result<RunningService<RoleClient, Handler>, String> {
        let handler = Handler(Arc::clone(&self.desk));
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        let running = match &self.peer {
            Peer::Command { program, args, env } => {
                let process = TokioChildProcess::new(command(program, args, env));
                let process = process.map_err(|error| format!("`{program}`: {error}"))?;
                handler.serve_with_lifecycle(process, lifecycle).await
            }
            Peer::Http { url, bearer } => {
                // Fails only if someone has chosen another one, which is as good.
                rustls::crypto::ring::default_provider().install_default().ok();
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.auth_header = bearer.clone();
                let transport = StreamableHttpClientTransport::from_config(config);
                handler.serve_with_lifecycle(transport, lifecycle).await
            }
        };
        running.map_err(|error| error.to_string())
    }

    pub(super) async fn tools(&self) -> Result<Vec<Tool>, String> {
        let peer = self.peer().await?;
        peer.list_all_tools().await.map_err(|error| error.to_string())
    }

    pub(super) async fn close(&self) {
        let running = self.state.lock().await.running.take();
        if let Some(running) = running {
            // It ends either way; whoever unmounts need not know how.
            running.cancel().await.ok();
        }
        *lock(&self.health) = Health::Idle;
    }

    /// Says that a call is under way, so that what the server asks meanwhile is asked for it.
    pub(super) fn begin(&self, context: ToolContext) -> UnderWay {
        let id = self.desk.next.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(Call { id, context, n_asked: AtomicU32::new(0) });
        lock(&self.desk.calls).push(Arc::clone(&call));
        UnderWay { desk: Arc::clone(&self.desk), call }
    }
}

/// A call under way; it ends with this.
pub(super) struct UnderWay {
    desk: Arc<Desk>,
    pub(super) call: Arc<Call>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.desk.calls).retain(|call| call.id != self.call.id);
    }
}

impl Call {
    /// Returns the key of the call's next question: the same after a crash, as far as the server
    /// asks the same again.
    pub(super) fn next_key(&self) -> String {
        format!("upstream-{}", self.n_asked.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn command(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    // Nothing of this process's environment, where keys are: what it needs is given to it.
    command.args(args).env_clear();
    for name in ["PATH", "HOME", "LANG"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(env).kill_on_drop(true);
    command
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, implementation)
    }

    /// A server's question to a person is one of ours: it waits in the store, and whoever the
    /// call's own client is may answer it. One that belongs to no call is declined.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let latest = lock(&self.0.calls).last().cloned();
        let (Some(call), Ok(Value::Object(params))) = (latest, serde_json::to_value(&request))
        else {
            return Ok(declined());
        };
        let question = Question { kind: Kind::Elicitation, params };
        match self.0.questions.ask(&call.context, &call.next_key(), question).await {
            Ok(answer) => Ok(serde_json::from_value(answer).unwrap_or_else(|_| declined())),
            Err(_) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Whose progress it is can only be told while one call is under way.
        let only = match lock(&self.0.calls).as_slice() {
            [only] => Some(Arc::clone(only)),
            _ => None,
        };
        if let Some(call) = only {
            let ProgressNotificationParam { progress, total, message, .. } = params;
            let progress = json!({"progress": progress, "total": total, "message": message});
            call.context.progress(progress);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changed.send_modify(|n| *n += 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
