//! Strict JSON: what may be acted upon must read the same to everyone who looks at it.
//!
//! A model's arguments are validated here, shown to a person in a browser and run by a tool. So
//! what those three could read differently is refused: duplicate keys, numbers that a browser
//! would show as another number, lone surrogates, NUL. Depth and size are bounded before
//! anything is built. Nothing is ever replaced by a default.

use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Number, Value};

/// How much JSON is taken, and how strictly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// What the JSON is for.
    pub purpose: Purpose,
    /// The longest text, in bytes.
    pub bytes_max: usize,
    /// The deepest nesting of arrays and objects.
    pub depth_max: usize,
}

/// What JSON is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something will be done with it: everyone must read the same.
    ToActUpon,
    /// It describes something, or has happened already: large numbers and NUL are taken as they
    /// are, because refusing them would lose it.
    ToKeep,
}

/// The deepest nesting that is taken into a session. Readers of the log stop at twice that.
pub const DEPTH_MAX: usize = 64;

impl Default for JsonLimits {
    /// 1 MiB and 64 levels: above what tools take, below what hurts.
    fn default() -> Self {
        Self { purpose: Purpose::ToActUpon, bytes_max: 1 << 20, depth_max: DEPTH_MAX }
    }
}

/// Why a text is not JSON that may be acted upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    offset: usize,
    kind: JsonErrorKind,
}

/// The ways in which JSON is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// More bytes than allowed.
    TooLarge {
        /// The limit.
        bytes_max: usize,
        /// What came.
        found: usize,
    },
    /// More nesting than allowed.
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// One object names a key twice, possibly through escapes.
    DuplicateKey {
        /// The key, unescaped.
        key: Box<str>,
    },
    /// A number that not every reader would show as written.
    Number {
        /// The number as written, cut to a readable length.
        found: Box<str>,
    },
    /// A string with an escaped NUL, or half of a surrogate pair.
    Character {
        /// What was found.
        found: &'static str,
    },
    /// Not JSON at all.
    Syntax {
        /// What could have stood there.
        expected: &'static str,
        /// What stood there.
        found: Option<char>,
    },
    /// JSON, but not an object.
    NotAnObject {
        /// The type that was found.
        found: &'static str,
    },
}

impl JsonError {
    /// Returns where in the text the trouble starts, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns what the trouble is.
    pub fn kind(&self) -> &JsonErrorKind {
        &self.kind
    }

    /// Puts a mask in the place of what is quoted from the text, for texts that hold secrets.
    #[must_use]
    pub fn without_quotes(mut self, mask: &str) -> Self {
        match &mut self.kind {
            JsonErrorKind::Number { found: quoted }
            | JsonErrorKind::DuplicateKey { key: quoted } => *quoted = mask.into(),
            JsonErrorKind::TooLarge { .. }
            | JsonErrorKind::TooDeep { .. }
            | JsonErrorKind::Character { .. }
            | JsonErrorKind::Syntax { .. }
            | JsonErrorKind::NotAnObject { .. } => {}
        }
        self
    }
}

impl std::error::Error for JsonError {}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match &self.kind {
            JsonErrorKind::TooLarge { bytes_max, found } => {
                write!(f, "expected at most {bytes_max} bytes of JSON, found {found}")
            }
            JsonErrorKind::TooDeep { depth_max } => {
                write!(f, "expected at most {depth_max} levels of nesting, found more at byte {at}")
            }
            JsonErrorKind::DuplicateKey { key } => {
                write!(f, "expected each key once, found `{key}` again at byte {at}")
            }
            JsonErrorKind::Number { found } => write!(
                f,
                "expected a number that is exact in 64-bit floating point, found `{found}` at \
                 byte {at}; send it as a string or with fewer digits"
            ),
            JsonErrorKind::Character { found } => {
                write!(f, "expected a string of whole characters, found {found} at byte {at}")
            }
            JsonErrorKind::Syntax { expected, found: Some(found) } => {
                write!(f, "expected {expected}, found {found:?} at byte {at}")
            }
            JsonErrorKind::Syntax { expected, found: None } => {
                write!(f, "expected {expected}, found the end of the text at byte {at}")
            }
            JsonErrorKind::NotAnObject { found } => {
                write!(f, "expected a JSON object, found {found}")
            }
        }
    }
}

