//! For the tests of tools and of what is built on them: a real node with a clock that stands
//! still, models that follow a script, a look at what was recorded, and the tests that every tool
//! must pass.
//!
//! Nothing here is a stand-in: calls go through the whole lifecycle over a real store. These
//! functions panic where a test should fail.

mod conformance;
mod kill;
mod model;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{Config, Driver};
use haft_core::{Actor, ActorId, Millis, SessionId, Timestamp};
use haft_store::{NodeId, Store, Tenant};
use serde_json::{Map, Value};

use crate::clock::{Clock, ManualClock};
use crate::driver::Settings;
use crate::fresh::fresh_bits;
use crate::haft::{Answer, CallError, Haft, HaftBuilder};

pub use crate::boundary::{Boundary, Observer};
pub use conformance::{Conformance, Nonconforming};
pub use model::QueuedModel;
pub use record::Record;

/// When a test's clock starts: a round number, easy to find in what is recorded.
const START: Timestamp = Timestamp::from_ms(1_000_000);

/// What outlives a process: a store in a directory of its own, and a clock that only the test
/// moves.
#[derive(Debug)]
pub struct TestPlace {
    directory: PathBuf,
    clock: ManualClock,
}

impl Drop for TestPlace {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, like everything in that place.
        std::fs::remove_dir_all(&self.directory).unwrap_or_default();
    }
}

/// A running node of a test.
#[derive(Debug)]
pub struct TestNode {
    haft: Haft,
    place: Arc<TestPlace>,
}

impl TestPlace {
    /// A place where nothing has happened yet.
    ///
    /// # Panics
    ///
    /// When the system gives no randomness.
    pub fn new() -> Arc<Self> {
        let directory = std::env::temp_dir().join(format!("haft-test-{}", fresh_name()));
        Arc::new(Self { directory, clock: ManualClock::at(START) })
    }

    /// The place that another process has in a directory. Its clock starts anew.
    pub fn at(directory: impl Into<PathBuf>) -> Arc<Self> {
        Arc::new(Self { directory: directory.into(), clock: ManualClock::at(START) })
    }

    /// Lives one life of a process here: when `live` returns, everything in it stops at once, as
    /// if it had been killed. What it owned stays its own until its lease has run out by the
    /// place's clock: move that on before the next life.
    ///
    /// # Panics
    ///
    /// When the node does not start, or `live` panics.
    pub fn live<T, F: Future<Output = T>>(
        self: &Arc<Self>,
        builder: HaftBuilder,
        live: impl FnOnce(TestNode) -> F,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        runtime.block_on(async { live(self.start(builder)).await })
    }

    /// Starts a node here, in the runtime of whoever calls.
    ///
    /// # Panics
    ///
    /// When the store does not open or a tool is not taken, with the reason.
    pub fn start(self: &Arc<Self>, builder: HaftBuilder) -> TestNode {
        self.start_observed(builder, Observer::default())
    }

    fn start_observed(self: &Arc<Self>, builder: HaftBuilder, observer: Observer) -> TestNode {
        let store = Store::open_sqlite(&self.directory)
            .unwrap_or_else(|error| panic!("the store does not open: {error}"));
        let haft = builder
            .settings(Settings { observer, ..settings(&self.clock) })
            .start(store)
            .unwrap_or_else(|error| panic!("the node does not start: {error}"));
        TestNode { haft, place: Arc::clone(self) }
    }

    /// Returns where the store is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Moves the clock.
    pub fn advance(&self, by: Millis) {
        self.clock.advance(by);
    }
}

impl TestNode {
    /// Starts a node in a place of its own.
    ///
    /// # Panics
    ///
    /// When a tool is not taken, with the reason.
    pub fn start(builder: HaftBuilder) -> Self {
        TestPlace::new().start(builder)
    }

    /// Returns the node.
    pub fn haft(&self) -> &Haft {
        &self.haft
    }

    /// Returns where it runs.
    pub fn place(&self) -> &Arc<TestPlace> {
        &self.place
    }

    /// Opens a session that the test drives.
    ///
    /// # Panics
    ///
    /// When the store does not take it.
    pub async fn session(&self) -> SessionId {
        self.session_with(Config { driver: Driver::Caller, ..Config::default() }).await
    }

    /// Opens a session.
    ///
    /// # Panics
    ///
    /// When the store does not take it.
    pub async fn session_with(&self, config: Config) -> SessionId {
        let opened = self.haft.open(tenant(), config, user("owner")).await;
        opened.unwrap_or_else(|error| panic!("the session does not open: {error}"))
    }

    /// Makes a call in a session of its own.
    ///
    /// # Errors
    ///
    /// As [`Haft::call`].
    ///
    /// # Panics
    ///
    /// When the arguments are no object.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Answer, CallError> {
        let session = self.session().await;
        self.haft.call(session, tool, object(arguments)).await
    }

    /// Returns what is recorded of a session.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    pub async fn record(&self, session: SessionId) -> Record {
        Record::read(&self.haft, session).await
    }
}

fn settings(clock: &ManualClock) -> Settings {
    let name = format!("test-{}", fresh_name());
    let node = NodeId::new(&name).unwrap_or_else(|error| panic!("{error}"));
    let mut settings = Settings::new(node);
    settings.clock = Clock::Manual(clock.clone());
    settings.stop_grace = Duration::from_millis(50);
    settings.sweep_every = Duration::from_millis(5);
    settings
}

fn fresh_name() -> String {
    let bits = fresh_bits(START).unwrap_or_else(|error| panic!("no randomness: {error}"));
    format!("{bits:032x}")
}

/// A person, by name.
///
/// # Panics
///
/// When the name cannot be one.
pub fn user(name: &str) -> Actor {
    Actor::user(ActorId::new(name).unwrap_or_else(|error| panic!("{error}")))
}

/// The arguments of a call, from a JSON object.
///
/// # Panics
///
/// When it is no object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("expected an object, found {other}"),
    }
}

fn tenant() -> Tenant {
    Tenant::new("test").unwrap_or_else(|error| panic!("{error}"))
}
