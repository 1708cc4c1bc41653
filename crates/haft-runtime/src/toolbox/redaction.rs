//! Secrets in what tools say: masked before anything is recorded, shown or kept.
//!
//! A net with holes, and meant as one: it masks secrets that the runtime knows, also in base64,
//! hex and percent encoding, and texts that have the shape of a credential. What must not leak
//! should not be within a tool's reach in the first place.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use haft_core::session::{Preview, Returned};
use haft_core::tool::Redaction;
use haft_core::{ArtifactRef, CallResult, ContentBlock, Directives, Failure, JsonPointer, Output};
use regex::Regex;
use serde_json::{Map, Value};

/// Shorter ones would mask ordinary words.
const SECRET_LEN_MIN: usize = 6;

/// Texts with the shape of a credential. Each begins with a literal, so that a text without any
/// is passed over quickly.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"sk-[A-Za-z0-9_\-]{16,}",
        r"AKIA[0-9A-Z]{16}",
        r"AIza[0-9A-Za-z_\-]{35}",
        r"ghp_[A-Za-z0-9]{20,}",
        r"gho_[A-Za-z0-9]{20,}",
        r"ghs_[A-Za-z0-9]{20,}",
        r"github_pat_[A-Za-z0-9_]{20,}",
        r"glpat-[A-Za-z0-9_\-]{16,}",
        r"xox[abprs]-[A-Za-z0-9\-]{10,}",
        r"haft_(?:local_)?[0-9a-f]{32,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"eyJ[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]{5,}",
        r"://[^/\s:@]{1,256}:[^/\s@]{1,256}@",
    ];
    Regex::new(&shapes.join("|")).ok()
});

/// Masks secrets in what is recorded or shown.
#[derive(Clone, Default)]
pub struct Redactor {
    /// What the node knows to be secret.
    node: Option<Arc<AhoCorasick>>,
    /// What one call's arguments say is secret.
    call: Option<Arc<AhoCorasick>>,
}

/// What it looks for could be read off its automaton.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Masks these, and whatever has the shape of a credential.
    pub fn new(secrets: &[String]) -> Self {
        Self { node: finder(secrets), call: None }
    }

    /// Also masks the secret arguments of a call.
    pub(crate) fn with_call(&self, arguments: &Map<String, Value>, redaction: &Redaction) -> Self {
        let mut secrets = Vec::new();
        let secret = |place: &JsonPointer| place.find(arguments);
        redaction.secret.iter().filter_map(secret).for_each(|value| leaves(value, &mut secrets));
        Self { node: self.node.clone(), call: finder(&secrets) }
    }

    /// Masks them in a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for known in [&self.node, &self.call].into_iter().flatten() {
            if known.is_match(&*masked) {
                let masks = vec![Redaction::MASK; known.patterns_len()];
                masked = Cow::Owned(known.replace_all(&masked, &masks));
            }
        }
        let Some(shapes) = &*SHAPES else { return masked };
        match masked {
            Cow::Borrowed(text) => shapes.replace_all(text, Redaction::MASK),
            Cow::Owned(text) => Cow::Owned(shapes.replace_all(&text, Redaction::MASK).into_owned()),
        }
    }

    /// Masks secrets in an output, if it is text.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(bytes) {
            Ok(mut text) => {
                self.string(&mut text);
                text.into_bytes()
            }
            Err(error) => error.into_bytes(),
        }
    }

    /// Masks them in a value, also in the names of its members.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks them in what a tool returned.
    pub fn returned(&self, returned: &mut Returned) {
        match &mut returned.result {
            CallResult::Ok(output) => self.output(output),
            CallResult::Err(failure) => self.failure(failure),
        }
        self.map(&mut returned.extra);
        self.directives(&mut returned.directives);
    }

    pub(crate) fn directives(&self, directives: &mut Directives) {
        let said = [&mut directives.next_action, &mut directives.user_message];
        said.into_iter().flatten().for_each(|text| self.string(text));
    }

    fn map(&self, map: &mut Map<String, Value>) {
        map.values_mut().for_each(|value| self.value(value));
        if map.keys().any(|key| matches!(self.text(key), Cow::Owned(_))) {
            let renamed = std::mem::take(map).into_iter();
            map.extend(renamed.map(|(key, value)| (self.text(&key).into_owned(), value)));
        }
    }

    pub(crate) fn preview(&self, preview: &mut Preview) {
        let texts = preview.targets.iter_mut().chain(&mut preview.diff);
        texts.chain(&mut preview.trouble).for_each(|text| self.string(text));
    }

    fn output(&self, output: &mut Output) {
        for block in &mut output.content {
            match block {
                ContentBlock::Text { text } => self.string(text),
                ContentBlock::Artifact { artifact } => self.reference(artifact),
            }
        }
        output.artifacts.iter_mut().for_each(|artifact| self.reference(artifact));
        output.value.iter_mut().for_each(|value| self.value(value));
    }

    fn reference(&self, artifact: &mut ArtifactRef) {
        self.string(&mut artifact.media_type);
        artifact.title.iter_mut().for_each(|title| self.string(title));
    }

    pub(crate) fn failure(&self, failure: &mut Failure) {
        self.string(&mut failure.message);
        failure.debug.iter_mut().for_each(|debug| self.string(debug));
        failure.partial.iter_mut().for_each(|partial| self.value(partial));
    }

    fn string(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }
}

