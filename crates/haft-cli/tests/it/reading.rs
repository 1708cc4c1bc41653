//! Event streams of a running server, read as the standard says.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;

use crate::serving::Serving;

impl Serving {
    /// Opens a stream of events, after one that was read before.
    pub(crate) fn stream(&self, path: &str, after: Option<&str>) -> Events {
        let after = after.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let headers = format!("x-api-key: {}\r\n{after}", self.key);
        let mut lines = BufReader::new(self.connect("GET", path, &headers, ""));
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 200 OK\r\n", "{path}");
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        Events { chunks: lines, unread: String::new() }
    }

    /// Reads a number from the metrics page.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut page = String::new();
        self.connect("GET", "/metrics", "", "").read_to_string(&mut page).unwrap();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
    }
}

/// A stream that is being read.
pub(crate) struct Events {
    chunks: BufReader<TcpStream>,
    unread: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Events {
    /// Reads the next event; nothing at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let (event, rest) = (parsed(event), rest.to_owned());
                self.unread = rest;
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let mut len = String::new();
            self.chunks.read_line(&mut len).unwrap();
            let len = usize::from_str_radix(len.trim(), 16).unwrap();
            let mut chunk = vec![0; len + 2];
            self.chunks.read_exact(&mut chunk).unwrap();
            if len == 0 {
                return None;
            }
            self.unread.push_str(std::str::from_utf8(&chunk[..len]).unwrap());
        }
    }

    pub(crate) fn until(&mut self, kind: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().unwrap_or_else(|| panic!("no {kind} in {events:?}"));
            events.push(event.clone());
            if event.kind == kind {
                return events;
            }
        }
    }
}

/// Reads an event as the standard says: data of several lines are one text.
fn parsed(text: &str) -> Option<Event> {
    let (mut kind, mut id, mut data) = (String::new(), None, Vec::new());
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("event", value)) => kind = value.to_owned(),
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("data", value)) => data.push(value),
            _ => {}
        }
    }
    (!data.is_empty()).then(|| Event { kind, id, data: data.join("\n") })
}
