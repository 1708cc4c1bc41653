//! Finding what earlier sessions said, did and kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use haft_core::Timestamp;
use haft_core::session::{ActiveGoal, Event, Learning, Returned};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::checkpoint;
use crate::chronicle::feed;
use crate::memory::{Target, content_hash};
use crate::notes;
use crate::recall::{
    Backend, Candidate, Expansion, Found, Merged, Posture, Query, Source, Standing, merged, plan,
};
use crate::setup;
use crate::sight::{Current, Lineage, Setups, Sight, Viewer};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    query: String,
    limit: Option<usize>,
    include_current: Option<bool>,
    lineage: Option<Lineage>,
    types: Option<Vec<String>>,
    backends: Option<Vec<String>>,
}

impl Wanted {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(8)
    }
}

/// The sessions that are looked at, each with what is known of it.
struct Field {
    viewer: Viewer,
    query: Query,
    seen: Vec<(Sight, Posture)>,
    own: Sight,
}

impl Field {
    async fn of(wanted: &Wanted, context: &ToolContext) -> Result<Self, ToolError> {
        Self::within(wanted, context, usize::MAX).await
    }

    /// Looks at no more than so many sessions, the newest.
    async fn within(
        wanted: &Wanted,
        context: &ToolContext,
        most: usize,
    ) -> Result<Self, ToolError> {
        let viewer = Viewer::of(context).await?;
        let query = Query::parse(&wanted.query);
        if query.is_empty() {
            return Err(ToolError::invalid("`query` says nothing to look for"));
        }
        let own = viewer.look(viewer.own.clone()).await?;
        let own_setup = setup::fingerprint(&viewer, viewer.own.session).await?;
        let goal: Option<Arc<ActiveGoal>> = own.goal().map(|(goal, _)| goal);
        let current = Current::included(wanted.include_current.unwrap_or(false));
        let mut seen = Vec::new();
        for listed in viewer.kin(wanted.lineage, current).await?.into_iter().take(most) {
            let theirs = setup::fingerprint(&viewer, listed.session).await?;
            let sight = viewer.look(listed).await?;
            let setups = Setups {
                own: own_setup.as_deref(),
                theirs: theirs.as_deref(),
                goal: goal.as_deref(),
            };
            let posture = sight.posture(&viewer, setups);
            seen.push((sight, posture));
        }
        Ok(Self { viewer, query, seen, own })
    }

    fn found(&self, found: Vec<Found>, limit: usize) -> Merged {
        merged(found, self.viewer.agent(), limit)
    }

    /// One finding, if the text has anything of the query.
    fn hit(&self, what: What<'_>, posture: &Posture, text: &str) -> Option<Found> {
        let scored = self.query.score(text);
        if scored.score == 0 {
            return None;
        }
        Some(Found {
            backend: what.backend,
            source: what.source,
            posture: posture.clone(),
            event_id: what.event,
            wake_id: what.wake,
            title: what.title.to_owned(),
            snippet: self.query.snippet(text),
            at: what.at,
            scored,
            expansion: what.expansion,
        })
    }

    fn events(&self, types: Option<&[String]>) -> Vec<Found> {
        let mut found = Vec::new();
        for (sight, posture) in &self.seen {
            for event in feed(&sight.log) {
                if types.is_some_and(|types| !types.iter().any(|kind| kind == event.kind)) {
                    continue;
                }
                let (id, session) = (event.id.to_string(), sight.listed.session);
                let args = json!({ "sessionId": session, "aroundEventId": id });
                let what = What {
                    backend: Backend::SessionContext,
                    source: Source::SessionContext,
                    title: event.kind,
                    at: event.at,
                    event: Some(id),
                    wake: event.run.map(|run| run.to_string()),
                    expansion: expansion("session_get_events", args, "read what stands around it"),
                };
                found.extend(self.hit(what, posture, &event.text()));
            }
        }
        found
    }

