//! The address that `haft serve` prints: it carries a token that gives a browser the key, once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::Digest;

/// A token that is good for a key, until it was used.
#[derive(Clone, Default)]
pub(crate) struct Invitation(Arc<Mutex<Option<Open>>>);

struct Open {
    token: Digest,
    key: String,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(…)")
    }
}

impl Invitation {
    /// Makes the token for a key; one made before is good for nothing any more.
    pub(crate) fn to(&self, key: &str) -> Result<String, getrandom::Error> {
        let mut random = [0u8; 24];
        getrandom::fill(&mut random)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let open = Open { token: Digest::of_bytes(token.as_bytes()), key: key.to_owned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(token)
    }

    /// Returns the key for the token. A wrong token leaves the right one good: it is too long to
    /// guess, and nobody shall spoil it by trying.
    pub(crate) fn take(&self, token: &str) -> Option<String> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = Digest::of_bytes(token.as_bytes());
        let is_it = open.as_ref().is_some_and(|open| open.token == given);
        open.take_if(|_| is_it).map(|open| open.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let invitation = Invitation::default();
        let token = invitation.to("haft_1").unwrap();
        assert_eq!(invitation.take("guessed"), None);
        assert_eq!(invitation.take(&token).as_deref(), Some("haft_1"));
        assert_eq!(invitation.take(&token), None);
    }
}
