//! Finding what earlier sessions said and kept: how a query is read, what a text is worth, how
//! what was found is put together, and what to read next. Pure; nothing here knows a store.

mod candidate;
mod plan;
mod query;

pub(crate) use candidate::{
    Backend, Candidate, Expansion, Found, Merged, Posture, Relation, Source, merged,
};
pub(crate) use plan::{Standing, plan};
pub(crate) use query::Query;
