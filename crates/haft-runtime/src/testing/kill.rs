//! Deaths at a boundary: a node that ends exactly between two steps of the runtime.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{TestNode, TestPlace};
use crate::boundary::{Boundary, Observer};
use crate::cancellation::CancellationToken;
use crate::haft::HaftBuilder;
use crate::unwinding::catching;

impl TestPlace {
    /// Lives a life that ends when the node passes a boundary for the `nth` time, counted from 1:
    /// nothing after it happens, as if the process had been killed there. Returns `None` then, and
    /// what `live` returned if the boundary was passed less often.
    ///
    /// Move the clock on before the next life, as after [`TestPlace::live`]. Run your tool through
    /// every [`Boundary`], for `nth` from 1 until the life is no longer cut short, and compare what
    /// it did with what is recorded. To kill a real process instead, give its
    /// [`Settings::observer`](crate::Settings) an [`Observer`] that aborts.
    ///
    /// # Panics
    ///
    /// When the node does not start, or `live` panics before the boundary.
    pub fn live_until<T, F: Future<Output = T>>(
        self: &Arc<Self>,
        builder: HaftBuilder,
        boundary: Boundary,
        nth: u32,
        live: impl FnOnce(TestNode) -> F,
    ) -> Option<T> {
        let (dead, n_passed) = (CancellationToken::new(), AtomicU32::new(0));
        let observer = Observer::new({
            let dead = dead.clone();
            move |passed| {
                let is_here =
                    passed == boundary && n_passed.fetch_add(1, Ordering::SeqCst) + 1 == nth;
                if is_here {
                    dead.cancel();
                }
                // Whatever comes to a boundary after the death ends there too.
                if dead.is_cancelled() {
                    resume_unwind(Box::new("the process was killed here"));
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        runtime.block_on(async {
            let life = catching(async { live(self.start_observed(builder, observer)).await });
            tokio::select! {
                biased;
                () = dead.cancelled() => None,
                lived = life => match lived {
                    Ok(lived) => Some(lived),
                    Err(_) if dead.is_cancelled() => None,
                    Err(_) => panic!("the life panicked before the boundary"),
                },
            }
        })
    }
}
