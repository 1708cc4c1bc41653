//! Server-sent events, from bytes that may be cut anywhere.

/// How large one event may grow.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One event of a stream, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The event's name, when it has one.
    pub event: Option<String>,
    /// The data; several lines are joined.
    pub data: String,
}

/// Why bytes are no stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event does not end.
    #[error("expected events of at most {FRAME_BYTES_MAX} bytes, found a larger one")]
    TooLarge,
    /// A line is not text.
    #[error("expected UTF-8, found other bytes")]
    NotText,
}

/// Takes bytes as they arrive and gives whole events. What has not ended when the stream does is
/// no event.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    /// A line ended in a carriage return; a line feed right after it belongs to the same end.
    after_return: bool,
    after_start: bool,
}

impl SseDecoder {
    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    ///
    /// When an event is too large or a line is not UTF-8.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, SseError> {
        let mut frames = Vec::new();
        for &byte in bytes {
            let is_second_half = std::mem::take(&mut self.after_return) && byte == b'\n';
            match byte {
                b'\n' if is_second_half => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    frames.extend(self.end_line()?);
                }
                _ => self.line.push(byte),
            }
            if self.line.len() > FRAME_BYTES_MAX {
                return Err(SseError::TooLarge);
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Result<Option<Frame>, SseError> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| SseError::NotText)?;
        let line = if self.after_start { line } else { line.trim_start_matches('\u{feff}') };
        self.after_start = true;
        if line.is_empty() {
            let event = self.event.take();
            return Ok(self.data.take().map(|data| Frame { event, data }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = Some(value.to_owned()),
            "data" => self.add_data(value)?,
            // A comment has no field name; the others are not for us.
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseError> {
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        let is_large = self.data.as_ref().is_some_and(|data| data.len() > FRAME_BYTES_MAX);
        if is_large { Err(SseError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_line_ends_and_many_data_lines_are_read_as_the_standard_says() {
        let text =
            "\u{feff}: keep-alive\r\nevent: a\rdata:1\rdata: 2\r\r\n\nid: 7\ndata\n\ndata: cut";
        let whole = SseDecoder::default().push(text.as_bytes()).unwrap();
        let expected = [
            Frame { event: Some("a".into()), data: "1\n2".into() },
            Frame { event: None, data: String::new() },
        ];
        assert_eq!(whole, expected);
        let mut decoder = SseDecoder::default();
        let bytes = text.as_bytes().iter();
        let one_by_one: Vec<_> = bytes.flat_map(|b| decoder.push(&[*b]).unwrap()).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn what_is_not_text_or_never_ends_is_refused() {
        assert_eq!(SseDecoder::default().push(b"data: \xff\n"), Err(SseError::NotText));
        let long = vec![b'a'; FRAME_BYTES_MAX + 1];
        assert_eq!(SseDecoder::default().push(&long), Err(SseError::TooLarge));
    }
}
