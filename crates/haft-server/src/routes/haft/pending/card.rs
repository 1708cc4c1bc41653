//! What is shown of a call that waits, read from the entries of its session's log that tell of it.
//!
//! The store keeps the places of those entries beside each wait. So a page of the inbox is read in
//! two steps, whatever the length of the logs, and no session is folded for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use haft_core::journal::Entry;
use haft_core::permission::Derivation;
use haft_core::session::{Config, Decided, DecidedBy, DecidedKind, Event, Preview, SuspendReason};
use haft_core::tool::{Contract, Definition, Schema};
use haft_core::{Arguments, SessionId};
use haft_store::Pending;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::Error;

/// How many entries are read at once of the log of a call whose places are not kept.
const PAGE: u32 = 512;

/// The entries that a page shows, each decoded once.
pub(super) struct Told {
    events: BTreeMap<(SessionId, u64), Result<(Entry, Event), String>>,
}

impl Told {
    /// Reads what the log tells of these waits.
    pub(super) async fn of(app: &App, rows: &[Pending]) -> Result<Self, Error> {
        let places = rows.iter().flat_map(|row| {
            let config = std::iter::once(&row.config_seq);
            row.told.iter().chain(config).map(|seq| (row.session, *seq))
        });
        let places: BTreeSet<_> = places.collect();
        let entries = app.store().entries_at(places.into_iter().collect()).await?;
        let events = entries.into_iter().map(|entry| {
            let place = (entry.session, entry.seq);
            let event = entry.event().map_err(|error| error.to_string());
            (place, event.map(|event| (entry, event)))
        });
        Ok(Self { events: events.collect() })
    }

    fn at(&self, session: SessionId, seq: u64) -> Result<&(Entry, Event), String> {
        match self.events.get(&(session, seq)) {
            Some(Ok(told)) => Ok(told),
            Some(Err(error)) => Err(error.clone()),
            None => Err(format!("entry {seq} of the session's log is missing")),
        }
    }

    fn config(&self, row: &Pending) -> Result<&Config, String> {
        match &self.at(row.session, row.config_seq)?.1 {
            Event::SessionOpened { config, .. } | Event::SessionReconfigured { config, .. } => {
                Ok(config)
            }
            _ => Err(format!("entry {} does not say how the session behaves", row.config_seq)),
        }
    }

    /// Returns what is told of a call; `None` when its proposal is not among it, because it was
    /// made before the places were kept.
    fn card(&self, row: &Pending) -> Result<Option<Card>, String> {
        let mut card = None;
        for seq in &row.told {
            let (entry, event) = self.at(row.session, *seq)?;
            Card::take(&mut card, entry, event);
        }
        Ok(card)
    }

    /// Writes a wait as the inbox shows it. One that cannot be read says why.
    pub(super) async fn shown(&self, app: &App, row: &Pending) -> Result<Value, Error> {
        let read = match (self.config(row), self.card(row)) {
            (Ok(config), Ok(Some(card))) => Ok((config, card)),
            (Ok(config), Ok(None)) => searched(app, row).await?.map(|card| (config, card)),
            (Err(why), _) | (_, Err(why)) => Err(why),
        };
        match read {
            Ok((config, card)) => Ok(card.shown(app, row, config)),
            Err(why) => {
                let (session, call) = (row.session, row.call);
                tracing::warn!(%session, %call, why, "a call that waits cannot be read");
                Ok(unreadable(row, &why))
            }
        }
    }
}

