//! The document itself.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::Paths;
use super::paths::{Gives, Operation};
use super::takes::{Key, Resumes};

/// Describes paths as OpenAPI 3.1, which takes JSON Schema as it is.
pub(crate) fn document(paths: &Paths) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut described: Map<String, Value> = Map::new();
    for (path, operation) in &paths.operations {
        let shown = operation.shown(path, &mut schemas);
        let methods = described.entry(path.clone()).or_insert_with(|| json!({}));
        methods[operation.method] = shown;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Haft",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The durable, permissioned tool runtime for LLM agents. Below `/v1`: \
                the wire format of the official Anthropic SDKs. Below `/haft/v1`: what that API \
                has no word for.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": described,
        "components": {
            "schemas": schemas.take_definitions(true),
            "responses": { "Error": error() },
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn error() -> Value {
    let detail = json!({
        "type": "object", "required": ["type", "message"],
        "properties": {
            "type": { "type": "string" }, "message": { "type": "string" },
            "details": { "type": "object" },
        },
    });
    let body = json!({
        "type": "object", "required": ["type", "error", "request_id"],
        "properties": {
            "type": { "const": "error" }, "error": detail, "request_id": { "type": "string" },
        },
    });
    json!({
        "description": "Why it was not done, for people and for programs",
        "content": { "application/json": { "schema": body } },
    })
}

impl Operation {
    fn shown(&self, path: &str, schemas: &mut SchemaGenerator) -> Value {
        let (module, verb) = self.named();
        let mut shown = json!({
            "operationId": format!("{module}.{verb}"),
            "tags": [module],
            "parameters": self.parameters(path),
            "responses": {
                "200": self.gives.shown(),
                "4XX": { "$ref": "#/components/responses/Error" },
                "503": { "$ref": "#/components/responses/Error" },
            },
            "security": match self.taken.key {
                Key::Needed => json!([{ "key": [] }, { "bearer": [] }]),
                Key::None => json!([]),
            },
        });
        if let Some(body) = &self.taken.body {
            let schema = (body.schema)(schemas);
            shown["requestBody"] =
                json!({ "required": true, "content": { body.media_type: { "schema": schema } } });
        }
        shown
    }

    /// The module of the handler and its name. A handler for several sorts of things is of the
    /// module of the sort.
    fn named(&self) -> (String, &'static str) {
        let (function, sort) = match self.handler.split_once('<') {
            Some((function, sort)) => (function, Some(sort.trim_end_matches('>'))),
            None => (self.handler, None),
        };
        let (of, verb) = function.rsplit_once("::").unwrap_or(("", function));
        let module = sort.and_then(|sort| sort.rsplit_once("::")).map_or(of, |(module, _)| module);
        let below = module.split_once("routes::").map_or(module, |(_, below)| below);
        (below.replace("::", "."), verb)
    }

    fn parameters(&self, path: &str) -> Vec<Value> {
        let segments = path.split('/');
        let names = segments.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names.map(|name| {
            json!({
                "name": name, "in": "path", "required": true,
                "schema": { "type": "string", "minLength": 1 },
            })
        });
        let in_query = self
            .query
            .iter()
            .map(|query| json!({ "name": query.name(), "in": "query", "schema": query.schema() }));
        let resumed = json!({
            "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
            "description": "The last event that was seen: what came after it is told",
        });
        let resumed = (self.taken.resumes == Resumes::AfterAnEvent).then_some(resumed);
        let once = json!({
            "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
            "description": "The same key and body again within 24 hours is done once and gives the \
                first answer again, with the header `Idempotent-Replayed: true`; the key with \
                another request is refused with 422",
        });
        let does = self.method != "get" && self.taken.key == Key::Needed;
        let once = does.then_some(once);
        in_path.chain(in_query).chain(resumed).chain(once).collect()
    }
}

impl Gives {
    fn shown(self) -> Value {
        let object = || json!({ "type": "object" });
        let page = json!({
            "type": "object", "required": ["data"],
            "properties": { "data": { "type": "array", "items": object() } },
        });
        let (media_type, schema) = match self {
            Self::Bytes => ("application/octet-stream", json!({})),
            Self::Events => ("text/event-stream", json!({ "type": "string" })),
            Self::JsonLines => ("application/x-ndjson", json!({})),
            Self::Object => ("application/json", object()),
            Self::Page => ("application/json", page),
            Self::Tar => ("application/x-tar", json!({})),
            Self::Zip => ("application/zip", json!({})),
        };
        json!({ "description": "Done", "content": { media_type: { "schema": schema } } })
    }
}
