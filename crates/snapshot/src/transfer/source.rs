//! The node that has the snapshot.

use super::layout::Layout;
use super::message::{FORMAT, Refusal, TransferId, TransferMessage, encode};
use crate::error::{SnapshotError, SnapshotResult};
use crate::files::{Files, MANIFEST_BYTES_MAX, own_name};
use ferrite_base::checksum::crc32c;
use ferrite_base::limits::{TRANSFER_CHUNK_BYTES, TRANSFER_CHUNKS_AHEAD};
use ferrite_base::{GroupPartitions, NodeId};
use ferrite_io::{DiskFile, OpenMode, SECTOR_BYTES, SectorBuffer};
use std::path::PathBuf;
use std::time::Duration;

/// Where nothing is heard from the sink for that long, it is asked how far it is.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// What a step came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceStep {
    /// A message was written: call again.
    Message,
    /// Nothing to send for that long, unless a message comes.
    Wait(Duration),
    /// The sink has it.
    Installed,
    /// The sink has it, and its node has read it.
    Loaded,
    /// The sink will not have it.
    Refused(Refusal),
}

/// Sends a snapshot. It must stay where it is meanwhile.
pub struct Source {
    files: Files,
    id: TransferId,
    layout: Layout,
    /// Of the rows files.
    partitions: GroupPartitions,
    anew: bool,
    chunk_bytes: usize,
    /// Bytes a second at most.
    rate: u64,
    /// What was read last: file and path.
    open: Option<(u32, PathBuf, Box<dyn DiskFile>)>,
    buffer: SectorBuffer,
    /// Everything before has come, as the sink says; None: nothing has been heard of it.
    acked: Option<u64>,
    sent: u64,
    /// Before that time no chunk is sent, and behind it the sink is asked: monotonic nanoseconds.
    chunk_at: u64,
    ask_at: u64,
    ended: Option<SourceStep>,
}

impl Source {
    /// Begins at once. `anew`: the sink is to give up what it has of another snapshot, which cannot
    /// be completed any more. `rate`: bytes a second; `now`: monotonic nanoseconds.
    pub fn new(files: Files, node: NodeId, snapshot: u64, anew: bool, rate: u64, now: u64) -> SnapshotResult<Source> {
        let name = own_name(snapshot);
        let manifest = files.manifest(&name)?;
        let bytes = manifest.encode();
        let id = TransferId { database: manifest.database, node, snapshot, manifest: crc32c(&bytes) };
        let sizes: Vec<u64> =
            [bytes.len() as u64].into_iter().chain(manifest.files.iter().map(|file| file.bytes)).collect();
        let path = files.manifest_path(&name);
        let layout = Layout::new(&sizes, MANIFEST_BYTES_MAX)
            .ok_or_else(|| SnapshotError::damaged(&path, 0, "its files have sizes that none can have"))?;
        Ok(Source {
            files,
            id,
            layout,
            partitions: manifest.partitions(),
            anew,
            chunk_bytes: TRANSFER_CHUNK_BYTES,
            rate: rate.max(1),
            open: None,
            buffer: SectorBuffer::new(),
            acked: None,
            sent: 0,
            chunk_at: now,
            ask_at: now,
            ended: None,
        })
    }

    /// Smaller chunks, for tests.
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Source {
        assert!((1..=TRANSFER_CHUNK_BYTES).contains(&bytes), "a chunk has bytes, and no more than may be");
        self.chunk_bytes = bytes;
        self
    }

    pub fn id(&self) -> TransferId {
        self.id
    }

    /// Bytes that the sink has, and of all.
    pub fn progress(&self) -> (u64, u64) {
        (self.acked.unwrap_or(0), self.layout.bytes())
    }

    /// Begins once more with a question how far the sink is, soon: that may change behind the end,
    /// where the node gives up what it has got.
    pub fn ask_again(&mut self, now: u64) {
        (self.acked, self.anew, self.ended) = (None, false, None);
        self.ask_at = now.saturating_add(ASK_AFTER.as_nanos() as u64);
    }

