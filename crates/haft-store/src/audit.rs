//! Checks a whole store: every log against its hashes, every row beside it against the log, all
//! content against its hash.
//!
//! What is read from a database comes as [`StoredSession`]; what its log says is folded by
//! [`Fold`], event by event and by the same code that derives the rows of an append. Where the two
//! differ, the log is right: that is what a repair writes.

use std::collections::{BTreeMap, BTreeSet};

use haft_core::journal::{Entry, Head, JournalError};
use haft_core::session::{DecidedBy, Event, State, evolve};
use haft_core::{CallId, Digest, SessionId};

use crate::authority::AuthorityEntry;
use crate::erased::ErasedSession;
use crate::error::Error;
use crate::rows::{CallChange, CallStage, RetryChange, Rows, SessionStatus, WaitChange, word};
use crate::session::RawSnapshot;

/// What an audit of a whole store looked at, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// How many sessions there are, of all tenants.
    pub sessions: u64,
    /// The logs that are whole.
    pub logs: Vec<AuditedLog>,
    /// How many calls stand beside the logs.
    pub calls: u64,
    /// How many versions there are: API keys, grants, agents, memories and the like.
    pub versions: u64,
    /// How many artifacts there are.
    pub artifacts: u64,
    /// How many sessions were erased, by a record of its own chain.
    pub erasures: u64,
    /// The hash of each entry of the record of authority, in order.
    pub authority: Vec<Digest>,
    /// What the parts of a check tell each other.
    pub(crate) notes: Box<Notes>,
    /// What is wrong, in the order in which it was found.
    pub findings: Vec<AuditFinding>,
}

/// What the parts of a check tell each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// Where sessions say that the record of authority ended when they were opened.
    anchors: Vec<(SessionId, Head)>,
    /// The sessions that were erased.
    erased: BTreeSet<SessionId>,
    /// Where logs ended when someone last looked; what they saw has to be there still.
    pub(crate) seen: BTreeMap<SessionId, Head>,
}

/// A log of which every entry is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditedLog {
    /// Whose log it is.
    pub session: SessionId,
    /// Where the log ends.
    pub head: Head,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFinding {
    /// What is damaged, which says what helps.
    pub damage: Damage,
    /// The session that it is about.
    pub session: Option<SessionId>,
    /// What is wrong, in words.
    pub message: String,
}

/// What is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The record of authority, or a version that gives power: somebody has put it in, changed it or
    /// taken it out. A backup helps.
    Authority,
    /// The content of an artifact or a version; a backup helps.
    Content,
    /// Rows that follow from the logs; [`repair_sqlite`](crate::repair_sqlite) and
    /// [`repair_postgres`](crate::repair_postgres) write them anew.
    Derived,
    /// The file itself, as SQLite sees it; a backup helps.
    File,
    /// An index of the file, which a repair builds anew.
    Index,
    /// A log; a backup helps.
    Log,
}

impl Damage {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Content => "content",
            Self::Derived => "derived",
            Self::File => "file",
            Self::Index => "index",
            Self::Log => "log",
        }
    }

    /// Returns whether a repair helps; a backup does otherwise.
    pub const fn is_repairable(self) -> bool {
        matches!(self, Self::Derived | Self::Index)
    }
}

impl AuditReport {
    /// Returns whether everything is as it was written.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns whether a repair would leave nothing of what was found.
    pub fn is_repairable(&self) -> bool {
        self.findings.iter().all(|finding| finding.damage.is_repairable())
    }

    pub(crate) fn find(
        &mut self,
        damage: Damage,
        session: Option<SessionId>,
        message: impl Into<String>,
    ) {
        self.findings.push(AuditFinding { damage, session, message: message.into() });
    }

    /// Takes in the record of erased sessions, in order.
    pub(crate) fn take_erasures(&mut self, erased: &[ErasedSession]) {
        let mut head = Head::EMPTY;
        for one in erased {
            match one.follows(head) {
                Ok(follows) => head = follows,
                Err(error) => {
                    self.find(Damage::Log, None, error.to_string());
                    break;
                }
            }
        }
        self.erasures = erased.len() as u64;
        self.notes.erased = erased.iter().map(|one| one.session).collect();
    }

