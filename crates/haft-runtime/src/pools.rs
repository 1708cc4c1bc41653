//! The pools of a node: how many calls run at once, and which wait for that, over all sessions.
//!
//! The places of a pool that belongs to workers are offered: each request of a worker for jobs
//! offers some, which are good for one call each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use haft_core::CallId;
use haft_core::tool::Pool;
use tokio::sync::oneshot;

/// The pools of a node, by name; a clone shares them. A pool has the limit that it was last
/// asked for with.
#[derive(Clone, Default)]
pub struct Pools(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    by_name: BTreeMap<String, Places>,
    waiting: HashMap<u64, Waiting>,
    /// Numbers grow, so that the earliest is the first.
    n_waited: u64,
    /// The open offers of workers, the earliest first.
    offers: BTreeMap<u64, OpenOffer>,
    /// The offer that each call was started upon, until the call gives its places back.
    used_offers: HashMap<CallId, u64>,
}

/// What a worker offers to run.
struct OpenOffer {
    /// The pools of the tools that it has.
    pools: BTreeSet<String>,
    n_free: u32,
}

/// The places in one pool.
#[derive(Default)]
struct Places {
    limit: u32,
    n_taken: u32,
    /// Who waits for one of them, the earliest first.
    queue: BTreeMap<u64, CallId>,
}

impl Places {
    fn has_room(&self) -> bool {
        self.n_taken < self.limit
    }
}

struct Waiting {
    call: CallId,
    pools: Vec<String>,
    taken: oneshot::Sender<Slot>,
}

/// How busy a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLoad {
    /// What it is called.
    pub name: String,
    /// How many calls run at once, at most.
    pub limit: u32,
    /// How many run now.
    pub n_running: u32,
    /// How many wait.
    pub n_queued: usize,
}

/// Where a call stands in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePlace {
    /// The pool that it waits for; of several, the one with the most calls ahead of it.
    pub pool: String,
    /// How many calls are ahead of it there.
    pub n_ahead: usize,
}

impl Pools {
    /// Returns how busy each pool is that was ever asked for.
    pub fn loads(&self) -> Vec<PoolLoad> {
        let inner = self.lock();
        let loads = inner.by_name.iter().map(|(name, places)| PoolLoad {
            name: name.clone(),
            limit: match Pool::is_of_workers(name) {
                true => places.n_taken.saturating_add(inner.n_offered(name)),
                false => places.limit,
            },
            n_running: places.n_taken,
            n_queued: places.queue.len(),
        });
        loads.collect()
    }

    /// Offers to run some calls of the tools whose pools these are, until what is returned is
    /// dropped. `number` tells the offer from all others; the earliest number is used up first.
    pub fn offer(&self, number: u64, pools: BTreeSet<String>, n_free: u32) -> Offer {
        self.lock().offers.insert(number, OpenOffer { pools, n_free });
        self.hand_out(None);
        Offer { pools: self.clone(), number }
    }

    /// Returns the number of the offer that a call was started upon.
    pub fn offer_of(&self, call: CallId) -> Option<u64> {
        self.lock().used_offers.get(&call).copied()
    }

    /// Returns how many calls a worker would take of this pool now.
    pub fn n_offered(&self, pool: &str) -> u32 {
        self.lock().n_offered(pool)
    }

    /// Returns where a call waits, if it waits on this node.
    pub fn place(&self, call: CallId) -> Option<QueuePlace> {
        let inner = self.lock();
        let places = inner.by_name.iter().filter_map(|(pool, places)| {
            let n_ahead = places.queue.values().position(|queued| *queued == call)?;
            Some(QueuePlace { pool: pool.clone(), n_ahead })
        });
        places.max_by_key(|place| place.n_ahead)
    }

    /// Takes a place in each of the pools, if all of them have room.
    pub(crate) fn try_take(&self, call: CallId, pools: &[Pool]) -> Option<Slot> {
        let mut inner = self.lock();
        let names = inner.known(pools);
        let taken = inner.take(call, &names)?;
        drop(inner);
        Some(Slot { pools: self.clone(), names, call, offer: taken.offer })
    }

    /// Waits for a place in each of the pools, behind those who wait already.
    pub(crate) fn queue(&self, call: CallId, pools: &[Pool]) -> Queued {
        let (taken, receiver) = oneshot::channel();
        let mut inner = self.lock();
        let names = inner.known(pools);
        inner.n_waited += 1;
        let number = inner.n_waited;
        for name in &names {
            if let Some(places) = inner.by_name.get_mut(name) {
                places.queue.insert(number, call);
            }
        }
        inner.waiting.insert(number, Waiting { call, pools: names, taken });
        drop(inner);
        self.hand_out(None);
        Queued { pools: self.clone(), number, receiver }
    }

