//! Procedures to read before following them.

use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{apart, beginning, plain, taken};
use crate::library::{Library, Skill};
use crate::recall::Query;
use crate::sight::Viewer;

const CHARS: usize = 24_000;

#[derive(Debug, Deserialize)]
struct WantedSearch {
    query: String,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedSkill {
    name: String,
    max_chars: Option<usize>,
}

async fn skills(context: &ToolContext) -> Result<Vec<Skill>, ToolError> {
    let viewer = Viewer::of(context).await?;
    let library = Library::of(context, viewer.agent());
    apart(move || Ok(library.skills())).await
}

fn shown(skill: &Skill) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "preview": skill.preview,
        "source": "library",
        "nextStep": { "tool": "skills_read", "args": { "name": skill.name } },
    })
}

pub(super) async fn list(context: ToolContext) -> Result<Returned, ToolError> {
    let skills: Vec<Value> = skills(&context).await?.iter().map(shown).collect();
    Ok(plain(json!({ "count": skills.len(), "skills": skills })))
}

pub(super) async fn search(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedSearch = taken(arguments)?;
    let query = Query::parse(&wanted.query);
    let found = skills(&context).await?;
    let mut hits: Vec<(u32, Value)> = Vec::new();
    for skill in &found {
        let scored = query.score(&format!("{} {} library", skill.name, skill.description));
        if scored.score > 0 {
            let mut hit = shown(skill);
            hit["filePath"] = json!(skill.file);
            hit["baseDir"] = json!(skill.file.parent());
            hit["score"] = json!(scored.score);
            hit["reasons"] = json!(scored.reasons);
            hits.push((scored.score, hit));
        }
    }
    hits.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let hits: Vec<Value> =
        hits.into_iter().take(wanted.limit.unwrap_or(8)).map(|(_, hit)| hit).collect();
    Ok(plain(json!({ "count": hits.len(), "hits": hits })))
}

pub(super) async fn read(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedSkill = taken(arguments)?;
    let found = skills(&context).await?;
    let skill = found.into_iter().find(|skill| skill.name == wanted.name);
    let skill = skill.ok_or_else(|| {
        let name: String = wanted.name.chars().take(64).collect();
        ToolError::invalid(format!("there is no skill `{name}`; `skills_list` lists them"))
    })?;
    let (content, truncated) = beginning(&skill.content, wanted.max_chars.unwrap_or(CHARS));
    Ok(plain(json!({
        "name": skill.name,
        "description": skill.description,
        "preview": skill.preview,
        "source": "library",
        "filePath": skill.file,
        "baseDir": skill.file.parent(),
        "content": content,
        "truncated": truncated,
    })))
}
