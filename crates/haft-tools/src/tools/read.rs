//! `read`.

use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::Window;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Action;
use super::answer::{apart, beginning, done, refused, taken};
use super::entry;
use crate::hands::Hands;

const CHARS: usize = 12_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    path: String,
    max_chars: Option<usize>,
    start_line: Option<u64>,
    line_count: Option<u64>,
    tail_lines: Option<u64>,
    #[serde(default)]
    metadata_only: bool,
}

impl Wanted {
    fn window(&self) -> Result<Window, ToolError> {
        match (self.start_line, self.line_count, self.tail_lines) {
            (None, None, None) => Ok(Window::Whole),
            (first, Some(count), None) => Ok(Window::Lines { first: first.unwrap_or(1), count }),
            (None, None, Some(count)) => Ok(Window::Tail { count }),
            (_, Some(_), Some(_)) => {
                Err(ToolError::invalid("give `lineCount` or `tailLines`, not both"))
            }
            (Some(_), None, _) => Err(ToolError::invalid("`startLine` needs `lineCount`")),
        }
    }
}

pub(super) async fn read(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let window = wanted.window()?;
    let hand = Hands::of(&context).await?;
    if wanted.metadata_only {
        return apart(move || entry::stat(&hand, &wanted.path)).await;
    }
    apart(move || {
        let path = hand.path(&wanted.path).map_err(refused(Action::ReadText))?;
        let chars = wanted.max_chars.unwrap_or(CHARS);
        // A character takes at most four bytes.
        let reading = hand.files().read(&path, window, chars.saturating_mul(4));
        let reading = reading.map_err(refused(Action::ReadText))?;
        let decoded = String::from_utf8_lossy(&reading.bytes);
        let (content, cut) = match reading.binary {
            true => ("", true),
            false => beginning(&decoded, chars),
        };
        let text = match reading.binary {
            true => format!("{path} is not text; it has {} bytes", reading.size),
            false => content.to_owned(),
        };
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(&path),
            "content": content,
            "truncated": cut || reading.cut,
            "binary": reading.binary,
            "charCount": content.chars().count(),
            "byteCount": reading.size,
            "totalLineCount": reading.whole.as_ref().map(|whole| whole.lines),
            "contentHash": reading.whole.as_ref().map(|whole| whole.hash.to_string()),
            "selectedLineCount": content.lines().count(),
            "lineWindow": line_window(window),
        });
        Ok(done(Action::ReadText, text, output))
    })
    .await
}

fn line_window(window: Window) -> Value {
    match window {
        Window::Whole | Window::Bytes { .. } => Value::Null,
        Window::Lines { first, count } => json!({ "startLine": first, "lineCount": count }),
        Window::Tail { count } => json!({ "tailLines": count }),
    }
}
