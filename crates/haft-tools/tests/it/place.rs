//! A node with a workspace, and canaries around it.

use haft_core::session::{Config, Driver};
use haft_core::{CallId, CallResult, Outcome, SessionId};
use haft_runtime::testing::{TestNode, TestPlace, object, user};
use haft_runtime::{Answer, Haft, HaftBuilder, Response, SealingKey};
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_tools::{Classifier, Hands, HandsSettings, Vault, Workspace, install};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Names another place of the launcher, for a user who cannot read where it was built.
pub(crate) const LAUNCHER: &str = "HAFT_TEST_LAUNCHER";

pub(crate) const CANARY: &str = "CANARY-5d21 outside the roots";

/// What only the vault holds.
pub(crate) const VAULTED: &str = "vaulted-3f9c-value";

/// `/workspace` (writable) and `/workspace/agent` (read-only), beside a directory nobody mounted.
pub(crate) struct Place {
    directory: PathBuf,
    _temp: Option<TempDir>,
    store: Arc<TestPlace>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for directory in ["workspace/sub", "agent", "outside", "workspace-evil", "vault"] {
            std::fs::create_dir_all(temp.path().join(directory)).unwrap();
        }
        for file in ["outside/secret", "outside/f", "workspace-evil/secret", "outside.txt"] {
            std::fs::write(temp.path().join(file), CANARY).unwrap();
        }
        std::fs::write(temp.path().join("workspace/a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(temp.path().join("agent/substrate.md"), "shared\n").unwrap();
        std::fs::write(temp.path().join("vault/token"), format!("{VAULTED}\n")).unwrap();
        let directory = temp.path().to_owned();
        Self { directory, _temp: Some(temp), store: TestPlace::new() }
    }

    /// The place that another process made.
    pub(crate) fn at(directory: &Path, store: &Path) -> Self {
        Self { directory: directory.to_owned(), _temp: None, store: TestPlace::at(store) }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.directory.join("workspace")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.join("outside")
    }

    pub(crate) fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.host().join(path)).unwrap()
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        std::fs::write(self.host().join(path), content).unwrap();
    }

    pub(crate) fn store(&self) -> &Arc<TestPlace> {
        &self.store
    }

    /// Fails the test when anything outside the roots has changed.
    pub(crate) fn assert_untouched(&self, what: &str) {
        for file in ["outside/secret", "outside/f", "workspace-evil/secret", "outside.txt"] {
            let found = std::fs::read_to_string(self.directory.join(file)).unwrap();
            assert_eq!(found, CANARY, "{what}: {file}");
        }
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(&self.outside()), 2, "{what}: outside");
        assert_eq!(names(&self.directory.join("workspace-evil")), 1, "{what}: beside");
    }

    pub(crate) fn builder(&self, classifier: Classifier) -> HaftBuilder {
        self.builder_with(|settings| settings.classifier = classifier)
    }

    pub(crate) fn builder_with(&self, change: impl FnOnce(&mut HandsSettings)) -> HaftBuilder {
        let launcher = std::env::var_os(LAUNCHER);
        let launcher = launcher.unwrap_or_else(|| env!("CARGO_BIN_EXE_haft-tools-launcher").into());
        let launcher = Launcher::program(launcher);
        let mut settings = HandsSettings::new(launcher);
        change(&mut settings);
        let vault = self.directory.join("vault");
        let (workspace, agent) = (self.host(), self.directory.join("agent"));
        let root = |at: &str, host: &Path, access| {
            let at = VirtualPath::parse(at, &VirtualPath::top()).unwrap();
            Root { at, host: host.to_owned(), access }
        };
        let hands = Hands::new(settings, move |_| {
            let mounts = Mounts::open([
                root("/workspace", &workspace, Access::ReadWrite),
                root("/workspace/agent", &agent, Access::ReadOnly),
            ]);
            let home = VirtualPath::parse("/workspace", &VirtualPath::top()).unwrap();
            let mut workspace = Workspace::new(mounts.map_err(|error| error.to_string())?, home);
            let prompt = Some("Deploys.".to_owned());
            workspace.vaults =
                vec![Vault { name: "deploy".to_owned(), directory: vault.clone(), prompt }];
            Ok(workspace)
        });
        let builder = Haft::builder().sealing_key(SealingKey::new([7; 32]));
        install(builder, hands)
    }

    pub(crate) fn node(&self) -> Session {
        self.node_with(Classifier::Known)
    }

    pub(crate) fn node_with(&self, classifier: Classifier) -> Session {
        Session { node: self.store.start(self.builder(classifier)), id: None }
    }
}

/// A session of a node, in which calls are made one after another.
pub(crate) struct Session {
    pub(crate) node: TestNode,
    id: Option<SessionId>,
}

impl Session {
    pub(crate) fn of(node: TestNode, id: Option<SessionId>) -> Self {
        Self { node, id }
    }

    pub(crate) async fn id(&mut self) -> SessionId {
        match self.id {
            Some(id) => id,
            None => {
                let config = Config { driver: Driver::Caller, ..Config::default() };
                let id = self.node.session_with(config).await;
                self.id = Some(id);
                id
            }
        }
    }

    pub(crate) async fn propose(&mut self, tool: &str, arguments: Value) -> CallId {
        let id = self.id().await;
        self.node.haft().propose(id, tool, object(arguments)).await.unwrap()
    }

    /// Makes a call that must not wait for anyone.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let id = self.id().await;
        let shown = arguments.clone();
        match self.node.haft().call(id, tool, object(arguments)).await {
            Ok(Answer::Done(outcome)) => result(&outcome),
            Ok(other) => panic!("{tool} {shown} waits: {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes a call that must be asked about, and agrees.
    pub(crate) async fn agreed(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let call = self.propose(tool, arguments).await;
        self.approve(call).await
    }

    pub(crate) async fn waits(&mut self, call: CallId) -> haft_runtime::Waiting {
        let id = self.id().await;
        match self.node.haft().wait(id, call).await {
            Ok(Answer::Waiting(waiting)) => *waiting,
            other => panic!("expected a question, found {other:?}"),
        }
    }

    pub(crate) async fn approve(&mut self, call: CallId) -> Result<Value, String> {
        self.waits(call).await;
        let id = self.id().await;
        let yes = Response::Approve { arguments: None, note: None, grant: None };
        self.node.haft().resolve(id, call, user("approver"), yes).await.unwrap();
        match self.node.haft().wait(id, call).await {
            Ok(Answer::Done(outcome)) => result(&outcome),
            other => panic!("expected an end, found {other:?}"),
        }
    }
}

pub(crate) fn result(outcome: &Outcome) -> Result<Value, String> {
    match &outcome.result {
        CallResult::Ok(output) => match &output.value {
            Some(value) => Ok(value.clone()),
            None => Ok(serde_json::to_value(output).unwrap()),
        },
        CallResult::Err(failure) => Err(failure.message.clone()),
    }
}

/// A program that waits for long, and can be told from all others on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sleeper(String);

impl Sleeper {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("9{:07}.{number:03}", std::process::id()))
    }

    /// The command that runs it.
    pub(crate) fn command(&self) -> String {
        format!("sleep {}", self.0)
    }

    /// How many of it are alive, as the host sees it.
    pub(crate) fn alive(&self) -> usize {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let expected = format!("sleep\0{}\0", self.0).into_bytes();
        lines.filter(|line| *line == expected).count()
    }

    /// Waits until so many of it are alive.
    pub(crate) async fn until(&self, count: usize) {
        let since = Instant::now();
        while self.alive() != count {
            assert!(since.elapsed() < PATIENCE, "{} are alive", self.alive());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
