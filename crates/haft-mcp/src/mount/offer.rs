//! What a mounted server says that it offers, read no further than its limits.

use rmcp::model::{PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};

/// The most that all definitions of a server's tools have together.
const ALL_BYTES_MAX: usize = 16 << 20;
/// The largest definition of one tool.
pub(super) const TOOL_BYTES_MAX: usize = 256 << 10;
/// How many pages are read: a server may give one tool a page, or none.
const PAGES_MAX: usize = 2_000;

/// A server's tools, or why none of them are taken.
pub(super) type Offer = Result<Vec<Tool>, String>;

/// Reads page after page until there are no more, or too many.
pub(super) async fn listed(peer: &Peer<RoleClient>, max: usize) -> Result<Offer, ServiceError> {
    let (mut tools, mut cursor, mut n_bytes) = (Vec::new(), None, 0);
    for _ in 0..PAGES_MAX {
        let mut page = PaginatedRequestParams::default();
        page.cursor = cursor.take();
        let listed = peer.list_tools(Some(page)).await?;
        n_bytes += listed.tools.iter().map(size).sum::<usize>();
        tools.extend(listed.tools);
        if tools.len() > max {
            return Ok(Err(format!(
                "it offers more than {max} tools, so none of them are taken; raise `max_tools` of \
                 the mount if they are all wanted"
            )));
        }
        if n_bytes > ALL_BYTES_MAX {
            return Ok(Err(format!(
                "the definitions of its tools have more than {ALL_BYTES_MAX} bytes, so none of \
                 them are taken"
            )));
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            return Ok(Ok(tools));
        }
    }
    Ok(Err(format!("its list of tools has more than {PAGES_MAX} pages, so none are taken")))
}

fn size(tool: &Tool) -> usize {
    serde_json::to_string(tool).map_or(0, |text| text.len())
}
