//! What the tools work with: for each session its own workspace, sandbox and shell.

mod desk;
mod hand;
mod live;
mod masking;
pub(crate) mod mirror;
mod vault;

pub(crate) use desk::{CommandRecord, ShellNote, ShellStatus};
pub(crate) use hand::{Hand, fresh_id};
pub(crate) use live::{Glance, Live, OpenShell, Settled};
pub(crate) use masking::Secrets;
pub(crate) use vault::Reference;
pub use vault::Vault;

use haft_core::SessionId;
use haft_core::session::{Event, InterruptCause};
use haft_runtime::registry::Registry;
use haft_runtime::{Live as LiveEvent, ToolContext, ToolError, ToolFuture};
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::Mounts;
use haft_sandbox::policy::{Network, Policy, Requirement};
use haft_sandbox::virtual_path::VirtualPath;
use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The places a session works in, and what its commands may reach.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The mounted roots.
    pub mounts: Mounts,
    /// Where a session starts: a directory of a writable root.
    pub home: VirtualPath,
    /// The network that commands see.
    pub network: Network,
    /// Whether commands need Landlock.
    pub landlock: Requirement,
    /// Secrets that commands may use by reference and nobody reads.
    pub vaults: Vec<Vault>,
}

impl Workspace {
    /// These roots, no network, every layer of the sandbox required.
    pub fn new(mounts: Mounts, home: VirtualPath) -> Self {
        let (network, landlock) = (Network::Off, Requirement::Required);
        Self { mounts, home, network, landlock, vaults: Vec::new() }
    }

    pub(crate) fn policy(&self) -> Policy {
        let mut policy = Policy::new(self.mounts.clone());
        policy.network = self.network.clone();
        policy.landlock = self.landlock;
        policy
    }
}

/// How the hands of a node work.
#[derive(Debug, Clone)]
pub struct HandsSettings {
    /// The program that builds sandboxes; see [`haft_sandbox::launcher::main_if_asked`].
    pub launcher: Launcher,
    /// A session that used its hands no more for so long loses its shell, and what runs in it.
    pub idle: Duration,
    /// The most of one command's output that is kept.
    pub kept_bytes: u64,
    /// Whether `bash` asks the classifier before it runs a program. Without it the read-only
    /// sandbox holds alone.
    pub classifier: Classifier,
}

/// Whether `bash` takes every program or only known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classifier {
    /// Only those whose arguments are known to only look.
    Known,
    /// Every one: to show that the sandbox holds by itself.
    Open,
}

impl HandsSettings {
    /// Half an hour, a quarter of a gigabyte, known programs only.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            launcher,
            idle: Duration::from_secs(1800),
            kept_bytes: 256 << 20,
            classifier: Classifier::Known,
        }
    }
}

type FindWorkspace = dyn Fn(SessionId) -> Finding + Send + Sync;
type Finding = ToolFuture<'static, Result<Workspace, String>>;

/// The hands of every session of a node.
#[derive(Clone)]
pub struct Hands(Arc<Inner>);

struct Inner {
    settings: HandsSettings,
    find: Box<FindWorkspace>,
    sessions: Mutex<HashMap<SessionId, Held>>,
    registry: OnceLock<Registry>,
    /// Ends the watch over idle sessions when it is dropped.
    _watched: Sender<()>,
}

struct Held {
    hand: Arc<Hand>,
    used: Instant,
}

impl Hands {
    /// Hands that ask `find` for the workspace of a session when it first needs one.
    pub fn new(
        settings: HandsSettings,
        find: impl Fn(SessionId) -> Result<Workspace, String> + Send + Sync + 'static,
    ) -> Self {
        Self::finding(settings, move |session| std::future::ready(find(session)))
    }

