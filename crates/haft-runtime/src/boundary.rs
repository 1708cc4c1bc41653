//! The places at which a process may die, made visible: so that a harness can die at every one.
//! Applications reach them as `testing::{Boundary, Observer}`.

use std::fmt;
use std::sync::Arc;

/// A place between two things that must not be torn apart, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// Something is decided and not yet durable.
    Decided,
    /// It is durable and nobody has been told.
    Appended,
    /// A tool is about to be entered.
    JobStarting,
    /// A tool has returned and nobody knows.
    JobEnded,
}

impl Boundary {
    /// Every boundary, in the order in which a call passes them.
    pub const ALL: [Self; 4] = [Self::Decided, Self::Appended, Self::JobStarting, Self::JobEnded];
}

/// Told of every boundary that a driver passes. Nothing in production listens.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<dyn Fn(Boundary) + Send + Sync>>);

impl Observer {
    /// Calls `observe` at every boundary, on the thread that passes it.
    pub fn new(observe: impl Fn(Boundary) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }

    pub(crate) fn pass(&self, boundary: Boundary) {
        if let Some(observe) = &self.0 {
            observe(boundary);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer(listening)" } else { "Observer(none)" })
    }
}
