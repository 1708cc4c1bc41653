//! Paths with their handlers, and what is known of each.

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

use super::Query;
use super::takes::{Taken, TakenBody, Takes};
use crate::app::App;
use crate::input::Described;

/// Paths, and a description of each.
#[derive(Default)]
pub(crate) struct Paths {
    router: Router<App>,
    pub(super) operations: Vec<(String, Operation)>,
}

/// What one method of a path does.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// The handler's name in the sources.
    pub(super) handler: &'static str,
    pub(super) taken: Taken,
    pub(super) query: &'static [Query],
    pub(super) gives: Gives,
}

/// What comes back when all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    Bytes,
    Events,
    JsonLines,
    Object,
    Page,
    Tar,
    Zip,
}

/// The methods of one path.
pub(crate) struct Methods(Vec<(Operation, MethodRouter<App>)>);

pub(crate) fn get<H, T>(handler: H) -> Methods
where
    H: Handler<T, App>,
    T: Takes + 'static,
{
    Methods(Vec::new()).get(handler)
}

pub(crate) fn post<H, T>(handler: H) -> Methods
where
    H: Handler<T, App>,
    T: Takes + 'static,
{
    Methods(Vec::new()).post(handler)
}

pub(crate) fn delete<H, T>(handler: H) -> Methods
where
    H: Handler<T, App>,
    T: Takes + 'static,
{
    Methods(Vec::new()).delete(handler)
}

impl Methods {
    pub(crate) fn get<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Takes + 'static,
    {
        self.with("get", MethodFilter::GET, handler)
    }

    pub(crate) fn post<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Takes + 'static,
    {
        self.with("post", MethodFilter::POST, handler)
    }

    pub(crate) fn delete<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Takes + 'static,
    {
        self.with("delete", MethodFilter::DELETE, handler)
    }

    fn with<H, T>(mut self, method: &'static str, filter: MethodFilter, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Takes + 'static,
    {
        let mut taken = Taken::default();
        T::take(&mut taken);
        let handler_name = std::any::type_name::<H>();
        let (query, gives) = (&[][..], Gives::Object);
        let operation = Operation { method, handler: handler_name, taken, query, gives };
        self.0.push((operation, on(filter, handler)));
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Operation)) -> Self {
        if let Some((operation, _)) = self.0.last_mut() {
            change(operation);
        }
        self
    }

    /// Says which parameters the last method's query may have.
    pub(crate) fn query(self, query: &'static [Query]) -> Self {
        self.last(|operation| operation.query = query)
    }

    /// Says what the last method's body is, where its handler reads it piece by piece.
    pub(crate) fn body<T: JsonSchema>(self) -> Self {
        let schema = SchemaGenerator::subschema_for::<T>;
        let body = TakenBody { media_type: "application/json", schema };
        self.last(|operation| operation.taken.body = Some(body))
    }

    /// Says what the last method's form is, where it is not one file.
    pub(crate) fn form(self, schema: fn(&mut SchemaGenerator) -> Schema) -> Self {
        let body = TakenBody { media_type: "multipart/form-data", schema };
        self.last(|operation| operation.taken.body = Some(body))
    }

    /// The last method gives a page of things.
    pub(crate) fn page(self) -> Self {
        self.last(|operation| operation.gives = Gives::Page)
    }

    /// The last method gives server-sent events.
    pub(crate) fn events(self) -> Self {
        self.last(|operation| operation.gives = Gives::Events)
    }

    /// The last method gives bytes.
    pub(crate) fn bytes(self) -> Self {
        self.last(|operation| operation.gives = Gives::Bytes)
    }

    /// The last method gives JSON values, one a line.
    pub(crate) fn json_lines(self) -> Self {
        self.last(|operation| operation.gives = Gives::JsonLines)
    }

    /// The last method gives a tar archive.
    pub(crate) fn tar(self) -> Self {
        self.last(|operation| operation.gives = Gives::Tar)
    }

    /// The last method gives an archive of files.
    pub(crate) fn zip(self) -> Self {
        self.last(|operation| operation.gives = Gives::Zip)
    }

    /// Bounds the bodies of all methods.
    pub(crate) fn body_max(self, bytes: usize) -> Self {
        let bounded = |(operation, router): (Operation, MethodRouter<App>)| {
            (operation, router.layer(DefaultBodyLimit::max(bytes)))
        };
        Self(self.0.into_iter().map(bounded).collect())
    }
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn route(mut self, path: &str, methods: Methods) -> Self {
        for (operation, router) in methods.0 {
            let router = router.route_layer(Extension(Described(operation.query)));
            self.router = self.router.route(path, router);
            self.operations.push((path.to_owned(), operation));
        }
        self
    }

    /// Adds a path that is not described: nothing comes of it but an error.
    pub(crate) fn refusing(mut self, path: &str, methods: MethodRouter<App>) -> Self {
        self.router = self.router.route(path, methods);
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        self
    }

    /// Puts paths below another one.
    pub(crate) fn nest(mut self, prefix: &str, other: Self) -> Self {
        self.router = self.router.nest(prefix, other.router);
        let below = other.operations.into_iter().map(|(path, operation)| {
            (format!("{prefix}{}", path.trim_end_matches('/')), operation)
        });
        self.operations.extend(below);
        self
    }

    pub(crate) fn into_router(self) -> Router<App> {
        self.router
    }
}
