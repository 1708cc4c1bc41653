//! Requests that may be sent again: each durable write of one is recorded in the write's own
//! transaction, so that the request is recognised after a crash, a restart and on other nodes.
//!
//! A [`Request`] is what the caller's task carries while it works on such a request. Its writes are
//! *steps* with names that follow from what is written. When the request comes again, the steps
//! that were done are known: each is skipped, and whatever is made by the rest has the ids that it
//! would have had the first time, because ids are derived from the request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::{Digest, SessionId, Timestamp};
use serde_json::Value;

use crate::content::{Place, Put};
use crate::error::{Error, ErrorKind};

/// The name of the row that keeps the finished answer.
pub(crate) const ANSWER: &str = "";

/// What the note of a write to a log begins with, before the place that the log went to.
pub(crate) const AFTER: &str = "after ";

tokio::task_local! {
    static CURRENT: Request;
}

/// Identifies a request: by the caller and their idempotency key, or by what was sent and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

/// A row about a request: a durable write of it, or its finished answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStep {
    /// The request.
    pub request: RequestId,
    /// Which of its writes; empty for the finished answer.
    pub step: String,
    /// The hash of what was sent.
    pub digest: Digest,
    /// When the request was first begun.
    pub at: Timestamp,
    /// The session that is written to.
    pub session: Option<SessionId>,
    /// What is needed to answer the request again.
    pub note: Option<String>,
}

/// What is known of a request that came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// The request.
    pub id: RequestId,
    /// The hash of what was sent.
    pub digest: Digest,
    /// When it was first begun.
    pub at: Timestamp,
    /// Its writes by their names, each with what it gave.
    pub steps: BTreeMap<String, Option<String>>,
    /// The finished answer and when it was given, if it was kept.
    pub answer: Option<(String, Timestamp)>,
    /// When it was answered, also if the answer has been erased with a session since.
    pub answered_at: Option<Timestamp>,
}

impl StoredRequest {
    /// Puts rows together; they come in the order of requests.
    pub(crate) fn gather(rows: Vec<RequestStep>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for row in rows {
            let RequestStep { request, step, digest, at, note, .. } = row;
            if found.last().is_none_or(|last| last.id != request) {
                let (steps, answer, answered_at) = (BTreeMap::new(), None, None);
                found.push(Self { id: request, digest, at, steps, answer, answered_at });
            }
            let Some(last) = found.last_mut() else { continue };
            if step == ANSWER {
                last.answer = note.map(|note| (note, at));
                last.answered_at = Some(at);
            } else {
                last.at = last.at.min(at);
                last.steps.insert(step, note);
            }
        }
        found
    }
}

/// A request at work. Cheap to clone; clones share what was counted.
#[derive(Debug, Clone)]
pub struct Request(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: RequestId,
    digest: Digest,
    at: Timestamp,
    done: BTreeMap<String, Option<String>>,
    counts: Mutex<Counts>,
    n_ids: AtomicU32,
}

#[derive(Debug, Default)]
struct Counts {
    /// How often each write was begun.
    begun: HashMap<String, u32>,
    /// The versions that steps wrote which this run has not come to yet.
    ahead: HashMap<Place, u64>,
}

/// A write of a request that is about to be made.
#[derive(Debug, Clone)]
pub enum Step {
    /// It was made before, and left this note.
    Done(Option<String>),
    /// It is to be made, along with this row.
    New(Arc<RequestStep>),
}

impl Request {
    /// A request that comes for the first time.
    pub fn new(id: RequestId, digest: Digest, at: Timestamp) -> Self {
        Self::over(id, digest, at, BTreeMap::new())
    }

    /// A request that was begun before and has no finished answer.
    pub fn again(stored: StoredRequest) -> Self {
        Self::over(stored.id, stored.digest, stored.at, stored.steps)
    }

    fn over(
        id: RequestId,
        digest: Digest,
        at: Timestamp,
        done: BTreeMap<String, Option<String>>,
    ) -> Self {
        let notes = done.values().flatten();
        let ahead = notes.flat_map(|note| versions_of(note)).collect();
        let counts = Mutex::new(Counts { ahead, ..Counts::default() });
        Self(Arc::new(Inner { id, digest, at, done, counts, n_ids: AtomicU32::new(0) }))
    }

    /// Returns the request that the current task works on.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Works on the request: what the future writes is recorded as the request's.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Returns what identifies it.
    pub fn id(&self) -> RequestId {
        self.0.id
    }

    /// Returns the hash of what was sent.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns when it was first begun.
    pub fn at(&self) -> Timestamp {
        self.0.at
    }

    /// Returns whether a part of it was done before.
    pub fn was_begun_before(&self) -> bool {
        !self.0.done.is_empty()
    }

    /// Returns the keys of the versions that it wrote before.
    pub fn written_before(&self) -> Vec<String> {
        let notes = self.0.done.values().flatten();
        notes.flat_map(|note| versions_of(note)).map(|(place, _)| place.key().to_owned()).collect()
    }

    /// Returns the bits of the next id that the request makes: the same ones in every run.
    pub fn next_id(&self) -> u128 {
        let n = self.0.n_ids.fetch_add(1, Ordering::Relaxed);
        let digest = Digest::of_parts(&[b"id", &self.0.id.0.to_be_bytes(), &n.to_be_bytes()]);
        let mut bits = [0u8; 16];
        bits.copy_from_slice(&digest.as_bytes()[..16]);
        let time = u64::try_from(self.0.at.ms()).unwrap_or(0).to_be_bytes();
        bits[..6].copy_from_slice(&time[2..]);
        u128::from_be_bytes(bits)
    }

