//! `glob` and `grep`.

use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::{Kind, Listed};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Hit, Ignores, Query, Walked};
use haft_sandbox::virtual_path::VirtualPath;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::Action;
use super::answer::{apart, done, refused, taken};
use crate::hands::{Hand, Hands};

const ENTRIES_MAX: usize = 2_000_000;
/// Within the 15 s that a call has.
const TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    path: String,
    pattern: String,
    kind: Option<WantedKind>,
    limit: Option<usize>,
    #[serde(default)]
    include_ignored: bool,
    recursive: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WantedKind {
    File,
    Directory,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lines {
    path: String,
    query: String,
    limit: Option<usize>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    case_sensitive: bool,
    #[serde(default)]
    context_lines: usize,
    glob: Option<String>,
    #[serde(default)]
    include_ignored: bool,
}

pub(super) async fn glob(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Names = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    apart(move || {
        let path = hand.path(&wanted.path).map_err(refused(Action::GlobEntries))?;
        let glob = Glob::parse(&wanted.pattern).map_err(refused(Action::GlobEntries))?;
        let kind = wanted.kind.map(|kind| match kind {
            WantedKind::File => Kind::File,
            WantedKind::Directory => Kind::Directory,
        });
        let limit = wanted.limit.unwrap_or(40);
        if wanted.recursive == Some(false) {
            return wanted.listing(&hand, &path, limit);
        }
        let scope = scope(wanted.include_ignored);
        let found = hand.files().glob(&path, &glob, kind, scope, bounds(limit));
        let found = found.map_err(refused(Action::GlobEntries))?;
        let (entries, text) = listed(&found.entries);
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(&path),
            "pattern": wanted.pattern,
            "entries": entries,
            "totalCount": found.total,
            "truncated": found.total > found.entries.len(),
            "searchedEverything": is_whole(found.walked),
        });
        Ok(done(Action::GlobEntries, text, output))
    })
    .await
}

pub(super) async fn grep(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Lines = taken(arguments)?;
    let hand = Hands::of(&context).await?;
    apart(move || {
        let path = hand.path(&wanted.path).map_err(refused(Action::GrepText))?;
        let grep = wanted.grep()?;
        let bounds = bounds(wanted.limit.unwrap_or(20));
        let found = hand.files().grep(&path, &grep, scope(wanted.include_ignored), bounds);
        let found = found.map_err(refused(Action::GrepText))?;
        let (mut matches, mut text) = (Vec::new(), String::new());
        for file in &found.files {
            for hit in &file.hits {
                matches.push(shown(&file.path.to_string(), hit));
                let mark = if hit.column.is_some() { ':' } else { '-' };
                text.push_str(&format!("{}{mark}{}{mark}{}\n", file.path, hit.line, hit.text));
            }
        }
        let given = matches.iter().filter(|hit| hit["column"].is_u64()).count();
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(&path),
            "query": wanted.query,
            "matches": matches,
            "totalCount": found.total,
            "truncated": found.total > given,
            "searchedEverything": is_whole(found.walked),
        });
        Ok(done(Action::GrepText, text, output))
    })
    .await
}

impl Names {
    /// One directory, and nothing below it.
    fn listing(
        &self,
        hand: &Hand,
        path: &VirtualPath,
        limit: usize,
    ) -> Result<Returned, ToolError> {
        if self.pattern != "*" || self.kind.is_some() {
            let message = "a listing of one directory takes the pattern `*` and no `kind`";
            return Err(ToolError::invalid(message));
        }
        let found = hand.files().list(path, limit).map_err(refused(Action::ListDir))?;
        let (entries, text) = listed(&found.entries);
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(path),
            "pattern": self.pattern,
            "entries": entries,
            "totalCount": found.total,
            "truncated": found.total > found.entries.len(),
            "searchedEverything": true,
        });
        Ok(done(Action::ListDir, text, output))
    }
}

/// Entries for programs, and for the model.
fn listed(entries: &[Listed]) -> (Vec<Value>, String) {
    let shown =
        |entry: &Listed| json!({ "path": entry.path.to_string(), "kind": word(entry.kind) });
    let names = entries.iter().map(|entry| entry.path.to_string());
    (entries.iter().map(shown).collect(), names.collect::<Vec<_>>().join("\n"))
}

impl Lines {
    fn grep(&self) -> Result<Grep, ToolError> {
        let query = match self.regex {
            true => Query::Regex(&self.query),
            false => Query::Text(&self.query),
        };
        let case = if self.case_sensitive { Case::Sensitive } else { Case::Insensitive };
        let grep = Grep::new(query, case).map_err(refused(Action::GrepText))?;
        let grep = grep.context(self.context_lines);
        match &self.glob {
            Some(glob) => Ok(grep.only(Glob::parse(glob).map_err(refused(Action::GrepText))?)),
            None => Ok(grep),
        }
    }
}

fn shown(path: &str, hit: &Hit) -> Value {
    json!({
        "path": path,
        "kind": "file",
        "line": hit.line,
        "column": hit.column.map(|column| column + 1),
        "preview": hit.text,
    })
}

fn bounds(results: usize) -> Bounds {
    Bounds { results, entries: ENTRIES_MAX, time: TIME }
}

fn scope(include_ignored: bool) -> (Hidden, Ignores) {
    match include_ignored {
        true => (Hidden::Include, Ignores::Disregard),
        false => (Hidden::Skip, Ignores::Respect),
    }
}

fn is_whole(walked: Walked) -> bool {
    walked.complete
}

/// A kind in document 002's words.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Other => "other",
    }
}
