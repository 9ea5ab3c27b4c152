//! Whether what should stand where reading ended had been durable: then it is rot, an error, and
//! not a torn tail. Changes nothing on disk.

use super::{Reader, Stop};
use crate::begun::KnownEnd;
use crate::error::LogError;
use crate::first_segment::Segment;
use crate::format::{Block, CLEAN_END, HeaderFault, SEAL};
use crate::segment::{extent, segment_path};
use ferrite_io::SECTOR_BYTES;
use std::path::Path;

impl<V> Reader<'_, V> {
    /// An error if what should stand where reading ended had been durable.
    pub(super) fn look_for_proof(&mut self, stop: &Stop, dir: &Path) -> Result<(), LogError> {
        match self.proof(stop)? {
            Some(proof) => self.rot(stop, &proof, dir),
            None => self.look_for_short_files(stop),
        }
    }

    /// Searches all that lies behind the end of reading for proof that what should stand there had
    /// been durable; what says so.
    fn proof(&mut self, stop: &Stop) -> Result<Option<String>, LogError> {
        let cut = self.cut_at(stop);
        // A batch never calls its own blocks durable, so with a whole log this holds for an
        // incomplete group too.
        let before = if cut.block == 1 { "the file redo-begun" } else { "what was written before it" };
        let mut proof = (self.proven >= cut.block).then(|| before.to_owned());
        let KnownEnd { block: known, segment: known_segment, position: known_position, .. } = self.known;
        if known >= cut.block {
            proof = Some(format!(
                "the file redo-begun, by which the log reached byte {known_position} of segment {known_segment},"
            ));
        }
        for index in stop.place.index..self.segments.len() {
            if proof.is_some() {
                break;
            }
            self.load(index)?;
            let segment = &self.segments[index];
            let from = if index == stop.place.index { stop.place.position } else { SECTOR_BYTES };
            if index > stop.place.index
                && let Ok(header) = segment.header
                && header.durable_through >= cut.block
            {
                proof = Some(format!("the header of {}", segment.path.display()));
            } else {
                let buffer = self.buffer.as_slice();
                let found = (from..buffer.len()).step_by(SECTOR_BYTES).find_map(|position| {
                    let block = Block::decode(self.database, &buffer[position..]).ok()?;
                    (block.durable_through >= cut.block).then_some((position, block.flags == SEAL))
                });
                proof = found.map(|(position, seal)| {
                    let what = if seal { "the seal" } else { "the block" };
                    format!("{what} at byte {position} of {}", segment.path.display())
                });
            }
        }
        if let Some(stranded) = self.stranded.first() {
            // Whatever else says so: no segment is begun before the one before it is full.
            proof.get_or_insert_with(|| format!("{}, which comes after it,", stranded.path.display()));
        }
        Ok(proof)
    }

    /// The error that names what cannot be read, though it was durable, as `proof` says.
    fn rot(&mut self, stop: &Stop, proof: &str, dir: &Path) -> Result<(), LogError> {
        self.load(stop.place.index)?;
        let segment = &self.segments[stop.place.index];
        let header = segment.header.expect("only segments with a header are read");
        let room = self.buffer.as_slice();
        let here_blank = extent(&room[..room.len().min(header.blocks_end() as usize)], stop.place.position) == 0;
        let next = self.segments.get(stop.place.index + 1);
        let sealed = self.seal(stop.place.index);
        let (path, position, fault) = match next {
            // With a seal that fits, the segment is whole, whatever a torn write may have left
            // behind its last block.
            None if sealed.is_some()
                || (here_blank && (!self.stranded.is_empty() || self.known.segment > segment.number)) =>
            {
                return Err(next_segment_missing(segment, stop, sealed, proof, dir));
            }
            Some(next) if here_blank && next.header == Err(HeaderFault::Damaged) => {
                (&next.path, 0, "the header's checksum is wrong")
            }
            Some(next) if here_blank && next.header == Err(HeaderFault::Blank) => {
                (&next.path, 0, "the header is missing")
            }
            _ => (&segment.path, stop.place.position, stop.fault),
        };
        let block = stop.place.block;
        Err(LogError::Rot {
            path: path.clone(),
            position: position as u64,
            missing: None,
            certain: true,
            detail: format!("block {block} cannot be read ({fault}), though {proof} says that it was durable"),
        })
    }

    /// A file that is shorter than its header says has lost its end, whatever stood there: it was
    /// durable in its whole length before its header was written. Only of a log that ended in good
    /// order is it known that nothing was lost.
    fn look_for_short_files(&self, stop: &Stop) -> Result<(), LogError> {
        let complete = self.known.clean && self.known.block == stop.place.block - 1 && self.last_flags == CLEAN_END;
        let short = |segment: &&Segment| segment.header.is_ok_and(|header| segment.bytes < header.bytes);
        let Some(segment) = self.segments[stop.place.index..].iter().find(short).filter(|_| !complete) else {
            return Ok(());
        };
        let whole = segment.header.expect("only those with a header are looked at").bytes;
        Err(LogError::Rot {
            path: self.segments[stop.place.index].path.clone(),
            position: stop.place.position as u64,
            missing: None,
            certain: false,
            detail: format!(
                "{} has {} of its {whole} bytes, and no crash leaves it shorter",
                segment.path.display(),
                segment.bytes
            ),
        })
    }
}

/// The segment is whole, and the one that must follow it is not there.
fn next_segment_missing(segment: &Segment, stop: &Stop, sealed: Option<u64>, proof: &str, dir: &Path) -> LogError {
    let block = stop.place.block;
    LogError::Rot {
        path: segment.path.clone(),
        position: stop.place.position as u64,
        missing: Some(segment_path(dir, segment.number + 1)),
        certain: true,
        detail: match sealed {
            Some(through) if through > block => {
                format!("{proof} says that blocks {block} to {through}, the first of which stood in it, were durable")
            }
            _ => format!("{proof} says that block {block}, which stood in it, was durable"),
        },
    }
}
