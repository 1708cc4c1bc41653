//! The description of the API, made from the routes.
//!
//! A route is added to [`Paths`] with its handler. What the handler takes (a body of a type, the
//! query, a caller's key) is read from its type; what no type says (which query parameters, whether
//! a page or a stream comes back) stands beside it. `openapi.json` beside the sources is the
//! document as it was last agreed to.

mod document;
mod paths;
mod query;
mod shapes;
mod takes;

pub(crate) use document::document;
pub(crate) use paths::{Paths, delete, get, post};
pub(crate) use query::Query;
pub(crate) use shapes::{Changes, also};
pub(crate) use takes::{Taken, Takes};