/// Finds secrets in the usual forms; `None` when there are none to find.
fn finder(secrets: &[String]) -> Option<Arc<AhoCorasick>> {
    let long = secrets.iter().filter(|secret| secret.len() >= SECRET_LEN_MIN);
    let forms: Vec<_> = long.flat_map(|secret| forms(secret)).collect();
    if forms.is_empty() {
        return None;
    }
    let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms);
    built.ok().map(Arc::new)
}

/// Collects what a secret place holds, however it is nested.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(map) => map.values().for_each(|value| leaves(value, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns a secret as it is and as it looks in the usual encodings.
fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hex = |upper: bool| {
        let digits = bytes.iter().map(|byte| match upper {
            true => format!("{byte:02X}"),
            false => format!("{byte:02x}"),
        });
        digits.collect::<String>()
    };
    let percent = bytes.iter().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(*byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    });
    let plain = base64(bytes, b"+/");
    let url_safe = base64(bytes, b"-_");
    vec![secret.to_owned(), hex(false), hex(true), percent.collect(), plain, url_safe]
}

/// Base64 without padding, which a longer text would continue in place of.
fn base64(bytes: &[u8], last_two: &[u8; 2]) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |six: u32| match usize::try_from(six & 63).unwrap_or_default() {
        i @ 0..62 => char::from(LETTERS[i]),
        62 => char::from(last_two[0]),
        _ => char::from(last_two[1]),
    };
    let encoded = bytes.chunks(3).flat_map(|chunk| {
        let joined = chunk.iter().fold(0u32, |sum, byte| (sum << 8) | u32::from(*byte));
        let joined = joined << (8 * (3 - chunk.len()));
        (0..=chunk.len()).map(move |i| letter(joined >> (18 - 6 * i)))
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // D17, and the redaction cases of the adversarial corpus.
    #[test]
    fn d17_known_secrets_are_masked_in_every_usual_form() {
        let redactor = Redactor::new(&["sk-ant-CANARY".to_owned()]);
        for form in ["sk-ant-CANARY", "c2stYW50LUNBTkFSWQ==", "736b2d616e742d43414e415259"] {
            let text = redactor.text(form).into_owned();
            assert!(text.starts_with(Redaction::MASK), "{form}: {text}");
        }
        let mut value = json!({"a": ["x sk-ant-CANARY y"], "sk-ant-CANARY": 1});
        redactor.value(&mut value);
        assert_eq!(value, json!({"a": ["x [redacted] y"], "[redacted]": 1}));
    }

    #[test]
    fn what_looks_like_a_credential_is_masked_and_ordinary_text_is_not() {
        let redactor = Redactor::default();
        for secret in [
            "sk-proj-CANARY000000000000000000",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----",
            "eyJhbGciOiJIUzI1NiJ9.CANARY.CANARY",
            "postgres://ann:CANARY@db/x",
            "-----BEGIN RSA PRIVATE KEY-----\nCANARY and no end",
        ] {
            let text = redactor.text(secret);
            assert!(!text.contains("CANARY"), "{text}");
        }
        for plain in ["task-force", "see https://example.org/a:b", "sk-short", "BEGIN PRIVATE"] {
            assert_eq!(redactor.text(plain), plain);
        }
    }

    #[test]
    fn keys_of_haft_itself_are_masked_and_names_that_begin_alike_are_not() {
        let redactor = Redactor::default();
        let digits = "0123456789abcdef".repeat(4);
        for key in [format!("haft_{digits}"), format!("haft_local_{digits}")] {
            let text = redactor.text(&format!("key {key} end")).into_owned();
            assert_eq!(text, format!("key {} end", Redaction::MASK));
        }
        for plain in ["haft_calls_total", "haft_local_place", "haft_deadbeef"] {
            assert_eq!(redactor.text(plain), plain);
        }
    }

    #[test]
    fn base64_is_that_of_everyone_else() {
        for (text, encoded) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")]
        {
            assert_eq!(base64(text.as_bytes(), b"+/"), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff], b"-_"), "-_8");
    }
}
