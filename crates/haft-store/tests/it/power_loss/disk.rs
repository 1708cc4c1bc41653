//! A disk that may forget: what was synced is there, of the rest anything may be.

use std::collections::BTreeMap;
use std::path::Path;

use super::trace::Happening;

/// The smallest piece that a disk writes whole.
const SECTOR: usize = 512;

/// A directory as it is, and as it may be after the power was lost.
#[derive(Debug, Default)]
pub(super) struct Disk {
    inodes: Vec<Inode>,
    /// The names as every process sees them.
    names: BTreeMap<String, usize>,
    /// The names as they were when the directory was last synced.
    durable_names: BTreeMap<String, usize>,
    /// What was done to the names since.
    pending_names: Vec<NameOp>,
}

#[derive(Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<DataOp>,
}

#[derive(Debug, Clone)]
enum DataOp {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

#[derive(Debug)]
enum NameOp {
    Create(String, usize),
    Unlink(String),
}

/// How much of what was not synced is there after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Survives {
    Nothing,
    All,
    /// Whatever was written up to some point, which may be in the middle of a write.
    Prefix,
    /// Any of the writes, and any of the sectors of each.
    Some,
}

impl Survives {
    pub(super) const EVERY: [Self; 4] = [Self::Nothing, Self::All, Self::Prefix, Self::Some];
}

/// A small generator: what is random here must be repeatable.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }
}

impl Disk {
    pub(super) fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Opened { file } => {
                if !self.names.contains_key(file) {
                    self.names.insert(file.clone(), self.inodes.len());
                    self.pending_names.push(NameOp::Create(file.clone(), self.inodes.len()));
                    self.inodes.push(Inode::default());
                }
            }
            Happening::Written { file, offset, bytes } => {
                let (offset, bytes) = (*offset, bytes.clone());
                self.inode(file).pending.push(DataOp::Write { offset, bytes });
            }
            Happening::Cut { file, len } => {
                self.inode(file).pending.push(DataOp::Cut { len: *len });
            }
            Happening::Synced { file } => {
                let inode = self.inode(file);
                for op in std::mem::take(&mut inode.pending) {
                    op.apply(&mut inode.durable);
                }
            }
            Happening::Unlinked { file } => {
                self.names.remove(file);
                self.pending_names.push(NameOp::Unlink(file.clone()));
            }
            Happening::DirectorySynced => {
                let pending = std::mem::take(&mut self.pending_names);
                pending.into_iter().for_each(|op| op.apply(&mut self.durable_names));
            }
            Happening::Told(_) => {}
        }
    }

    fn inode(&mut self, file: &str) -> &mut Inode {
        &mut self.inodes[self.names[file]]
    }

    /// Writes what a machine may find after the power was lost at this moment.
    pub(super) fn lose_power(&self, survives: Survives, dice: &mut Dice, into: &Path) {
        let n_names = match survives {
            Survives::Nothing => 0,
            Survives::All => self.pending_names.len(),
            // A file system may lose what was done to names, and keeps the order of what is left.
            Survives::Prefix | Survives::Some => dice.below(self.pending_names.len() + 1),
        };
        let mut names = self.durable_names.clone();
        self.pending_names[..n_names].iter().for_each(|op| op.apply(&mut names));
        for (name, inode) in names {
            let bytes = self.inodes[inode].after_loss(survives, dice);
            std::fs::write(into.join(name), bytes).unwrap();
        }
    }
}

impl Inode {
    fn after_loss(&self, survives: Survives, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match survives {
            Survives::Nothing => {}
            Survives::All => self.pending.iter().for_each(|op| op.apply(&mut bytes)),
            Survives::Prefix => {
                let n_whole = dice.below(self.pending.len() + 1);
                let (whole, rest) = self.pending.split_at(n_whole);
                whole.iter().for_each(|op| op.apply(&mut bytes));
                if let Some(DataOp::Write { offset, bytes: written }) = rest.first() {
                    let n_sectors = dice.below(written.len() / SECTOR + 1);
                    let torn = written[..n_sectors * SECTOR].to_vec();
                    DataOp::Write { offset: *offset, bytes: torn }.apply(&mut bytes);
                }
            }
            Survives::Some => {
                for op in &self.pending {
                    op.clone().survive(&mut bytes, dice);
                }
            }
        }
        bytes
    }
}

impl DataOp {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { bytes, .. } if bytes.is_empty() => {}
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset..end].copy_from_slice(bytes);
            }
            Self::Cut { len } => file.resize(*len, 0),
        }
    }

    /// Each sector by itself is there or not.
    fn survive(self, file: &mut Vec<u8>, dice: &mut Dice) {
        match self {
            Self::Write { offset, bytes } => {
                for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                    if dice.below(2) == 0 {
                        let offset = offset + n * SECTOR;
                        Self::Write { offset, bytes: sector.to_vec() }.apply(file);
                    }
                }
            }
            Self::Cut { .. } if dice.below(2) == 0 => self.apply(file),
            Self::Cut { .. } => {}
        }
    }
}

impl NameOp {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create(name, inode) => drop(names.insert(name.clone(), *inode)),
            Self::Unlink(name) => drop(names.remove(name)),
        }
    }
}