    /// Hands that look for the workspace of a session when it first needs one, and may have to
    /// wait for it.
    pub fn finding<F>(
        settings: HandsSettings,
        find: impl Fn(SessionId) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Workspace, String>> + Send + 'static,
    {
        let find: Box<FindWorkspace> = Box::new(move |session| Box::pin(find(session)));
        let (_watched, ended) = channel();
        let every = (settings.idle / 8).clamp(Duration::from_millis(10), Duration::from_secs(60));
        let (sessions, registry) = (Mutex::new(HashMap::new()), OnceLock::new());
        let inner = Arc::new(Inner { settings, find, sessions, registry, _watched });
        watch(Arc::downgrade(&inner), ended, every);
        Self(inner)
    }

    /// Shows sessions the tools of this registry.
    pub(crate) fn show(&self, registry: Registry) {
        // Hands that are installed twice show the first node's tools.
        drop(self.0.registry.set(registry));
    }

    /// Lets go of what belongs to a session: its shell ends with all that runs in it, once no call
    /// of the session uses it any more. The session's next call finds a fresh one.
    pub fn close(&self, session: SessionId) {
        let Some(held) = self.sessions().remove(&session) else { return };
        // Ending a shell waits for its processes.
        std::thread::spawn(move || drop(held));
    }

    /// Ends what a session runs when the session ends or is erased, or when somebody interrupts it.
    pub(crate) fn hear(&self, live: &LiveEvent) {
        let (session, events) = match live {
            LiveEvent::Erased { session } => return self.close(*session),
            LiveEvent::Appended { session, events, .. } => (session, events),
            LiveEvent::Step { .. } | LiveEvent::Text { .. } | LiveEvent::Progress { .. } => return,
        };
        let ends = |event: &Event| match event {
            Event::SessionInterrupted { cause, .. } => *cause == InterruptCause::Asked,
            Event::SessionEnding { .. } | Event::SessionEnded {} => true,
            _ => false,
        };
        if events.iter().any(ends) {
            self.close(*session);
        }
    }

    /// The hand of a call's own session, as the session left it.
    pub(crate) async fn of(context: &ToolContext) -> Result<Arc<Hand>, ToolError> {
        let hand = context.service::<Self>()?.of_session(context.session()).await?;
        hand.recall(context).await?;
        if let Some(registry) = context.service::<Self>()?.0.registry.get() {
            hand.mirror_contract(registry, context).await?;
        }
        Ok(hand)
    }

    /// The hand of a session.
    pub(crate) async fn of_session(&self, session: SessionId) -> Result<Arc<Hand>, ToolError> {
        if let Some(held) = self.sessions().get_mut(&session) {
            held.used = Instant::now();
            return Ok(Arc::clone(&held.hand));
        }
        let workspace = (self.0.find)(session).await.map_err(|why| {
            ToolError::new(format!(
                "this session has no workspace: {why}; ask the operator for one"
            ))
        })?;
        let hand = Arc::new(Hand::new(session, workspace, self.0.settings.clone()));
        let mut sessions = self.sessions();
        let held = sessions.entry(session).or_insert(Held { hand, used: Instant::now() });
        Ok(Arc::clone(&held.hand))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        self.0.sessions()
    }
}

impl Inner {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the sessions that were idle for too long, and that no call is using.
    fn close_idle(&self) {
        let idle = self.settings.idle;
        let is_idle =
            |held: &Held| held.used.elapsed() > idle && Arc::strong_count(&held.hand) == 1;
        let gone: Vec<Held> =
            self.sessions().extract_if(|_, held| is_idle(held)).map(|(_, held)| held).collect();
        // Ending a shell waits for its processes: not while the sessions are locked.
        drop(gone);
    }
}

/// Closes what is idle, whether or not anyone calls, for as long as the hands live.
fn watch(hands: Weak<Inner>, ended: Receiver<()>, every: Duration) {
    std::thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
            let Some(hands) = hands.upgrade() else { return };
            hands.close_idle();
        }
    });
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("n_sessions", &self.sessions().len()).finish_non_exhaustive()
    }
}
