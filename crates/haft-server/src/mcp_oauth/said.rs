//! What was answered over HTTP, for whoever validates a credential.

use haft_http::Answer;
use haft_http::token_endpoint::Reply;
use haft_runtime::Redactor;
use serde_json::{Value, json};

/// The most that is shown of an answer.
const SHOWN_MAX: usize = 4 << 10;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said(pub(super) Reply);

impl Said {
    pub(super) async fn read(answer: Answer) -> Self {
        Self(Reply::read(answer).await)
    }

    pub(crate) const fn status(&self) -> u16 {
        self.0.status
    }

    pub(super) const fn is_success(&self) -> bool {
        self.0.is_success()
    }

    /// Returns it as it is shown to someone who may not read what is there.
    pub(crate) fn status_only(&self) -> Value {
        json!({
            "status_code": self.0.status, "content_type": "", "body": "", "body_truncated": true,
        })
    }

    /// Returns it as it is shown: secrets are masked before it is cut, so that no part of one stays.
    pub(crate) fn shown(&self, redactor: &Redactor) -> Value {
        let Reply { status, content_type, body } = &self.0;
        let text = String::from_utf8_lossy(body);
        let mut body = redactor.text(&text).into_owned();
        let is_cut = body.len() > SHOWN_MAX;
        if is_cut {
            body.truncate(body.floor_char_boundary(SHOWN_MAX));
        }
        json!({
            "status_code": status, "content_type": redactor.text(content_type),
            "body": body, "body_truncated": is_cut,
        })
    }
}
