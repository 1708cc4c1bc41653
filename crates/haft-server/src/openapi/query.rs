//! Query parameters, as they are described.

use schemars::{Schema, json_schema};

/// A parameter of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    /// Whether something is so.
    Flag(&'static str),
    /// How many things a page has at most.
    Limit(u32),
    /// Some of a few words.
    ManyOf(&'static str, &'static [&'static str]),
    Number(&'static str),
    /// One of a few words.
    OneOf(&'static str, &'static [&'static str]),
    /// Where the page starts, as the page before said.
    Page,
    Text(&'static str),
    /// A text, as often as wanted.
    Texts(&'static str),
}

impl Query {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Limit(_) => "limit",
            Self::Page => "page",
            Self::Flag(name)
            | Self::ManyOf(name, _)
            | Self::Number(name)
            | Self::OneOf(name, _)
            | Self::Text(name)
            | Self::Texts(name) => name,
        }
    }

    pub(super) fn schema(self) -> Schema {
        match self {
            Self::Flag(_) => json_schema!({ "type": "boolean" }),
            Self::Limit(most) => json_schema!({ "type": "integer", "minimum": 1, "maximum": most }),
            Self::ManyOf(_, words) => {
                json_schema!({ "type": "array", "items": { "type": "string", "enum": words } })
            }
            Self::Number(_) => json_schema!({ "type": "integer", "minimum": 0 }),
            Self::OneOf(_, words) => json_schema!({ "type": "string", "enum": words }),
            Self::Page | Self::Text(_) => json_schema!({ "type": "string" }),
            Self::Texts(_) => json_schema!({ "type": "array", "items": { "type": "string" } }),
        }
    }
}
