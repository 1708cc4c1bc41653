//! The agent's notes where its files are, and copies of what is kept where the session's are.

use haft_runtime::{ToolContext, ToolError};
use haft_sandbox::files::{ContentHash, Expected, FileError, Parents};

use crate::hands::{Hands, mirror};
use crate::memory::Target;
use crate::sight::Viewer;
use crate::substrate::Substrate;
use crate::tools::apart;

const FILE: &str = "MEMORY.md";
const BEGIN: &str = "<!-- haft:notes -->";
const END: &str = "<!-- /haft:notes -->";
/// How often a file that others change is looked at again.
const TRIES: usize = 8;

/// MEMORY.md with the notes as they are; the notes alone when there is no such file.
pub(crate) async fn workspace_memory(
    viewer: &Viewer,
    context: &ToolContext,
) -> Result<String, ToolError> {
    let kept = viewer.memory(viewer.own.session).latest(Target::WorkspaceMemoryNotes).await?;
    let notes = kept.map(|kept| kept.content).unwrap_or_default();
    let Some(substrate) = substrate(context).await else { return Ok(notes) };
    let file = apart(move || Ok(substrate.read(FILE)?)).await?;
    let file = file.map(|file| String::from_utf8_lossy(&file).into_owned()).unwrap_or_default();
    Ok(with_notes(&file, &notes))
}

async fn substrate(context: &ToolContext) -> Option<Substrate> {
    let hand = Hands::of(context).await.ok()?;
    Substrate::of(&hand).ok()
}

/// Puts the notes into the substrate's MEMORY.md, and returns where they are.
pub(crate) async fn publish(context: &ToolContext, notes: &str) -> Result<String, ToolError> {
    let Some(substrate) = substrate(context).await else {
        return Ok(show(context, "memory-notes.md", notes.to_owned()).await);
    };
    let notes = notes.to_owned();
    apart(move || {
        for _ in 0..TRIES {
            let before = substrate.read(FILE)?;
            let text = String::from_utf8_lossy(before.as_deref().unwrap_or_default()).into_owned();
            let after = with_notes(&text, &notes);
            let expected = before
                .as_deref()
                .map_or(Expected::Absent, |before| Expected::Content(ContentHash::of(before)));
            match substrate.write(FILE, after.as_bytes(), expected) {
                Err(FileError::Changed { .. } | FileError::Exists { .. }) => {}
                written => {
                    written?;
                    return Ok(substrate.path(FILE)?.to_string());
                }
            }
        }
        Err(ToolError::upstream("MEMORY.md is being changed all the time; the notes are kept"))
    })
    .await
}

/// The section between the marks, or one at the end.
fn with_notes(file: &str, notes: &str) -> String {
    // What is noted cannot end the section.
    let notes = notes.replace(BEGIN, "").replace(END, "");
    let section = format!("{BEGIN}\n{}\n{END}", notes.trim_end());
    match (file.find(BEGIN), file.find(END)) {
        (Some(from), Some(to)) if from < to => {
            let (before, rest) = (file.get(..from), file.get(to + END.len()..));
            format!("{}{section}{}", before.unwrap_or_default(), rest.unwrap_or_default())
        }
        _ if notes.is_empty() => file.to_owned(),
        _ if file.is_empty() => format!("{section}\n"),
        _ => format!("{}\n\n{section}\n", file.trim_end()),
    }
}

/// Writes a copy into the session's files, and returns where. A workspace that takes none is no
/// reason to fail: what is kept is kept.
pub(crate) async fn show(context: &ToolContext, name: &'static str, content: String) -> String {
    let Ok(hand) = Hands::of(context).await else { return String::new() };
    let path = mirror::path(&hand, name);
    let shown = path.to_string();
    let written = apart(move || {
        hand.files().write(&path, content.as_bytes(), Expected::Anything, Parents::Create)?;
        Ok(())
    });
    drop(written.await);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_take_their_section_and_leave_the_rest_alone() {
        let file = with_notes("# Memory\n", "one");
        assert_eq!(file, format!("# Memory\n\n{BEGIN}\none\n{END}\n"));
        let again = with_notes(&(file + "below\n"), &format!("two {END} more"));
        assert_eq!(again, format!("# Memory\n\n{BEGIN}\ntwo  more\n{END}\nbelow\n"));
        assert_eq!(with_notes("", "one"), format!("{BEGIN}\none\n{END}\n"));
        assert_eq!(with_notes("kept", ""), "kept");
    }
}