    fn traces(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for (sight, posture) in &self.seen {
            for run in &sight.runs {
                let mut text = run.answers.join("\n");
                for done in &run.calls {
                    text.push_str(&format!("\n{} {}", done.tool, done.text));
                }
                let (id, session) = (run.id.to_string(), sight.listed.session);
                let args = json!({ "sessionId": session, "wakeId": id });
                let what = What {
                    backend: Backend::SessionTrace,
                    source: Source::SessionTrace,
                    title: "wake",
                    at: run.updated_at,
                    event: None,
                    wake: Some(id),
                    expansion: expansion("session_get_trace", args, "read the whole wake"),
                };
                found.extend(self.hit(what, posture, &text));
            }
        }
        found
    }

    async fn memory(&self, context: &ToolContext, shared: Shared) -> Result<Vec<Found>, ToolError> {
        let mut found = Vec::new();
        for (sight, posture) in &self.seen {
            found.extend(self.session_memory(sight, posture, context).await?);
        }
        if shared == Shared::Included {
            found.extend(self.agent_memory(context).await?);
        }
        for (sight, posture) in &self.seen {
            for (at, learning) in learnings(sight) {
                let what = What {
                    backend: Backend::Memory,
                    source: Source::Learning,
                    title: &learning.title,
                    at,
                    event: None,
                    wake: None,
                    expansion: expansion("learning_list", json!({}), "read what was learned"),
                };
                let text = format!("{} {}", learning.title, learning.detail);
                found.extend(self.hit(what, posture, &text));
            }
        }
        Ok(found)
    }

    /// What every session of the agent shares.
    async fn agent_memory(&self, context: &ToolContext) -> Result<Vec<Found>, ToolError> {
        let memory = self.viewer.memory(self.viewer.own.session);
        let notes = memory.latest(Target::WorkspaceMemoryNotes).await?;
        let whole = notes::workspace_memory(&self.viewer, context).await?;
        let at = notes.as_ref().map_or(self.viewer.own.updated_at, |kept| kept.at);
        let notes = notes.map(|kept| kept.content).unwrap_or_default();
        let mut found = Vec::new();
        for (source, target, text) in [
            (Source::WorkspaceMemory, Target::WorkspaceMemory, whole),
            (Source::WorkspaceMemoryNotes, Target::WorkspaceMemoryNotes, notes),
        ] {
            let args = json!({ "target": target });
            let what = What {
                backend: Backend::Memory,
                source,
                title: target.name(),
                at,
                event: None,
                wake: None,
                expansion: expansion("memory_read", args, "read it whole"),
            };
            found.extend(self.hit(what, &Posture::default(), &text));
        }
        Ok(found)
    }

    async fn session_memory(
        &self,
        sight: &Sight,
        posture: &Posture,
        context: &ToolContext,
    ) -> Result<Vec<Found>, ToolError> {
        let session = sight.listed.session;
        let memory = self.viewer.memory(session);
        let mut texts = Vec::new();
        for (source, target) in [
            (Source::SessionState, Target::SessionState),
            (Source::WorkingBuffer, Target::WorkingBuffer),
        ] {
            let kept = memory.latest(target).await?;
            let args = json!({ "target": target, "sessionId": session });
            let next = expansion("memory_read", args, "read it whole");
            texts.extend(kept.map(|kept| (source, kept.content, next)));
        }
        let args = json!({ "sessionId": session });
        let summary = sight.latest_summary().unwrap_or_default();
        let next = expansion("session_get_snapshot", args.clone(), "see where it stands");
        texts.push((Source::SessionCheckpoint, summary, next));
        if let Some((active, _)) = sight.goal() {
            let goal = &active.goal;
            let (detail, criteria) = (goal.detail().unwrap_or_default(), goal.criteria());
            let text = format!("{} {detail} {}", goal.title(), criteria.join(" "));
            let next = expansion("outcome_read", args.clone(), "read what it is to achieve");
            texts.push((Source::SessionOutcome, text, next));
            let evaluation = sight.assessment().evaluation;
            let (status, trend) = (evaluation.status.name(), evaluation.trend.name());
            let evidence = evaluation.evidence.join(" ");
            let text = format!("{status} {trend} {} {evidence}", evaluation.summary);
            let tool =
                if evaluation.trend.is_stalled() { "outcome_history" } else { "outcome_evaluate" };
            let next = expansion(tool, args.clone(), "see how it stands with its outcome");
            texts.push((Source::SessionEvaluation, text, next));
        }
        texts.extend(self.shell(sight, context).await?);
        let found = texts.into_iter().filter_map(|(source, text, expansion)| {
            let title = format!("{source:?}");
            let what = What {
                backend: Backend::Memory,
                source,
                title: &title,
                at: sight.listed.updated_at,
                event: None,
                wake: None,
                expansion,
            };
            self.hit(what, posture, &text)
        });
        Ok(found.collect())
    }