    /// Takes in the record of authority, in order, and holds it against where sessions say that it
    /// ended.
    pub(crate) fn take_authority(&mut self, entries: &[AuthorityEntry]) {
        let mut head = Head::EMPTY;
        for entry in entries {
            let Some(follows) = entry.follows(head) else {
                let number = head.seq + 1;
                let message = format!(
                    "entry {number} of the record of authority is missing, or is not what was \
                     recorded"
                );
                self.find(Damage::Authority, None, message);
                break;
            };
            head = follows;
        }
        self.authority = entries.iter().map(|entry| entry.hash).collect();
        for (session, anchor) in std::mem::take(&mut self.notes.anchors) {
            if !self.has_authority(anchor) {
                let message = format!(
                    "the record of authority does not have entry {} as it was when the session was \
                     opened",
                    anchor.seq
                );
                self.find(Damage::Authority, Some(session), message);
            }
        }
    }

    /// Begins with where logs ended when someone last looked.
    pub(crate) fn against(seen: &BTreeMap<SessionId, Head>) -> Self {
        let notes = Notes { seen: seen.clone(), ..Notes::default() };
        Self { notes: Box::new(notes), ..Self::default() }
    }

    /// Finds the logs that someone has seen and that are neither there nor erased.
    pub(crate) fn take_gone(&mut self) {
        let logs: BTreeSet<SessionId> = self.logs.iter().map(|log| log.session).collect();
        let told: BTreeSet<SessionId> = self.findings.iter().filter_map(|it| it.session).collect();
        for session in std::mem::take(&mut self.notes.seen).into_keys() {
            let is_known =
                [&logs, &told, &self.notes.erased].iter().any(|it| it.contains(&session));
            if !is_known {
                let message = "it was there when the checkpoint was made, and is gone";
                self.find(Damage::Log, Some(session), message);
            }
        }
    }

    /// Returns whether the record of authority has an entry as someone has seen it.
    pub fn has_authority(&self, seen: Head) -> bool {
        match seen.seq.checked_sub(1).map(usize::try_from) {
            None => true,
            Some(at) => at.ok().and_then(|at| self.authority.get(at)) == Some(&seen.hash),
        }
    }

    /// Says how a version and the record of authority differ.
    pub(crate) fn unlike(
        (tenant, space, key): (&str, &str, &str),
        version: i64,
        is_unrecorded: Option<bool>,
    ) -> String {
        let what = format!("version {version} of `{key}` in `{space}` of `{tenant}`");
        match is_unrecorded {
            Some(true) => format!("{what} is not in the record of authority: nobody gave it"),
            Some(false) => format!("{what} is not as it was recorded"),
            None => format!("{what} was recorded and is gone"),
        }
    }

    /// Takes in what is wrong with one session.
    pub(crate) fn take(&mut self, stored: &StoredSession, folded: Result<Fold, LogFault>) {
        self.sessions += 1;
        self.calls += stored.calls.len() as u64;
        match folded {
            Ok(fold) => {
                self.logs.push(AuditedLog { session: stored.session, head: fold.head });
                self.notes.anchors.extend(fold.anchor.map(|anchor| (stored.session, anchor)));
                if fold.is_unlike_seen() {
                    let message = "its log is not the one that the checkpoint saw";
                    self.find(Damage::Log, Some(stored.session), message);
                }
                for difference in fold.differences(stored) {
                    self.find(Damage::Derived, Some(stored.session), difference.message());
                }
            }
            Err(LogFault(message)) => self.find(Damage::Log, Some(stored.session), message),
        }
    }
}

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// How many sessions were looked at.
    pub sessions: u64,
    /// What was changed, in order.
    pub changes: Vec<RepairChange>,
}

/// Something that a repair changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairChange {
    /// The session that it is about.
    pub session: Option<SessionId>,
    /// What was wrong before.
    pub message: String,
}

/// Why nothing was repaired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// More is damaged than what follows from the logs. Nothing was changed.
    #[error("more is damaged than what can be made anew from the logs")]
    Broken(AuditReport),
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why a log cannot be read to its end.
#[derive(Debug)]
pub(crate) struct LogFault(pub(crate) String);

impl From<JournalError> for LogFault {
    fn from(error: JournalError) -> Self {
        Self(error.to_string())
    }
}

/// What a database says about a session, outside its log.
#[derive(Debug)]
pub(crate) struct StoredSession {
    pub(crate) session: SessionId,
    pub(crate) tenant: String,
    pub(crate) head: Head,
    pub(crate) status: String,
    pub(crate) agent: Option<String>,
    pub(crate) parent: Option<SessionId>,
    pub(crate) opened_by: Option<String>,
    pub(crate) calls: BTreeMap<CallId, CallRow>,
    pub(crate) snapshot: Option<RawSnapshot>,
    /// Where its log ended when someone last looked.
    pub(crate) seen: Option<Head>,
}

