//! What a client carries from one round of a request to the next: the name of the call.
//!
//! What the call waits for and what was answered is in the store, so nothing in here is believed:
//! the principal is checked against the call. The stamp only tells rounds apart and bent copies
//! from whole ones.

use haft_core::{Digest, Timestamp};

use crate::handle::Handle;

/// How much of the digest is written.
const STAMP_CHARS: usize = 16;

pub(super) fn write(handle: Handle, at: Timestamp) -> String {
    let round = format!("{handle}.{}", at.ms());
    let stamp = stamp(&round);
    format!("{round}.{stamp}")
}

pub(super) fn read(state: &str) -> Option<&str> {
    let (round, found) = state.rsplit_once('.')?;
    let (handle, _) = round.rsplit_once('.')?;
    (stamp(round) == found).then_some(handle)
}

fn stamp(round: &str) -> String {
    let digest = Digest::of_bytes(round.as_bytes()).to_string();
    digest.chars().rev().take(STAMP_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use haft_core::{CallId, SessionId};

    use super::*;

    #[test]
    fn a_bent_state_is_not_read_and_rounds_differ() {
        let handle = Handle { session: SessionId::from_bits(1), call: CallId::from_bits(2) };
        let state = write(handle, Timestamp::from_ms(5));
        assert_eq!(read(&state), Some(handle.to_string().as_str()));
        assert_ne!(state, write(handle, Timestamp::from_ms(6)));
        assert_eq!(read(&state.replace(".5.", ".6.")), None);
        assert_eq!(read(&format!("{state}x")), None);
        assert_eq!(read(&handle.to_string()), None);
    }
}