    async fn shell(
        &self,
        sight: &Sight,
        context: &ToolContext,
    ) -> Result<Option<(Source, String, Expansion)>, ToolError> {
        let session = sight.listed.session;
        let state = checkpoint::shell_state(&self.viewer, context, session).await;
        let Ok(state) = state else { return Ok(None) };
        let mut texts = Vec::new();
        crate::chronicle::each_text(&state, &mut texts);
        let own = session == self.viewer.own.session;
        let next = match (own, state["lastCommand"].is_null()) {
            (true, false) => {
                expansion("shell_read_last_output", json!({}), "read what the last command said")
            }
            (true, true) => expansion("shell_describe", json!({}), "see the state of the shell"),
            (false, _) => {
                let args = json!({ "target": Target::ShellState, "sessionId": session });
                expansion("memory_read", args, "read the state of its shell")
            }
        };
        Ok(Some((Source::ShellState, texts.join("\n"), next)))
    }

    fn standing(&self) -> Standing {
        if self.own.goal().is_none() {
            return Standing::Safe;
        }
        let evaluation = self.own.assessment().evaluation;
        match (evaluation.promotion_ready, evaluation.trend.is_stalled()) {
            (true, _) => Standing::Safe,
            (false, true) => Standing::Stalled,
            (false, false) => Standing::Unsafe,
        }
    }
}

/// Whether what belongs to no one session is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shared {
    Included,
    LeftOut,
}

struct What<'a> {
    backend: Backend,
    source: Source,
    title: &'a str,
    at: Timestamp,
    event: Option<String>,
    wake: Option<String>,
    expansion: Expansion,
}

fn expansion(tool: &'static str, args: Value, rationale: &str) -> Expansion {
    Expansion { tool, args, rationale: rationale.to_owned() }
}

fn learnings(sight: &Sight) -> Vec<(Timestamp, &Learning)> {
    let captured = sight.log.iter().filter_map(|told| match &told.event {
        Event::LearningCaptured { learning } => Some((told.at, learning)),
        _ => None,
    });
    captured.collect()
}

/// What is shared is near every session; a lineage asks for sessions only.
fn shared(wanted: &Wanted) -> Shared {
    if wanted.lineage.is_some() { Shared::LeftOut } else { Shared::Included }
}

pub(super) async fn memory(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let mut wanted: Wanted = taken(arguments)?;
    // What the session itself keeps is its memory too.
    wanted.include_current = Some(wanted.lineage.is_none());
    let field = Field::of(&wanted, &context).await?;
    let found = field.memory(&context, shared(&wanted)).await?;
    let merged = field.found(found, wanted.limit());
    Ok(plain(json!({
        "agentId": field.viewer.agent(),
        "query": wanted.query,
        "count": merged.candidates.len(),
        "hits": merged.candidates,
    })))
}

pub(super) async fn events(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let field = Field::of(&wanted, &context).await?;
    let merged = field.found(field.events(wanted.types.as_deref()), wanted.limit());
    Ok(plain(json!({
        "agentId": field.viewer.agent(),
        "query": wanted.query,
        "count": merged.candidates.len(),
        "hits": merged.candidates,
    })))
}

