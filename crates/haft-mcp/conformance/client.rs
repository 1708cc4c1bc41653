//! The client that the official conformance suite tests: mounts the scenario's server as any node
//! would, calls its tools through Haft's lifecycle, permissions and store, and does what a person
//! does who answers, approves and authorizes.
//!
//! The suite runs it as `haft-mcp-conformance-client URL`, with the scenario in the environment.
#![expect(clippy::print_stderr, reason = "it says why a scenario ends early")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use haft_core::permission::Level;
use haft_core::session::{Config, Driver, SuspensionKind};
use haft_core::{Actor, ActorId, Outcome, SessionId, ToolName};
use haft_http::{Client, Endpoint, Method, Timeouts};
use haft_mcp::{
    Attached, Declared, Grant, Health, Mounted, Mounts, OAuth, Questions, Secrets, Setting,
};
use haft_runtime::{Answer, Haft, Response, SealingKey};
use haft_store::{Page, PendingFilter, Store, Tenant};
use serde::Deserialize;
use serde_json::{Map, Value, json};

type Failed = Box<dyn Error + Send + Sync>;

/// Where a person is sent back to; nobody listens there, the address is all that is needed.
const BACK_TO: &str = "http://localhost:3000/callback";
/// What the suite expects of clients that have a document about themselves.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// How often a person authorizes the node before they give up.
const PATIENCE: usize = 3;

