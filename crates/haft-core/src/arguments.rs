//! What a model asks for, and the arguments that a call carries.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::{Digest, canonical_object};
use crate::id::{ProviderCallId, SealId};
use crate::json::{self, JsonError, JsonLimits};
use crate::tool::Redaction;

/// A call as a model asked for it: nothing is checked yet but that it is readable.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    /// The provider's id for it.
    pub provider_id: ProviderCallId,
    /// The name that the model used; it may be no tool's name at all.
    pub name: String,
    /// The arguments that the model chose.
    pub arguments: Map<String, Value>,
}

impl RequestedCall {
    /// Reads the arguments from the text that a provider streamed.
    ///
    /// # Errors
    ///
    /// When the text is not one strict JSON object. It never becomes an empty one.
    pub fn from_text(
        provider_id: ProviderCallId,
        name: impl Into<String>,
        arguments: &[u8],
    ) -> Result<Self, JsonError> {
        let arguments = json::parse_object(arguments, JsonLimits::default())?;
        Ok(Self { provider_id, name: name.into(), arguments })
    }
}

/// The arguments of a call, in the view that may be recorded and shown.
///
/// The digest is always that of the arguments that run. Where some of them are secret, the
/// recorded view is masked and the arguments that run are kept sealed elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredArguments")]
pub struct Arguments {
    /// What may be recorded and shown.
    record: Arc<Map<String, Value>>,
    /// The digest of what runs.
    digest: Digest,
    /// Where what runs is kept, when it differs from the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<SealId>,
}

/// Arguments as they are stored, before it is known that they are what was hashed.
#[derive(Deserialize)]
struct StoredArguments {
    record: Arc<Map<String, Value>>,
    digest: Digest,
    #[serde(default)]
    seal: Option<SealId>,
}

impl TryFrom<StoredArguments> for Arguments {
    type Error = String;

    fn try_from(stored: StoredArguments) -> Result<Self, String> {
        let StoredArguments { record, digest, seal } = stored;
        let found = || Digest::of_json_object(&record);
        if seal.is_none() && found() != digest {
            return Err(format!("expected arguments with the digest {digest}, found {}", found()));
        }
        Ok(Self { record, digest, seal })
    }
}

/// Where secret arguments are kept, and what keeps their digest from being guessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The sealed entry.
    pub id: SealId,
    /// Random bytes kept with the sealed arguments and never in the log: without them a short
    /// secret could be found by hashing guesses.
    pub salt: [u8; 32],
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Arguments {
    /// Takes arguments that hold no secret.
    pub fn plain(arguments: Map<String, Value>) -> Self {
        let digest = Digest::of_json_object(&arguments);
        Self { record: Arc::new(arguments), digest, seal: None }
    }

    /// Takes arguments of which some are secret and are kept under `seal`.
    pub fn sealed(arguments: &Map<String, Value>, redaction: &Redaction, seal: Seal) -> Self {
        let text = canonical_object(arguments);
        let digest = Digest::of_parts(&[&seal.salt, text.as_bytes()]);
        let record = Arc::new(redaction.record_view(arguments));
        Self { record, digest, seal: Some(seal.id) }
    }

    /// Returns the view that may be recorded and shown.
    pub fn record(&self) -> &Map<String, Value> {
        &self.record
    }

    /// Returns whether the arguments are nested deeper than can be read back.
    pub(crate) fn is_deeper_than(&self, max: usize) -> bool {
        self.record.values().any(|value| json::is_deeper_than(value, max))
    }

    /// Returns whether a place in the record is masked.
    pub(crate) fn is_masked(&self, value: &Value) -> bool {
        self.seal.is_some() && value == Redaction::MASK
    }

    /// Returns the digest of the arguments that run.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns where the arguments that run are kept, when some are secret.
    pub fn seal(&self) -> Option<SealId> {
        self.seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    // S3-17: malformed arguments are an error, never `{}`.
    #[test]
    fn s3_17_malformed_arguments_are_refused() {
        let id = || ProviderCallId::new("c1").unwrap();
        for bad in ["", "null", "{\"a\":", "[]"] {
            assert!(RequestedCall::from_text(id(), "read", bad.as_bytes()).is_err(), "{bad}");
        }
        let call = RequestedCall::from_text(id(), "read", b"{\"path\":\"a\"}").unwrap();
        assert_eq!(call.arguments, object(&json!({"path": "a"})));
    }

    #[test]
    fn a_sealed_record_shows_no_secret_but_binds_the_arguments_that_run() {
        let redaction = Redaction { secret: vec!["/token".parse().unwrap()] };
        let seal = Seal { id: SealId::from_bits(3), salt: [7; 32] };
        let one = Arguments::sealed(&object(&json!({"token": "a"})), &redaction, seal);
        let two = Arguments::sealed(&object(&json!({"token": "b"})), &redaction, seal);
        assert_eq!(one.record(), two.record());
        assert_ne!(one.digest(), two.digest());
        assert!(!serde_json::to_string(&one).unwrap().contains("\"a\""));
        let plain = Arguments::plain(object(&json!({"token": "a"})));
        assert_ne!(plain.digest(), one.digest(), "a guess cannot be checked without the salt");
        assert_eq!((plain.seal(), one.seal()), (None, Some(SealId::from_bits(3))));
        assert!(!format!("{seal:?}").contains('7'));
    }
}
