//! The pools of a node: how many calls run at once, and which wait for that, over all sessions.

use std::collections::{BTreeMap, HashMap};
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
            limit: places.limit,
            n_running: places.n_taken,
            n_queued: places.queue.len(),
        });
        loads.collect()
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
    pub(crate) fn try_take(&self, pools: &[Pool]) -> Option<Slot> {
        let mut inner = self.lock();
        let names = inner.known(pools);
        inner.take(&names).then(|| Slot { pools: self.clone(), names })
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
        inner.waiting.insert(number, Waiting { pools: names, taken });
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
        for number in inner.next() {
            let Some(waiting) = inner.waiting.remove(&number) else { continue };
            inner.leave(number, &waiting.pools);
            inner.take(&waiting.pools);
            handed.push((waiting.taken, waiting.pools));
        }
        // Whoever does not wait any more gives theirs back, which takes the lock.
        drop(inner);
        for (taken, names) in handed {
            drop(taken.send(Slot { pools: self.clone(), names }));
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

    fn have_room(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.by_name.get(name).is_none_or(Places::has_room))
    }

    /// Takes a place in each of these pools, or in none.
    fn take(&mut self, names: &[String]) -> bool {
        let has_room = self.have_room(names);
        for name in names.iter().filter(|_| has_room) {
            if let Some(places) = self.by_name.get_mut(name) {
                places.n_taken += 1;
            }
        }
        has_room
    }

    fn leave(&mut self, number: u64, names: &[String]) {
        for name in names {
            if let Some(places) = self.by_name.get_mut(name) {
                places.queue.remove(&number);
            }
        }
    }

    /// Returns those who need not wait any longer, the earliest first. Nobody is passed by someone
    /// later who waits for the same pools.
    fn next(&self) -> Vec<u64> {
        let mut left: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, places) in &self.by_name {
            left.insert(name, places.limit.saturating_sub(places.n_taken));
        }
        let open = self.by_name.iter().filter(|(name, _)| left.get(name.as_str()) != Some(&0));
        let mut numbers: Vec<u64> =
            open.flat_map(|(_, places)| places.queue.keys().copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut next = Vec::new();
        for number in numbers {
            let Some(waiting) = self.waiting.get(&number) else { continue };
            let has_room = |name: &String| left.get(name.as_str()).is_none_or(|left| *left > 0);
            if waiting.pools.iter().all(has_room) {
                for name in &waiting.pools {
                    left.entry(name).and_modify(|left| *left -= 1);
                }
                next.push(number);
            }
        }
        next
    }
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
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pools.hand_out(Some(&self.names));
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
        let first = pools.try_take(&server).unwrap();
        assert!(pools.try_take(&server).is_none());
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
        let running = pools.try_take(&slow).unwrap();
        let mut waits = pools.queue(call(1), &slow);
        let other = pools.try_take(&quick).unwrap();
        assert!(pools.try_take(&quick).is_none(), "the server is full");
        drop(other);
        assert!(!is_ready(&mut waits), "its own pool is full");
        drop(running);
        assert!(is_ready(&mut waits));
    }

    #[test]
    fn whoever_leaves_the_queue_takes_no_place() {
        let (pools, server) = (Pools::default(), [pool("server", 1)]);
        let running = pools.try_take(&server).unwrap();
        drop(pools.queue(call(1), &server));
        drop(running);
        let load = pools.loads().remove(0);
        assert_eq!((load.n_running, load.n_queued), (0, 0));
    }
}
