//! What a handler takes of a request, read from the types of its arguments.

use axum::extract::State;
use axum::http::HeaderMap;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};

use crate::app::App;
use crate::caller::Caller;
use crate::input::{Body, Form, Params, Path, Raw};

/// What a handler takes, gathered from its arguments.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(super) key: Key,
    pub(super) body: Option<TakenBody>,
    pub(super) resumes: Resumes,
}

/// Whether a caller must have a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Key {
    #[default]
    None,
    Needed,
}

/// Whether `Last-Event-ID` is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Resumes {
    #[default]
    No,
    AfterAnEvent,
}

#[derive(Debug)]
pub(super) struct TakenBody {
    pub(super) media_type: &'static str,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// An argument of a handler, or all of them.
pub(crate) trait Takes {
    fn take(taken: &mut Taken);
}

impl Takes for State<App> {
    fn take(_: &mut Taken) {}
}

impl<T> Takes for Path<T> {
    fn take(_: &mut Taken) {}
}

impl Takes for Params {
    fn take(_: &mut Taken) {}
}

impl Takes for Caller {
    fn take(taken: &mut Taken) {
        taken.key = Key::Needed;
    }
}

impl Takes for HeaderMap {
    fn take(taken: &mut Taken) {
        taken.resumes = Resumes::AfterAnEvent;
    }
}

impl<T: JsonSchema> Takes for Body<T> {
    fn take(taken: &mut Taken) {
        let schema = SchemaGenerator::subschema_for::<T>;
        taken.body = Some(TakenBody { media_type: "application/json", schema });
    }
}

impl Takes for Form {
    fn take(taken: &mut Taken) {
        let schema = |_: &mut SchemaGenerator| {
            json_schema!({
                "type": "object", "required": ["file"],
                "properties": { "file": { "type": "string", "format": "binary" } },
            })
        };
        taken.body = Some(TakenBody { media_type: "multipart/form-data", schema });
    }
}

impl Takes for Raw {
    fn take(taken: &mut Taken) {
        let schema =
            |_: &mut SchemaGenerator| json_schema!({ "type": "string", "format": "binary" });
        taken.body = Some(TakenBody { media_type: "application/octet-stream", schema });
    }
}

/// The shape in which axum knows a handler's arguments: a mark, then each of them.
macro_rules! handlers {
    ($(($($argument:ident),+),)+) => {$(
        impl<M, $($argument: Takes),+> Takes for (M, $($argument),+) {
            fn take(taken: &mut Taken) {
                $($argument::take(taken);)+
            }
        }
    )+};
}

handlers!((A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E),);
