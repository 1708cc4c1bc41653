//! `/v1/memory_stores`: named containers of texts that outlive sessions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::kept::{Kept, Null};
use crate::error::Error;
use crate::objects::{Members, Sort};
use crate::plan::checked_metadata;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MemoryStore")]
pub(super) struct Declared {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl Kept for Declared {
    const SORT: Sort = Sort::MemoryStore;
    const KIND: &'static str = "memory_store";
    const NULL: Null = Null::Leaves;

    fn settled(&self) -> Result<Members, Error> {
        let is_named = (1..=255).contains(&self.name.chars().count());
        if !is_named || self.name.chars().any(char::is_control) {
            let message = "name: expected 1 to 255 characters without control characters";
            return Err(Error::invalid(message));
        }
        if self.description.chars().count() > 1024 {
            return Err(Error::invalid("description: expected at most 1024 characters"));
        }
        checked_metadata(&self.metadata)?;
        Ok(Members::from_iter([
            ("name".to_owned(), self.name.as_str().into()),
            ("description".to_owned(), self.description.as_str().into()),
            ("metadata".to_owned(), json!(self.metadata)),
        ]))
    }
}
