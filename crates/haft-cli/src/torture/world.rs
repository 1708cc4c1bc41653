//! The world outside: what tools did, and what people were told, each on a line of its own that
//! is on disk before anything goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use haft_core::CallId;

const EFFECTS: &str = "effects.log";
const ACKS: &str = "acknowledged.log";

/// What happened outside the store.
#[derive(Debug, Default)]
pub(super) struct World {
    /// How often each call took effect.
    pub(super) effects: BTreeMap<CallId, u32>,
    /// How often each call's approval was acknowledged.
    pub(super) acknowledged: BTreeMap<CallId, u32>,
}

impl World {
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            effects: count(&directory.join(EFFECTS))?,
            acknowledged: count(&directory.join(ACKS))?,
        })
    }
}

fn count(path: &Path) -> anyhow::Result<BTreeMap<CallId, u32>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("reading `{}`", path.display())),
    };
    let mut counts = BTreeMap::new();
    // A line without its end was being written when the process died: it did not happen.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        *counts.entry(line.parse()?).or_default() += 1;
    }
    Ok(counts)
}

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
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.map(Mutex::new).with_context(|| format!("opening `{}`", path.display()))
        };
        Ok(Self { effects: open(EFFECTS)?, acks: open(ACKS)? })
    }

    pub(super) fn effect(&self, call: CallId) -> std::io::Result<()> {
        write(&self.effects, call)
    }

    pub(super) fn acknowledged(&self, call: CallId) -> std::io::Result<()> {
        write(&self.acks, call)
    }
}

fn write(file: &Mutex<File>, call: CallId) -> std::io::Result<()> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.write_all(format!("{call}\n").as_bytes())?;
    file.sync_data()
}