/// Reads one JSON value and nothing else.
///
/// # Errors
///
/// When the text is not strict JSON within the limits; see [`JsonErrorKind`].
pub fn parse(text: &[u8], limits: JsonLimits) -> Result<Value, JsonError> {
    if text.len() > limits.bytes_max {
        let kind = JsonErrorKind::TooLarge { bytes_max: limits.bytes_max, found: text.len() };
        return Err(JsonError { offset: limits.bytes_max, kind });
    }
    let text = std::str::from_utf8(text).map_err(|error| JsonError {
        offset: error.valid_up_to(),
        kind: JsonErrorKind::Character { found: "bytes that are not UTF-8" },
    })?;
    let mut reader = Reader { text, at: 0, depth_left: limits.depth_max, limits };
    reader.skip_space();
    let value = reader.value()?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.syntax("nothing after the value")),
    }
}

/// Reads one JSON object and nothing else: the only thing that arguments can be.
///
/// # Errors
///
/// As [`parse`], and when the value is not an object (an empty text or `null` never becomes `{}`).
pub fn parse_object(text: &[u8], limits: JsonLimits) -> Result<Map<String, Value>, JsonError> {
    match parse(text, limits)? {
        Value::Object(map) => Ok(map),
        other => {
            let kind = JsonErrorKind::NotAnObject { found: type_name(&other) };
            Err(JsonError { offset: 0, kind })
        }
    }
}

/// Reads JSON that Haft has stored, with every float exactly as it was written.
///
/// Without its feature `float_roundtrip`, serde_json reads some floats as a neighbour of the number
/// that was written. Stored arguments are checked against their digest, so a log that one program
/// wrote must read the same in every other, whichever features their dependencies switch on.
///
/// # Errors
///
/// When the text is not JSON, or not a `T`.
pub fn read_stored<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    if *READS_FLOATS_EXACTLY {
        return serde_json::from_slice(text);
    }
    let limits =
        JsonLimits { purpose: Purpose::ToKeep, bytes_max: usize::MAX, depth_max: STORED_DEPTH_MAX };
    serde_json::from_value(parse(text, limits).map_err(serde_json::Error::custom)?)
}

/// The deepest nesting that serde_json reads.
const STORED_DEPTH_MAX: usize = 128;

/// Whether this program has serde_json's `float_roundtrip`. The feature can only be seen by what
/// it does: without it, this number is read as its neighbour.
static READS_FLOATS_EXACTLY: LazyLock<bool> = LazyLock::new(|| {
    let read: Option<f64> = serde_json::from_str(MISREAD).ok();
    read == MISREAD.parse().ok()
});

const MISREAD: &str = "31.245270191439438";

/// Returns whether a value is nested deeper than `max`, without recursion: a tool can build what
/// no reader would survive.
pub fn is_deeper_than(value: &Value, max: usize) -> bool {
    let mut level: Vec<&Value> = vec![value];
    for _ in 0..=max {
        level = level.into_iter().flat_map(children).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Box::new(std::iter::empty())
        }
    }
}

