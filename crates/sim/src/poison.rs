//! Files that somebody has changed: opening them ends in an error, or in a beginning of what was
//! written, and in nothing else.

use crate::history::History;
use crate::invariants::{self, Violation};
use crate::node;
use crate::plan::Plan;
use crate::run::World;
use crate::state::State;
use crate::trace::Trace;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

const SECTOR: usize = 4_096;

/// One change, as numbers that any source can make up. What they mean depends on what there is.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub kind: u8,
    pub file: u8,
    pub other: u8,
    pub at: u32,
    pub from: u32,
}

impl Change {
    pub fn random(random: &mut SimulatedRandom) -> Change {
        let mut number = || random.number();
        Change {
            kind: number() as u8,
            file: number() as u8,
            other: number() as u8,
            at: number() as u32,
            from: number() as u32,
        }
    }
}

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A database on disk, and what it holds.
pub struct Sample {
    plan: Plan,
    files: Files,
    history: History,
    state: State,
}

/// How the opening of changed files ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    Refused,
    /// All of it is there, or a beginning.
    Whole,
    Beginning,
}

impl Sample {
    /// A database that has lived for a while and was closed, or killed.
    pub fn make(seed: u64, closed: bool) -> Sample {
        let mut world = World::new(seed, Trace::new(false));
        let (files, history) = world.live_once(closed);
        let plan = world.plan().clone();
        let mut sample = Sample { plan, files, history, state: State::default() };
        let state = sample.open(&sample.files).unwrap_or_else(|error| panic!("files that nobody changed: {error}"));
        sample.state = state;
        sample
    }

    fn open(&self, files: &Files) -> Result<State, String> {
        let clock = SimulatedClock::default();
        let disk = SimulatedDisk::new(1, clock.clone());
        for (path, bytes) in files {
            disk.put_file(path, bytes);
        }
        let mut random = SimulatedRandom::new(1);
        let recovered =
            node::recover(&disk, &clock, &mut random, &self.plan.log, self.plan.partitions, &crate::schema::first());
        let recovered = recovered.map_err(|error| error.to_string())?;
        Ok(State::read(&recovered.stores.iter().collect::<Vec<_>>()))
    }

    /// Changes the files and opens them.
    pub fn check(&self, changes: &[Change]) -> Result<Opened, Violation> {
        let mut files = self.files.clone();
        changes.iter().for_each(|change| apply(*change, &mut files));
        let opened = catch_unwind(AssertUnwindSafe(|| self.open(&files))).map_err(|panic| {
            let detail = format!("{} after {changes:?}", crate::run::text_of(&*panic));
            Violation { invariant: "nothing panics", detail }
        })?;
        let Ok(state) = opened else { return Ok(Opened::Refused) };
        // Without any file it is a new database.
        if state.version <= 1 && state.marks.is_empty() {
            return Ok(Opened::Beginning);
        }
        let violated = |detail: String| Violation {
            invariant: "what is opened is a beginning of what was written",
            detail: format!("{detail} after {changes:?}"),
        };
        for (home, marks) in &state.marks {
            let before = self.state.marks.get(home);
            if let Some((step, number)) =
                marks.iter().find(|(step, number)| before.and_then(|marks| marks.get(step)) != Some(number))
            {
                return Err(violated(format!("step {step} of home {home} is of operation {number}")));
            }
        }
        if state.version > self.state.version {
            return Err(violated(format!("version {}", state.version)));
        }
        invariants::check_whole(&self.history, &state).map_err(|violation| violated(violation.to_string()))?;
        Ok(if state == self.state { Opened::Whole } else { Opened::Beginning })
    }
}

fn apply(change: Change, files: &mut Files) {
    if files.is_empty() {
        return;
    }
    let Change { kind, file, other, at, from } = change;
    let file = usize::from(file) % files.len();
    let other = usize::from(other) % files.len();
    let length = files[file].1.len();
    // Most of a segment may be empty: half of the changes go to where something is.
    let used = files[file].1.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let range = if kind & 1 == 0 && used > 0 { used } else { length };
    if range == 0 {
        return;
    }
    let position = at as usize % range;
    let sector = |bytes: &[u8], number: u32| {
        let sectors = bytes.len() / SECTOR;
        (sectors > 0).then(|| number as usize % sectors * SECTOR).map(|start| start..start + SECTOR)
    };
    match kind >> 1 & 15 {
        0..5 => files[file].1[position] ^= 1 << (from % 8),
        // In the first bytes of a sector, where headers are.
        5..8 => {
            let start = position / SECTOR * SECTOR + from as usize % 80;
            if let Some(byte) = files[file].1.get_mut(start) {
                *byte ^= 1 << (from / 128 % 8);
            }
        }
        8 => files[file].1[position] = from as u8,
        9 => {
            if let Some(range) = sector(&files[file].1, at) {
                files[file].1[range].fill(0);
            }
        }
        10 | 11 => {
            let Some(bytes) = sector(&files[other].1, from).map(|range| files[other].1[range].to_vec()) else { return };
            if let Some(range) = sector(&files[file].1, at) {
                files[file].1[range].copy_from_slice(&bytes);
            }
        }
        12 => files[file].1.truncate(position),
        13 => files[file].1[position..].fill(0),
        14 => drop(files.remove(file)),
        _ => {
            let bytes = files[other].1.clone();
            files[file].1 = bytes;
        }
    }
}
