//! Server-sent events: where the bytes are cut makes no difference.
#![no_main]

use haft_agent::SseDecoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|given: (u8, &[u8])| {
    let (step, bytes) = (usize::from(given.0).max(1), given.1);
    let whole = SseDecoder::default().push(bytes);
    let mut decoder = SseDecoder::default();
    let pieces: Result<Vec<_>, _> = bytes.chunks(step).map(|piece| decoder.push(piece)).collect();
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces.concat()),
        (whole, pieces) => assert_eq!(whole.is_err(), pieces.is_err()),
    }
});
