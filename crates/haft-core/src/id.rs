//! Identifiers: one newtype per thing that has an identity.
//!
//! An id is 128 bits chosen by the driver (time-ordered, unguessable) and printed with a prefix
//! that says what it names. The core never makes one. Ids given by others (a provider's call id)
//! are opaque text and never become keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ENCODED_LEN: usize = 26;

/// A text that is not the id it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an id like `{prefix}_` followed by 26 characters of 0-9 and a-z without i, l, o, u, \
     found `{found}`"
)]
pub struct IdError {
    prefix: &'static str,
    found: String,
}

impl IdError {
    fn new(prefix: &'static str, found: &str) -> Self {
        Self { prefix, found: found.chars().take(80).collect() }
    }
}

fn encode(mut bits: u128) -> [u8; ENCODED_LEN] {
    let mut text = [b'0'; ENCODED_LEN];
    for slot in text.iter_mut().rev() {
        *slot = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    text
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != ENCODED_LEN || text.as_bytes()[0] > b'7' {
        return None;
    }
    text.bytes().try_fold(0u128, |bits, byte| {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        Some(bits << 5 | digit as u128)
    })
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// What every printed id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// Takes the 128 bits that the driver chose.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// Returns the 128 bits, for stores that keep them as such.
            pub const fn bits(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let text = encode(self.0);
                f.write_str(concat!($prefix, "_"))?;
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(decode)
                    .map(Self)
                    .ok_or_else(|| IdError::new($prefix, text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

id_type! {
    /// Names one session: a conversation, or a series of calls made by a program.
    SessionId, "sesn"
}
id_type! {
    /// Names one call of a tool. The provider's own id for it is kept beside it, never as a key.
    CallId, "call"
}
id_type! {
    /// Names one message that came into a session from outside.
    MessageId, "msg"
}
id_type! {
    /// Names one stored output that is too large, or too private, for an event.
    ArtifactId, "art"
}
id_type! {
    /// Names one standing grant.
    GrantId, "grant"
}
id_type! {
    /// Names one resolution, chosen by the resolver, so that a retry is recognised as the same.
    ResolutionId, "res"
}
id_type! {
    /// Names one time at which a session goes on by itself.
    WakeId, "wake"
}
id_type! {
    /// Names arguments kept sealed outside the log because they hold secrets.
    SealId, "seal"
}

/// A call id as the model's provider gave it: opaque, possibly repeated, never a key.
///
/// Control characters are refused because the text reaches headers and logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProviderCallId(Box<str>);

impl ProviderCallId {
    /// The longest provider id that is taken.
    pub const LEN_MAX: usize = 256;

    /// Takes a provider's id after checking that it can be echoed back safely.
    ///
    /// # Errors
    ///
    /// When it is empty, longer than [`Self::LEN_MAX`] bytes or holds control characters.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, ProviderCallIdError> {
        let text = text.into();
        if text.is_empty() {
            return Err(ProviderCallIdError::Empty);
        }
        if text.len() > Self::LEN_MAX {
            return Err(ProviderCallIdError::TooLong { found: text.len() });
        }
        match text.chars().find(|c| c.is_control()) {
            Some(found) => Err(ProviderCallIdError::Control { found }),
            None => Ok(Self(text)),
        }
    }

    /// Returns the text as the provider gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// For calls that no provider knows.
impl From<CallId> for ProviderCallId {
    fn from(call: CallId) -> Self {
        Self(call.to_string().into())
    }
}

impl<'de> Deserialize<'de> for ProviderCallId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Why a provider's call id is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderCallIdError {
    /// Nothing to pair the result with.
    #[error("expected a call id of 1 to 256 bytes, found an empty one")]
    Empty,
    /// Longer than any provider's ids.
    #[error("expected a call id of 1 to 256 bytes, found {found} bytes")]
    TooLong {
        /// The length in bytes.
        found: usize,
    },
    /// Would break a header or a log line.
    #[error("expected a call id without control characters, found {found:?}")]
    Control {
        /// The first such character.
        found: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_with_its_prefix_and_reads_back() {
        let id = CallId::from_bits(0x0193_2f6e_7c1a_7000_8000_0000_0000_00ff);
        assert_eq!(id.to_string(), "call_01jcqpwz0te00800000000007z");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(
            CallId::from_bits(u128::MAX).to_string().parse(),
            Ok(CallId::from_bits(u128::MAX))
        );
    }

    #[test]
    fn an_id_of_another_kind_or_shape_is_refused_with_what_was_expected() {
        let other = SessionId::from_bits(7).to_string();
        let error = other.parse::<CallId>().unwrap_err().to_string();
        assert!(error.contains("`call_`") && error.contains(&other), "{error}");
        for bad in ["", "call_", "call_0", "call_80000000000000000000000000", "CALL_0"] {
            assert!(bad.parse::<CallId>().is_err(), "{bad}");
        }
        assert!("call_0000000000000000000000000u".parse::<CallId>().is_err());
    }

    #[test]
    fn a_provider_id_is_opaque_but_safe_to_echo() {
        assert_eq!(ProviderCallId::new("../../x").unwrap().as_str(), "../../x");
        assert_eq!(ProviderCallId::new(""), Err(ProviderCallIdError::Empty));
        let injected = ProviderCallId::new("c1\r\nX-Evil: 1").unwrap_err();
        assert_eq!(injected, ProviderCallIdError::Control { found: '\r' });
        let long = ProviderCallId::new("x".repeat(257)).unwrap_err();
        assert_eq!(long, ProviderCallIdError::TooLong { found: 257 });
    }
}
