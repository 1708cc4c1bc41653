//! Requests that may be sent again: which one is meant, whether it is under way here, and what it
//! was answered with.
//!
//! A request is recognised by its caller and their idempotency key or, for clients that retry by
//! themselves and say so, by its caller and what was sent. What it did is recorded by its writes
//! (`haft_store::Request`); the finished answer is kept beside them shortly afterwards, in a write
//! that nobody waits for. An answer that was lost in between is made again: the request is run once
//! more, and all that was done is skipped.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::{Actor, Digest, Millis, Timestamp};
use haft_store::{
    Error as StoreError, Request, RequestId, RequestStep, Store, StoredRequest, Tenant,
};
use tokio::sync::{OnceCell, watch};

use crate::clock::Clock;

/// The longest idempotency key.
const KEY_MAX: usize = 255;

/// How long a retry without a key is matched with a request that has no answer.
const UNANSWERED_FOR: Millis = Millis::from_secs(600);

/// How long it is matched with one that was answered: a client retries within seconds after an
/// answer was lost, and much later the same words are meant to be said again.
const ANSWERED_FOR: Millis = Millis::from_secs(120);

/// How long after its retry a first try is taken for what the retry was a repetition of.
const OVERTAKEN_FOR: Millis = Millis::from_secs(5);

/// How often a retry looks for its first try while others begin.
const LOOKS_MAX: u32 = 4;

/// How long whoever sends a request again waits for the first one.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The largest answer that is kept; a larger one is made again.
const ANSWER_MAX: usize = 256 << 10;

/// How many answers may wait to be kept; those beyond are made again when they are asked for.
const UNKEPT_MAX: usize = 1_024;

/// How many requests that ended without an answer are remembered.
const UNANSWERED_MAX: usize = 1_024;

/// How often answers are tried to be kept while the store is away.
const KEEP_EVERY: Duration = Duration::from_millis(500);
const KEEP_TRIES: u32 = 20;

/// What identifies a request to whoever sends it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKey {
    /// The caller chose a key for it.
    Given(String),
    /// A client that retries by itself sends it for the first time.
    FirstTry,
    /// Such a client sends it again.
    Retry,
}

/// Why a request is not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The key is not one.
    #[error("an idempotency key has 1 to {KEY_MAX} printable ASCII characters")]
    BadKey,
    /// The key was sent before, with another request.
    #[error(
        "this idempotency key was used for another request; use a new key, or send the first \
         request unchanged"
    )]
    Reused,
    /// The first one is still being worked on.
    #[error("the first request with this key is still being worked on; send it again shortly")]
    UnderWay,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a request begins.
#[derive(Debug)]
pub enum Begun {
    /// It is to be worked on.
    Work(WorkingRequest),
    /// It was answered before, with this.
    Answered(String),
}

/// A request that is being worked on here; whoever sends it again waits until this is dropped.
#[derive(Debug)]
pub struct WorkingRequest {
    request: Request,
    requests: Requests,
    done: watch::Sender<()>,
    /// Whether it was handed out to be worked on and has no answer.
    is_unanswered: bool,
}

impl WorkingRequest {
    /// Returns the request, to work on within its scope.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Ends it with an answer, which whoever sends it again gets.
    pub fn answered(mut self, answer: String) {
        self.is_unanswered = false;
        self.requests.state().forget_unanswered(self.request.id());
        if answer.len() <= ANSWER_MAX {
            let at = self.requests.0.clock.now();
            self.requests.keep(self.request.answered(answer, at));
        }
    }
}

impl Drop for WorkingRequest {
    fn drop(&mut self) {
        let id = self.request.id();
        let mut state = self.requests.state();
        if self.is_unanswered {
            state.remember_unanswered(id);
        }
        state.under_way.remove(&id);
        drop(state);
        // Whoever waits looks again.
        self.done.send_replace(());
    }
}

