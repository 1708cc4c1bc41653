//! Keeping secrets out of what is recorded: values of secret variables, and what is typed as one.

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

/// What must not be recorded, the longest first.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Secrets").field(&self.0.len()).finish()
    }
}

impl Secrets {
    /// The secret values among variables.
    pub(crate) fn of(variables: &Variables) -> Self {
        let secret = variables.iter().filter(|(name, _)| is_secret_name(name));
        Self::these(secret.map(|(_, value)| value.as_bytes().to_vec()))
    }

    /// All of these, whatever they are called.
    pub(crate) fn these(values: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut values: Vec<_> = values.filter(|value| value.len() >= LEN_MIN).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// What is typed as a secret in a text for a shell: `TOKEN=…`, `--password …`, `Bearer …`.
    pub(crate) fn typed(text: &str) -> Self {
        let words = words(text);
        let mut found = Vec::new();
        let before = std::iter::once("").chain(words.iter().map(String::as_str));
        for (before, word) in before.zip(&words) {
            let value = match word.split_once(['=', ':']) {
                Some((name, value)) if is_secret_name(name) => value.trim_start(),
                _ if announces(before) => word,
                _ => continue,
            };
            // A variable or a flag is no secret itself.
            if !value.starts_with(['$', '-']) {
                found.push(value.strip_prefix("Bearer ").unwrap_or(value).as_bytes().to_vec());
            }
        }
        Self::these(found.into_iter())
    }

    /// Both together.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self::these(self.0.into_iter().chain(other.0))
    }

    pub(crate) fn masked(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.masked_bytes(text.as_bytes())).into_owned()
    }

    pub(crate) fn masked_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.iter().fold(Cow::Borrowed(bytes), |bytes, secret| replaced(bytes, secret))
    }
}

fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    upper.bytes().all(is_name) && SECRET_NAMES.iter().any(|part| upper.contains(part))
}

/// Whether the word after this one is a secret: a flag or a header of a secret name, or `Bearer`.
fn announces(word: &str) -> bool {
    let named = word.strip_prefix("--").or_else(|| word.strip_suffix(':'));
    named.is_some_and(is_secret_name)
        || ["Bearer", "Basic"].iter().any(|scheme| word.ends_with(scheme))
}

/// The words of a shell text, without their quotes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None | Some('"'), '\\') => word.extend(letters.next()),
            (Some(_), _) => word.push(letter),
            (None, ' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>') => {
                words.push(std::mem::take(&mut word));
            }
            (None, _) => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
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

#[cfg(test)]
mod tests {
    use super::Secrets;

    #[test]
    fn what_is_typed_as_a_secret_is_masked_and_nothing_else() {
        for (text, masked) in [
            ("API_TOKEN=abcd1234 run", "API_TOKEN=[redacted] run"),
            ("export PASSWORD='two words'; go", "export PASSWORD='[redacted]'; go"),
            ("login --password hunter22 --user me", "login --password [redacted] --user me"),
            ("login --api-key=hunter22", "login --api-key=[redacted]"),
            (
                "curl -H 'Authorization: Bearer abc.def'",
                "curl -H 'Authorization: Bearer [redacted]'",
            ),
            ("curl -H \"X-Api-Key: abcdef\" u", "curl -H \"X-Api-Key: [redacted]\" u"),
            ("run --token $TOKEN MODE=release", "run --token $TOKEN MODE=release"),
            ("echo --password", "echo --password"),
            ("unfinished 'quote TOKEN=x", "unfinished 'quote TOKEN=x"),
        ] {
            assert_eq!(Secrets::typed(text).masked(text), masked);
        }
    }
}
