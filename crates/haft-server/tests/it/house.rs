//! A server on a loopback address, and those who call it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_agent::Script;
use haft_core::session::Returned;
use haft_core::tool::{Definition, Gate, Mutates, Reach, Schema, Undo, UndoSource};
use haft_core::{Actor, ActorId, ActorKind, CallResult, Millis, Output};
use haft_runtime::{Clock, FunctionTool, Haft, HaftBuilder, SealingKey, Tool};
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_server::{Config, Keys, ModelSettings, Models, NewKey, Scope, Server, Workers};
use haft_store::{Store, Tenant};
use haft_tools::{Hands, HandsSettings, Workspace, install};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{self, Cluster};

/// A running server with tools that nobody outside is harmed by.
pub(crate) struct House {
    pub(crate) data: TempDir,
    pub(crate) haft: Haft,
    notes: Arc<AtomicU32>,
    keys: Keys,
    address: String,
}

fn declared(name: &str, mutates: Mutates) -> Definition {
    let euro = json!({"type": "integer", "minimum": 1});
    let schema = json!({"type": "object", "properties": {"euro": euro}});
    let schema = Schema::from_value(&schema).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "Does it.", schema);
    definition.facets.mutates = Some(mutates);
    definition
}

fn tool(definition: Definition, then: impl Fn() + Send + Sync + 'static) -> impl Tool {
    FunctionTool::new(definition, move |_, _| {
        then();
        async { Ok(Returned::from(CallResult::Ok(Output::of_value(json!(true))))) }
    })
}

fn nothing() {}

/// One tool of each sort that is treated differently.
fn tools(notes: &Arc<AtomicU32>) -> HaftBuilder {
    let refund = Definition { gate: Gate::Ask, ..declared("refund", Mutates::Irreversible) };
    let mut weather = declared("get_weather", Mutates::None);
    weather.facets.reach = Some(BTreeSet::from([Reach::ExternalService]));
    let mut delete = declared("delete_note", Mutates::Irreversible);
    let euro = UndoSource::Argument("/euro".parse().unwrap());
    delete.undo = Some(Undo {
        tool: "restore_note".parse().unwrap(),
        arguments: BTreeMap::from([("euro".to_owned(), euro)]),
        window: Millis::from_secs(600),
    });
    let restore = Definition { gate: Gate::Auto, ..declared("restore_note", Mutates::Bounded) };
    let (deleted, restored) = (Arc::clone(notes), Arc::clone(notes));
    Haft::builder()
        .tool(tool(refund, nothing))
        .tool(tool(declared("get_price", Mutates::None), nothing))
        .tool(tool(declared("agent_bash", Mutates::Irreversible), nothing))
        .tool(tool(weather, nothing))
        .tool(tool(restore, move || _ = restored.fetch_add(1, Ordering::SeqCst)))
        .tool(tool(delete, move || _ = deleted.fetch_sub(1, Ordering::SeqCst)))
}

/// A model that asks for one call each time it is spoken to.
const ASKS: &str = r#"{
    "turns": [
        {"say": "Let me look.", "calls": [{"tool": "bash", "arguments": {"euro": 5}}]},
        {"say": "Done."}
    ],
    "then": "repeat"
}"#;

/// An agent with that model, which may do nothing unasked.
pub(crate) fn asking_agent() -> Value {
    let policy = json!({"permission_policy": {"type": "always_ask"}});
    let tools = json!([{"type": "agent_toolset_20260401", "default_config": policy}]);
    json!({"name": "Asks", "model": "scripted/asks", "tools": tools})
}

impl House {
    pub(crate) async fn start() -> Self {
        Self::with(|builder| builder, &[]).await
    }

    /// With more tools, and more scripts by their names.
    pub(crate) async fn with(
        more: impl FnOnce(HaftBuilder) -> HaftBuilder,
        scripts: &[(&str, &str)],
    ) -> Self {
        Self::configured(more, scripts, |_| unattended()).await
    }

    /// With settings of the server, which the node is there for.
    pub(crate) async fn configured(
        more: impl FnOnce(HaftBuilder) -> HaftBuilder,
        scripts: &[(&str, &str)],
        config: impl FnOnce(&Haft) -> Config,
    ) -> Self {
        let notes = Arc::new(AtomicU32::new(1));
        Self::over(more(tools(&notes)), notes, scripts, config).await
    }