/// The requests of a node; a clone shares them.
#[derive(Debug, Clone)]
pub(crate) struct Requests(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    salt: OnceCell<Vec<u8>>,
    state: Mutex<Status>,
}

#[derive(Debug, Default)]
struct Status {
    under_way: BTreeMap<RequestId, UnderWay>,
    /// Answers that are not kept in the store yet.
    unkept: HashMap<RequestId, RequestStep>,
    is_keeping: bool,
    /// Requests that ended here without an answer, the latest last: some have left no trace in the
    /// store, and a retry of one must not be taken for an earlier one that was answered.
    unanswered: VecDeque<RequestId>,
    /// How many first tries without a key have begun here.
    n_first_tries: u64,
    /// Retries without a key that found no first try, the latest last: a request that was sent
    /// before its retry may be read after it.
    orphans: VecDeque<(u128, RequestId, Timestamp)>,
}

impl Status {
    fn add_orphan(&mut self, prefix: u128, id: RequestId, at: Timestamp) {
        if self.orphans.len() >= UNANSWERED_MAX {
            self.orphans.pop_front();
        }
        self.orphans.push_back((prefix, id, at));
    }

    /// Returns the retry that overtook a first try, for one first try and a short time.
    fn take_orphan(&mut self, prefix: u128, now: Timestamp) -> Option<RequestId> {
        self.orphans.retain(|(_, _, at)| *at + OVERTAKEN_FOR >= now);
        let at = self.orphans.iter().position(|(words, ..)| *words == prefix)?;
        self.orphans.remove(at).map(|(_, id, _)| id)
    }

    fn remember_unanswered(&mut self, id: RequestId) {
        self.forget_unanswered(id);
        if self.unanswered.len() >= UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(id);
    }

    fn forget_unanswered(&mut self, id: RequestId) {
        self.unanswered.retain(|other| *other != id);
    }

    fn unanswered_in(&self, range: &RangeInclusive<RequestId>) -> Vec<RequestId> {
        self.unanswered.iter().filter(|id| range.contains(id)).copied().collect()
    }
}

#[derive(Debug, Clone)]
struct UnderWay {
    digest: Digest,
    done: watch::Receiver<()>,
}

impl Requests {
    pub(crate) fn new(store: Store, clock: Clock) -> Self {
        let (salt, state) = (OnceCell::new(), Mutex::default());
        Self(Arc::new(Inner { store, clock, salt, state }))
    }

