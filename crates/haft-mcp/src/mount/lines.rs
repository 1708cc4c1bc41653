//! The lines of a mounted program, each one message: bounded, so that a program cannot fill the
//! memory of this process, and answered, so that nobody waits for a message that was dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// The code of the error that stands in for an answer that was dropped because of its size.
pub(super) const TOO_LARGE: i32 = -32_090;

/// How much of either end of a line is kept, to find out which request a dropped line answers.
const END_BYTES: usize = 512;
/// How much is read from the program at once.
const READ_BYTES: usize = 64 << 10;

/// Passes lines on as they are read. A line that is too long is cut off, which makes it no JSON,
/// and an error takes its place as the answer to its request.
pub(super) struct BoundedLines<R> {
    inner: R,
    max: usize,
    buffer: Box<[u8]>,
    /// What of the buffer is not passed on yet.
    unread: std::ops::Range<usize>,
    line: Line,
    /// What stands in for a line that was dropped, and how much of it was passed on.
    instead: Vec<u8>,
    n_given: usize,
}

/// The line under way.
#[derive(Default)]
struct Line {
    n_bytes: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    PassedOn,
    /// It is dropped, and it is not known yet which request it answers.
    Dropped,
    /// It is dropped, and whoever waits for it has been told.
    Answered,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R, max: usize) -> Self {
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        let (line, instead) = (Line::default(), Vec::new());
        Self { inner, max, buffer, unread: 0..0, line, instead, n_given: 0 }
    }

    /// Drops the line under way. What was passed on of it is ended, so that it is read as no JSON.
    fn drop_line(&mut self) {
        self.line.fate = Fate::Dropped;
        self.instead = vec![b'\n'];
        self.n_given = 0;
        self.answer_by_head();
    }

    /// Tells whoever waits for a line that is dropped, if the beginning of the line says who.
    fn answer_by_head(&mut self) {
        let members = Members::of(&self.line.head);
        if let (Some(id), true) = (members.id, members.is_answer) {
            self.answer(&id);
        }
    }

    fn answer(&mut self, id: &Value) {
        let message = format!("the answer is larger than {} bytes", self.max);
        let error = json!({"code": TOO_LARGE, "message": message});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.instead.extend_from_slice(format!("{answer}\n").as_bytes());
        self.line.fate = Fate::Answered;
    }

    /// Ends a line that was dropped. Returns false if it answers a request that cannot be told.
    fn end_dropped_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let members = Members::of(&line.head);
        if line.fate == Fate::Answered || members.is_request {
            return true;
        }
        match id_at_the_end(&line.tail) {
            Some(id) => {
                self.answer(&id);
                self.line = Line::default();
                true
            }
            None => false,
        }
    }
}