/// What a database says about a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallRow {
    pub(crate) tool: String,
    pub(crate) stage: String,
    pub(crate) class: Option<String>,
    pub(crate) decided: Option<DecidedBy>,
    pub(crate) updated_at: i64,
    pub(crate) wait: Option<WaitRow>,
    pub(crate) retry_at: Option<i64>,
    /// The places of the entries that tell of the call, while it is open. Calls that were made
    /// before this was kept have none.
    pub(crate) told: Option<String>,
    /// Whether the program that made the session answers for it; unknown for calls of old.
    pub(crate) is_custom: Option<bool>,
}

impl CallRow {
    /// Whether a stored row says what this one, which was made from the log, says.
    fn is_told_by(&self, stored: &Self) -> bool {
        let Self { told, is_custom, .. } = self.clone();
        // Rows from before the places were kept did not move with every entry that tells of their
        // call.
        let is_of_old = stored.told.is_none() && stored.stage != CallStage::Settled.as_str();
        let updated_at = if is_of_old { self.updated_at } else { stored.updated_at };
        *self == Self { told, is_custom, updated_at, ..stored.clone() }
    }

    /// Since when a call for a client may have had none.
    pub(crate) fn unattended_since(&self) -> Option<i64> {
        let wait = self.wait.as_ref().filter(|wait| wait.kind == "client_exec")?;
        (self.is_custom == Some(false)).then_some(wait.since)
    }
}

/// What a database says about a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitRow {
    pub(crate) tenant: String,
    pub(crate) opened_by: Option<String>,
    pub(crate) round: u32,
    pub(crate) kind: String,
    pub(crate) since: i64,
    pub(crate) expires_at: i64,
}

/// What a log says, as far as it was read.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) head: Head,
    tenant: String,
    state: State,
    pub(crate) status: SessionStatus,
    pub(crate) agent: Option<String>,
    pub(crate) parent: Option<SessionId>,
    pub(crate) opened_by: Option<String>,
    pub(crate) config_seq: u64,
    /// Where the record of authority ended when the session was opened.
    anchor: Option<Head>,
    /// Where the log ended when someone last looked, until it comes to that; then whether it is so.
    seen: Seen,
    pub(crate) calls: BTreeMap<CallId, CallRow>,
    /// The state that was kept, until the log comes to where it was.
    snapshot: Option<(u64, State)>,
    is_snapshot_wrong: bool,
}

/// What someone saw of a log earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Nothing that is not there.
    Nothing,
    /// An end that the log has not come to.
    Ahead(Head),
    /// Another entry.
    Otherwise,
}

/// Where the rows of a session are not what its log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The row of the session itself.
    Session(String),
    /// The row of a call, and what it waits for.
    Call(CallId, String),
    Snapshot,
}

impl Difference {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Session(what) => format!("the session's row differs from its log: {what}"),
            Self::Call(call, what) => format!("call {call}: {what}"),
            Self::Snapshot => "the snapshot differs from what the log leads to".to_owned(),
        }
    }
}

impl Fold {
    /// Begins with what does not follow from a log: whose the session is, and what to compare.
    pub(crate) fn begin(stored: &StoredSession) -> Self {
        let snapshot = stored.snapshot.as_ref();
        // One that cannot be read is made anew from the log whenever the session is loaded.
        let snapshot = snapshot.and_then(|kept| kept.state().map(|state| (kept.seq, state)));
        Self {
            head: Head::EMPTY,
            tenant: stored.tenant.clone(),
            state: State::Unopened,
            status: SessionStatus::Idle,
            agent: None,
            parent: None,
            opened_by: None,
            config_seq: 1,
            anchor: None,
            seen: stored.seen.map_or(Seen::Nothing, Seen::Ahead),
            calls: BTreeMap::new(),
            snapshot,
            is_snapshot_wrong: false,
        }
    }

    /// Takes in the entry that follows.
    pub(crate) fn take(&mut self, entry: &Entry) -> Result<(), LogFault> {
        self.head.verify(entry)?;
        let event = entry.event()?;
        if let Seen::Ahead(seen) = self.seen
            && seen.seq == entry.seq
        {
            self.seen = if seen.hash == entry.hash { Seen::Nothing } else { Seen::Otherwise };
        }
        if let Event::SessionOpened { config, .. } = &event {
            self.anchor = config.authority;
        }
        let state = std::mem::replace(&mut self.state, State::Unopened);
        let corrupt = |source| JournalError::Corrupt { seq: entry.seq, source };
        self.state = evolve(state, entry.at, &event).map_err(corrupt)?;
        if let Some((_, kept)) = self.snapshot.take_if(|(seq, _)| *seq == entry.seq) {
            self.is_snapshot_wrong = kept != self.state;
        }
        let rows = Rows::of(entry.at, std::slice::from_ref(&event));
        self.status = rows.status.unwrap_or(self.status);
        self.agent = rows.agent.or_else(|| self.agent.take());
        self.parent = rows.parent.or(self.parent);
        self.opened_by = rows.opened_by.or_else(|| self.opened_by.take());
        self.config_seq = rows.config_offset.map_or(self.config_seq, |_| entry.seq);
        for change in rows.calls {
            self.take_call(entry, change);
        }
        Ok(())
    }

