//! The header `WWW-Authenticate`, in which a server says what it wants.

/// Returns a parameter of a challenge, such as `scope` of `Bearer scope="read write"`.
pub(crate) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some((found, value, after)) = next_parameter(rest) {
        if found.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
    None
}

/// Reads the next `name=value`, past what names a scheme.
fn next_parameter(text: &str) -> Option<(&str, String, &str)> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ",;".contains(c));
        let end = rest.find(|c: char| c.is_whitespace() || ",;=".contains(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if let Some(after) = after.trim_start().strip_prefix('=') {
            let (value, after) = next_value(after.trim_start())?;
            return Some((name, value, after));
        }
        if after.is_empty() {
            return None;
        }
        rest = after;
    }
}

/// Reads a value, in quotes or without. One whose quotes do not end is none.
fn next_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c.is_whitespace() || ",;".contains(c)).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if is_escaped => {
                value.push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return Some((value, &quoted[at + 1..])),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_with_and_without_quotes() {
        let challenge = r#"Bearer realm="a \"b\", scope=none", scope="read write" , error=x"#;
        assert_eq!(parameter(challenge, "realm").as_deref(), Some(r#"a "b", scope=none"#));
        assert_eq!(parameter(challenge, "Scope").as_deref(), Some("read write"));
        assert_eq!(parameter(challenge, "error").as_deref(), Some("x"));
        assert_eq!(parameter(challenge, "resource_metadata"), None);
    }

    #[test]
    fn several_schemes_may_stand_in_one_header() {
        let challenge = r#"Basic realm="x", Bearer resource_metadata="https://a/b?c=d""#;
        let found = parameter(challenge, "resource_metadata");
        assert_eq!(found.as_deref(), Some("https://a/b?c=d"));
    }

    #[test]
    fn what_does_not_end_is_no_parameter() {
        for challenge in ["", "Bearer", "Bearer scope", r#"Bearer scope="read"#, "Bearer , ,"] {
            assert_eq!(parameter(challenge, "scope"), None, "{challenge}");
        }
    }
}
