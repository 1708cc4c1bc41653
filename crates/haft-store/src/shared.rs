//! What the handle of a store shares with the threads and connections behind it.

use std::sync::Arc;

use crate::health::Health;
use crate::measure::Measures;
use crate::watch::Watches;

/// Cheap to clone: every clone speaks of the same store.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) measures: Arc<Measures>,
    pub(crate) health: Health,
    pub(crate) watches: Watches,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let measures = Arc::new(Measures::new());
        Self { measures, health: Health::new(), watches: Watches::default() }
    }
}
