//! The world outside: what tools did, and what people were told, each on a line of its own that
//! is on disk before anything goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use haft_core::{CallId, SessionId};

const EFFECTS: &str = "effects.log";
const ACKS: &str = "acknowledged.log";

/// What happened outside the store.
#[derive(Debug, Default)]
pub(super) struct World {
    /// How often each call took effect.
    pub(super) effects: BTreeMap<CallId, u32>,
    /// How often each thing was acknowledged.
    pub(super) acknowledged: BTreeMap<Ack, u32>,
}

/// Something that was acknowledged, so that it must never be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ack {
    Opened(SessionId),
    Proposed(CallId),
    Approved(CallId),
    Settled(CallId),
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(session) => write!(f, "opened {session}"),
            Self::Proposed(call) => write!(f, "proposed {call}"),
            Self::Approved(call) => write!(f, "approved {call}"),
            Self::Settled(call) => write!(f, "settled {call}"),
        }
    }
}

impl FromStr for Ack {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (what, id) = line.split_once(' ').context("expected a word and an id")?;
        Ok(match what {
            "opened" => Self::Opened(id.parse()?),
            "proposed" => Self::Proposed(id.parse()?),
            "approved" => Self::Approved(id.parse()?),
            "settled" => Self::Settled(id.parse()?),
            other => anyhow::bail!("`{other}` is nothing that is acknowledged"),
        })
    }
}

impl World {
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            effects: count(&directory.join(EFFECTS))?,
            acknowledged: count(&directory.join(ACKS))?,
        })
    }
}

fn count<T: FromStr<Err: Into<anyhow::Error>> + Ord>(
    path: &Path,
) -> anyhow::Result<BTreeMap<T, u32>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("reading `{}`", path.display())),
    };
    let mut counts = BTreeMap::new();
    // A line without its end was being written when the process died: it did not happen.
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for line in whole.filter(|line| !line.ends_with(CUT_OFF)) {
        *counts.entry(line.parse().map_err(Into::into)?).or_default() += 1;
    }
    Ok(counts)
}

/// What ends a line that a killed process has begun.
const CUT_OFF: &str = " (cut off)";

/// Where one life writes what it does to the world.
#[derive(Debug)]
pub(super) struct Pen {
    effects: Mutex<File>,
    acks: Mutex<File>,
}

impl Pen {
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let open = |name: &str| {
            let path = directory.join(name);
            let file = OpenOptions::new().create(true).read(true).append(true).open(&path);
            let marked = file.and_then(|file| mark_cut_off(&file).map(|()| Mutex::new(file)));
            marked.with_context(|| format!("opening `{}`", path.display()))
        };
        Ok(Self { effects: open(EFFECTS)?, acks: open(ACKS)? })
    }

    pub(super) fn effect(&self, call: CallId) -> std::io::Result<()> {
        write(&self.effects, &format!("{call}\n"))
    }

    pub(super) fn acknowledged(&self, acks: impl IntoIterator<Item = Ack>) -> anyhow::Result<()> {
        let lines: String = acks.into_iter().map(|ack| format!("{ack}\n")).collect();
        write(&self.acks, &lines).context("writing down an acknowledgement")
    }
}

/// Ends the line that a killed process was writing, so that what comes next does not go on in it. A
/// process that still writes has ended its line a moment later.
fn mark_cut_off(file: &File) -> std::io::Result<()> {
    if ends_whole(file)? {
        return Ok(());
    }
    std::thread::sleep(Duration::from_millis(50));
    if ends_whole(file)? {
        return Ok(());
    }
    let mut file = file;
    file.write_all(format!("{CUT_OFF}\n").as_bytes())
}

fn ends_whole(file: &File) -> std::io::Result<bool> {
    let len = file.metadata()?.len();
    let mut last = [0];
    let at = match len.checked_sub(1) {
        Some(at) => at,
        None => return Ok(true),
    };
    file.read_exact_at(&mut last, at)?;
    Ok(last == *b"\n")
}

fn write(file: &Mutex<File>, lines: &str) -> std::io::Result<()> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.write_all(lines.as_bytes())?;
    file.sync_data()
}
