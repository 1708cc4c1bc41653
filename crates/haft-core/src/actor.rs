//! Who did something: every input that a person or a program causes names its actor.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Someone, or something, that acts on a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// What sort of actor.
    pub kind: ActorKind,
    /// Which one.
    pub id: ActorId,
}

/// The sorts of actor, which differ in what they may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person.
    User,
    /// A program with its own key, such as a webhook.
    Service,
    /// A model, or whatever holds its credentials. It can never approve or answer anything.
    Agent,
    /// Haft itself: expiry and recovery.
    System,
}

impl Actor {
    /// Haft itself.
    pub fn system() -> Self {
        Self { kind: ActorKind::System, id: ActorId("haft".into()) }
    }

    /// A person, by a checked id.
    pub fn user(id: ActorId) -> Self {
        Self { kind: ActorKind::User, id }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id.as_str())
    }
}

/// The name of an actor: 1 to 200 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ActorId(Arc<str>);

impl ActorId {
    /// Checks a name and takes it.
    ///
    /// # Errors
    ///
    /// When it is empty, too long or holds control characters.
    pub fn new(text: &str) -> Result<Self, ActorIdError> {
        let length = text.chars().count();
        if !(1..=200).contains(&length) || text.chars().any(char::is_control) {
            return Err(ActorIdError { found: text.chars().take(80).collect() });
        }
        Ok(Self(text.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ActorId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A text that cannot name an actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an actor of 1 to 200 characters without control characters, found {found:?}")]
pub struct ActorIdError {
    found: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_named_in_plain_characters() {
        assert_eq!(ActorId::new("ann@example.org").unwrap().as_str(), "ann@example.org");
        for bad in [String::new(), "a\nb".into(), "x".repeat(201)] {
            assert!(ActorId::new(&bad).is_err());
        }
    }
}