    /// Begins a write to a session.
    pub fn step_in(&self, session: SessionId) -> Step {
        self.step(format!("log {session}"), Some(session))
    }

    /// Begins the write that has this name; the second of the same name is another one.
    pub fn step(&self, name: String, session: Option<SessionId>) -> Step {
        let mut counts = self.counts();
        let n = counts.begun.entry(name.clone()).or_default();
        *n += 1;
        let step = if *n == 1 { name } else { format!("{name} {n}") };
        if let Some(note) = self.0.done.get(&step) {
            let passed: Vec<_> = note.iter().flat_map(|note| versions_of(note)).collect();
            passed.iter().for_each(|(place, _)| _ = counts.ahead.remove(place));
            return Step::Done(note.clone());
        }
        let (request, digest, at) = (self.0.id, self.0.digest, self.0.at);
        Step::New(Arc::new(RequestStep { request, step, digest, at, session, note: None }))
    }

    /// Takes a write back that was not made, so that the next of its name is the first again.
    pub fn retract(&self, step: &RequestStep) {
        let mut counts = self.counts();
        let numbered = || step.step.rsplit_once(' ').map(|(name, _)| name.to_owned());
        let name = match counts.begun.contains_key(&step.step) {
            true => Some(step.step.clone()),
            false => numbered(),
        };
        if let Some(n) = name.and_then(|name| counts.begun.get_mut(&name)) {
            *n = n.saturating_sub(1);
        }
    }

    /// Returns where a session's log ended before the next write of the request to it, if an earlier
    /// run has made that write.
    pub fn log_before(&self, session: SessionId) -> Option<u64> {
        let name = format!("log {session}");
        let n = self.counts().begun.get(&name).copied().unwrap_or_default();
        let step = if n == 0 { name } else { format!("{name} {}", n + 1) };
        let note = self.0.done.get(&step)?.as_deref()?;
        note.strip_prefix(AFTER)?.split(' ').next()?.parse().ok()
    }

    /// Begins the write that opens a session.
    pub fn step_opening(&self, session: SessionId) -> Step {
        self.step(format!("open {session}"), Some(session))
    }

    /// Returns whether an earlier run has opened a session.
    pub fn has_opened(&self, session: SessionId) -> bool {
        self.0.done.contains_key(&format!("open {session}"))
    }

    /// Returns the sessions that it wrote to before.
    pub fn sessions_before(&self) -> Vec<SessionId> {
        let names = self.0.done.keys().filter_map(|name| name.strip_prefix("log "));
        names.filter_map(|name| name.split(' ').next()?.parse().ok()).collect()
    }

    /// Begins a write of versions.
    pub(crate) fn step_of(&self, puts: &[Put]) -> Option<Step> {
        let place = &puts.first()?.place;
        // What stands beside a session has its id as the key, and is erased with it.
        let session = place.key().parse().ok();
        Some(self.step(format!("put {} {}", place.space(), place.key()), session))
    }

    /// Returns the version that a place had before the request wrote there, if it did so in an
    /// earlier run and this run has not come to it: whatever is decided upon it is decided as it
    /// was then.
    pub(crate) fn version_before(&self, place: &Place) -> Option<u64> {
        self.counts().ahead.get(place).map(|written| written - 1)
    }

    /// Returns the row that keeps the finished answer.
    pub fn answered(&self, answer: String, at: Timestamp) -> RequestStep {
        RequestStep {
            request: self.0.id,
            step: ANSWER.to_owned(),
            digest: self.0.digest,
            at,
            session: None,
            note: Some(answer),
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        // Every change is one insert or remove, so that a panic leaves it whole.
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down which versions a step wrote.
pub(crate) fn note_of(puts: &[Put], numbers: &[u64]) -> Result<String, Error> {
    let row = |(put, number): (&Put, &u64)| {
        let Put { place, .. } = put;
        (
            place.tenant().as_str().to_owned(),
            place.space().to_owned(),
            place.key().to_owned(),
            *number,
        )
    };
    let rows: Vec<_> = puts.iter().zip(numbers).map(row).collect();
    serde_json::to_string(&rows).map_err(Error::corrupt)
}

/// Returns how a place stands in what [`note_of`] writes down.
pub(crate) fn noted_place(space: &str, key: &str) -> String {
    format!("{},{}", Value::from(space), Value::from(key))
}

/// Reads the numbers of the versions that a step wrote.
pub(crate) fn numbers_of(note: Option<&str>) -> Result<Vec<u64>, Error> {
    let rows: Vec<(String, String, String, u64)> =
        serde_json::from_str(note.unwrap_or_default()).map_err(Error::corrupt)?;
    Ok(rows.into_iter().map(|(.., number)| number).collect())
}

fn versions_of(note: &str) -> Vec<(Place, u64)> {
    // Notes of other writes are something else.
    let rows: Vec<(String, String, String, u64)> = serde_json::from_str(note).unwrap_or_default();
    let place = |(tenant, space, key, number): (String, String, String, u64)| {
        let tenant = crate::name::Tenant::new(&tenant).ok()?;
        Some((Place::new(tenant, &space, &key).ok()?, number))
    };
    rows.into_iter().filter_map(place).collect()
}

/// Whoever comes second finds that another run of the same request has done it.
pub(crate) fn repeated() -> Error {
    Error::new(
        ErrorKind::Repeated,
        "the same request is being worked on elsewhere, and this part of it is done",
    )
}
