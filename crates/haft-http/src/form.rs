//! The encoding of forms and queries: `name=value&name=value`.

/// Writes fields as a form has them.
pub fn encode<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        push(&mut text, name);
        text.push('=');
        push(&mut text, value);
    }
    text
}

/// Writes one value as a form has it.
pub fn encode_value(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    push(&mut text, value);
    text
}

fn push(text: &mut String, value: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                text.push(char::from(byte));
            }
            b' ' => text.push('+'),
            other => {
                text.push('%');
                text.push(char::from(HEX[usize::from(other >> 4)]));
                text.push(char::from(HEX[usize::from(other & 15)]));
            }
        }
    }
}

/// Reads the fields of a form or a query. What is no UTF-8 is replaced.
pub fn decode(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode_value(name), decode_value(value))
    })
}

fn decode_value(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let escaped = match first {
            b'%' => after.get(..2).and_then(|digits| {
                let digits = std::str::from_utf8(digits).ok()?;
                u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
            }),
            _ => None,
        };
        match (first, escaped) {
            (_, Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', None) => bytes.push(b' '),
            (byte, None) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let fields = [("scope", "read write"), ("state", "a+b/c=%é&"), ("empty", "")];
        let text = encode(fields);
        assert_eq!(text, "scope=read+write&state=a%2Bb%2Fc%3D%25%C3%A9%26&empty=");
        let read: Vec<(String, String)> = decode(&text).collect();
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, fields);
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        let read = |text: &str| decode(text).map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(read("a=%&b=%4&c=%zz&d=%+1&&e"), ["%", "%4", "%zz", "% 1", ""]);
        assert_eq!(read("a=%ff"), ["\u{fffd}"]);
    }
}
