//! `/v1/vaults`: where credentials are kept together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::kept::{End, Kept, Null, Sharing};
use super::vault_credentials;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::objects::{Members, Sort};
use crate::plan::checked_metadata;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Vault")]
pub(super) struct Declared {
    display_name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl Kept for Declared {
    const SORT: Sort = Sort::Vault;
    const KIND: &'static str = "vault";
    const NULL: Null = Null::Leaves;
    const SHARING: Sharing = Sharing::Owner;

    fn settled(&self) -> Result<Members, Error> {
        if !(1..=255).contains(&self.display_name.chars().count()) {
            return Err(Error::invalid("display_name: expected 1 to 255 characters"));
        }
        checked_metadata(&self.metadata)?;
        Ok(Members::from_iter([
            ("display_name".to_owned(), self.display_name.as_str().into()),
            ("metadata".to_owned(), json!(self.metadata)),
        ]))
    }

    async fn end(app: &App, caller: &Caller, id: &str, end: End) -> Result<(), Error> {
        vault_credentials::end_all(app, caller, id, end).await
    }
}