    /// Gives free places to those who wait, in their order, after some were given back.
    fn hand_out(&self, given_back: Option<&[String]>) {
        let mut inner = self.lock();
        for name in given_back.unwrap_or_default() {
            if let Some(places) = inner.by_name.get_mut(name) {
                places.n_taken -= 1;
            }
        }
        let mut handed = Vec::new();
        for number in inner.candidates() {
            let Some(waiting) = inner.waiting.remove(&number) else { continue };
            match inner.take(waiting.call, &waiting.pools) {
                Some(taken) => {
                    inner.leave(number, &waiting.pools);
                    handed.push((waiting, taken.offer));
                }
                None => drop(inner.waiting.insert(number, waiting)),
            }
        }
        // Whoever does not wait any more gives theirs back, which takes the lock.
        drop(inner);
        for (Waiting { call, pools: names, taken }, offer) in handed {
            drop(taken.send(Slot { pools: self.clone(), names, call, offer }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Notes the limits of pools, and returns their names.
    fn known(&mut self, pools: &[Pool]) -> Vec<String> {
        let mut names = Vec::with_capacity(pools.len());
        for pool in pools {
            self.by_name.entry(pool.name.clone()).or_default().limit = pool.limit;
            if !names.contains(&pool.name) {
                names.push(pool.name.clone());
            }
        }
        names
    }

    fn n_offered(&self, name: &str) -> u32 {
        let offers = self.offers.values().filter(|offer| offer.pools.contains(name));
        offers.map(|offer| offer.n_free).fold(0, u32::saturating_add)
    }

    /// Returns the earliest offer that has a place in all pools of workers among these.
    fn open_offer(&self, names: &[String]) -> Option<u64> {
        let theirs = || names.iter().filter(|name| Pool::is_of_workers(name));
        let mut offers = self.offers.iter();
        let fits = |offer: &OpenOffer| {
            offer.n_free > 0 && theirs().all(|name| offer.pools.contains(name.as_str()))
        };
        offers.find(|(_, offer)| fits(offer)).map(|(number, _)| *number)
    }

    fn has_room(&self, name: &str) -> bool {
        match Pool::is_of_workers(name) {
            true => self.n_offered(name) > 0,
            false => self.by_name.get(name).is_none_or(Places::has_room),
        }
    }

    /// Takes a place in each of these pools, or in none.
    fn take(&mut self, call: CallId, names: &[String]) -> Option<TakenPlaces> {
        if !names.iter().all(|name| self.has_room(name)) {
            return None;
        }
        let needs_offer = names.iter().any(|name| Pool::is_of_workers(name));
        let offer = if needs_offer { Some(self.open_offer(names)?) } else { None };
        if let Some(number) = offer {
            self.used_offers.insert(call, number);
            if let Some(offer) = self.offers.get_mut(&number) {
                offer.n_free -= 1;
            }
        }
        for name in names {
            if let Some(places) = self.by_name.get_mut(name) {
                places.n_taken += 1;
            }
        }
        Some(TakenPlaces { offer })
    }

    fn leave(&mut self, number: u64, names: &[String]) {
        for name in names {
            if let Some(places) = self.by_name.get_mut(name) {
                places.queue.remove(&number);
            }
        }
    }

    /// Returns those who may find room now, the earliest first. Nobody is passed by someone later
    /// who waits for the same pools.
    fn candidates(&self) -> Vec<u64> {
        let open = self
            .by_name
            .iter()
            .filter(|(name, places)| !places.queue.is_empty() && self.has_room(name));
        let mut numbers: Vec<u64> =
            open.flat_map(|(_, places)| places.queue.keys().copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// What a call got along with its places.
struct TakenPlaces {
    offer: Option<u64>,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pools").field(&self.loads()).finish()
    }
}

/// A place in each of some pools, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pools: Pools,
    names: Vec<String>,
    call: CallId,
    /// The worker's offer that it was started upon.
    offer: Option<u64>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(offer) = self.offer {
            let used = &mut self.pools.lock().used_offers;
            // A later attempt of the call may have another one.
            if used.get(&self.call) == Some(&offer) {
                used.remove(&self.call);
            }
        }
        self.pools.hand_out(Some(&self.names));
    }
}

/// Places that a worker offers; what nobody took is withdrawn when this is dropped.
#[derive(Debug)]
pub struct Offer {
    pools: Pools,
    number: u64,
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.pools.lock().offers.remove(&self.number);
    }
}

/// A call that waits; it leaves the queue when this is dropped.
pub(crate) struct Queued {
    pools: Pools,
    number: u64,
    receiver: oneshot::Receiver<Slot>,
}

impl Future for Queued {
    type Output = Slot;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Slot> {
        match Pin::new(&mut self.receiver).poll(context) {
            Poll::Ready(Ok(slot)) => Poll::Ready(slot),
            // Who waits is forgotten only when this is dropped.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut inner = self.pools.lock();
        if let Some(waiting) = inner.waiting.remove(&self.number) {
            inner.leave(self.number, &waiting.pools);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, limit: u32) -> Pool {
        Pool { name: name.to_owned(), limit }
    }

    fn call(n: u128) -> CallId {
        CallId::from_bits(n)
    }

    fn is_ready(queued: &mut Queued) -> bool {
        !matches!(queued.receiver.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    #[test]
    fn those_who_wait_are_served_in_their_order() {
        let (pools, server) = (Pools::default(), [pool("server", 1)]);
        let first = pools.try_take(call(1), &server).unwrap();
        assert!(pools.try_take(call(1), &server).is_none());
        let mut second = pools.queue(call(2), &server);
        let mut third = pools.queue(call(3), &server);
        assert_eq!(pools.place(call(3)).unwrap(), QueuePlace { pool: "server".into(), n_ahead: 1 });
        drop(first);
        let load = pools.loads().remove(0);
        assert_eq!((load.n_running, load.n_queued), (1, 1));
        assert!(!is_ready(&mut third));
        assert!(pools.place(call(2)).is_none());
        // It was given a place and does not take it any more.
        assert!(is_ready(&mut second));
        assert!(is_ready(&mut third), "the place went on to the next");
        drop((second, third));
        assert_eq!(pools.loads()[0].n_queued, 0);
    }

    #[test]
    fn a_full_pool_of_one_tool_holds_up_no_other() {
        let pools = Pools::default();
        let (slow, quick) = ([pool("server", 2), pool("slow", 1)], [pool("server", 2)]);
        let running = pools.try_take(call(1), &slow).unwrap();
        let mut waits = pools.queue(call(1), &slow);
        let other = pools.try_take(call(9), &quick).unwrap();
        assert!(pools.try_take(call(9), &quick).is_none(), "the server is full");
        drop(other);
        assert!(!is_ready(&mut waits), "its own pool is full");
        drop(running);
        assert!(is_ready(&mut waits));
    }

    #[test]
    fn whoever_leaves_the_queue_takes_no_place() {
        let (pools, server) = (Pools::default(), [pool("server", 1)]);
        let running = pools.try_take(call(1), &server).unwrap();
        drop(pools.queue(call(1), &server));
        drop(running);
        let load = pools.loads().remove(0);
        assert_eq!((load.n_running, load.n_queued), (0, 0));
    }

    fn worker(tool: &str) -> Pool {
        Pool::of_workers(&tool.parse().unwrap())
    }

    fn offer(pools: &Pools, number: u64, tools: &[&str], n_free: u32) -> Offer {
        let names = tools.iter().map(|tool| worker(tool).name).collect();
        pools.offer(number, names, n_free)
    }

    #[test]
    fn a_call_for_a_worker_waits_until_one_offers_to_run_it() {
        let (pools, refund) = (Pools::default(), [worker("refund")]);
        assert!(pools.try_take(call(1), &refund).is_none(), "nobody offers anything");
        let mut first = pools.queue(call(1), &refund);
        let mut second = pools.queue(call(2), &refund);
        let other = offer(&pools, 1, &["email"], 5);
        assert!(!is_ready(&mut first), "this worker has another tool");
        let offered = offer(&pools, 2, &["email", "refund"], 1);
        assert_eq!(pools.offer_of(call(1)), Some(2));
        assert_eq!(pools.offer_of(call(2)), None);
        assert!(!is_ready(&mut second), "the offer was for one call");
        let slot = first.receiver.try_recv().unwrap();
        drop(slot);
        assert!(!is_ready(&mut second), "a call that has ended is no new offer");
        drop((other, offered));
        let _again = offer(&pools, 3, &["refund"], 2);
        assert!(is_ready(&mut second));
    }

    #[test]
    fn one_offer_for_two_tools_starts_one_call() {
        let pools = Pools::default();
        let _offered = offer(&pools, 1, &["email", "refund"], 1);
        let taken = pools.try_take(call(1), &[worker("refund")]);
        assert!(taken.is_some());
        assert!(pools.try_take(call(2), &[worker("email")]).is_none());
    }

    #[test]
    fn an_offer_that_was_withdrawn_starts_nothing() {
        let pools = Pools::default();
        drop(offer(&pools, 1, &["refund"], 1));
        assert!(pools.try_take(call(1), &[worker("refund")]).is_none());
    }
}
