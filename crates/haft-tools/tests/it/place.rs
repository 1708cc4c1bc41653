//! A node with a workspace, and canaries around it.

use haft_core::session::{Config, Driver};
use haft_core::{CallId, CallResult, Outcome, SessionId};
use haft_runtime::testing::{TestNode, TestPlace, object, user};
use haft_runtime::{Answer, Haft, HaftBuilder, Response, SealingKey};
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_tools::{Classifier, Hands, HandsSettings, Workspace, install};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) const CANARY: &str = "CANARY-5d21 outside the roots";

/// `/workspace` (writable) and `/workspace/agent` (read-only), beside a directory nobody mounted.
pub(crate) struct Place {
    temp: TempDir,
    store: Arc<TestPlace>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for directory in ["workspace/sub", "agent", "outside", "workspace-evil"] {
            std::fs::create_dir_all(temp.path().join(directory)).unwrap();
        }
        for file in ["outside/secret", "outside/f", "workspace-evil/secret", "outside.txt"] {
            std::fs::write(temp.path().join(file), CANARY).unwrap();
        }
        std::fs::write(temp.path().join("workspace/a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(temp.path().join("agent/substrate.md"), "shared\n").unwrap();
        Self { temp, store: TestPlace::new() }
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.temp.path().join("workspace")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
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
            let found = std::fs::read_to_string(self.temp.path().join(file)).unwrap();
            assert_eq!(found, CANARY, "{what}: {file}");
        }
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(&self.outside()), 2, "{what}: outside");
        assert_eq!(names(&self.temp.path().join("workspace-evil")), 1, "{what}: beside");
    }

    pub(crate) fn builder(&self, classifier: Classifier) -> HaftBuilder {
        let launcher = Launcher::program(env!("CARGO_BIN_EXE_haft-tools-launcher"));
        let settings = HandsSettings { classifier, ..HandsSettings::new(launcher) };
        let (workspace, agent) = (self.host(), self.temp.path().join("agent"));
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
            Ok(Workspace::new(mounts.map_err(|error| error.to_string())?, home))
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
