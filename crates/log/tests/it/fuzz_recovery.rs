//! Fuzz target: however the files of a log are changed, opening it neither panics nor yields
//! anything but a beginning of what was written.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use bolero::TypeGenerator;
use ferrite_io::RealDisk;

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Change {
    FlipBit {
        segment: u8,
        position: u32,
        bit: u8,
    },
    /// In the first bytes of a sector, where the headers are.
    FlipHeaderBit {
        segment: u8,
        sector: u8,
        position: u8,
        bit: u8,
    },
    ZeroSector {
        segment: u8,
        sector: u8,
    },
    CopySector {
        from_segment: u8,
        from: u8,
        to_segment: u8,
        to: u8,
    },
    SwapSectors {
        segment: u8,
        one: u8,
        other: u8,
    },
    Truncate {
        segment: u8,
        position: u32,
    },
    ZeroFrom {
        segment: u8,
        position: u32,
    },
    Remove {
        segment: u8,
    },
    Rename {
        segment: u8,
        to: u8,
    },
}

fn apply(change: Change, files: &mut Vec<(u64, Vec<u8>)>) {
    let count = files.len();
    let pick = |segment: u8| usize::from(segment) % count.max(1);
    let sector_range = |file: &[u8], sector: u8| {
        let sectors = file.len() / SECTOR;
        (sectors > 0).then(|| usize::from(sector) % sectors * SECTOR).map(|at| at..at + SECTOR)
    };
    if count == 0 {
        return;
    }
    match change {
        Change::FlipBit { segment, position, bit } => {
            let file = &mut files[pick(segment)].1;
            if !file.is_empty() {
                let at = position as usize % file.len();
                file[at] ^= 1 << (bit % 8);
            }
        }
        Change::FlipHeaderBit { segment, sector, position, bit } => {
            let file = &mut files[pick(segment)].1;
            if let Some(range) = sector_range(file, sector) {
                file[range.start + usize::from(position) % 80] ^= 1 << (bit % 8);
            }
        }
        Change::ZeroSector { segment, sector } => {
            let file = &mut files[pick(segment)].1;
            if let Some(range) = sector_range(file, sector) {
                file[range].fill(0);
            }
        }
        Change::CopySector { from_segment, from, to_segment, to } => {
            let source = &files[pick(from_segment)].1;
            let Some(bytes) = sector_range(source, from).map(|range| source[range].to_vec()) else { return };
            let target = &mut files[pick(to_segment)].1;
            if let Some(range) = sector_range(target, to) {
                target[range].copy_from_slice(&bytes);
            }
        }
        Change::SwapSectors { segment, one, other } => {
            let file = &mut files[pick(segment)].1;
            if let (Some(one), Some(other)) = (sector_range(file, one), sector_range(file, other)) {
                let kept = file[one.clone()].to_vec();
                file.copy_within(other.clone(), one.start);
                file[other].copy_from_slice(&kept);
            }
        }
        Change::Truncate { segment, position } => {
            let file = &mut files[pick(segment)].1;
            let length = position as usize % (file.len() + 1);
            file.truncate(length);
        }
        Change::ZeroFrom { segment, position } => {
            let file = &mut files[pick(segment)].1;
            let from = position as usize % (file.len() + 1);
            file[from..].fill(0);
        }
        Change::Remove { segment } => {
            files.remove(pick(segment));
        }
        Change::Rename { segment, to } => {
            let number = u64::from(to % 6) + 1;
            if files.iter().all(|(other, _)| *other != number) {
                files[pick(segment)].0 = number;
            }
        }
    }
}

fn files_of(dir: &Path) -> Vec<(u64, Vec<u8>)> {
    (1..).map_while(|number| std::fs::read(segment(dir, number)).ok().map(|bytes| (number, bytes))).collect()
}

#[test]
fn changed_files_never_yield_what_was_not_written() {
    let written: Vec<Vec<u8>> =
        (0..14).map(|seed| payload(seed, if seed == 6 { 30_000 } else { 1_500 + seed as usize * 400 })).collect();
    let source = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(source.path());
    for payload in &written {
        log.append(payload).unwrap();
    }
    let begun = |dir: &Path| std::fs::read(dir.join("redo-begun")).unwrap();
    let killed = (files_of(copy_of(source.path()).path()), begun(source.path()));
    log.close().unwrap();
    let closed = (files_of(source.path()), begun(source.path()));
    assert!(closed.0.len() >= 2);
    // The same bytes again and again, in the same directory.
    let dir = tempfile::tempdir().unwrap();
    bolero::check!().with_iterations(600).with_type::<(bool, [Option<Change>; 4])>().for_each(|(clean, changes)| {
        let (mut files, begun) = if *clean { closed.clone() } else { killed.clone() };
        changes.iter().flatten().for_each(|change| apply(*change, &mut files));
        for number in 1..=8 {
            let _ = std::fs::remove_file(segment(dir.path(), number));
        }
        std::fs::write(dir.path().join("redo-begun"), begun).unwrap();
        for (number, bytes) in &files {
            std::fs::write(segment(dir.path(), *number), bytes).unwrap();
        }
        let Ok((mut log, _, found)) = open_on(Arc::new(RealDisk), dir.path(), options()) else { return };
        assert!(found.len() <= written.len() && found[..] == written[..found.len()], "{changes:?}");
        // How far a log reached that ended in good order is known.
        assert!(!clean || found.len() == written.len(), "{} left of {changes:?}", found.len());
        // What was accepted can be written on.
        log.append(b"on").unwrap();
        log.close().unwrap();
        let (_log, recovery, again) = open(dir.path());
        assert!(again.len() == found.len() + 1 && again[..found.len()] == found[..] && recovery.clean);
    });
}
