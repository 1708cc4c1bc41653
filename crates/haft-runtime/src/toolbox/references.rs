//! Arguments by reference: `{"$ref":"art_…#/rows/0"}` stands for a piece of a kept output.
//!
//! What is recorded, shown and approved is the reference; artifacts never change, so it always
//! stands for the same bytes. It is looked up only when the call may run.

use haft_core::SessionId;
use serde_json::{Map, Value};

use crate::artifacts::{Artifacts, ArtifactsError};
use crate::schema::find_references;

/// Each of them is an artifact to read: more than a person could approve are not meant.
const REFERENCES_MAX: usize = 64;

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
    for reference in references {
        let found = artifacts.pointed(session, reference.artifact, &reference.part).await?;
        if let Some(place) = whole.pointer_mut(reference.place.as_str()) {
            *place = found;
        }
    }
    match whole {
        Value::Object(arguments) => Ok(arguments),
        other => unreachable!("only members of the object were replaced, but it is {other}"),
    }
}
