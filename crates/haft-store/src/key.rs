//! Ids, hashes and numbers as both databases keep them: bytes in order, and 64-bit signed numbers.

use haft_core::{Digest, Timestamp};

use crate::error::Error;

/// Big-endian, so that the order of the bytes is the order of the ids.
pub(crate) const fn id_bytes(bits: u128) -> [u8; 16] {
    bits.to_be_bytes()
}

pub(crate) fn id_bits(bytes: &[u8]) -> Result<u128, Error> {
    let bytes = bytes.try_into().map_err(|_| Error::corrupt("an id does not have 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}

pub(crate) fn digest(bytes: &[u8]) -> Result<Digest, Error> {
    let bytes = bytes.try_into().map_err(|_| Error::corrupt("a hash does not have 32 bytes"))?;
    Ok(Digest::from_bytes(bytes))
}

/// Sequence numbers, epochs and sizes stay far below 2^63.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::corrupt(format!("{value} is below zero")))
}

pub(crate) fn small(value: i64) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| Error::corrupt(format!("{value} is out of range")))
}

pub(crate) const fn moment(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}