/// What the suite says about the scenario.
#[derive(Debug, Default, Deserialize)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    #[serde(default, rename = "toolCalls")]
    tool_calls: Vec<ToolCall>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let url = std::env::args().next_back().ok_or("usage: haft-mcp-conformance-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Context = serde_json::from_str(&context).unwrap_or_default();
    let directory = std::env::temp_dir().join(format!("haft-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let ran = Box::pin(run(&url, &scenario, &context, &directory)).await;
    std::fs::remove_dir_all(&directory)?;
    ran.inspect_err(|error| eprintln!("{scenario}: {error}"))
}

async fn run(url: &str, scenario: &str, context: &Context, directory: &Path) -> Result<(), Failed> {
    let node = Node::start(directory, context, scenario)?;
    node.mounts.mount(declared(url, scenario, context)?.config(name()?)?, &person()?).await?;
    node.authorize_as_wanted().await?;
    for (wire_name, tool) in node.mounted()?.report.tools {
        for arguments in node.arguments(&wire_name, &tool, context) {
            // One that is refused keeps none of the others from being made.
            let outcome = node.call(&tool, arguments.clone()).await;
            eprintln!("{tool}: {outcome:?}");
            if node.authorize_as_wanted().await? {
                node.call(&tool, arguments).await?;
            }
        }
    }
    node.mounts.unmount(&name()?).await?;
    Ok(())
}

fn name() -> Result<ToolName, Failed> {
    Ok(ToolName::new("peer")?)
}

fn person() -> Result<Actor, Failed> {
    Ok(Actor::user(ActorId::new("conformance")?))
}

fn declared(url: &str, scenario: &str, context: &Context) -> Result<Declared, Failed> {
    let secret = context.client_secret.as_ref().map(|_| "vault://conformance/secret".to_owned());
    let oauth = OAuth {
        grant: match scenario.contains("client-credentials") {
            true => Grant::ClientCredentials,
            false => Grant::AuthorizationCode,
        },
        client_id: context.client_id.clone(),
        client_secret: secret.map(Setting::try_from).transpose()?,
        client_metadata_url: Some(DOCUMENT.to_owned()),
        scopes: Vec::new(),
    };
    Ok(Declared { url: Some(url.to_owned()), oauth: Some(oauth), ..Declared::default() })
}

/// A node with the scenario's server mounted.
struct Node {
    haft: Haft,
    mounts: Mounts,
    /// What a person fills in who is asked.
    content: Value,
    _attached: Attached,
}

impl Node {
    fn start(directory: &Path, context: &Context, scenario: &str) -> Result<Self, Failed> {
        let questions = Questions::new();
        let store = Store::open_sqlite(directory)?;
        let haft = haft_mcp::install(Haft::builder(), &questions).start(store.clone())?;
        let secret = context.client_secret.clone().unwrap_or_default();
        let secrets = Secrets::new(move |_| Box::pin(std::future::ready(Ok(secret.clone()))));
        let secrets = secrets.sealed_with(SealingKey::new([7; 32]));
        let attached = questions.attach(&haft);
        let mounts =
            Mounts::new(haft.registry().clone(), store, questions, secrets, Tenant::new("test")?);
        // Who leaves a form as it is gets what it proposes.
        let content = match scenario.contains("defaults") {
            true => json!({}),
            false => json!({"confirmed": true}),
        };
        Ok(Self { haft, mounts, content, _attached: attached })
    }

    fn mounted(&self) -> Result<Mounted, Failed> {
        Ok(self.mounts.find(&name()?)?)
    }

    /// Authorizes the node for as long as the server wants it, and returns whether it did.
    async fn authorize_as_wanted(&self) -> Result<bool, Failed> {
        for tried in 0..=PATIENCE {
            if !matches!(self.mounted()?.health, Health::Unauthorized { .. }) {
                return Ok(tried > 0);
            }
            if tried < PATIENCE {
                self.authorize().await?;
            }
        }
        Err("it was authorized again and again, and wants it still".into())
    }

    async fn authorize(&self) -> Result<(), Failed> {
        let open = self.mounts.authorize(&name()?, BACK_TO, &person()?).await?;
        let browser = Client::new(Endpoint::exactly(&open)?, Timeouts::default(), &[])?;
        let answer = browser.send(Method::GET, "", &[], Vec::new()).await?;
        let location = answer.header("location").ok_or("nobody is sent back")?;
        match self.mounts.authorized(location).await {
            // It was, and that is not enough for the server.
            Err(haft_mcp::MountError::Unreachable { message, .. }) => eprintln!("{message}"),
            authorized => drop(authorized?),
        }
        Ok(())
    }

    /// Returns what to call a tool with, once or several times.
    fn arguments(
        &self,
        wire_name: &str,
        tool: &ToolName,
        context: &Context,
    ) -> Vec<Map<String, Value>> {
        let wanted = context.tool_calls.iter().filter(|call| call.name == wire_name);
        let wanted: Vec<_> = wanted.map(|call| given(&call.arguments)).collect();
        if !wanted.is_empty() {
            return wanted;
        }
        let mut arguments = sample(&self.schema(tool.as_str()));
        if wire_name == "json_schema_echo" {
            arguments["schema"] = self.schema("peer_json_schema_2020_12_tool");
        }
        vec![arguments]
    }

    fn schema(&self, tool: &str) -> Value {
        let registered = self.haft.registry().get(tool);
        registered.map(|tool| tool.spec().input_schema.value().clone()).unwrap_or_default()
    }

    async fn call(
        &self,
        tool: &ToolName,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, Failed> {
        let config =
            Config { driver: Driver::Caller, level: Level::Autonomous, ..Config::default() };
        let session = self.haft.open(Tenant::new("test")?, config, person()?).await?;
        let call = self.haft.propose(session, tool.as_str(), arguments).await?;
        loop {
            if let Some(Answer::Done(outcome)) = self.haft.answer(session, call).await? {
                return Ok(*outcome);
            }
            self.decide_what_waits().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn decide_what_waits(&self) -> Result<(), Failed> {
        let all = PendingFilter::default();
        for wait in self.haft.store().pending(&all, &Page::first(100)).await? {
            let response = match wait.kind {
                SuspensionKind::Elicitation => {
                    let value = json!({"action": "accept", "content": self.content});
                    Response::Answer { value }
                }
                _ => Response::Approve { arguments: None, note: None, grant: None },
            };
            self.resolve(wait.session, wait.call, response).await?;
        }
        Ok(())
    }

    async fn resolve(
        &self,
        session: SessionId,
        call: haft_core::CallId,
        response: Response,
    ) -> Result<(), Failed> {
        self.haft.resolve(session, call, person()?, response).await?;
        Ok(())
    }
}

/// What is null where the schema has no null was not given.
fn given(arguments: &Map<String, Value>) -> Map<String, Value> {
    let given = arguments.iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Makes up arguments that a schema takes.
fn sample(schema: &Value) -> Map<String, Value> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let made_up = properties.iter().map(|(name, property)| {
        let value = match property["type"].as_str() {
            Some("number" | "integer") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    made_up.collect()
}
