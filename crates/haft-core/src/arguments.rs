//! What a model asks for, and the arguments that a call carries.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::{Digest, canonical};
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
pub struct Arguments {
    /// What may be recorded and shown.
    record: Arc<Map<String, Value>>,
    /// The digest of what runs.
    digest: Digest,
    /// Where what runs is kept, when it differs from the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<SealId>,
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
        let value = Value::Object(arguments);
        let digest = Digest::of_json(&value);
        let Value::Object(record) = value else { unreachable!("an object was put in") };
        Self { record: Arc::new(record), digest, seal: None }
    }

    /// Takes arguments of which some are secret and are kept under `seal`.
    pub fn sealed(arguments: &Map<String, Value>, redaction: &Redaction, seal: Seal) -> Self {
        let text = canonical(&Value::Object(arguments.clone()));
        let digest = Digest::of_parts(&[&seal.salt, text.as_bytes()]);
        let record = Arc::new(redaction.record_view(arguments));
        Self { record, digest, seal: Some(seal.id) }
    }

    /// Returns the view that may be recorded and shown.
    pub fn record(&self) -> &Map<String, Value> {
        &self.record
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

    // D19, S3-17: malformed arguments are an error, never `{}`.
    #[test]
    fn d19_malformed_arguments_are_refused() {
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
