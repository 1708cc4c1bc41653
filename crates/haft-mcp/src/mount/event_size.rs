//! How large the events of a stream may grow before the server is hung up on.

use std::io;

/// Counts the bytes of the event that is being read. Comments do not count: they keep a connection
/// open, and nobody keeps them.
#[derive(Debug)]
pub(super) struct EventSize {
    max: usize,
    /// Of the event's lines before this one.
    before: usize,
    /// Of this line so far.
    line: usize,
    is_comment: bool,
    ends_in_cr: bool,
}

impl EventSize {
    pub(super) const fn new(max: usize) -> Self {
        Self { max, before: 0, line: 0, is_comment: false, ends_in_cr: false }
    }

    /// Counts what was read.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            let is_second_half = *byte == b'\n' && self.ends_in_cr;
            self.ends_in_cr = *byte == b'\r';
            match byte {
                b'\n' if is_second_half => {}
                b'\n' | b'\r' => self.end_line(),
                first if self.line == 0 => {
                    self.is_comment = *first == b':';
                    self.line = 1;
                }
                _ => self.line += 1,
            }
            let before = if self.is_comment { 0 } else { self.before };
            if before + self.line > self.max {
                let max = self.max;
                return Err(io::Error::other(format!("an event has more than {max} bytes")));
            }
        }
        Ok(())
    }

    const fn end_line(&mut self) {
        match (self.line, self.is_comment) {
            (0, _) => self.before = 0,
            (_, true) => {}
            (length, false) => self.before += length + 1,
        }
        self.line = 0;
        self.is_comment = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line_however_it_is_cut() {
        let text = b"data: 1234\r\n: a comment\n\r\ndata: 5678\r\rdata: 9\n\n";
        for cut in 0..text.len() {
            let mut size = EventSize::new(12);
            size.add(&text[..cut]).unwrap();
            size.add(&text[cut..]).unwrap();
        }
    }

    #[test]
    fn what_grows_too_large_is_refused() {
        for (text, fits) in [
            ("data: 123456", true),
            ("data: 1234567", false),
            ("data: 1\ndata", true),
            ("data: 1\ndata:", false),
            (": ping\n: ping\n: ping\n", true),
        ] {
            assert_eq!(EventSize::new(12).add(text.as_bytes()).is_ok(), fits, "{text:?}");
        }
    }
}
