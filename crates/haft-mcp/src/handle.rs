//! The name of a call for whoever made it over MCP: a task's id, the state of a request that needs
//! input, the handle that `await_call` takes.
//!
//! It is a name and no key: whoever shows it is still checked against who opened the session.

use std::fmt;
use std::str::FromStr;

use haft_core::{CallId, SessionId, Timestamp};

/// A call and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
}

/// A text that names no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a handle like `sesn_….call_…`, found something else")]
pub struct HandleError;

impl Handle {
    /// Returns when the call was made: ids are ordered by time.
    pub fn made_at(self) -> Timestamp {
        Timestamp::from_ms(i64::try_from(self.call.bits() >> 80).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.call)
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        let (session, call) = text.split_once('.').ok_or(HandleError)?;
        let session = session.parse().map_err(|_| HandleError)?;
        let call = call.parse().map_err(|_| HandleError)?;
        Ok(Self { session, call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_back_and_nothing_else_does() {
        let handle =
            Handle { session: SessionId::from_bits(7), call: CallId::from_bits(1_000 << 80 | 9) };
        assert_eq!(handle.to_string().parse(), Ok(handle));
        assert_eq!(handle.made_at(), Timestamp::from_ms(1_000));
        let text = handle.to_string();
        for other in ["", ".", "sesn_1.call_1", &text[1..], &format!("{text}x")] {
            assert_eq!(other.parse::<Handle>(), Err(HandleError), "{other}");
        }
    }
}
