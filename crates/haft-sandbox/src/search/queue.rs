//! Work shared by the threads of one search: what is found while working is put back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A stack of work. It is over when it is empty and nobody works, or when it was stopped.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: Vec<T>,
    /// Taken and not yet done.
    busy: usize,
    waiting: usize,
    stopped: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(first: T) -> Self {
        let state = State { items: vec![first], busy: 0, waiting: 0, stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Works until nothing is left. `work` may return more.
    pub(super) fn drain(&self, mut work: impl FnMut(T, &mut Vec<T>)) {
        let mut found = Vec::new();
        while let Some(item) = self.take() {
            work(item, &mut found);
            self.done(&mut found);
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(item) = state.items.pop() {
                state.busy += 1;
                return Some(item);
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn done(&self, found: &mut Vec<T>) {
        let mut state = self.lock();
        state.busy -= 1;
        state.items.append(found);
        let over = state.busy == 0 && state.items.is_empty();
        if state.waiting > 0 && (over || !state.items.is_empty()) {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic of one thread ends the search anyway: the scope passes it on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
