//! `ExportTraceServiceRequest` of OTLP 1.x, as protobuf. The numbers are those of the schema.

use std::collections::BTreeMap;

use super::{Ended, Value};

const SCOPE: &str = "haft";

/// Writes what a collector takes.
pub(super) fn request(resource: &BTreeMap<String, String>, spans: &[Ended]) -> Vec<u8> {
    let mut described = Message::default();
    for (name, value) in resource {
        described.message(1, &pair(name, &Value::Text(value.clone())));
    }
    let mut scope = Message::default();
    scope.text(1, SCOPE);
    scope.text(2, env!("CARGO_PKG_VERSION"));
    let mut of_scope = Message::default();
    of_scope.message(1, &scope);
    for ended in spans {
        of_scope.message(2, &span(ended));
    }
    let mut of_resource = Message::default();
    of_resource.message(1, &described);
    of_resource.message(2, &of_scope);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.0
}

fn span(ended: &Ended) -> Message {
    let mut span = Message::default();
    span.bytes(1, &ended.trace);
    span.bytes(2, &ended.span);
    if let Some(parent) = &ended.parent {
        span.bytes(4, parent);
    }
    span.text(5, &ended.name);
    let (internal, client) = (1, 3);
    span.number(6, if ended.is_client { client } else { internal });
    span.fixed(7, ended.start);
    span.fixed(8, ended.end);
    for (name, value) in &ended.attributes {
        span.message(9, &pair(name, value));
    }
    if let Some(error) = ended.text("error.type") {
        let mut status = Message::default();
        status.text(2, error);
        status.number(3, 2);
        span.message(15, &status);
    }
    span
}

fn pair(name: &str, value: &Value) -> Message {
    let mut pair = Message::default();
    pair.text(1, name);
    pair.message(2, &any(value));
    pair
}

fn any(value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::Text(text) => any.text(1, text),
        Value::Bool(is_so) => any.number(2, u64::from(*is_so)),
        // Two's complement, as int64 is written.
        Value::Int(number) => any.number(3, *number as u64),
        Value::Texts(texts) => {
            let mut list = Message::default();
            for text in texts {
                list.message(1, &self::any(&Value::Text(text.clone())));
            }
            any.message(5, &list);
        }
    }
    any
}

/// A protobuf message as it grows.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}
