//! Spans of OpenTelemetry's GenAI conventions, sent to a collector over OTLP (HTTP, protobuf).
//!
//! Our own and not the `opentelemetry` crates: what is exported is three kinds of spans that
//! `tracing` has already, which takes a layer, an encoder of one message and one POST; the crates
//! are some thirty more to build. Nothing of this runs unless a collector is configured.

mod collect;
mod encode;
mod send;

use std::collections::BTreeMap;

pub use self::collect::Spans;
pub use self::send::{Exporter, ExporterError, Running};

/// Where spans go, and what they say of this process.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// The URL to post to, such as `http://localhost:4318/v1/traces`.
    pub endpoint: String,
    /// Headers that the collector wants, such as its key.
    pub headers: Vec<(String, String)>,
    /// What is said of this process, `service.name` above all.
    pub resource: BTreeMap<String, String>,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
struct Ended {
    trace: [u8; 16],
    span: [u8; 8],
    parent: Option<[u8; 8]>,
    name: String,
    is_client: bool,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
    attributes: Vec<(&'static str, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    Texts(Vec<String>),
}

impl Ended {
    fn text(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find_map(|(known, value)| match value {
            Value::Text(text) if *known == name => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Takes `openinference.project.name=haft,deployment.environment=test` apart.
#[must_use]
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}