/// Reads the whole log of a call that was proposed before places were kept.
async fn searched(app: &App, row: &Pending) -> Result<Result<Card, String>, Error> {
    let (mut card, mut after) = (None, 0);
    loop {
        let entries = app.store().entries(row.session, after, PAGE).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            match entry.event() {
                Ok(event) if event.call() == Some(row.call) => {
                    Card::take(&mut card, entry, &event);
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
    }
    Ok(card.ok_or_else(|| "the session's log does not propose the call".to_owned()))
}

fn unreadable(row: &Pending, why: &str) -> Value {
    json!({
        "session": row.session, "call": row.call, "round": row.round, "kind": row.kind,
        "tool": row.tool, "arguments": {}, "may_grant": false,
        "expires_at": row.expires_at, "since": row.since, "unreadable": why,
    })
}

/// Whether a row could not be read.
pub(super) fn is_unreadable(row: &Value) -> bool {
    row["unreadable"].is_string()
}

/// What the log tells of a call.
struct Card {
    contract: Arc<Contract>,
    arguments: Arguments,
    derivation: Derivation,
    barred: Option<String>,
    changes: Option<String>,
    preview: Option<Preview>,
    reason: Option<SuspendReason>,
    /// Who said yes in the round that is open.
    endorsed: Vec<DecidedBy>,
}

impl Card {
    fn take(card: &mut Option<Self>, entry: &Entry, event: &Event) {
        if let Event::CallProposed { contract, arguments, derivation, .. } = event {
            *card = Some(Self {
                contract: Arc::clone(contract),
                arguments: arguments.clone(),
                derivation: derivation.clone(),
                barred: None,
                changes: None,
                preview: None,
                reason: None,
                endorsed: Vec::new(),
            });
            return;
        }
        let Some(card) = card else { return };
        match event {
            Event::CallSuspended { reason, preview, .. } => {
                card.reason = Some(*reason);
                card.preview = preview.clone().or(card.preview.take());
                card.endorsed.clear();
            }
            Event::CallEndorsed { resolution, by, .. } => {
                let (resolution, by) = (Some(*resolution), by.clone());
                let (kind, at) = (DecidedKind::Approve, entry.at);
                card.endorsed.push(DecidedBy { resolution, by, kind, at });
            }
            Event::CallResolved { decision: Decided::Approve { arguments, .. }, .. } => {
                if let Some(edited) = arguments {
                    card.arguments = edited.clone();
                }
            }
            Event::CallRedefined { contract, changes, .. } => {
                card.contract = Arc::clone(contract);
                card.changes = Some(changes.clone());
            }
            Event::CallBarred { why, .. } => card.barred = Some(why.clone()),
            _ => {}
        }
    }

    fn shown(&self, app: &App, row: &Pending, config: &Config) -> Value {
        let tool = self.contract.tool.as_str();
        let definition = definition(app, config, tool);
        let definition = definition.as_ref();
        let schema = |schema: &Schema| schema.value().clone();
        json!({
            "session": row.session, "call": row.call, "round": row.round,
            "kind": row.kind, "reason": self.reason,
            "tool": config.toolset.called(tool),
            "title": definition.and_then(|definition| definition.display.label.clone()),
            "detail": definition.and_then(|definition| definition.display.detail.clone()),
            "consequence": definition.and_then(|definition| definition.consequence),
            "executor": self.contract.executor, "mode": self.contract.mode,
            "mutates": self.contract.mutates, "reach": self.contract.reach,
            "reversal": self.contract.reversal,
            "arguments": self.arguments.record(),
            "input_schema": definition.map(|definition| schema(&definition.input_schema)),
            "answer_schema": definition.and_then(|it| it.output_schema.as_ref().map(schema)),
            "preview": self.preview, "derivation": self.derivation, "changes": self.changes,
            "barred": self.barred,
            "may_grant": !self.contract.gate.always_asks(),
            "approvals": {
                "needed": self.contract.gate.n_approvals(), "given": self.endorsed,
            },
            "expires_at": row.expires_at, "since": row.since,
            "agent": config.agent.as_ref().map(|agent| &agent.id),
        })
    }
}

/// A tool as a session knows it: its own, else the node's.
pub(in crate::routes::haft) fn definition(
    app: &App,
    config: &Config,
    name: &str,
) -> Option<Definition> {
    let own = config.toolset.own(name).cloned();
    own.or_else(|| Some(Definition::clone(app.haft().registry().get(name)?.spec())))
}
