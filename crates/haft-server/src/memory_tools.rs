//! How an agent uses the memory stores that were attached to its session: it lists, reads, writes
//! and deletes memories, and changes only what it has seen.

use std::collections::BTreeSet;

use haft_core::session::{Open, Returned};
use haft_core::tool::{
    DeclaredEffect, Definition, Facets, FsAccess, Gate, Idempotency, Mutates, ProcessUse, Schema,
    Scope, Status,
};
use haft_core::{Actor, ActorId, ActorKind, CallResult, Output, ToolName};
use haft_runtime::{FunctionTool, HaftBuilder, ToolArguments, ToolContext, ToolError, fresh_bits};
use haft_store::{Store, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::id_of;
use crate::error::Error;
use crate::memory::{Memories, Memory, View, require_content};
use crate::session::kept_beside;

const LIST: &str = "memory_store_list";
const READ: &str = "memory_store_read";
const WRITE: &str = "memory_store_write";
const DELETE: &str = "memory_store_delete";
/// How many memories are listed at once.
const LISTED_MAX: usize = 500;

/// What a session may do with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// A memory store that is attached to a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AttachedStore {
    pub(crate) memory_store_id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) instructions: Option<String>,
    pub(crate) access: Access,
}

/// Gives a node the tools of memory stores. They are offered only to sessions that have one.
pub fn install(builder: HaftBuilder) -> HaftBuilder {
    definitions().into_iter().fold(builder, |builder, definition| {
        let run = match definition.name.as_str() {
            LIST => Verb::List,
            READ => Verb::Read,
            WRITE => Verb::Write,
            _ => Verb::Delete,
        };
        builder.tool(FunctionTool::new(definition, move |arguments, context| async move {
            run.run(arguments, context).await
        }))
    })
}

/// The tools for a session with these stores.
pub(crate) fn tools(stores: &[AttachedStore]) -> Vec<ToolName> {
    let writes = stores.iter().any(|store| store.access == Access::ReadWrite);
    let names = definitions().into_iter().map(|definition| definition.name);
    match (stores.is_empty(), writes) {
        (true, _) => Vec::new(),
        (false, true) => names.collect(),
        (false, false) => names.filter(|name| [LIST, READ].contains(&name.as_str())).collect(),
    }
}

/// What an agent is told of its memory stores.
pub(crate) fn introduced(instructions: Option<String>, stores: &[AttachedStore]) -> Option<String> {
    if stores.is_empty() {
        return instructions;
    }
    let mut said = instructions.map(|instructions| instructions + "\n\n").unwrap_or_default();
    said.push_str(
        "# Memory\n\nTexts that outlive this session are in these stores, each text at a path. \
         Look there before you begin, and keep there what later sessions should know.\n",
    );
    for store in stores {
        let access = match store.access {
            Access::ReadOnly => "only to read",
            Access::ReadWrite => "to read and to write",
        };
        said.push_str(&format!("\n- `{}`, {access}. {}", store.name, store.description));
        if let Some(instructions) = &store.instructions {
            said.push_str(&format!(" {instructions}"));
        }
    }
    Some(said)
}

