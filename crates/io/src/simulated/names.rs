//! The names of files: as programs see them, and as a loss of power leaves them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::simulated::SimulatedRandom;

enum Change {
    Put(PathBuf, u64),
    Remove(PathBuf),
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        let (Change::Put(path, _) | Change::Remove(path) | Change::Rename { to: path, .. }) = self;
        path.parent() == Some(dir)
    }
}

#[derive(Default)]
pub(super) struct Names {
    seen: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    /// In the order in which they were made.
    pending: Vec<Change>,
}

impl Names {
    pub(super) fn find(&self, path: &Path) -> Option<u64> {
        self.seen.get(path).copied()
    }

    pub(super) fn put(&mut self, path: &Path, inode: u64) {
        self.change(Change::Put(path.to_path_buf(), inode));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(Change::Remove(path.to_path_buf()));
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(inode) = self.find(from) {
            self.change(Change::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode });
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.pending.push(change);
    }

    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        let names = self.seen.keys().filter(|path| path.parent() == Some(dir));
        names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }

    pub(super) fn sync(&mut self, dir: &Path) {
        let pending = std::mem::take(&mut self.pending);
        let (done, rest): (Vec<Change>, Vec<Change>) = pending.into_iter().partition(|change| change.is_in(dir));
        self.pending = rest;
        done.iter().for_each(|change| apply(&mut self.durable, change));
    }

    /// Keeps a beginning of what was not made durable, or any part of it: file systems promise
    /// neither.
    pub(super) fn lose_power(&mut self, random: &mut SimulatedRandom) {
        self.durable = self.survivors(random);
        self.pending.clear();
        self.seen = self.durable.clone();
    }

    /// What a loss of power would leave, at this moment.
    pub(super) fn survivors(&self, random: &mut SimulatedRandom) -> BTreeMap<PathBuf, u64> {
        let mut survivors = self.durable.clone();
        let any = random.percent(50);
        let prefix = random.below(self.pending.len() as u64 + 1) as usize;
        for (number, change) in self.pending.iter().enumerate() {
            if if any { random.percent(50) } else { number < prefix } {
                apply(&mut survivors, change);
            }
        }
        survivors
    }

    pub(super) fn inodes(&self) -> impl Iterator<Item = u64> + '_ {
        self.seen.values().copied()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.seen.keys()
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &Change) {
    match change {
        Change::Put(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Change::Remove(path) => {
            names.remove(path);
        }
        Change::Rename { from, to, inode } => {
            if names.get(from) == Some(inode) {
                names.remove(from);
            }
            names.insert(to.clone(), *inode);
        }
    }
}