    /// As the statements of both databases have it: a call that was never heard of has no row.
    fn take_call(&mut self, entry: &Entry, change: CallChange) {
        let CallChange { call, asked_for, stage, class, decided, wait, retry, .. } = change;
        let at = entry.at.ms();
        let row = match asked_for {
            Some(tool) => {
                self.calls.entry(call).or_insert_with(|| CallRow { tool, ..CallRow::default() })
            }
            None => match self.calls.get_mut(&call) {
                Some(row) => row,
                None => return,
            },
        };
        if let Some(stage) = stage {
            row.stage = stage.as_str().to_owned();
        }
        row.is_custom = change.is_custom.or(row.is_custom);
        if stage == Some(CallStage::Settled) {
            row.told = None;
        } else if !change.told_offsets.is_empty() {
            let before = row.told.take().map(|told| format!("{told},")).unwrap_or_default();
            row.told = Some(format!("{before}{}", entry.seq));
        }
        row.class = class.as_ref().map(word);
        row.decided = decided.or_else(|| row.decided.take());
        row.updated_at = at;
        match wait {
            None => {}
            Some(WaitChange::Closed) => row.wait = None,
            Some(WaitChange::Opened { round, kind, expires_at }) => {
                let (kind, expires_at) = (word(&kind), expires_at.ms());
                let tenant = self.tenant.clone();
                let opened_by = self.opened_by.clone();
                row.wait = Some(WaitRow { tenant, opened_by, round, kind, since: at, expires_at });
            }
        }
        match retry {
            None => {}
            Some(RetryChange::Over) => row.retry_at = None,
            Some(RetryChange::Due(due)) => row.retry_at = Some(due.ms()),
        }
    }

    /// Checks that the log ends where the session's row says, and with what it says.
    pub(crate) fn finish(self, stored: &StoredSession) -> Result<Self, LogFault> {
        let (found, expected) = (self.head.seq, stored.head.seq);
        if found != expected {
            let message = format!("the log ends with entry {found}, the session with {expected}");
            return Err(LogFault(message));
        }
        if self.head != stored.head {
            let message = format!("entry {found}, the last one, is not the one that was written");
            return Err(LogFault(message));
        }
        Ok(self)
    }

    /// Returns whether someone has seen another log.
    fn is_unlike_seen(&self) -> bool {
        !matches!(self.seen, Seen::Nothing)
    }

    /// Returns where the rows are not what the log says.
    pub(crate) fn differences(&self, stored: &StoredSession) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut differs = |what: &str, is_same: bool| {
            if !is_same {
                found.push(Difference::Session(what.to_owned()));
            }
        };
        differs("its status", self.status.as_str() == stored.status);
        differs("its agent", self.agent == stored.agent);
        differs("its parent", self.parent == stored.parent);
        differs("who opened it", self.opened_by == stored.opened_by);
        for (call, row) in &self.calls {
            match stored.calls.get(call) {
                None => found.push(Difference::Call(*call, "its row is missing".to_owned())),
                Some(kept) if !row.is_told_by(kept) => {
                    found.push(Difference::Call(*call, wrong(row, kept)));
                }
                Some(_) => {}
            }
        }
        let unknown = stored.calls.keys().filter(|call| !self.calls.contains_key(call));
        found.extend(
            unknown.map(|call| {
                Difference::Call(*call, "it has a row and is not in the log".to_owned())
            }),
        );
        if self.is_snapshot_wrong || self.snapshot.is_some() {
            found.push(Difference::Snapshot);
        }
        found
    }
}

/// Says in what a call's row is wrong.
fn wrong(row: &CallRow, kept: &CallRow) -> String {
    let parts = [
        ("its tool", row.tool == kept.tool),
        ("its stage", row.stage == kept.stage),
        ("its error", row.class == kept.class),
        ("who decided", row.decided == kept.decided),
        ("when it moved", row.updated_at == kept.updated_at),
        ("what it waits for", row.wait == kept.wait),
        ("when it is retried", row.retry_at == kept.retry_at),
    ];
    let wrong: Vec<_> =
        parts.iter().filter(|(_, is_same)| !is_same).map(|(name, _)| *name).collect();
    format!("its row differs from the log in {}", wrong.join(", "))
}
