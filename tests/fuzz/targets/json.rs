//! Strict JSON: what it takes, any reader takes, and it reads the same again when written out.
#![no_main]

use haft_core::json::{JsonLimits, parse, parse_object};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = JsonLimits::default();
    let Ok(value) = parse(bytes, limits) else { return };
    let read: serde_json::Value = serde_json::from_slice(bytes).expect("any reader takes it");
    assert_eq!(read, value, "another reader reads the same");
    let written = serde_json::to_vec(&value).expect("it can be written");
    assert_eq!(parse(&written, limits).ok(), Some(value.clone()), "and read again");
    assert_eq!(parse_object(bytes, limits).is_ok(), value.is_object());
});
