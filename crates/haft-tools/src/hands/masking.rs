//! Keeping the values of secret variables out of what is recorded.

use haft_sandbox::environment::Variables;
use memchr::memmem::Finder;
use std::borrow::Cow;

/// Parts of names whose values are secret. Masking every value would mangle words such as
/// `release` wherever a command says them.
const SECRET_NAMES: &[&str] =
    &["AUTH", "CREDENTIAL", "KEY", "PASS", "PRIVATE", "SECRET", "SESSION", "TOKEN"];
/// Shorter values are found everywhere.
const LEN_MIN: usize = 4;
const MASK: &[u8] = b"[redacted]";

/// What must not be recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// The secret values among variables, the longest first.
    pub(crate) fn of(variables: &Variables) -> Self {
        let secret = |name: &str| {
            let upper = name.to_ascii_uppercase();
            SECRET_NAMES.iter().any(|part| upper.contains(part))
        };
        let values =
            variables.iter().filter(|(name, value)| secret(name) && value.len() >= LEN_MIN);
        let mut values: Vec<_> = values.map(|(_, value)| value.as_bytes().to_vec()).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    pub(crate) fn masked(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.masked_bytes(text.as_bytes())).into_owned()
    }

    pub(crate) fn masked_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.iter().fold(Cow::Borrowed(bytes), |bytes, secret| replaced(bytes, secret))
    }
}

fn replaced<'a>(bytes: Cow<'a, [u8]>, secret: &[u8]) -> Cow<'a, [u8]> {
    let places: Vec<usize> = Finder::new(secret).find_iter(&bytes).collect();
    if places.is_empty() {
        return bytes;
    }
    let (mut result, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in places {
        result.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        result.extend_from_slice(MASK);
        from = at + secret.len();
    }
    result.extend_from_slice(bytes.get(from..).unwrap_or_default());
    Cow::Owned(result)
}
