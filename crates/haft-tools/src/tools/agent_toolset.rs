//! The code of the agent toolset: the managed tools' own, in the words of the wire API.

use haft_core::session::{Preview, Returned};
use haft_core::{CallResult, ContentBlock, Output};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::{Files, Kind, Listed, Window};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Ignores, Query};
use haft_sandbox::shell::End;
use haft_sandbox::virtual_path::VirtualPath;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::answer::{apart, refused, taken};
use super::command::{said, shown_before};
use super::shell::{STOP_GRACE, Typed, end, ensure};
use super::shell_state::settle;
use super::{Action, Managed, change};
use crate::hands::{Hand, Hands};

const COMMAND_TIME: Duration = Duration::from_secs(120);
/// Output of commands and searches that is shown, and text that is read without a range.
const SHOWN_BYTES: usize = 100 << 10;
const TEXT_BYTES: u64 = 256 << 10;
const FILES_SHOWN: usize = 200;
/// Files that are looked at for the newest among them.
const FILES_MAX: usize = 10_000;
const LINES_MAX: usize = 10_000;
/// Within the 15 s that a call has.
const SEARCH_TIME: Duration = Duration::from_secs(10);
const IMAGE_BYTES: u64 = 5 << 20;
const PDF_BYTES: u64 = 20 << 20;

pub(super) fn tools() -> [Managed; 6] {
    [
        Managed::new("agent_bash", |arguments, context| Box::pin(bash(arguments, context)))
            .previewed(|arguments, context| Box::pin(preview_bash(arguments, context))),
        Managed::new("agent_read", |arguments, context| Box::pin(read(arguments, context))),
        Managed::new("agent_write", |arguments, context| Box::pin(write(arguments, context)))
            .previewed(|arguments, context| Box::pin(preview_write(arguments, context))),
        Managed::new("agent_edit", |arguments, context| Box::pin(edit(arguments, context)))
            .previewed(|arguments, context| Box::pin(preview_edit(arguments, context))),
        Managed::new("agent_glob", |arguments, context| Box::pin(glob(arguments, context))),
        Managed::new("agent_grep", |arguments, context| Box::pin(grep(arguments, context))),
    ]
}

