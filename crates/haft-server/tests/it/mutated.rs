//! Forms and MCP frames that were mangled on their way, over real sockets: each is answered, none
//! with an error of the server's own.
//!
//! Where libFuzzer reaches what reads other people's bytes directly (`tests/fuzz`), these go through
//! the whole server. The mutations follow from a seed, which a failure names.

use haft_mcp::{McpServer, Questions, ServerSettings};
use haft_runtime::Haft;
use haft_server::{Config, Scope};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::{House, unattended};

/// How many mangled requests of each kind are sent unless `HAFT_MUTATIONS` says otherwise.
const MUTATIONS: u64 = 150;

/// What mutations are made of: a sequence that follows from its seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }
}

/// Pieces that mean something to a reader of forms or of JSON.
const WORDS: [&str; 16] = [
    "--line",
    "--line--",
    "\r\n\r\n",
    "\r\n",
    "name=\"file\"",
    "filename=\"../../x\"",
    "\0",
    "\u{202e}",
    "{",
    "}",
    "[[[[",
    "\"",
    "null",
    "1e999",
    "\\ud800",
    "\"method\":\"tools/call\"",
];

fn mutated(seed: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.next(4) {
        let at = chance.next(bytes.len() + 1);
        match chance.next(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.next(8),
            1 => bytes.truncate(at),
            2 => {
                let word = WORDS[chance.next(WORDS.len())].as_bytes();
                bytes.splice(at..at, word.iter().copied());
            }
            3 => {
                let end = (at + chance.next(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let piece: Vec<u8> = bytes[at..].iter().take(60).copied().collect();
                bytes.extend(piece);
            }
        }
    }
    bytes
}

fn n_mutations() -> u64 {
    std::env::var("HAFT_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(MUTATIONS)
}

const FORM: &str = "content-type: multipart/form-data; boundary=line\r\n";
const MCP: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
                   mcp-protocol-version: 2025-11-25\r\n";

// Issue 19: multipart and MCP frames under mutation.
#[tokio::test(flavor = "multi_thread")]
async fn mangled_forms_and_frames_are_answered() {
    let questions = Questions::new();
    let asked = questions.clone();
    let config = move |haft: &Haft| {
        let mcp = McpServer::new(haft.clone(), questions, ServerSettings::default());
        Config { mcp: Some(mcp), ..unattended() }
    };
    let house = House::configured(|builder| haft_mcp::install(builder, &asked), &[], config).await;
    let ann = house.visitor("default", "ann", &[Scope::Read, Scope::Write]).await;
    let file = "--line\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                content-type: text/plain\r\n\r\nhello\r\n--line--\r\n";
    let skill = "--line\r\ncontent-disposition: form-data; name=\"files[]\"; \
                 filename=\"a/SKILL.md\"\r\n\r\n---\nname: a\ndescription: b\n---\nx\r\n--line--\r\n";
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_price","arguments":{"euro":1}}}"#;
    let begin = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let kinds = [
        ("/v1/files", FORM, file),
        ("/v1/skills", FORM, skill),
        ("/mcp", MCP, call),
        ("/mcp", MCP, begin),
    ];
    for (path, headers, seed) in kinds {
        for n in 0..n_mutations() {
            let body = mutated(seed.as_bytes(), &mut Chance(n));
            let mut connection = ann.connection().await;
            let head = ann.head(headers, "POST", path, body.len());
            connection.write_all(head.as_bytes()).await.unwrap();
            connection.write_all(&body).await.unwrap();
            let mut status = [0; 12];
            connection.read_exact(&mut status).await.unwrap();
            let status = String::from_utf8_lossy(&status);
            let text = String::from_utf8_lossy(&body);
            assert!(!status.starts_with("HTTP/1.1 5"), "{path}, seed {n}: {status}: {text}");
        }
    }
    ann.get("/haft/v1/me").await;
}