fn definitions() -> Vec<Definition> {
    let store = json!({
        "type": "string", "description": "The store's name; may be left out where there is one.",
    });
    let path =
        json!({ "type": "string", "description": "Where the text is, such as `/notes/a.md`." });
    let seen = json!({
        "type": "string",
        "description": "The `content_sha256` of the text as you read it. Leave it out for a new path.",
    });
    let prefix = json!({ "type": "string", "description": "Only paths that begin so." });
    let content = json!({ "type": "string", "description": "All that the text shall be." });
    let all = [
        (
            LIST,
            "Lists the paths of a memory store. Use before reading or writing in it.",
            json!({ "store": store, "prefix": prefix }),
            json!([]),
            looks(),
        ),
        (
            READ,
            "Reads one text of a memory store, with the hash that a change of it needs.",
            json!({ "store": store, "path": path }),
            json!(["path"]),
            looks(),
        ),
        (
            WRITE,
            "Writes one text of a memory store, if it is still as you read it.",
            json!({ "store": store, "path": path, "content": content, "content_sha256": seen }),
            json!(["path", "content"]),
            changes(),
        ),
        (
            DELETE,
            "Deletes one text of a memory store, if it is still as you read it.",
            json!({ "store": store, "path": path, "content_sha256": seen }),
            json!(["path", "content_sha256"]),
            changes(),
        ),
    ];
    let defined =
        all.into_iter().filter_map(|(name, description, properties, required, facets)| {
            let input = json!({
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            });
            let (name, schema) = (ToolName::new(name).ok()?, Schema::from_value(&input).ok()?);
            let mut definition = Definition::new(name, description, schema);
            definition.facets = facets;
            definition.gate = Gate::Auto;
            definition.status = Status::Unlisted;
            definition.max_result_bytes = 1 << 18;
            Some(definition)
        });
    defined.collect()
}

fn looks() -> Facets {
    Facets {
        mutates: Some(Mutates::None),
        reach: Some(BTreeSet::new()),
        fs: Some(FsAccess::None),
        process: Some(ProcessUse::None),
        effects: [DeclaredEffect::MemoryRead].into(),
        ..Facets::default()
    }
}

fn changes() -> Facets {
    Facets {
        mutates: Some(Mutates::Bounded),
        idempotency: Some(Idempotency::Idempotent),
        scope: Some(Scope::Shared),
        effects: [DeclaredEffect::MemoryRead, DeclaredEffect::MemoryWrite].into(),
        ..looks()
    }
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Delete,
    List,
    Read,
    Write,
}

#[derive(Debug, Deserialize)]
struct Wanted {
    store: Option<String>,
    #[serde(default)]
    path: String,
    prefix: Option<String>,
    #[serde(default)]
    content: String,
    content_sha256: Option<String>,
}

impl Verb {
    async fn run(
        self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> Result<Returned, ToolError> {
        context.require_going()?;
        let wanted = serde_json::from_value(Value::Object(arguments));
        let wanted: Wanted = wanted.map_err(|error| ToolError::invalid(error.to_string()))?;
        let desk = Desk::of(&context, wanted.store.as_deref()).await?;
        let value = match self {
            Self::List => desk.list(wanted.prefix.as_deref().unwrap_or_default()).await,
            Self::Read => desk.read(&wanted.path).await,
            Self::Write | Self::Delete if desk.attached.access == Access::ReadOnly => {
                let message = format!("the store `{}` is only to be read", desk.attached.name);
                return Err(ToolError::invalid(message));
            }
            Self::Write => desk.write(&context, wanted).await,
            Self::Delete => desk.delete(&context, &wanted).await,
        };
        let value = value.map_err(|error| match error.is_internal() {
            true => ToolError::internal(error.to_string()),
            false => ToolError::invalid(error.to_string()),
        })?;
        Ok(CallResult::Ok(Output::of_value(value)).into())
    }
}

/// A store of the session that calls.
struct Desk<'a> {
    store: &'a Store,
    tenant: Tenant,
    attached: AttachedStore,
    by: Actor,
}

impl<'a> Desk<'a> {
    async fn of(context: &'a ToolContext, name: Option<&str>) -> Result<Desk<'a>, ToolError> {
        let internal = |error: Error| ToolError::internal(error.to_string());
        let store = context.store().ok_or_else(|| ToolError::internal("there is no store"))?;
        let beside = kept_beside(store, context.session()).await.map_err(internal)?;
        let (tenant, members) =
            beside.ok_or_else(|| ToolError::invalid("this session has no memory store"))?;
        let resources = members.get("resources").and_then(Value::as_array);
        let mut attached = attached(resources.map(Vec::as_slice).unwrap_or_default());
        let named = |store: &AttachedStore| {
            name.is_none_or(|name| store.name == name || store.memory_store_id == name)
        };
        attached.retain(named);
        let by = Actor { kind: ActorKind::Agent, id: agent(store, context).await? };
        match <[AttachedStore; 1]>::try_from(attached) {
            Ok([attached]) => Ok(Desk { store, tenant, attached, by }),
            Err(several) if several.is_empty() => {
                Err(ToolError::invalid("this session has no such memory store"))
            }
            Err(several) => {
                let names: Vec<&str> = several.iter().map(|store| store.name.as_str()).collect();
                let names = names.join("`, `");
                Err(ToolError::invalid(format!("`store`: expected one of `{names}`")))
            }
        }
    }

    fn memories(&self) -> Memories<'_> {
        Memories { store: self.store, tenant: &self.tenant, of: &self.attached.memory_store_id }
    }

