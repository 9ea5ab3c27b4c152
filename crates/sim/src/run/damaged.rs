//! Damage to the files that a life has left, on a copy of the disk: it is noticed and named, or
//! changes nothing. Never leads back to an older state without a word.

use super::World;
use crate::invariants::Violation;
use crate::node;
use crate::schema;
use crate::shortened;
use crate::state::State;
use ferrite_io::Disk;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk};
use ferrite_partition::recovery::StartError;
use std::path::{Path, PathBuf};

impl World {
    /// All that was recovered is proven to be durable. A bit of it that changes is noticed, or
    /// changes nothing.
    pub(super) fn check_rot(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let own = |path: &PathBuf| {
            path.starts_with(node::DIRECTORY) && (path.extension().is_some() || path.ends_with("redo-begun"))
        };
        let files: Vec<_> = copy.files().into_iter().filter(own).collect();
        if files.is_empty() {
            return Ok(());
        }
        let path = self.random.pick(&files).clone();
        let bytes = copy.bytes_of(&path).unwrap_or_default();
        // Where there is something, mostly.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).max(1) as u64;
        let position = self.random.below(used);
        let bit = self.random.below(8) as u8;
        copy.rot(&path, position, bit);
        self.counts.rot += 1;
        self.trace.line(&format!("rot {} byte {position} bit {bit}", path.display()));
        match self.open_other(&copy) {
            Err(error) => {
                self.counts.rot_refused += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if !named.contains("redo-") && !named.contains("snapshot") {
                    let detail = format!("{named:?} does not name the file");
                    return Err(Violation { invariant: "rot is an error with a name", detail });
                }
                Ok(())
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let what = difference(&found, state);
                let detail = format!("bit {bit} of byte {position} of {} changed: {what}", path.display());
                Err(Violation { invariant: "rot is never passed over in silence", detail })
            }
        }
    }

    /// All that was recovered is known to be there. The log's last segment goes, or all of them:
    /// that is noticed, or changes nothing.
    pub(super) fn check_missing(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let own =
            |path: &PathBuf| path.starts_with(node::DIRECTORY) && path.extension().is_some_and(|end| end == "log");
        let mut gone: Vec<_> = copy.files().into_iter().filter(own).collect();
        if !self.random.percent(25) {
            // Behind the last one that was written to there may be one that was prepared.
            let used = |path: &&PathBuf| copy.bytes_of(path).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
            let from = gone.iter().rposition(|path| used(&path)).unwrap_or_default();
            gone = gone.split_off(from);
        }
        for path in &gone {
            self.trace.line(&format!("remove {}", path.display()));
            copy.remove(path).expect("the copy is a healthy disk");
        }
        self.counts.removed += 1;
        match self.open_other(&copy) {
            Err(error) => {
                self.counts.missed += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if gone.iter().any(|path| named.contains(&path.display().to_string())) {
                    return Ok(());
                }
                let detail = format!("{named:?} does not name the segment");
                Err(Violation { invariant: "a missing segment is named", detail })
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let what = difference(&found, state);
                let detail = format!("without {}: {what}", gone[0].display());
                Err(Violation { invariant: "a missing segment is never passed over in silence", detail })
            }
        }
    }

    /// All that is there is known to be. The log becomes shorter, or another one: that is noticed,
    /// or changes nothing.
    pub(super) fn check_shortened(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let mut random = self.random.fork();
        // Whoever does not say which database it is takes the one that is there.
        let log = ferrite_log::LogOptions { database: None, ..self.plan.log.clone() };
        let Some(what) = shortened::shorten(&copy, &mut random, &log, self.plan.partitions) else { return Ok(()) };
        self.counts.shortened += 1;
        self.trace.line(&what);
        let clock = SimulatedClock::default();
        let opened = node::recover(&copy, &clock, &mut random, &log, self.plan.partitions, &schema::first());
        match opened.map(|recovered| State::read(&recovered.stores.iter().collect::<Vec<_>>())) {
            Err(error) => {
                self.counts.shortened_refused += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if named.contains("redo-") {
                    return Ok(());
                }
                let detail = format!("{named:?} does not name the file: {what}");
                Err(Violation { invariant: "a shortened log is named", detail })
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let detail = format!("{what}: {}", difference(&found, state));
                Err(Violation { invariant: "a shortened log is never passed over in silence", detail })
            }
        }
    }

    /// The newest snapshot has lost its manifest, so it looks like one that was never complete.
    /// With durability memory no log leads to what it shows.
    pub(super) fn check_without_newest(&mut self, state: &State) -> Result<(), Violation> {
        let copy = self.disk.copy(self.random.number());
        let snapshots = Path::new(node::DIRECTORY).join(ferrite_partition::snapshots::DIRECTORY);
        let own =
            |path: &PathBuf| path.starts_with(&snapshots) && path.extension().is_some_and(|end| end == "manifest");
        let Some(newest) = copy.files().into_iter().filter(own).max() else { return Ok(()) };
        self.trace.line(&format!("remove {}", newest.display()));
        copy.remove(&newest).expect("the copy is a healthy disk");
        self.counts.manifests_removed += 1;
        match self.open_other(&copy) {
            Err(error) => {
                self.counts.manifests_missed += 1;
                let named = error.to_string();
                self.trace.line(&format!("refused {named}"));
                if named.contains("snapshot") || named.contains("redo-") {
                    return Ok(());
                }
                let detail = format!("{named:?} does not name what is missing");
                Err(Violation { invariant: "a missing snapshot is named", detail })
            }
            Ok(found) if found == *state => Ok(()),
            Ok(found) => {
                let detail = format!("without {}: {}", newest.display(), difference(&found, state));
                Err(Violation { invariant: "a missing snapshot is never passed over in silence", detail })
            }
        }
    }

    pub(super) fn open_copy(&mut self, copy: &SimulatedDisk) -> Result<State, Violation> {
        self.open_other(copy).map_err(|error| {
            let detail = error.to_string();
            Violation { invariant: "a healthy disk can be opened", detail }
        })
    }

    fn open_other(&mut self, disk: &SimulatedDisk) -> Result<State, StartError> {
        let clock = SimulatedClock::default();
        let mut random = self.random.fork();
        let recovered =
            node::recover(disk, &clock, &mut random, &self.plan.log, self.plan.partitions, &schema::first())?;
        Ok(State::read(&recovered.stores.iter().collect::<Vec<_>>()))
    }
}

pub(super) fn difference(is: &State, should: &State) -> String {
    let is = format!("{is:#?}");
    let should = format!("{should:#?}");
    let line = is.lines().zip(should.lines()).position(|(is, should)| is != should).unwrap_or_default();
    let part = |text: &str| {
        text.lines()
            .skip(line.saturating_sub(2))
            .take(5)
            .map(|line| line.chars().take(150).collect::<String>())
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!("{} instead of {}", part(&is), part(&should))
}