#[derive(Debug, Deserialize)]
struct WantedCommand {
    command: Option<String>,
    #[serde(default)]
    restart: bool,
    timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct WantedText {
    file_path: String,
    view_range: Option<(i64, i64)>,
}

#[derive(Debug, Deserialize)]
struct WantedFile {
    file_path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
struct WantedEdit {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
struct WantedSearch {
    pattern: String,
    path: Option<String>,
}

async fn bash(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedCommand = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let command = wanted.command.filter(|command| !command.is_empty());
    if wanted.restart {
        if command.is_some() {
            let message = "`restart` runs no command; send `command` in a call of its own";
            return Err(ToolError::invalid(message));
        }
        return restarted(&hand, &context).await;
    }
    let command = command.ok_or_else(|| ToolError::invalid("`command` is needed"))?;
    let wall = match wanted.timeout_ms {
        None | Some(0) => COMMAND_TIME,
        Some(ms) => Duration::from_millis(ms),
    };
    // What is not over when its time is up is interrupted, and else ended with its shell.
    let wait = wall + 2 * STOP_GRACE;
    let shown = Some(SHOWN_BYTES);
    let typed = Typed { tool: "agent_bash", command, cwd: None, restart: false, wait, wall, shown };
    let (_, notice) = typed.run(&hand, &context).await?;
    let Some(ended) = settle(&hand, &context).await? else {
        end(&hand).await?;
        return Err(ToolError::new("the command did not end and was ended with its shell"));
    };
    let said = said(&ended.stdout, &ended.stderr, &ended.kept);
    let said = notice.map_or_else(String::new, |notice| format!("{notice}\n")) + &said;
    match ended.end {
        End::Exited(0) => Ok(Returned::from(CallResult::Ok(Output {
            content: vec![ContentBlock::Text { text: said }],
            value: None,
            artifacts: ended.kept,
        }))),
        End::Exited(_) | End::TimedOut(_) | End::MemoryLimit(_) | End::ShellEnded(_) => {
            Err(ToolError::new(format!("{said}\n[{}]", ended.ending)))
        }
    }
}

/// Ends the shell with all that runs in it, and opens another one with nothing of the first.
async fn restarted(hand: &Arc<Hand>, context: &ToolContext) -> Result<Returned, ToolError> {
    settle(hand, context).await?;
    end(hand).await?;
    hand.desk().reset(hand.workspace().home.clone());
    // What would be told of an earlier process does not hold for this shell.
    drop(hand.take_notice());
    ensure(hand, None, context.now()).await?;
    hand.keep_desk(context).await?;
    Ok(text("bash session restarted"))
}

async fn preview_bash(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedCommand = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let command = wanted.command.unwrap_or_else(|| "(a fresh shell)".to_owned());
    Ok(shown_before(&command, hand.cwd().to_string()))
}

async fn read(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedText = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    let path = hand.path(&wanted.file_path).map_err(refused(Action::ReadText))?;
    if let Some(media) = media_type(&path) {
        return read_media(media, path, wanted.view_range, &context).await;
    }
    apart(move || {
        let window = match wanted.view_range {
            None => Window::Whole,
            Some((first, last)) => lines(first, last)?,
        };
        let limit = usize::try_from(TEXT_BYTES).unwrap_or(usize::MAX);
        let reading = hand.files().read(&path, window, limit);
        let reading = reading.map_err(refused(Action::ReadText))?;
        if reading.binary {
            return Err(ToolError::new(format!("{path} is not text")));
        }
        if reading.cut {
            return Err(ToolError::new(format!(
                "{path} is {} bytes; at most {TEXT_BYTES} are read at once: give a `view_range` \
                 such as [1, 500]",
                reading.size
            )));
        }
        Ok(text(String::from_utf8_lossy(&reading.bytes)))
    })
    .await
}

fn lines(first: i64, last: i64) -> Result<Window, ToolError> {
    let first = u64::try_from(first.max(1)).unwrap_or(1);
    let count = match u64::try_from(last) {
        Ok(last) if last >= first => last - first + 1,
        Ok(1..) => return Err(ToolError::invalid("the `view_range` ends before it begins")),
        Ok(0) | Err(_) => u64::MAX - first,
    };
    Ok(Window::Lines { first, count })
}

/// What is shown to a model as it is, by the ending of its name.
fn media_type(path: &VirtualPath) -> Option<&'static str> {
    let path = path.to_string().to_ascii_lowercase();
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => return None,
    })
}

/// Keeps the file as an artifact, which stands in the result.
async fn read_media(
    media: &str,
    path: VirtualPath,
    range: Option<(i64, i64)>,
    context: &ToolContext,
) -> Result<Returned, ToolError> {
    if range.is_some() {
        return Err(ToolError::invalid("an image or PDF has no lines: leave out `view_range`"));
    }
    let hand = Hands::of(context).await?;
    let limit = if media == "application/pdf" { PDF_BYTES } else { IMAGE_BYTES };
    let title = path.to_string();
    let read =
        apart(move || hand.files().read_all(&path, limit).map_err(refused(Action::ReadText)));
    let kept = context.keep(&title, media, read.await?).await?;
    Ok(Returned::from(CallResult::Ok(Output {
        content: vec![ContentBlock::Artifact { artifact: kept.clone() }],
        value: None,
        artifacts: vec![kept],
    })))
}

async fn write(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedFile = taken(arguments)?;
    let said = format!("wrote {} bytes to {}", wanted.content.len(), wanted.file_path);
    Ok(retold(change::write(wanted.managed(), context).await?, said))
}

async fn preview_write(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedFile = taken(arguments)?;
    change::preview_write(wanted.managed(), context).await
}

