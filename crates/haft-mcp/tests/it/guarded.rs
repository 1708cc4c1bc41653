//! `guarded_peer.py`, for the tests of haft-cli too, and a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that wants to be authorized, killed when it is dropped.
pub(crate) struct Guarded {
    process: Child,
    pub(crate) url: String,
}

impl Guarded {
    pub(crate) fn start() -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haft-mcp/tests/it");
        let mut process = Command::new("setpriv")
            // The kernel kills it when the test's thread ends, however it ends.
            .args(["--pdeathsig", "KILL", "python3"])
            .arg(tests.join("guarded_peer.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

/// Opens an address as a browser would that follows nothing.
pub(crate) fn opened(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = TcpStream::connect(host).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// Says yes at an address that a person is to open, and returns where they are sent back to.
pub(crate) fn agreed(open: &str) -> String {
    let sent_back = opened(open);
    let location = sent_back.lines().find_map(|line| line.strip_prefix("location: "));
    location.unwrap_or_else(|| panic!("nobody is sent back: {sent_back}")).to_owned()
}
