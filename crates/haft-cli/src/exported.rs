//! An exported session is checked without a store: its chain is in the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use haft_core::journal::{Entry, Head};
use haft_core::{Digest, SessionId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::trouble::{Code, Trouble};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
enum Line {
    Session { session: SessionId },
    Entry { session: SessionId },
    Artifact {},
    End { session: SessionId, entries: u64, head: Digest },
}

/// An entry with its event as it stands in the line: the hash is over these very bytes.
#[derive(Deserialize)]
struct ExportedEntry<'a> {
    session: SessionId,
    seq: u64,
    at: Timestamp,
    format: u32,
    hash: Digest,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// Verifies every chain in an export; returns what is shown of each session.
pub(crate) fn chains(path: &Path) -> anyhow::Result<Vec<(SessionId, Value)>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let mut heads: BTreeMap<SessionId, Result<Head, String>> = BTreeMap::new();
    let mut chains = Vec::new();
    for (n, line) in BufReader::new(file).lines().enumerate() {
        let line = line?;
        let bad = |error: serde_json::Error| unreadable(path, &format!("line {}: {error}", n + 1));
        match serde_json::from_str(&line).map_err(bad)? {
            Line::Session { session } => drop(heads.insert(session, Ok(Head::EMPTY))),
            Line::Entry { session } => {
                let entry: ExportedEntry<'_> = serde_json::from_str(&line).map_err(bad)?;
                let head = heads.entry(session).or_insert(Ok(Head::EMPTY));
                if let Ok(verified) = head
                    && let Err(error) = verified.verify(&entry.stored())
                {
                    *head = Err(error.to_string());
                }
            }
            Line::Artifact {} => {}
            Line::End { session, entries, head } => {
                let found = heads.remove(&session).unwrap_or(Ok(Head::EMPTY));
                chains.push((session, chain(found, Head { seq: entries, hash: head })));
            }
        }
    }
    let cut = heads.into_keys().map(|session| (session, broken("its end is missing")));
    chains.extend(cut);
    Ok(chains)
}

impl ExportedEntry<'_> {
    fn stored(&self) -> Entry {
        let Self { session, seq, at, format, hash, event } = self;
        let body = event.get().to_owned();
        Entry { format: *format, session: *session, seq: *seq, at: *at, hash: *hash, body }
    }
}

fn chain(found: Result<Head, String>, end: Head) -> Value {
    match found {
        Ok(head) if head == end => {
            json!({ "state": "whole", "entries": head.seq, "head": head.hash })
        }
        Ok(head) => broken(&format!("it ends with entry {}, not with {}", head.seq, end.seq)),
        Err(error) => broken(&error),
    }
}

fn broken(message: &str) -> Value {
    json!({ "state": "broken", "message": message })
}

fn unreadable(path: &Path, why: &str) -> Trouble {
    Trouble::new(Code::Unreadable, format!("`{}` is no exported session", path.display()))
        .why(why)
        .next("name a file that `haft sessions export` wrote")
}