impl Line {
    fn note(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len();
        let room = END_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let last = &bytes[bytes.len().saturating_sub(END_BYTES)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(END_BYTES);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let instead = &this.instead[this.n_given..];
            if !instead.is_empty() {
                let n = instead.len().min(out.remaining());
                out.put_slice(&instead[..n]);
                this.n_given += n;
                return Poll::Ready(Ok(()));
            }
            if this.unread.is_empty() {
                let mut buffer = ReadBuf::new(&mut this.buffer);
                ready!(Pin::new(&mut this.inner).poll_read(context, &mut buffer))?;
                this.unread = 0..buffer.filled().len();
                if this.unread.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            let unread = &this.buffer[this.unread.clone()];
            let newline = unread.iter().position(|byte| *byte == b'\n');
            let n_line = newline.unwrap_or(unread.len());
            match this.line.fate {
                Fate::PassedOn if this.line.n_bytes + n_line > this.max => this.drop_line(),
                Fate::PassedOn => {
                    let n = newline.map_or(n_line, |at| at + 1).min(out.remaining());
                    this.line.note(&unread[..n.min(n_line)]);
                    out.put_slice(&unread[..n]);
                    this.unread.start += n;
                    if newline.is_some_and(|at| n > at) {
                        this.line = Line::default();
                    }
                    return Poll::Ready(Ok(()));
                }
                Fate::Dropped | Fate::Answered => {
                    this.line.note(&unread[..n_line]);
                    this.unread.start += newline.map_or(n_line, |at| at + 1);
                    if this.line.fate == Fate::Dropped {
                        this.answer_by_head();
                    }
                    // Whoever waits would wait for ever, so the connection is over.
                    if newline.is_some() && !this.end_dropped_line() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

/// What the beginning of a message says about it.
#[derive(Debug, Default, PartialEq)]
struct Members {
    id: Option<Value>,
    is_answer: bool,
    is_request: bool,
}

impl Members {
    /// Reads the members of an object whose end may be missing.
    fn of(text: &[u8]) -> Self {
        let mut members = Self::default();
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(byte) = text.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let Some(n) = string_length(&text[at..]) else { break };
                    let (name, rest) = (&text[at + 1..at + n - 1], &text[at + n..]);
                    let rest = rest.trim_ascii_start();
                    if depth == 1 && rest.first() == Some(&b':') {
                        match name {
                            b"id" => members.id = first_value(&rest[1..]),
                            b"result" | b"error" => members.is_answer = true,
                            b"method" => members.is_request = true,
                            _ => {}
                        }
                    }
                    at += n - 1;
                }
                _ => {}
            }
            at += 1;
        }
        members
    }
}

/// Returns how long the string is that a text begins with, with its quotes.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map(|end| end + 2)
}

/// Returns the number or string that a text begins with, if the text goes on after it.
fn first_value(text: &[u8]) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let is_whole = values.byte_offset() < text.len();
    (is_whole && (value.is_number() || value.is_string())).then_some(value)
}

/// Returns the id of a message that has it behind its result.
fn id_at_the_end(tail: &[u8]) -> Option<Value> {
    const NAME: &[u8] = b"\"id\"";
    let at = tail.windows(NAME.len()).rposition(|window| window == NAME)?;
    let rest = tail[at + NAME.len()..].trim_ascii_start().strip_prefix(b":")?;
    let id = first_value(rest)?;
    // What follows ends the message, so that the id is the message's own.
    let whole = [b"{", &tail[at..]].concat();
    serde_json::from_slice::<Value>(&whole).ok().map(|_| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn passed_on(text: &str, max: usize) -> String {
        let mut passed = String::new();
        BoundedLines::new(text.as_bytes(), max).read_to_string(&mut passed).await.unwrap();
        passed
    }

    fn answered(passed: &str) -> Vec<Value> {
        let messages = passed.lines().filter_map(|line| serde_json::from_str(line).ok());
        messages.collect()
    }

    #[tokio::test]
    async fn lines_that_fit_are_passed_on_as_they_are() {
        let text = "{\"id\":1,\"result\":{}}\r\n{\"id\":2,\"result\":{}}\n";
        assert_eq!(passed_on(text, 64).await, text);
    }

    // X15: whoever waits for an answer that is too large is told, wherever the id stands.
    #[tokio::test]
    async fn an_answer_that_is_too_large_becomes_an_error_of_its_request() {
        let filler = "x".repeat(200_000);
        for large in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"id":8,"text":"{filler}"}}}}"#),
            format!(r#"{{"result":{{"text":"{filler}","id":8}},"jsonrpc":"2.0","id":7}}"#),
        ] {
            let next = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
            let messages = answered(&passed_on(&format!("{large}\n{next}\n"), 1000).await);
            assert_eq!(messages.len(), 2, "{messages:?}");
            assert_eq!(
                (&messages[0]["id"], &messages[0]["error"]["code"]),
                (&json!(7), &json!(TOO_LARGE))
            );
            assert_eq!(messages[1]["id"], 9);
        }
    }

    #[tokio::test]
    async fn a_request_that_is_too_large_is_no_answer() {
        let filler = "x".repeat(5000);
        let large = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ask","params":"{filler}"}}"#);
        let next = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
        let messages = answered(&passed_on(&format!("{large}\n{next}\n"), 1000).await);
        assert_eq!(messages, [serde_json::from_str::<Value>(next).unwrap()]);
    }

    #[tokio::test]
    async fn an_answer_to_nobody_ends_the_connection() {
        let filler = "x".repeat(5000);
        let text = format!("{{\"result\":\"{filler}\"}}\n{{\"id\":1,\"result\":{{}}}}\n");
        assert!(answered(&passed_on(&text, 1000).await).is_empty());
    }
}