    async fn list(&self, prefix: &str) -> Result<Value, Error> {
        let mut paths = Vec::new();
        for memory in self.memories().all().await? {
            if memory.path().starts_with(prefix) {
                paths.push(memory.path().to_owned());
            }
        }
        paths.sort();
        let more = paths.len().saturating_sub(LISTED_MAX);
        paths.truncate(LISTED_MAX);
        Ok(json!({ "paths": paths, "n_more": more }))
    }

    async fn read(&self, path: &str) -> Result<Value, Error> {
        let found = self.memories().at(path).await?;
        let found = found.ok_or_else(|| Error::not_found("memory at", path))?;
        Ok(self.shown(&found))
    }

    fn shown(&self, memory: &Memory) -> Value {
        let mut shown = memory.shown(&self.attached.memory_store_id, View::Full);
        json!({
            "path": shown["path"].take(), "content": shown["content"].take(),
            "content_sha256": shown["content_sha256"].take(),
            "updated_at": shown["updated_at"].take(),
        })
    }

    /// What is there already as it is to be is not written again: a call that is made again after
    /// a crash finds its own work.
    async fn write(&self, context: &ToolContext, wanted: Wanted) -> Result<Value, Error> {
        let (memories, by) = (self.memories(), (&self.by, context.now()));
        let written = match memories.at(&wanted.path).await? {
            Some(found) if found.content() == wanted.content => found,
            Some(_) if wanted.content_sha256.is_none() => {
                return Err(Error::invalid(format!(
                    "there is a text at `{}`; read it, and write with its `content_sha256`",
                    wanted.path
                )));
            }
            Some(found) => {
                require_content(&found, wanted.content_sha256.as_deref())?;
                memories.change(found, None, Some(wanted.content), by).await?
            }
            None if wanted.content_sha256.is_some() => return Err(crate::memory::moved()),
            None => {
                memories.require_room().await?;
                let id = id_of("mem", fresh_bits(by.1).map_err(Error::internal)?);
                memories.create(&id, &wanted.path, wanted.content, by).await?
            }
        };
        let mut shown = self.shown(&written);
        shown["content"] = Value::Null;
        Ok(shown)
    }

    async fn delete(&self, context: &ToolContext, wanted: &Wanted) -> Result<Value, Error> {
        let memories = self.memories();
        if let Some(found) = memories.at(&wanted.path).await? {
            require_content(&found, wanted.content_sha256.as_deref())?;
            memories.delete(&found, (&self.by, context.now())).await?;
        }
        Ok(json!({ "path": wanted.path, "deleted": true }))
    }
}

/// The memory stores among what is attached to a session.
pub(crate) fn attached(resources: &[Value]) -> Vec<AttachedStore> {
    let stores = resources.iter().filter(|resource| resource["type"] == "memory_store");
    stores.filter_map(|store| serde_json::from_value(store.clone()).ok()).collect()
}

/// Who writes: the agent, by its id.
async fn agent(store: &Store, context: &ToolContext) -> Result<ActorId, ToolError> {
    let loaded = store.load(context.session()).await;
    let loaded = loaded.map_err(|error| ToolError::internal(error.to_string()))?;
    let open = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
    let agent = open.and_then(|open: &Open| open.config.agent.as_ref());
    let id = agent.map_or("agent", |agent| agent.id.as_str());
    ActorId::new(id).map_err(|error| ToolError::internal(error.to_string()))
}
