//! Calls of registered tools through the whole lifecycle, over a real store.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod adversarial;
mod approval;
mod direct;
mod guards;
mod intake;
mod kit;
mod lifecycle;
mod output;
mod recovery;