    /// The sink has said from where to go on.
    pub fn goes_on(&self) -> bool {
        self.acked.is_some()
    }

    /// What came from the sink. Of another transfer, or without sense, it is ignored.
    pub fn receive(&mut self, id: &TransferId, message: &TransferMessage<'_>, now: u64) {
        if *id != self.id || self.ended.is_some() {
            return;
        }
        match message {
            TransferMessage::Acked { at, again } => {
                let Some(place) = self.layout.place(*at) else { return };
                if self.acked.is_none() || *again {
                    self.sent = place;
                    self.acked = Some(place);
                } else if self.acked.is_some_and(|acked| acked < place) {
                    self.acked = Some(place);
                    self.sent = self.sent.max(place);
                }
            }
            TransferMessage::Installed => self.ended = Some(SourceStep::Installed),
            TransferMessage::Loaded => self.ended = Some(SourceStep::Loaded),
            TransferMessage::Refused(refusal) => self.ended = Some(SourceStep::Refused(*refusal)),
            TransferMessage::Install { .. } | TransferMessage::Chunk { .. } => return,
        }
        self.ask_at = now.saturating_add(ASK_AFTER.as_nanos() as u64);
    }

    /// Writes the next message to the end of `out`, if one is due. An error is of this node's disk:
    /// the step may be tried again.
    pub fn step(&mut self, now: u64, out: &mut Vec<u8>) -> SnapshotResult<SourceStep> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        if now >= self.ask_at {
            let files = 0..self.layout.files();
            let sizes = files.map(|file| self.layout.size(file)).collect();
            encode(out, &self.id, &TransferMessage::Install { format: FORMAT, anew: self.anew, sizes });
            self.ask_at = now.saturating_add(ASK_AFTER.as_nanos() as u64);
            return Ok(SourceStep::Message);
        }
        let window = (self.chunk_bytes * TRANSFER_CHUNKS_AHEAD) as u64;
        let open = self.acked.is_some_and(|acked| {
            // The sink looks at a whole file before it takes the next one.
            let end = self.layout.end(self.layout.offset(acked).file);
            self.sent < end && self.sent < acked + window
        });
        if open && now >= self.chunk_at {
            let bytes = self.put_chunk(out)?;
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
            self.chunk_at = self.chunk_at.max(now).saturating_add(nanos.try_into().unwrap_or(u64::MAX));
            return Ok(SourceStep::Message);
        }
        let until = if open { self.chunk_at.min(self.ask_at) } else { self.ask_at };
        Ok(SourceStep::Wait(Duration::from_nanos(until - now)))
    }

    fn put_chunk(&mut self, out: &mut Vec<u8>) -> SnapshotResult<u64> {
        let at = self.layout.offset(self.sent);
        let count = (self.layout.end(at.file) - self.sent).min(self.chunk_bytes as u64);
        if self.open.as_ref().is_none_or(|(file, ..)| *file != at.file) {
            let name = own_name(self.id.snapshot);
            let path = match at.file.checked_sub(1) {
                None => self.files.manifest_path(&name),
                Some(place) => self.files.rows_path(&name, self.partitions.id(place as usize).0),
            };
            let file = self.files.disk().open(&path, OpenMode::ReadDirect)?;
            self.open = Some((at.file, path, file));
        }
        let (_, path, file) = self.open.as_ref().expect("it was opened");
        // Past the page cache: in sectors.
        let sector = SECTOR_BYTES as u64;
        let from = at.offset / sector * sector;
        let until = (at.offset + count).next_multiple_of(sector);
        self.buffer.resize((until - from) as usize);
        let read = file.read_at(self.buffer.as_mut_slice(), from)? as u64;
        if from + read < at.offset + count {
            return Err(SnapshotError::damaged(path, from + read, "the file ends early"));
        }
        let start = (at.offset - from) as usize;
        let bytes = &self.buffer.as_slice()[start..start + count as usize];
        encode(out, &self.id, &TransferMessage::Chunk { at, bytes });
        self.sent += count;
        Ok(count)
    }
}