/// Returns what JSON calls the type of a value, with its article.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
    limits: JsonLimits,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax("a JSON value")),
        }
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        if self.depth_left == 0 {
            return Err(self.error(JsonErrorKind::TooDeep { depth_max: self.limits.depth_max }));
        }
        self.depth_left -= 1;
        self.at += 1;
        self.skip_space();
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut map = Map::new();
        if self.eat(b'}') {
            return Ok(Value::Object(map));
        }
        loop {
            let key_at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in double quotes"));
            }
            let key = self.string()?;
            self.skip_space();
            self.expect(b':', "`:` after a key")?;
            self.skip_space();
            let value = self.value()?;
            if map.contains_key(&key) {
                let kind = JsonErrorKind::DuplicateKey { key: key.into() };
                return Err(JsonError { offset: key_at, kind });
            }
            map.insert(key, value);
            self.skip_space();
            if self.eat(b'}') {
                return Ok(Value::Object(map));
            }
            self.expect(b',', "`,` or `}`")?;
            self.skip_space();
        }
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Value::Array(items));
            }
            self.expect(b',', "`,` or `]`")?;
            self.skip_space();
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ');
            let Some(length) = plain else {
                self.at = self.text.len();
                return Err(self.syntax("`\"` at the end of a string"));
            };
            string.push_str(&rest[..length]);
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return Err(self.syntax("an escape instead of a control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        self.at += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.syntax("one of \" \\ / b f n r t u after a backslash")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let high = self.hex4()?;
        let lone = JsonErrorKind::Character { found: "half of a surrogate pair" };
        let code = match high {
            0xD800..=0xDBFF => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(self.error(lone));
                }
                self.at += 1;
                match self.hex4()? {
                    low @ 0xDC00..=0xDFFF => 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00),
                    _ => return Err(self.error(lone)),
                }
            }
            other => other,
        };
        match char::from_u32(code) {
            Some('\0') if self.limits.purpose == Purpose::ToActUpon => {
                Err(self.error(JsonErrorKind::Character { found: "a NUL" }))
            }
            Some(c) => Ok(c),
            None => Err(self.error(lone)),
        }
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        self.at += 1;
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.syntax("four hex digits after \\u"))?;
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        let mut integral = true;
        if self.eat(b'.') {
            integral = false;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integral = false;
            self.at += 1;
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        let literal = &self.text[start..self.at];
        let number = match self.limits.purpose {
            Purpose::ToActUpon => exact(literal, integral),
            Purpose::ToKeep => nearest(literal, integral),
        };
        number.ok_or_else(|| JsonError {
            offset: start,
            kind: JsonErrorKind::Number { found: literal.chars().take(40).collect() },
        })
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let count = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        if count == 0 { Err(self.syntax("a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.syntax("a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(self.syntax(expected)) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax(&self, expected: &'static str) -> JsonError {
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        self.error(JsonErrorKind::Syntax { expected, found })
    }

    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { offset: self.at, kind }
    }
}

/// Returns the number as serde_json reads it with `float_roundtrip`: an integer of 64 bits as it
/// is, anything else as the nearest float.
fn nearest(literal: &str, integral: bool) -> Option<Number> {
    if integral && literal != "-0" {
        if let Ok(number) = literal.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = literal.parse::<i64>() {
            return Some(number.into());
        }
    }
    Number::from_f64(literal.parse().ok()?)
}

/// Returns the number if every reader with 64-bit floats shows it as written.
///
/// An integer must lie within ±(2^53 − 1). A fraction must have the same significant digits as
/// the shortest decimal of its float, trailing zeros aside.
fn exact(literal: &str, integral: bool) -> Option<Number> {
    const SAFE: i64 = (1 << 53) - 1;
    if integral {
        let number: i64 = literal.parse().ok()?;
        return (-SAFE..=SAFE).contains(&number).then(|| Number::from(number));
    }
    let float: f64 = literal.parse().ok()?;
    // As serde_json prints it: of two shortest decimals that are equally near, the even one, which
    // is a browser's choice too, and not `Display`'s.
    let number = Number::from_f64(float)?;
    (decimal(literal) == decimal(&number.to_string())).then_some(number)
}

/// Splits a decimal literal into its significant digits and the power of ten of the last one.
fn decimal(literal: &str) -> (String, i64) {
    let unsigned = literal.trim_start_matches('-');
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return (String::new(), 0);
    }
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    (significant.to_owned(), exponent - fraction.len() as i64 + trailing as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value, JsonError> {
        parse(text.as_bytes(), JsonLimits::default())
    }

    #[test]
    fn ordinary_json_reads_as_serde_json_reads_it() {
        for text in [
            r#"{"a":[1,-2,3.5,1e3,-0.25E-2],"b":{"c":null,"d":true,"e":false},"f":"é\u00e9\ud83d\ude00\/\n"}"#,
            " [ ] ",
            "{}",
            "\"\"",
            "0",
            "-0.0",
            "6.022e23",
            "5.972e24",
            "1e300",
            "1.50",
            "-131989942626086.12",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            let found = read(text).unwrap();
            assert_eq!(found.to_string(), expected.to_string(), "{text}");
        }
    }

    // A program without serde_json's `float_roundtrip` reads what one with it wrote, and the other
    // way round: this passes either way, and fails for `serde_json::from_str` without it.
    #[test]
    fn stored_floats_read_back_as_they_were_written() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        let mut floats = vec![0.1, 1e300, 5e-324, f64::MAX, -0.0, MISREAD.parse().unwrap()];
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            floats.extend([f64::from_bits(bits), (bits >> 11) as f64 / 1e6]);
        }
        for float in floats.into_iter().filter(|float| float.is_finite()) {
            let text = json!({ "float": float }).to_string();
            let read: Value = read_stored(text.as_bytes()).unwrap();
            let read = read["float"].as_f64().unwrap();
            assert_eq!(read.to_bits(), float.to_bits(), "{text}");
        }
    }

    #[test]
    fn numbers_that_are_kept_read_as_serde_json_reads_them_exactly() {
        let keep = JsonLimits { purpose: Purpose::ToKeep, ..JsonLimits::default() };
        let read = |text: &str| parse(text.as_bytes(), keep).unwrap();
        assert_eq!(read("18446744073709551615"), json!(u64::MAX));
        assert_eq!(read("-9223372036854775808"), json!(i64::MIN));
        assert_eq!(read("18446744073709551616"), json!(18_446_744_073_709_551_616.0));
        assert_eq!(read("-0").to_string(), "-0.0");
        assert_eq!(read("0"), json!(0));
        assert_eq!(read(MISREAD).to_string(), MISREAD);
        assert!(parse(b"1e400", keep).is_err());
    }

    // What readers could disagree about is refused before anything acts on it.
    #[test]
    fn ambiguous_json_is_refused_with_what_was_found() {
        let check = |text: &str, part: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        check(r#"{"path":"a","path":"/etc/passwd"}"#, "found `path` again at byte 12");
        check(r#"{"path":"a","\u0070ath":"b"}"#, "`path` again");
        check("{\"n\":NaN}", "found 'N'");
        check("{\"n\":Infinity}", "found 'I'");
        check("{\"n\":1e400}", "found `1e400`");
        check("{\"n\":-1e400}", "`-1e400`");
        check("9007199254740992", "`9007199254740992`");
        check("3.14159265358979323846", "send it as a string");
        check("{'path':'a'}", "a key in double quotes, found '\\''");
        check(r#"{"p":"\ud800"}"#, "half of a surrogate pair");
        check(r#"{"p":"\udc00\ud800"}"#, "half of a surrogate pair");
        check(r#"{"p":"a\u0000b"}"#, "a NUL");
        check("\u{feff}{}", "expected a JSON value, found '\\u{feff}'");
        check("{\"a\":1", "found the end of the text");
        check("{} {}", "nothing after the value");
        check("01", "nothing after the value");
        check("\"a\nb\"", "an escape instead of a control character");
        check(r#""\x""#, "after a backslash");
        check(r#""\u12"#, "four hex digits");
        check("-", "a digit");
        check("1.", "a digit");
        check("nul", "a JSON value");
    }

    // S3-17, S0-4: nothing becomes `{}`.
    #[test]
    fn s3_17_s0_4_only_an_object_is_an_object() {
        let check = |text: &str, part: &str| {
            let error = parse_object(text.as_bytes(), JsonLimits::default()).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
        };
        check("", "found the end of the text");
        check("null", "expected a JSON object, found null");
        check("[]", "found an array");
        check(r#""{\"path\":\"a\"}""#, "found a string");
        check("7", "found a number");
        check("true", "found a boolean");
        assert_eq!(parse_object(b"{}", JsonLimits::default()), Ok(Map::new()));
    }

    #[test]
    fn size_and_depth_are_bounded_before_anything_is_built() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(read(&deep).unwrap_err().kind(), &JsonErrorKind::TooDeep { depth_max: 64 });
        let fits = format!("{}{}", "[".repeat(64), "]".repeat(64));
        assert!(read(&fits).is_ok());
        let large = format!("\"{}\"", "a".repeat(2_000_000));
        let kind = JsonErrorKind::TooLarge { bytes_max: 1 << 20, found: 2_000_002 };
        assert_eq!(read(&large).unwrap_err().kind(), &kind);
        assert_eq!(parse(b"{\"p\":\"\xff\"}", JsonLimits::default()).unwrap_err().offset(), 6);
    }

    #[test]
    fn what_is_only_kept_may_hold_large_numbers_and_nul() {
        let limits = JsonLimits { purpose: Purpose::ToKeep, ..JsonLimits::default() };
        let text = r#"{"max":9223372036854775807,"u":18446744073709551615,"s":"a\u0000b"}"#;
        let kept = parse(text.as_bytes(), limits).unwrap();
        assert_eq!(kept, json!({"max": i64::MAX, "u": u64::MAX, "s": "a\u{0}b"}));
        assert!(parse(br#"{"a":1,"a":2}"#, limits).is_err(), "two readings are two readings");
        assert!(parse(b"1e400", limits).is_err());
    }

    #[test]
    fn depth_is_measured_without_recursion() {
        let nest = |levels| (0..levels).fold(json!(1), |value, _| json!([value]));
        assert!(!is_deeper_than(&nest(64), 64));
        assert!(is_deeper_than(&nest(65), 64));
        assert!(!is_deeper_than(&json!("x"), 0));
        let mut deep = nest(1);
        for _ in 0..100_000 {
            deep = Value::Array(vec![deep]);
        }
        assert!(is_deeper_than(&deep, 64));
        // Taken apart by hand: dropping it would itself recurse.
        while let Value::Array(mut items) = deep {
            deep = items.pop().unwrap_or_default();
        }
    }

    #[test]
    fn an_integral_float_is_the_same_number_to_everyone() {
        assert_eq!(read("1.0").unwrap(), json!(1.0));
        assert_eq!(read("9007199254740991").unwrap(), json!(9_007_199_254_740_991i64));
        assert_eq!(read("-0").unwrap(), json!(0));
        assert_eq!(read("0.1e1").unwrap(), json!(1.0));
    }
}
