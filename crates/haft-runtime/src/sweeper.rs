//! The sweeper: what falls due, who must be looked at, and that this node is alive.
//!
//! Every node sweeps. Claims in the store only save double work; what may happen once is settled
//! by the head of each session's log.

use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{Expired, Input};
use haft_core::{Millis, SessionId, Timestamp};
use haft_store::{Due, DueWork, Error};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::driver::{Settings, Shared};
use crate::outage::Outage;
use crate::performer::Performer;

/// How much is taken in one sweep while nobody asks for anything: enough to share commits.
const BATCH: u32 = 128;

/// The same while someone does: each commit is shared with whoever asks, who must not wait for a
/// heap of old work.
const BATCH_BESIDE_OTHERS: u32 = 8;

/// How long the next sweep waits for the sessions of the last one at most.
const REST_MAX: Duration = Duration::from_millis(50);

/// How long claimed work is left alone before another node takes it up.
const HOLD: Millis = Millis::from_secs(10);

pub(crate) async fn run<P: Performer>(shared: Arc<Shared<P>>, settings: Settings) {
    let mut changes = shared.store.changes();
    let mut outage = Outage::of("the store cannot be swept");
    let mut forget_at = Instant::now();
    loop {
        if forget_at <= Instant::now() {
            forget_at = Instant::now() + forget_requests(&shared).await;
        }
        let swept = sweep(&shared).await;
        if swept.is_ok() {
            outage.over();
        }
        match swept {
            Ok(Swept::Full(sessions)) => come_to_rest(&shared, &sessions).await,
            Ok(Swept::Some) => {
                let pause = pause(&shared, &settings).await;
                tokio::select! {
                    () = changes.changed() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
            Err(error) => {
                outage.failed(&error);
                tokio::time::sleep(settings.sweep_every.max(RETRY_MIN)).await;
            }
        }
    }
}

/// How long requests are remembered that may be sent again. Clients are promised 24 hours.
const REQUESTS_KEPT_FOR: Millis = Millis::from_secs(25 * 3600);

/// How often requests that are too old are looked for, and how many are forgotten at once.
const FORGET_EVERY: Duration = Duration::from_secs(600);
const FORGET_MAX: u32 = 1_000;

/// Forgets requests that nobody will send again; returns when to do so next.
async fn forget_requests<P: Performer>(shared: &Shared<P>) -> Duration {
    let before = Timestamp::from_ms(shared.clock.now().ms() - REQUESTS_KEPT_FOR.0 as i64);
    match shared.store.forget_requests(before, FORGET_MAX).await {
        Ok(gone) if gone == u64::from(FORGET_MAX) => Duration::ZERO,
        Ok(_) => FORGET_EVERY,
        Err(error) => {
            tracing::debug!(%error, "old requests are not forgotten yet");
            FORGET_EVERY
        }
    }
}

/// Returns how long nothing falls due, as far as the store knows: a node at rest asks it for
/// little. What is appended meanwhile and due before a second has passed is found after it.
async fn pause<P: Performer>(shared: &Shared<P>, settings: &Settings) -> Duration {
    if let Clock::Manual(_) = settings.clock {
        // Whoever moves the clock does not say so.
        return settings.sweep_every;
    }
    match shared.store.next_due().await {
        Ok(Some(due)) => {
            let left = Duration::from(due.since(shared.clock.now()));
            left.clamp(settings.sweep_every.min(PAUSE_MAX), PAUSE_MAX)
        }
        Ok(None) => PAUSE_MAX,
        // The next sweep says what the trouble is.
        Err(_) => settings.sweep_every,
    }
}

/// How long a node that has nothing to do waits for the next sweep.
const PAUSE_MAX: Duration = Duration::from_secs(1);

const RETRY_MIN: Duration = Duration::from_millis(100);

/// How soon another batch of sessions is taken up: new calls get their turn in between.
const ROUND_EVERY: Duration = Duration::from_millis(20);

/// Apart from the sweeps, which may take long: says that this node is alive, and looks for
/// sessions that were left behind by a dead node, an earlier life, or a task that gave up.
pub(crate) async fn beat<P: Performer>(shared: Arc<Shared<P>>, settings: Settings) {
    let mut outage = Outage::of("this node has no heartbeat");
    loop {
        let beaten = async {
            shared.beat().await?;
            shared.store.owned_or_orphaned(&shared.node, shared.clock.moment()).await
        };
        match beaten.await {
            Ok(sessions) => {
                outage.over();
                let next = Instant::now() + settings.lease_ttl / 3;
                take_up(&shared, sessions, next).await;
                tokio::time::sleep_until(next).await;
            }
            Err(error) => {
                outage.failed(&error);
                tokio::time::sleep(RETRY_MIN).await;
            }
        }
    }
}

/// Takes up what was left behind, in rounds, until it is time for the next heartbeat, which finds
/// what is left over.
async fn take_up<P: Performer>(shared: &Arc<Shared<P>>, left: Vec<SessionId>, until: Instant) {
    for round in left.chunks(BATCH as usize) {
        for session in round.iter().filter(|session| !shared.is_at_work(**session)) {
            Shared::wake(shared, *session, None);
        }
        if Instant::now() + ROUND_EVERY >= until {
            return;
        }
        tokio::time::sleep(ROUND_EVERY).await;
    }
}

/// Waits until sessions have done what they were woken for, unless that takes long.
async fn come_to_rest<P: Performer>(shared: &Shared<P>, sessions: &[SessionId]) {
    let until = Instant::now() + REST_MAX;
    let at_work = || sessions.iter().any(|session| shared.is_at_work(*session));
    while at_work() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

enum Swept {
    /// There may be more than what these sessions were woken for.
    Full(Vec<SessionId>),
    /// That was all.
    Some,
}

async fn sweep<P: Performer>(shared: &Arc<Shared<P>>) -> Result<Swept, Error> {
    let moment = shared.clock.moment();
    let batch = if shared.was_asked() { BATCH_BESIDE_OTHERS } else { BATCH };
    let due = shared.store.claim_due(&shared.node, moment, HOLD, batch).await?;
    let wakes = shared.store.claim_wakes(&shared.node, moment, HOLD, batch).await?;
    let full = due.len() == batch as usize || wakes.len() == batch as usize;
    let sessions = due.iter().map(|due| due.session).chain(wakes.iter().map(|wake| wake.session));
    let sessions: Vec<_> = sessions.collect();
    let mut settling = JoinSet::new();
    for work in due {
        settling.spawn(settle(Arc::clone(shared), work));
    }
    for wake in wakes {
        Shared::wake(shared, wake.session, Some(wake));
    }
    while let Some(settled) = settling.join_next().await {
        if let Err(error) = settled {
            // The claim lapses and it is tried again; the others and the heartbeat go on.
            tracing::error!(%error, "settling due work panicked");
        }
    }
    Ok(if full { Swept::Full(sessions) } else { Swept::Some })
}

/// An expiry is recorded like any other end of a wait; a due retry only needs its session to be
/// looked at. What fails is found again when the claim lapses.
async fn settle<P: Performer>(shared: Arc<Shared<P>>, due: Due) {
    match due.work {
        DueWork::Expiry { round } => {
            let expired = Input::Expired(Expired { call: due.call, round });
            if let Err(error) = Shared::record(&shared, due.session, expired, None).await {
                tracing::debug!(session = %due.session, %error, "an expiry changes nothing");
            }
        }
        DueWork::Retry => Shared::wake(&shared, due.session, None),
    }
}
