//! What others do to a log's files: cut them short, overwrite their tails, bring in those of
//! another database or of another time. All that a recovery has shown, and all of a log that ended
//! in good order, is known to be durable: then that is noticed, or changes nothing.

use crate::node;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::{DatabaseId, LogOptions};
use std::path::{Path, PathBuf};

const SECTOR: u64 = 4_096;

/// What was done, in words, and whether anything was there to do it to.
pub(crate) fn shorten(
    copy: &SimulatedDisk,
    random: &mut SimulatedRandom,
    log: &LogOptions,
    partitions: u32,
) -> Option<String> {
    let segments = segments(copy);
    let index = random.below(segments.len().max(1) as u64) as usize;
    // The last one that was written to, mostly: those before it are held by what comes after.
    let last = segments.iter().rposition(|path| used(copy, path) > 0)?;
    let index = if random.percent(70) { last } else { index.min(last) };
    let path = &segments[index];
    let bytes = copy.bytes_of(path).unwrap_or_default();
    // Where there is something, mostly; at the edge of a block, half of the time.
    let range = if random.percent(80) { used(copy, path) } else { bytes.len() as u64 };
    let mut from = random.below(range + 1);
    if random.percent(50) {
        from -= from % SECTOR;
    }
    let behind = &segments[index + 1..];
    match random.below(4) {
        0 => {
            copy.put_file(path, &bytes[..from as usize]);
            let all = random.percent(50);
            behind.iter().filter(|_| all).for_each(|path| copy.put_file(path, &[]));
            Some(format!("{} cut to {from} bytes, later ones too: {all}", path.display()))
        }
        1 | 2 => {
            zero(copy, path, from as usize);
            let all = random.percent(50);
            behind.iter().filter(|_| all).for_each(|path| zero(copy, path, 0));
            Some(format!("{} zeros from byte {from} on, later ones too: {all}", path.display()))
        }
        _ => {
            let other = another(random, log, partitions);
            let mut brought = Vec::new();
            for path in &segments {
                if let Some(bytes) = other.bytes_of(path) {
                    copy.put_file(path, &bytes);
                    brought.push(path.display().to_string());
                }
            }
            Some(format!("of another database: {}", brought.join(", ")))
        }
    }
}

/// The log's segments, in their order.
pub(crate) fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let own = |path: &PathBuf| {
        path.parent() == Some(Path::new(node::DIRECTORY)) && path.extension().is_some_and(|end| end == "log")
    };
    disk.files().into_iter().filter(own).collect()
}

/// Bytes of a file up to its last that is not zero.
fn used(disk: &SimulatedDisk, path: &Path) -> u64 {
    let bytes = disk.bytes_of(path).unwrap_or_default();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

fn zero(disk: &SimulatedDisk, path: &Path, from: usize) {
    let mut bytes = disk.bytes_of(path).unwrap_or_default();
    bytes[from..].fill(0);
    disk.put_file(path, &bytes);
}

/// The disk of a database that has nothing but its first schema.
fn another(random: &mut SimulatedRandom, log: &LogOptions, partitions: u32) -> SimulatedDisk {
    let clock = SimulatedClock::default();
    let disk = SimulatedDisk::new(random.number(), clock.clone());
    let log = LogOptions { database: Some(DatabaseId::random(random)), ..log.clone() };
    let made = node::recover(&disk, &clock, &mut random.fork(), &log, partitions, &crate::schema::first());
    made.expect("a healthy disk takes a new database").log.close().expect("a healthy log closes");
    disk
}
