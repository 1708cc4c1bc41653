//! Tasks that wait for what a thread will tell. They hold no thread of their own meanwhile, and
//! need no particular runtime.

use std::collections::BTreeMap;
use std::task::Waker;

/// Whoever waits for one thing, to be kept under the lock of what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Notes who is to be woken; the same task again takes the place that it has.
    pub(crate) fn enter(&mut self, place: &mut Option<u64>, waker: &Waker) {
        let place = *place.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.wakers.insert(place, waker.clone());
    }

    /// Forgets a task that waits no more.
    pub(crate) fn leave(&mut self, place: Option<u64>) {
        if let Some(place) = place {
            self.wakers.remove(&place);
        }
    }

    /// Takes everyone out, to be woken once the lock is open again.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.wakers).into_values()
    }
}
