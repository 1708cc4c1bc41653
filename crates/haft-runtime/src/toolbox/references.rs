//! Arguments by reference: `{"$ref":"art_…#/rows/0"}` stands for a piece of a kept output.
//!
//! What is recorded, shown and approved is the reference; artifacts never change, so it always
//! stands for the same bytes. It is looked up only when the call may run.

use std::collections::HashMap;
use std::sync::Arc;

use haft_core::{ArtifactId, SessionId};
use serde_json::{Map, Value};

use super::bounds;
use crate::artifacts::{Artifacts, ArtifactsError};
use crate::schema::find_references;

/// Each of them is an artifact to read: more than a person could approve are not meant.
const REFERENCES_MAX: usize = 64;

/// How much all of them may stand for: sixty-four times the whole of a large artifact is no
/// argument.
const RESOLVED_BYTES_MAX: usize = 16 << 20;

/// Returns the arguments with what each reference stands for in its place.
pub(super) async fn resolve(
    artifacts: &Artifacts,
    session: SessionId,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ArtifactsError> {
    let references = find_references(&arguments);
    if references.is_empty() {
        return Ok(arguments);
    }
    if references.len() > REFERENCES_MAX {
        return Err(ArtifactsError::TooMany { found: references.len(), max: REFERENCES_MAX });
    }
    let mut whole = Value::Object(arguments);
    let mut read: HashMap<ArtifactId, Arc<Value>> = HashMap::new();
    let mut left = RESOLVED_BYTES_MAX;
    for reference in references {
        let (id, part) = (reference.artifact, &reference.part);
        let document = match read.get(&id) {
            Some(document) => Arc::clone(document),
            None => artifacts.document(session, id, part).await?,
        };
        let found = document.pointer(part.as_str());
        let nothing = || ArtifactsError::NothingThere { id, pointer: part.clone() };
        let found = found.ok_or_else(nothing)?;
        let too_much = ArtifactsError::TooMuch { max: RESOLVED_BYTES_MAX };
        left = left.checked_sub(bounds::length(found)).ok_or(too_much)?;
        if let Some(place) = whole.pointer_mut(reference.place.as_str()) {
            *place = found.clone();
        }
        read.insert(id, document);
    }
    match whole {
        Value::Object(arguments) => Ok(arguments),
        other => unreachable!("only members of the object were replaced, but it is {other}"),
    }
}