    /// With the managed tools and nothing else. Their sessions share a directory.
    pub(crate) async fn managed(scripts: &[(&str, &str)]) -> Self {
        let hands = Hands::new(HandsSettings::new(Launcher::this_program()), |_| {
            let at = VirtualPath::parse("/workspace", &VirtualPath::top());
            let home = at.map_err(|error| error.to_string())?;
            let host = std::env::temp_dir();
            let root = Root { at: home.clone(), host, access: Access::ReadOnly };
            let mounts = Mounts::open([root]).map_err(|error| error.to_string())?;
            Ok(Workspace::new(mounts, home))
        });
        let builder = install(Haft::builder().sealing_key(SealingKey::new([7; 32])), hands);
        Self::over(builder, Arc::default(), scripts, |_| unattended()).await
    }

    async fn over(
        builder: HaftBuilder,
        notes: Arc<AtomicU32>,
        scripts: &[(&str, &str)],
        config: impl FnOnce(&Haft) -> Config,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        Self::over_store((data, store), builder, notes, scripts, config).await
    }

    /// Runs a case on a house over each kind of store, with more tools and settings of the server.
    pub(crate) async fn on_both(
        more: impl Fn(HaftBuilder) -> HaftBuilder,
        config: impl Fn() -> Config,
        case: impl AsyncFn(House),
    ) {
        let house = async |store: Store, data: TempDir| {
            let notes = Arc::new(AtomicU32::new(1));
            let builder = more(tools(&notes));
            Self::over_store((data, store), builder, notes, &[], |_| config()).await
        };
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        case(house(store, data).await).await;
        if cluster::is_left_out() {
            return;
        }
        let cluster = Cluster::private();
        let store = Store::connect_postgres(&cluster.url()).await.unwrap();
        case(house(store, tempfile::tempdir().unwrap()).await).await;
    }

    async fn over_store(
        (data, store): (TempDir, Store),
        builder: HaftBuilder,
        notes: Arc<AtomicU32>,
        scripts: &[(&str, &str)],
        config: impl FnOnce(&Haft) -> Config,
    ) -> Self {
        let scripts = [("asks", ASKS)].iter().chain(scripts);
        let scripts: BTreeMap<_, _> = scripts
            .map(|(name, text)| ((*name).to_owned(), Script::from_json(text).unwrap()))
            .collect();
        let model = Models::new(ModelSettings { scripts, ..ModelSettings::default() });
        let haft = builder.model(model).start(store.clone()).unwrap();
        let config = config(&haft);
        let address = serve(&haft, config).await;
        Self { data, haft, notes, keys: Keys::new(store, None), address }
    }

    /// Makes a key for someone of a tenant.
    pub(crate) async fn visitor(&self, tenant: &str, who: &str, scopes: &[Scope]) -> Visitor {
        let tenant = Tenant::new(tenant).unwrap();
        let actor = Actor { kind: ActorKind::User, id: ActorId::new(who).unwrap() };
        let scopes = scopes.to_vec();
        self.holder(NewKey { tenant, actor, scopes, expires_at: None }).await
    }

    /// Makes a key, and returns whoever holds it.
    pub(crate) async fn holder(&self, new: NewKey) -> Visitor {
        let key = self.keys.create(new, Clock::System.now()).await;
        let key = Some(key.unwrap().reveal().to_owned());
        Visitor { address: self.address.clone(), key }
    }

    /// The same person at another server over the same store.
    pub(crate) async fn elsewhere(&self, visitor: &Visitor) -> Visitor {
        let address = serve(&self.haft, unattended()).await;
        Visitor { address, key: visitor.key.clone() }
    }

    /// Ends this node in the middle of what it does, and starts another one over the same store,
    /// whose workers were made earlier.
    pub(crate) async fn succeeded_by(&self, builder: HaftBuilder, workers: Workers) -> Self {
        let store = self.haft.store().clone();
        workers.restore().await.unwrap();
        self.haft.shutdown(std::time::Duration::ZERO).await;
        let (data, notes) = (tempfile::tempdir().unwrap(), Arc::default());
        let config = |_: &Haft| Config { workers: Some(workers), ..unattended() };
        Self::over_store((data, store), builder, notes, &[], config).await
    }

