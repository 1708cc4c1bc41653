//! Outputs that are kept outside results, as resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft_core::ArtifactId;
use rmcp::model::{ErrorData, ReadResourceResult, ResourceContents};

use super::McpServer;
use super::calls::trouble;
use crate::principal::Principal;

impl McpServer {
    /// Reads an output that the principal's calls have led to.
    pub(super) async fn artifact(
        &self,
        principal: &Principal,
        uri: &str,
    ) -> Result<Option<ReadResourceResult>, ErrorData> {
        let Some(id) = uri.strip_prefix("haft://artifacts/") else { return Ok(None) };
        let Ok(id) = id.parse::<ArtifactId>() else { return Ok(None) };
        let found = self.0.haft.store().artifact(&principal.tenant, id).await;
        let Some(found) = found.map_err(|error| trouble(&error))? else { return Ok(None) };
        let is_theirs = match found.session {
            Some(session) => self.is_of(principal, session).await?,
            // A file that somebody uploaded: its owner reads it as a file.
            None => false,
        };
        if !is_theirs {
            return Ok(None);
        }
        let contents = match String::from_utf8(found.body) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(bytes) => ResourceContents::blob(STANDARD.encode(bytes.as_bytes()), uri),
        };
        let contents = contents.with_mime_type(found.reference.media_type);
        Ok(Some(ReadResourceResult::new(vec![contents])))
    }
}
