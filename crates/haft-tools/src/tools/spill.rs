//! Output of any size: its ends are shown, the whole is kept.

use haft_core::ArtifactRef;
use haft_runtime::{ToolContext, ToolError};
use haft_sandbox::process::{Keep, Said, Sink};
use std::fs::File;
use std::io::{Read as _, Seek as _};

use super::answer::apart;
use crate::hands::{Hand, Secrets};

/// How much of a kept output is in memory at once, and in one artifact.
const PIECE: usize = 16 << 20;
const CHARS: usize = 12_000;

/// How much of each stream is shown.
pub(super) fn shown(max_output_chars: Option<usize>) -> Keep {
    let chars = max_output_chars.unwrap_or(CHARS);
    // More of the end: that is where a command says what went wrong.
    Keep { head: chars / 3, tail: chars - chars / 3 }
}

/// A file that nobody else sees, and a sink that fills it.
pub(super) fn file_and_sink(hand: &Hand) -> Result<(File, Sink), ToolError> {
    let file = tempfile::tempfile()?;
    let sink = Sink::new(file.try_clone()?, hand.settings().kept_bytes);
    Ok((file, sink))
}

/// Keeps all that was said, if not all of it is shown.
pub(super) async fn keep(
    file: File,
    said: [&Said; 2],
    secrets: &Secrets,
    context: &ToolContext,
) -> Result<Vec<ArtifactRef>, ToolError> {
    let mut kept = Vec::new();
    if said.iter().all(|said| said.omitted == 0) || context.store().is_none() {
        return Ok(kept);
    }
    let mut rest = Vec::new();
    let mut file = apart(move || {
        let mut file = file;
        file.rewind()?;
        Ok(file)
    })
    .await?;
    loop {
        let (returned, piece) = apart(move || next_piece(file, rest)).await?;
        let Some((whole, left)) = piece else { return Ok(kept) };
        (file, rest) = (returned, left);
        let title = format!("output of a command, part {}", kept.len() + 1);
        let masked = secrets.masked_bytes(&whole).into_owned();
        kept.push(context.keep(&title, "text/plain; charset=utf-8", masked).await?);
    }
}

/// A piece and what was read beyond it; `None` at the end.
type Piece = Option<(Vec<u8>, Vec<u8>)>;

/// Reads the next piece, up to the end of a line, so that no secret is cut in two.
fn next_piece(mut file: File, mut piece: Vec<u8>) -> Result<(File, Piece), ToolError> {
    let room = PIECE.saturating_sub(piece.len()) as u64;
    let read = (&mut file).take(room).read_to_end(&mut piece)?;
    if piece.is_empty() {
        return Ok((file, None));
    }
    let whole_lines = memchr::memrchr(b'\n', &piece).map_or(piece.len(), |at| at + 1);
    let rest = match (read as u64) < room {
        true => Vec::new(),
        false => piece.split_off(whole_lines),
    };
    Ok((file, Some((piece, rest))))
}
