//! Cuts what was not durable when the writing process ended, once all has been read, and tells
//! where writing continues.

use super::{ReadPosition, Reader, Stop};
use crate::error::LogError;
use crate::first_segment::Segment;
use crate::format::CLEAN_END;
use crate::opened::{Recovery, Tail, TornTail, Unsealed};
use crate::options::LogOptions;
use crate::quarantine::Quarantine;
use crate::segment::{extent, segment_path};
use ferrite_io::{Disk, OpenMode, SECTOR_BYTES};
use std::path::{Path, PathBuf};

impl<V> Reader<'_, V> {
    /// Cuts what was not durable, if there is anything, and tells where to go on.
    pub(super) fn cut(mut self, stop: &Stop, dir: &Path, options: &LogOptions) -> Result<(Tail, Recovery), LogError> {
        let cut = self.cut_at(stop);
        let ends = self.measure(&cut, options)?;
        self.indexed.truncate(cut.index + 1);
        let quarantined = self.drop_what_follows(&cut, &ends, dir, options)?;
        let segment = &self.segments[cut.index];
        let header = segment.header.expect("only segments with a header are read");
        let file = self.disk.open(&segment.path, OpenMode::Write)?;
        // A file that lost its end: whole again before it is written on.
        if segment.bytes < header.bytes {
            file.preallocate(header.bytes)?;
        }
        if ends.torn_here > 0 {
            file.write_at(&vec![0; ends.torn_here.next_multiple_of(SECTOR_BYTES)], cut.position as u64)?;
        }
        file.sync_data()?;
        let torn = (ends.torn > 0).then(|| TornTail {
            path: segment.path.clone(),
            position: cut.position as u64,
            bytes: ends.torn as u64,
        });
        let segment_number = segment.number;
        let left = std::mem::take(&mut self.left);
        let before = left.into_iter().filter(|(left, _)| left.number < header.number);
        let unsealed = without_seals_beyond(self.disk, dir, before, cut.block)?;
        let tail = Tail {
            database: self.database,
            segment_number,
            segment_bytes: header.bytes,
            blocks_end: header.blocks_end(),
            position: cut.position as u64,
            next_block: cut.block,
            previous_checksum: cut.previous_checksum,
            last_flags: cut.flags_before,
            needs_opened: self.last_data_block > self.proven,
            spare: ends.spare,
            unsealed,
            begun: self.begun,
            indexed: self.indexed,
        };
        let recovery = Recovery {
            database: self.database,
            created: false,
            clean: torn.is_none() && cut.flags_before == CLEAN_END,
            segments: cut.index as u64 + 1,
            blocks: cut.block - 1,
            payload_bytes: self.payload_bytes,
            torn,
            quarantined,
        };
        Ok((tail, recovery))
    }

    /// What there is from the cut on.
    fn measure(&mut self, cut: &ReadPosition, options: &LogOptions) -> Result<Ends, LogError> {
        let mut ends = Ends::default();
        for index in cut.index..self.segments.len() {
            self.load(index)?;
            let count = extent(self.buffer.as_slice(), if index == cut.index { cut.position } else { 0 });
            ends.torn += count;
            if index == cut.index {
                ends.torn_here = count;
            } else if index == cut.index + 1 && ends.torn == 0 && self.segments[index].bytes == options.segment_bytes {
                ends.spare = Some(self.segments[index].number);
            } else if count == 0 {
                ends.blank.push(self.segments[index].number);
            }
        }
        Ok(ends)
    }

    /// Removes the segments behind the cut; where a loss is accepted, keeps what is in them.
    /// Returns the files that were kept.
    fn drop_what_follows(
        &mut self,
        cut: &ReadPosition,
        ends: &Ends,
        dir: &Path,
        options: &LogOptions,
    ) -> Result<Vec<PathBuf>, LogError> {
        let kept = cut.index + 1 + usize::from(ends.spare.is_some());
        let mut dropped: Vec<Segment> = self.segments.drain(kept.min(self.segments.len())..).collect();
        dropped.append(&mut self.stranded);
        let mut quarantine = None;
        if let Some(folder) = &options.accept_loss {
            let quarantine = quarantine.insert(Quarantine::new(self.disk, dir, folder));
            if ends.torn_here > 0 {
                self.load(cut.index)?;
                let bytes = &self.buffer.as_slice()[cut.position..cut.position + ends.torn_here];
                quarantine.keep_bytes(&self.segments[cut.index].path, cut.position as u64, bytes)?;
            }
        }
        for segment in dropped.into_iter().rev() {
            match &mut quarantine {
                Some(quarantine) => quarantine.drop_file(&segment.path, !ends.blank.contains(&segment.number))?,
                None => {
                    self.disk.remove(&segment.path)?;
                    // One after another, so that no interruption leaves a gap.
                    self.disk.sync_dir(dir)?;
                }
            }
        }
        self.disk.sync_dir(dir)?;
        Ok(quarantine.map_or(Vec::new(), |quarantine| quarantine.files))
    }
}

/// What lies behind the cut.
#[derive(Default)]
struct Ends {
    /// Bytes that are cut, in the segment of the cut and in all.
    torn_here: usize,
    torn: usize,
    /// The next segment, if nothing was written to it: it is used again.
    spare: Option<u64>,
    /// Others to which nothing was written.
    blank: Vec<u64>,
}

/// Of segments that were read to their end, those without a seal. A seal that speaks for blocks
/// from `cut` on, which were just cut, is removed: only accepted loss cuts such blocks, and the
/// seal must not speak for those that follow.
fn without_seals_beyond(
    disk: &dyn Disk,
    dir: &Path,
    left: impl Iterator<Item = (Unsealed, Option<u64>)>,
    cut: u64,
) -> Result<Vec<Unsealed>, LogError> {
    let mut unsealed = Vec::new();
    for (left, durable_through) in left {
        match durable_through {
            Some(through) if through < cut => {}
            Some(_) => {
                let file = disk.open(&segment_path(dir, left.number), OpenMode::Write)?;
                file.write_at(&[0; SECTOR_BYTES], left.seal_at)?;
                file.sync_data()?;
                unsealed.push(left);
            }
            None => unsealed.push(left),
        }
    }
    Ok(unsealed)
}
