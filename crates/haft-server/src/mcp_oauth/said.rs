//! What was answered over HTTP, for whoever validates a credential.

use std::fmt;

use haft_agent::http::Answer;
use haft_runtime::Redactor;
use serde_json::{Value, json};

/// The most that is read of an answer.
const READ_MAX: usize = 64 << 10;
/// The most that is shown of it.
const SHOWN_MAX: usize = 4 << 10;

/// An answer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    content_type: String,
    pub(super) body: Vec<u8>,
}

/// Its body may hold what was sent for it.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Said({})", self.status)
    }
}

impl Said {
    pub(super) async fn read(answer: Answer) -> Self {
        let status = answer.status.as_u16();
        let content_type = answer.header("content-type").unwrap_or_default().to_owned();
        Self { status, content_type, body: answer.start_of_body(READ_MAX).await }
    }

    pub(super) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// Returns it as it is shown to someone who may not read what is there.
    pub(crate) fn status_only(&self) -> Value {
        json!({
            "status_code": self.status, "content_type": "", "body": "", "body_truncated": true,
        })
    }

    /// Returns it as it is shown: secrets are masked before it is cut, so that no part of one stays.
    pub(crate) fn shown(&self, redactor: &Redactor) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        let mut body = redactor.text(&text).into_owned();
        let is_cut = body.len() > SHOWN_MAX;
        if is_cut {
            body.truncate(body.floor_char_boundary(SHOWN_MAX));
        }
        json!({
            "status_code": self.status, "content_type": redactor.text(&self.content_type),
            "body": body, "body_truncated": is_cut,
        })
    }
}