    /// Begins a request of a caller; `digest` is the hash of what was sent.
    pub(crate) async fn begin(
        &self,
        (tenant, caller): (&Tenant, &Actor),
        key: &RequestKey,
        digest: Digest,
    ) -> Result<Begun, RequestError> {
        let salt = self.0.salt.get_or_try_init(|| self.0.store.request_salt()).await?;
        let caller = format!("{:?} {}", caller.kind, caller.id.as_str());
        let id_of = |parts: &[&[u8]]| {
            let whose: [&[u8]; 3] = [salt, tenant.as_str().as_bytes(), caller.as_bytes()];
            let hash = Digest::of_parts(&[&whose, parts].concat());
            let bytes = hash.as_bytes().iter().take(16);
            bytes.fold(0u128, |bits, byte| bits << 8 | u128::from(*byte))
        };
        match key {
            RequestKey::Given(key) => {
                let is_key = (1..=KEY_MAX).contains(&key.len());
                if !is_key || !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
                    return Err(RequestError::BadKey);
                }
                self.begin_as(RequestId(id_of(&[b"key", key.as_bytes()])), digest).await
            }
            RequestKey::FirstTry => {
                self.begin_first(id_of(&[b"sent", digest.as_bytes()]), digest).await
            }
            RequestKey::Retry => {
                self.begin_again(id_of(&[b"sent", digest.as_bytes()]), digest).await
            }
        }
    }

    /// Begins what a client sends for the first time, unless its retry was read before it.
    async fn begin_first(&self, prefix: u128, digest: Digest) -> Result<Begun, RequestError> {
        let now = self.0.clock.now();
        let overtaken = {
            let mut state = self.state();
            match state.take_orphan(prefix, now) {
                Some(id) => id,
                None => {
                    state.n_first_tries += 1;
                    let id = RequestId(timed(prefix, now, nonce()));
                    let working = self.claim_with(&mut state, id, digest);
                    return Ok(handed_out(working.map_err(|_| RequestError::UnderWay)?));
                }
            }
        };
        self.begin_as(overtaken, digest).await
    }

    /// Begins what a client sends again: the request that it means, or itself if there is none.
    async fn begin_again(&self, prefix: u128, digest: Digest) -> Result<Begun, RequestError> {
        let mut looks = 0;
        loop {
            looks += 1;
            let n_seen = self.state().n_first_tries;
            let now = self.0.clock.now();
            if let Some(id) = self.earlier(prefix, now).await? {
                return self.begin_as(id, digest).await;
            }
            let mut state = self.state();
            // The first try may have begun while the store was looked at.
            if state.n_first_tries != n_seen && looks < LOOKS_MAX {
                continue;
            }
            let id = RequestId(timed(prefix, now, nonce()));
            let working = self.claim_with(&mut state, id, digest);
            state.add_orphan(prefix, id, now);
            return Ok(handed_out(working.map_err(|_| RequestError::UnderWay)?));
        }
    }

    /// Begins the request that has this id, once nobody here works on it.
    async fn begin_as(&self, id: RequestId, digest: Digest) -> Result<Begun, RequestError> {
        loop {
            let working = match self.claim(id, digest) {
                Ok(working) => working,
                Err(UnderWay { digest: other, .. }) if other != digest => {
                    return Err(RequestError::Reused);
                }
                Err(UnderWay { mut done, .. }) => {
                    // That the first one is gone without a word is as good as that it is over.
                    let over = tokio::time::timeout(WAIT_MAX, done.changed()).await;
                    over.map_err(|_| RequestError::UnderWay)?.unwrap_or_default();
                    continue;
                }
            };
            let unkept = self.state().unkept.get(&id).cloned();
            if let Some(RequestStep { digest: other, note, .. }) = unkept {
                return match note.filter(|_| other == digest) {
                    Some(answer) => Ok(self.found(id, answer)),
                    None => Err(RequestError::Reused),
                };
            }
            return match self.0.store.requests(id..=id).await?.pop() {
                None => Ok(handed_out(working)),
                Some(stored) if stored.digest != digest => Err(RequestError::Reused),
                Some(StoredRequest { answer: Some((answer, _)), .. }) => Ok(self.found(id, answer)),
                Some(stored) => {
                    let mut working = working;
                    working.request = Request::again(stored);
                    Ok(handed_out(working))
                }
            };
        }
    }

    /// Answers a request with the answer that was found for it.
    fn found(&self, id: RequestId, answer: String) -> Begun {
        self.state().forget_unanswered(id);
        Begun::Answered(answer)
    }

    /// Finds the request that a client means which sends something again without a key: the latest
    /// of the same words, whether or not it was answered. One whose answer was erased with its
    /// session is over.
    async fn earlier(
        &self,
        prefix: u128,
        now: Timestamp,
    ) -> Result<Option<RequestId>, RequestError> {
        let since = Timestamp::from_ms(now.ms() - UNANSWERED_FOR.0 as i64);
        let range = RequestId(timed(prefix, since, 0))..=RequestId(timed(prefix, now, u16::MAX));
        let under_way = self.state().under_way.range(range.clone()).next_back().map(|(id, _)| *id);
        if under_way.is_some() {
            return Ok(under_way);
        }
        let unanswered = self.state().unanswered_in(&range);
        let unkept = self.unkept(&range);
        let is_recent = |at: Timestamp| at + ANSWERED_FOR >= now;
        let stored = self.0.store.requests(range).await?;
        let was_erased = |id: RequestId| {
            let mut stored = stored.iter().filter(|stored| stored.id == id);
            stored.any(|stored| stored.answer.is_none() && stored.answered_at.is_some())
        };
        let is_meant = |stored: &&StoredRequest| match stored.answered_at {
            Some(at) => stored.answer.is_some() && is_recent(at),
            None => !unkept.contains_key(&stored.id),
        };
        let latest = [
            stored.iter().filter(is_meant).map(|stored| stored.id).max(),
            unkept.iter().filter(|(_, at)| is_recent(**at)).map(|(id, _)| *id).max(),
            unanswered.into_iter().filter(|id| !was_erased(*id)).max(),
        ];
        Ok(latest.into_iter().flatten().max())
    }

    fn unkept(&self, range: &RangeInclusive<RequestId>) -> BTreeMap<RequestId, Timestamp> {
        let state = self.state();
        let within = state.unkept.iter().filter(|(id, _)| range.contains(id));
        within.map(|(id, answer)| (*id, answer.at)).collect()
    }

    /// Says that a request is worked on here; fails when it is already.
    fn claim(&self, id: RequestId, digest: Digest) -> Result<WorkingRequest, UnderWay> {
        self.claim_with(&mut self.state(), id, digest)
    }

    fn claim_with(
        &self,
        state: &mut Status,
        id: RequestId,
        digest: Digest,
    ) -> Result<WorkingRequest, UnderWay> {
        if let Some(under_way) = state.under_way.get(&id) {
            return Err(under_way.clone());
        }
        let (sender, done) = watch::channel(());
        state.under_way.insert(id, UnderWay { digest, done });
        let request = Request::new(id, digest, self.0.clock.now());
        let (requests, is_unanswered) = (self.clone(), false);
        Ok(WorkingRequest { request, requests, done: sender, is_unanswered })
    }

    /// Keeps an answer, soon.
    fn keep(&self, answer: RequestStep) {
        let mut state = self.state();
        if state.unkept.len() >= UNKEPT_MAX {
            return;
        }
        state.unkept.insert(answer.request, answer);
        if !std::mem::replace(&mut state.is_keeping, true) {
            drop(tokio::spawn(self.clone().keep_all()));
        }
    }

    /// Keeps answers until there are no more. Those that came meanwhile share a write.
    async fn keep_all(self) {
        let mut tries = 0;
        loop {
            let answers: Vec<_> = {
                let mut state = self.state();
                if state.unkept.is_empty() {
                    state.is_keeping = false;
                    return;
                }
                state.unkept.values().cloned().collect()
            };
            let ids: BTreeSet<_> = answers.iter().map(|answer| answer.request).collect();
            match self.0.store.keep_answers(answers).await {
                Ok(()) => tries = 0,
                Err(error) if tries < KEEP_TRIES => {
                    tracing::debug!(%error, "answers are not kept yet; trying again");
                    tries += 1;
                    tokio::time::sleep(KEEP_EVERY).await;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "answers to requests were not kept"),
            }
            let mut state = self.state();
            state.unkept.retain(|id, _| !ids.contains(id));
        }
    }

    /// Waits until no answer is left to be kept, unless that takes long.
    pub(crate) async fn kept(&self, at_most: Duration) {
        let until = tokio::time::Instant::now() + at_most;
        while self.state().is_keeping && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, Status> {
        // Nothing that changes it panics half way, so that it is whole whatever happens.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a request to whoever works on it; from here on it has no answer until it is given one.
fn handed_out(mut working: WorkingRequest) -> Begun {
    working.is_unanswered = true;
    Begun::Work(working)
}

/// An id of a request without a key: what was sent, then when, then a number that tells two apart.
/// Those of the same words stand together, in the order of their time.
fn timed(prefix: u128, at: Timestamp, nonce: u16) -> u128 {
    let time = u64::try_from(at.ms()).unwrap_or(0) & ((1 << 48) - 1);
    prefix >> 64 << 64 | u128::from(time) << 16 | u128::from(nonce)
}

fn nonce() -> u16 {
    let mut bytes = [0u8; 2];
    // Without randomness two requests of the same words in the same millisecond are told apart by
    // the second being refused.
    getrandom::fill(&mut bytes).unwrap_or_default();
    u16::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use haft_core::ActorId;
    use tempfile::TempDir;

    use super::*;
    use crate::clock::ManualClock;

    /// Someone who sends the same words.
    struct Sender {
        requests: Requests,
        clock: ManualClock,
        _data: TempDir,
    }

    impl Sender {
        fn new() -> Self {
            let data = tempfile::tempdir().unwrap();
            let store = Store::open_sqlite(data.path()).unwrap();
            let clock = ManualClock::at(Timestamp::from_ms(1_700_000_000_000));
            let requests = Requests::new(store, Clock::Manual(clock.clone()));
            Self { requests, clock, _data: data }
        }

        async fn sends(&self, key: RequestKey) -> Begun {
            self.clock.advance(Millis(10));
            let caller = Actor::user(ActorId::new("ann").unwrap());
            let digest = Digest::of_bytes(b"the same words");
            let tenant = Tenant::new("acme").unwrap();
            self.requests.begin((&tenant, &caller), &key, digest).await.unwrap()
        }

        async fn works(&self, key: RequestKey) -> WorkingRequest {
            match self.sends(key).await {
                Begun::Work(working) => working,
                Begun::Answered(answer) => panic!("it is answered with {answer:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_retry_of_a_request_that_left_no_trace_is_not_an_earlier_one_that_was_answered() {
        let sender = Sender::new();
        sender.works(RequestKey::FirstTry).await.answered("first".to_owned());
        // On purpose, and it fails before anything is written.
        let failed = sender.works(RequestKey::FirstTry).await;
        let id = failed.request().id();
        drop(failed);
        let again = sender.works(RequestKey::Retry).await;
        assert_eq!(again.request().id(), id);
        again.answered("second".to_owned());
        for _ in 0..2 {
            let answered = sender.sends(RequestKey::Retry).await;
            assert!(matches!(&answered, Begun::Answered(it) if it == "second"), "{answered:?}");
            sender.requests.kept(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test]
    async fn a_retry_means_the_latest_of_the_same_words() {
        let sender = Sender::new();
        drop(sender.works(RequestKey::FirstTry).await);
        sender.works(RequestKey::FirstTry).await.answered("later".to_owned());
        let answered = sender.sends(RequestKey::Retry).await;
        assert!(matches!(&answered, Begun::Answered(it) if it == "later"), "{answered:?}");
    }

    #[tokio::test]
    async fn a_first_try_that_is_read_after_its_retry_is_the_same_request() {
        let sender = Sender::new();
        sender.works(RequestKey::Retry).await.answered("once".to_owned());
        let late = sender.sends(RequestKey::FirstTry).await;
        assert!(matches!(&late, Begun::Answered(it) if it == "once"), "{late:?}");
        // The same words again, on purpose.
        sender.works(RequestKey::FirstTry).await.answered("twice".to_owned());
        sender.clock.advance(Millis::from_secs(3_600));
        sender.works(RequestKey::Retry).await.answered("much later".to_owned());
        sender.clock.advance(OVERTAKEN_FOR);
        drop(sender.works(RequestKey::FirstTry).await);
    }

    #[tokio::test]
    async fn so_many_that_ended_without_an_answer_are_remembered() {
        let mut status = Status::default();
        (0..2_000).for_each(|id| status.remember_unanswered(RequestId(id)));
        assert_eq!(status.unanswered.len(), UNANSWERED_MAX);
        assert_eq!(status.unanswered.back(), Some(&RequestId(1_999)));
    }
}