async fn edit(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedEdit = taken(arguments)?;
    let path = wanted.file_path.clone();
    let edited = change::edit(wanted.managed(), context).await?;
    let places = match &edited.result {
        CallResult::Ok(Output { value: Some(value), .. }) => {
            value["output"]["replacements"].clone()
        }
        _ => Value::Null,
    };
    Ok(retold(edited, format!("edited {path} ({places} replacement(s))")))
}

async fn preview_edit(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedEdit = taken(arguments)?;
    change::preview_edit(wanted.managed(), context).await
}

impl WantedFile {
    fn managed(self) -> ToolArguments {
        members(json!({ "path": self.file_path, "content": self.content }))
    }
}

impl WantedEdit {
    fn managed(self) -> ToolArguments {
        members(json!({
            "path": self.file_path,
            "oldText": self.old_string,
            "newText": self.new_string,
            "replaceAll": self.replace_all,
        }))
    }
}

async fn glob(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedSearch = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    apart(move || {
        let action = Action::GlobEntries;
        let path = wanted.start(&hand, action)?;
        if wanted.pattern.starts_with('/') {
            return Err(ToolError::invalid(
                "the pattern starts at `path`: leave out its first `/`",
            ));
        }
        let glob = Glob::parse_whole(&wanted.pattern).map_err(refused(action))?;
        let everything = (Hidden::Include, Ignores::Disregard);
        let found = hand.files().glob(&path, &glob, None, everything, bounds(FILES_MAX));
        let found = found.map_err(refused(action))?;
        let newest = newest_first(hand.files(), found.entries);
        Ok(text(match newest.is_empty() {
            true => "no matches".to_owned(),
            false => newest.join("\n"),
        }))
    })
    .await
}

fn newest_first(files: &Files, entries: Vec<Listed>) -> Vec<String> {
    let mut dated: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.kind != Kind::Symlink)
        .map(|entry| (files.stat(&entry.path).map_or(0, |stat| stat.modified_ns), entry.path))
        .collect();
    dated.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.cmp(b)));
    dated.iter().take(FILES_SHOWN).map(|(_, path)| path.to_string()).collect()
}

async fn grep(arguments: ToolArguments, context: ToolContext) -> Result<Returned, ToolError> {
    let wanted: WantedSearch = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    apart(move || {
        let action = Action::GrepText;
        let path = wanted.start(&hand, action)?;
        let grep = Grep::new(Query::Regex(&wanted.pattern), Case::Sensitive);
        let grep = grep.map_err(refused(action))?;
        let as_ripgrep = (Hidden::Skip, Ignores::Respect);
        let found = hand.files().grep(&path, &grep, as_ripgrep, bounds(LINES_MAX));
        let found = found.map_err(refused(action))?;
        let mut said = String::new();
        for file in &found.files {
            for hit in &file.hits {
                said.push_str(&format!("{}:{}:{}\n", file.path, hit.line, hit.text));
            }
        }
        if said.len() > SHOWN_BYTES {
            said.truncate(said.floor_char_boundary(SHOWN_BYTES));
            said.push_str(&format!("\n[output truncated at {SHOWN_BYTES} bytes]"));
        }
        Ok(text(if said.is_empty() { "no matches".to_owned() } else { said }))
    })
    .await
}

impl WantedSearch {
    fn start(&self, hand: &Hand, action: Action) -> Result<VirtualPath, ToolError> {
        match &self.path {
            Some(path) => hand.path(path).map_err(refused(action)),
            None => Ok(hand.cwd()),
        }
    }
}

fn bounds(results: usize) -> Bounds {
    Bounds { results, entries: 2_000_000, time: SEARCH_TIME }
}

fn members(value: Value) -> ToolArguments {
    match value {
        Value::Object(members) => members,
        _ => ToolArguments::new(),
    }
}

fn text(said: impl Into<String>) -> Returned {
    Returned::from(CallResult::Ok(Output::of_text(said)))
}

/// The same result, which the model reads in other words.
fn retold(mut returned: Returned, said: String) -> Returned {
    if let CallResult::Ok(output) = &mut returned.result {
        output.content = vec![ContentBlock::Text { text: said }];
    }
    returned
}
