//! Fresh ids: time-ordered, so that stores keep neighbours together, and unguessable, so that
//! knowing one says nothing about another.

use haft_core::Timestamp;
use haft_store::Request;

/// Returns 128 bits for an id: 48 of the time in milliseconds, 80 random ones.
///
/// While the task works on a request that may be sent again, they follow from that request: when it
/// is, whatever it makes has the same ids. Never use them for a secret.
///
/// # Errors
///
/// When the system gives no randomness; ids are then not made at all rather than guessable.
pub fn fresh_bits(now: Timestamp) -> Result<u128, getrandom::Error> {
    if let Some(request) = Request::current() {
        return Ok(request.next_id());
    }
    let mut random = [0u8; 16];
    getrandom::fill(&mut random[6..])?;
    let time = u64::try_from(now.ms()).unwrap_or(0).to_be_bytes();
    random[..6].copy_from_slice(&time[2..]);
    Ok(u128::from_be_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_time_and_do_not_repeat() {
        let earlier = fresh_bits(Timestamp::from_ms(1_000)).unwrap();
        let later = fresh_bits(Timestamp::from_ms(1_001)).unwrap();
        assert!(earlier < later);
        assert_ne!(later, fresh_bits(Timestamp::from_ms(1_001)).unwrap());
    }
}