    /// Whether any file of the store holds a text.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.data.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).any(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
    }

    /// Returns how many notes there are: one, until it is deleted.
    pub(crate) fn notes(&self) -> u32 {
        self.notes.load(Ordering::SeqCst)
    }

    pub(crate) async fn admin(&self) -> Visitor {
        self.visitor("default", "ann", &[Scope::Admin]).await
    }

    /// Someone at another server over the same store, which has read nothing yet.
    pub(crate) async fn admin_elsewhere(&self) -> Visitor {
        let address = serve(&self.haft, unattended()).await;
        Visitor { address, ..self.admin().await }
    }

    pub(crate) fn stranger(&self) -> Visitor {
        Visitor { address: self.address.clone(), key: None }
    }
}

/// The settings of a server that ends no call because its client is away.
pub(crate) fn unattended() -> Config {
    Config { client_grace: None, ..Config::default() }
}

/// Serves a node, and returns where.
async fn serve(haft: &Haft, config: Config) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::bind(haft.clone(), listener, config).await.unwrap();
    let address = server.address().to_string();
    drop(tokio::spawn(server.run(std::future::pending())));
    address
}

/// Someone with a key, or without one.
pub(crate) struct Visitor {
    address: String,
    key: Option<String>,
}

impl Visitor {
    pub(crate) async fn raw(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.text(method, path, body).await;
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Asks for something whatever it is written in, until nothing more comes.
    pub(crate) async fn text(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut connection = self.sent(method, path, body).await;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// Follows a path that is answered as a stream; the answer has begun when this returns.
    pub(crate) async fn stream(&self, path: &str) -> TcpStream {
        let mut connection = self.sent("GET", path, "").await;
        let mut begun = [0; 12];
        connection.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200", "{path}");
        connection
    }

    /// Asks with further headers, each on a line of its own; returns the answer's head too.
    pub(crate) async fn with(
        &self,
        headers: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, String, Value) {
        let (status, head, body) = self.text_with(headers, method, path, body).await;
        (status, head, serde_json::from_str(&body).unwrap_or_default())
    }

    /// The same, whatever the answer is written in.
    pub(crate) async fn text_with(
        &self,
        headers: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, String, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut connection = self.sent_with(headers, method, path, &body).await;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    /// Connects and sends nothing yet.
    pub(crate) async fn connection(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    /// Asks with further headers, and leaves the answer to be read.
    pub(crate) async fn opened(
        &self,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> TcpStream {
        self.sent_with(headers, method, path, body).await
    }

    async fn sent(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.sent_with("", method, path, body).await
    }

    async fn sent_with(&self, headers: &str, method: &str, path: &str, body: &str) -> TcpStream {
        let mut connection = self.connection().await;
        let request = format!("{}{body}", self.head(headers, method, path, body.len()));
        connection.write_all(request.as_bytes()).await.unwrap();
        connection
    }

    /// The head of a request whose body has so many bytes.
    pub(crate) fn head(&self, headers: &str, method: &str, path: &str, length: usize) -> String {
        let key = self.key.as_ref().map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
        let address = &self.address;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{key}{headers}\
             content-length: {length}\r\n\r\n"
        )
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw(method, path, &body).await
    }

    /// Asks for something that must be there.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Asks for something that must be refused, and returns why.
    pub(crate) async fn refused(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        status: u16,
    ) -> String {
        let (found, body) = self.ask(method, path, body).await;
        assert_eq!(found, status, "{method} {path}: {body}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }

    /// Opens a session of the demo's agent.
    pub(crate) async fn session(&self) -> String {
        let made = self.post("/haft/v1/sessions", &json!({"agent": "agent_demo"})).await;
        made["session"].as_str().unwrap().to_owned()
    }

    /// Makes a call of a tool in a session of its own; returns both ids.
    pub(crate) async fn call(&self, tool: &str) -> (String, String) {
        let path = format!("/haft/v1/tools/{tool}/call");
        let made = self.post(&path, &json!({"arguments": {"euro": 5}})).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("session"), text("call"))
    }
}
