//! The public suite of JSON texts: which are read, and which are refused.

use haft_core::json::{JsonErrorKind, JsonLimits, parse};
use serde_json::Value;

use crate::corpora;

fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.bytes() {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

/// Valid JSON that is refused on purpose, because readers differ about it.
fn is_refused_on_purpose(kind: &JsonErrorKind) -> bool {
    matches!(
        kind,
        JsonErrorKind::DuplicateKey { .. }
            | JsonErrorKind::Number { .. }
            | JsonErrorKind::Character { .. }
    )
}

#[test]
fn the_json_parsing_suite_is_read_as_it_says() {
    let suite = corpora::read("json/parsing_suite.jsonl");
    let (mut n_accepted, mut n_rejected, mut n_refused_on_purpose) = (0, 0, 0);
    // The one case of the suite that the extract leaves out for its size.
    assert!(parse("[".repeat(100_000).as_bytes(), JsonLimits::default()).is_err());
    for line in suite.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        let bytes = base64(case["base64"].as_str().unwrap_or_default());
        match (case["expect"].as_str(), parse(&bytes, JsonLimits::default())) {
            (Some("accept"), Err(error)) => {
                assert!(is_refused_on_purpose(error.kind()), "{name}: {error}");
                n_refused_on_purpose += 1;
            }
            (Some("reject"), Ok(value)) => panic!("{name} was read as {value}"),
            (Some("accept"), Ok(_)) => n_accepted += 1,
            (Some("reject"), Err(_)) => n_rejected += 1,
            _ => {}
        }
        // No prefix of anything may panic; most are refused, some are whole by chance.
        for cut in 0..bytes.len().min(200) {
            drop(parse(&bytes[..cut], JsonLimits::default()));
        }
    }
    println!(
        "{} cases ({}), {n_refused_on_purpose} valid ones refused on purpose",
        suite.lines().count(),
        corpora::scope()
    );
    assert!(n_accepted > 80 && n_rejected > 180, "{n_accepted} accepted, {n_rejected} rejected");
}
