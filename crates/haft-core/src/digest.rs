//! Content hashes over one canonical form of JSON.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// A SHA-256 of some content, printed as `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What a chain of digests starts from.
    pub const ZERO: Self = Self([0; 32]);

    /// Hashes bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes several byte strings as one; each is preceded by its length, so that no two lists
    /// of parts give the same bytes.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Hashes a JSON value in canonical form, so that key order and white space do not matter.
    pub fn of_json(value: &Value) -> Self {
        Self::of_bytes(canonical(value).as_bytes())
    }

    /// Hashes a JSON object in canonical form.
    pub fn of_json_object(object: &Map<String, Value>) -> Self {
        Self::of_bytes(canonical_object(object).as_bytes())
    }

    /// Takes the 32 bytes of a digest that a store kept as such.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str("sha256:")?;
        f.write_str(std::str::from_utf8(&hex).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `sha256:` and 64 lower-case hex digits, found `{found}`")]
pub struct DigestError {
    found: String,
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError { found: text.chars().take(80).collect() };
        let hex = text.strip_prefix("sha256:").ok_or_else(error)?;
        let lower = hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex.len() != 64 || !lower {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (slot, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *slot = nibble(pair[0]) << 4 | nibble(pair[1]);
        }
        Ok(Self(bytes))
    }
}

fn nibble(hex: u8) -> u8 {
    if hex.is_ascii_digit() { hex - b'0' } else { hex - b'a' + 10 }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Writes JSON with sorted keys and no white space; numbers as serde_json prints them.
///
/// Keys are sorted here and not left to the map type, because a dependency that turns on
/// serde_json's `preserve_order` would otherwise change every digest.
pub fn canonical(value: &Value) -> String {
    let mut text = String::with_capacity(128);
    write_canonical(value, &mut text);
    text
}

pub(crate) fn canonical_object(object: &Map<String, Value>) -> String {
    let mut text = String::with_capacity(128);
    write_object(object, &mut text);
    text
}

fn write_object(object: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<(&String, &Value)> = object.iter().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (i, (key, value)) in members.into_iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        write_string(key, text);
        text.push(':');
        write_canonical(value, text);
    }
    text.push('}');
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => write_object(object, text),
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::String(string) => write_string(string, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_digest_is_the_sha256_that_other_tools_print() {
        let digest = Digest::of_bytes(b"abc");
        assert_eq!(
            digest.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    }

    #[test]
    fn key_order_and_white_space_do_not_change_a_digest() {
        let one: Value =
            serde_json::from_str(r#"{"b":[1,2.5,"x\n\u0001\""],"a":{"z":null,"y":true}}"#).unwrap();
        let two: Value = serde_json::from_str(
            "{ \"a\": {\"y\":true, \"z\":null},\n\"b\": [1, 2.5, \"x\\n\\u0001\\\"\"] }",
        )
        .unwrap();
        assert_eq!(Digest::of_json(&one), Digest::of_json(&two));
        assert_eq!(canonical(&one), r#"{"a":{"y":true,"z":null},"b":[1,2.5,"x\n\u0001\""]}"#);
        assert_ne!(Digest::of_json(&json!({"a": 1})), Digest::of_json(&json!({"a": "1"})));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(Digest::of_parts(&[b"ab", b"c"]), Digest::of_parts(&[b"a", b"bc"]));
    }

    #[test]
    fn a_text_that_is_not_a_digest_is_refused() {
        let upper = format!("sha256:{}", "A".repeat(64));
        for bad in ["", "sha256:", "sha256:00", "md5:00", upper.as_str()] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
