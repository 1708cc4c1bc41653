//! Encoded once, sent to many, and counted while anyone has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_wire::managed::Place;

/// The JSON of something that is sent.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Box<[u8]>,
    /// What all of them take.
    total: Arc<AtomicUsize>,
}

impl Text {
    pub(super) fn new(bytes: Vec<u8>, total: &Arc<AtomicUsize>) -> Self {
        let bytes = bytes.into_boxed_slice();
        total.fetch_add(bytes.len(), Ordering::Relaxed);
        Self { bytes, total: Arc::clone(total) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// An event as its readers are sent it.
#[derive(Debug)]
pub(crate) struct EncodedEvent {
    pub(crate) place: Place,
    pub(crate) kind: &'static str,
    pub(crate) text: Arc<Text>,
}

impl PartialEq for EncodedEvent {
    fn eq(&self, other: &Self) -> bool {
        (self.place, self.kind, self.text.bytes()) == (other.place, other.kind, other.text.bytes())
    }
}
