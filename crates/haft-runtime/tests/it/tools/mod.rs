//! Calls of registered tools through the whole lifecycle, over a real store.

mod adversarial;
mod approval;
mod direct;
mod doubt;
mod guards;
mod intake;
mod kit;
mod lifecycle;
mod output;
mod recovery;
