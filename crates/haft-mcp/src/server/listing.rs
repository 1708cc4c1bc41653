//! What clients are shown: tools, prompts and resources.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::ToolName;
use haft_core::tool::Executor;
use haft_runtime::registry::Registered;
use haft_store::Tenant;
use haft_wire::{Dialect, Extension};
use rmcp::model::{
    CacheScope, ListToolsResult, Prompt, PromptArgument, Resource, ResourceTemplate, Tool,
};
use serde_json::{Value, json};

use super::McpServer;
use super::requests::TTL_MS;
use crate::questions;

/// The tool that picks up what became of a call.
pub(super) const AWAIT_CALL: &str = "await_call";

/// What a schema marks a property with whose value a header repeats.
const HEADER_MARK: &str = "x-mcp-header";

/// What was made out for one generation of the registry.
#[derive(Default)]
pub(super) struct Listing(Mutex<Option<(u64, Arc<Shown>)>>);

/// Everything that is shown, in order.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
    /// Tools by the names under which clients call them.
    by_name: HashMap<String, Listed>,
}

/// A tool among those that are shown.
#[derive(Debug)]
struct Listed {
    at: usize,
    tool: ToolName,
    /// Whose it is, if it is not everybody's.
    owner: Option<Tenant>,
    /// Whether its arguments stand nowhere but in a request's body.
    is_plain: bool,
}

impl Listed {
    fn is_shown_to(&self, tenant: &Tenant) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == tenant)
    }
}

impl Shown {
    /// Shows a tool, unless MCP has no words for it.
    pub(super) fn add(&mut self, registered: &Registered) {
        let Some(tool) = tool(registered) else { return };
        let owner = registered.tenant().cloned();
        let is_plain = !Value::from((*tool.input_schema).clone()).to_string().contains(HEADER_MARK);
        let (at, name) = (self.tools.len(), registered.name().clone());
        let listed = Listed { at, tool: name, owner, is_plain };
        self.by_name.insert(tool.name.to_string(), listed);
        self.tools.push(tool);
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).and_then(|listed| self.tools.get(listed.at))
    }

    /// Returns the tools that a tenant's clients are shown.
    pub(super) fn tools_of(&self, tenant: &Tenant) -> ListToolsResult {
        let is_theirs = |tool: &&Tool| {
            self.by_name.get(tool.name.as_ref()).is_none_or(|listed| listed.is_shown_to(tenant))
        };
        let tools = self.tools.iter().filter(is_theirs).cloned().collect();
        let result = ListToolsResult { tools, ..ListToolsResult::default() };
        result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private)
    }

    /// Returns whether a tenant's client may call a tool by a request that says nothing else.
    pub(super) fn calls_plainly(&self, name: &str, tenant: &Tenant) -> bool {
        let listed = self.by_name.get(name);
        listed.is_some_and(|listed| listed.is_plain && listed.is_shown_to(tenant))
    }

    /// Returns the tool that a tenant's client calls by a name.
    pub(super) fn called(&self, name: &str, tenant: &Tenant) -> Option<&ToolName> {
        let listed = self.by_name.get(name).filter(|listed| listed.is_shown_to(tenant));
        listed.map(|listed| &listed.tool)
    }
}

impl Listing {
    /// Returns what was made out for a generation of the registry, or makes it out.
    pub(super) fn of(&self, generation: u64, make_out: impl FnOnce() -> Shown) -> Arc<Shown> {
        let mut listing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listing {
            Some((of, shown)) if *of == generation => Arc::clone(shown),
            _ => {
                let shown = Arc::new(make_out());
                *listing = Some((generation, Arc::clone(&shown)));
                shown
            }
        }
    }
}

impl McpServer {
    pub(super) fn shown(&self) -> Arc<Shown> {
        let generation = self.0.haft.registry().generation();
        self.0.listing.of(generation, || self.make_out())
    }

    fn make_out(&self) -> Shown {
        let settings = &self.0.settings;
        let offered = self.0.haft.registry().advertise(&settings.config.exposure);
        let mut shown = Shown::default();
        for registered in offered.tools().iter() {
            let name = registered.name();
            if settings.prompts.contains(name) {
                shown.prompts.push(prompt(registered));
                continue;
            }
            let is_resource = settings.resources.iter().any(|source| source.tool == *name);
            if is_resource || name.as_str() == questions::TOOL || !is_run_here(registered) {
                continue;
            }
            shown.add(registered);
        }
        shown.tools.extend(await_call());
        shown
    }

    pub(super) fn resources(&self) -> Vec<Resource> {
        let plain = self.0.settings.resources.iter().filter(|source| !source.is_template());
        let shown = plain.map(|source| {
            let mut resource = Resource::new(source.uri.clone(), source.name.clone());
            resource.description = source.description.clone();
            resource.mime_type = source.mime_type.clone();
            resource
        });
        shown.collect()
    }

    pub(super) fn templates(&self) -> Vec<ResourceTemplate> {
        let templates = self.0.settings.resources.iter().filter(|source| source.is_template());
        let shown = templates.map(|source| {
            let mut template = ResourceTemplate::new(source.uri.clone(), source.name.clone());
            template.description = source.description.clone();
            template.mime_type = source.mime_type.clone();
            template
        });
        let artifacts = ResourceTemplate::new("haft://artifacts/{id}", "artifact")
            .with_description("An output that was kept outside a result");
        shown.chain([artifacts]).collect()
    }
}

/// An MCP client has no means to run a tool of ours, and a provider's tool is its own.
fn is_run_here(registered: &Registered) -> bool {
    matches!(registered.spec().executor, Executor::Server | Executor::Human)
}

fn tool(registered: &Registered) -> Option<Tool> {
    let projected = Dialect::Mcp.project_definition(registered.spec(), Extension::Omit);
    let mut body = projected.inspect_err(|error| {
        tracing::warn!(%error, tool = %registered.name(), "a tool cannot be shown over MCP");
    });
    if let Ok(Value::Object(body)) = &mut body {
        // A value that is no object is put into one, which its schema does not describe.
        let is_object = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
        if body.get("outputSchema").is_some_and(|schema| !is_object(schema)) {
            body.remove("outputSchema");
        }
    }
    serde_json::from_value(body.ok()?).ok()
}

fn prompt(registered: &Registered) -> Prompt {
    let schema = registered.spec().input_schema.value();
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|required| required.iter().any(|required| required == name))
    };
    let fields = schema.get("properties").and_then(Value::as_object);
    let arguments = fields.into_iter().flatten().map(|(name, field)| {
        let mut argument = PromptArgument::new(name).with_required(is_required(name));
        let description = field.get("description").and_then(Value::as_str);
        argument.description = description.map(str::to_owned);
        argument
    });
    let description = Some(registered.spec().description.clone());
    Prompt::new(registered.name().as_str(), description, Some(arguments.collect()))
}

fn await_call() -> Option<Tool> {
    let body = json!({
        "name": AWAIT_CALL,
        "title": "Pick up a call",
        "description": "Return the result of a call that was answered with a handle, because it \
                        had to wait for someone: once it is there, or how it stands after a while. \
                        Without a handle, list the calls of yours that wait, 100 at a time.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle that the call was answered with"},
                "wait_seconds": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 300,
                    "description": "How long to wait for it; 20 unless told",
                },
                "page": {
                    "type": "string",
                    "description": "Where the list goes on, as the page before says. Only without \
                                    a handle",
                },
            },
            "additionalProperties": false,
        },
        "annotations": {
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    });
    serde_json::from_value(body).ok()
}