pub(super) async fn traces(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let field = Field::of(&wanted, &context).await?;
    let merged = field.found(field.traces(), wanted.limit());
    Ok(plain(json!({
        "sessionId": field.viewer.own.session,
        "count": merged.candidates.len(),
        "hits": merged.candidates,
    })))
}

pub(super) async fn everything(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let asked = |backend: Backend| match &wanted.backends {
        Some(names) => names.iter().any(|name| name == backend.name()),
        None => backend != Backend::Vector,
    };
    let field = Field::of(&wanted, &context).await?;
    let (mut found, mut summary) = (Vec::new(), Vec::new());
    for backend in Backend::ALL.into_iter().filter(|backend| asked(*backend)) {
        let here = match backend {
            Backend::Memory => field.memory(&context, shared(&wanted)).await?,
            Backend::SessionContext => field.events(None),
            Backend::SessionTrace => field.traces(),
            Backend::Vector => Vec::new(),
        };
        let available = backend != Backend::Vector;
        summary.push(json!({ "backend": backend, "available": available, "count": here.len() }));
        found.extend(here);
    }
    let merged = field.found(found, wanted.limit());
    Ok(plain(json!({
        "agentId": field.viewer.agent(),
        "query": wanted.query,
        "count": merged.candidates.len(),
        "totalFound": merged.n_found,
        "backendSummary": summary,
        "expansionPlan": plan(&merged.candidates, field.standing()),
        "hits": merged.candidates,
    })))
}

/// What was recalled without being asked for.
pub(crate) struct Recalled {
    /// The best, and only what is likely to be about it.
    pub(crate) candidates: Vec<Candidate>,
    /// What to read next, the most urgent first.
    pub(crate) plan: Vec<Value>,
}

/// How many sessions are looked at for what nobody asked for, and how much of it is told.
const UNASKED_SESSIONS: usize = 16;
const UNASKED: usize = 3;

/// Finds what other sessions of the agent have about what this one is at.
pub(crate) async fn recalled(cue: &str, context: &ToolContext) -> Result<Recalled, ToolError> {
    let wanted = Wanted {
        query: cue.to_owned(),
        limit: Some(UNASKED),
        include_current: Some(false),
        lineage: None,
        types: None,
        backends: None,
    };
    let field = Field::within(&wanted, context, UNASKED_SESSIONS).await?;
    let mut found = field.memory(context, Shared::Included).await?;
    found.extend(field.events(None));
    found.extend(field.traces());
    let mut candidates = field.found(found, UNASKED).candidates;
    candidates.retain(|candidate| candidate.confidence != "low");
    let plan = plan(&candidates, field.standing());
    Ok(Recalled { candidates, plan })
}

#[derive(Debug, Deserialize)]
struct WantedLearnings {
    limit: Option<usize>,
}

/// What every session of the agent learned, each thing once, the newest last.
pub(super) async fn list_learnings(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedLearnings = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let mut all = Vec::new();
    for listed in viewer.kin(None, Current::Included).await? {
        let sight = viewer.look(listed).await?;
        for (at, learning) in learnings(&sight) {
            let key = learning.dedupe_key.clone().unwrap_or_else(|| {
                let text = format!("{:?} {} {}", learning.kind, learning.title, learning.detail);
                content_hash(text.as_bytes())
            });
            let session = sight.listed.session;
            let value = json!({
                "agentId": viewer.agent(),
                "sessionId": session,
                "createdAt": at.to_string(),
                "learning": learning,
            });
            all.push((at, key, value));
        }
    }
    all.sort_by_key(|(at, ..)| *at);
    let mut known = BTreeSet::new();
    all.retain(|(_, key, _)| known.insert(key.clone()));
    let skipped = all.len().saturating_sub(wanted.limit.unwrap_or(20));
    let shown: Vec<Value> = all.drain(skipped..).map(|(_, _, value)| value).collect();
    Ok(plain(json!({ "agentId": viewer.agent(), "count": shown.len(), "learnings": shown })))
}
