//! Reads a rows file block by block, past the page cache, and judges each.

use crate::error::{SnapshotError, SnapshotResult};
use crate::format::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockLink, END, FORMAT_VERSION, FileIdentity, HEAD, Head, ROWS, TABLE, decode_end,
    decode_shape,
};
use crate::manifest::RowsFile;
use ferrite_base::TableId;
use ferrite_io::{Disk, DiskFile, OpenMode, SECTOR_BYTES, SectorBuffer};
use ferrite_table::Shape;
use std::path::{Path, PathBuf};

/// Bytes asked for at a time.
const READ_BYTES: usize = 8 * 1024 * 1024;

/// What a block says.
#[derive(Debug)]
pub enum Content<'b> {
    Head(Head),
    /// The rows that follow are of this table.
    Table(TableId, Shape),
    /// This many rows, as [`ferrite_table::Loading::rows`] and [`ferrite_table::RunReader`] take
    /// them.
    Rows(TableId, u32, &'b [u8]),
}

/// A rows file being read.
pub struct Reader {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    identity: FileIdentity,
    expected: Option<RowsFile>,
    /// The part of the file from `window_position` on, as far as it is `filled`.
    window: SectorBuffer,
    window_position: u64,
    filled: usize,
    /// Where the next block begins.
    position: u64,
    place: BlockLink,
    rows: u64,
    ended: bool,
    file_bytes: u64,
}

impl Reader {
    /// `expected`: what the manifest says of the file. Without, it is not known whether the file is
    /// whole until its end comes.
    pub fn open(
        disk: &dyn Disk,
        path: &Path,
        identity: FileIdentity,
        expected: Option<RowsFile>,
    ) -> SnapshotResult<Reader> {
        let file = disk.open(path, OpenMode::ReadDirect)?;
        let file_bytes = file.bytes()?;
        if let Some(expected) = expected
            && expected.bytes != file_bytes
        {
            let detail = format!("the file has {file_bytes} bytes in place of {}", expected.bytes);
            return Err(SnapshotError::damaged(path, file_bytes.min(expected.bytes), detail));
        }
        Ok(Reader {
            file,
            path: path.to_path_buf(),
            identity,
            expected,
            window: SectorBuffer::new(),
            window_position: 0,
            filled: 0,
            position: 0,
            place: BlockLink::default(),
            rows: 0,
            ended: false,
            file_bytes,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// An error about the block that was read last.
    pub fn refuse(&self, detail: impl Into<String>) -> SnapshotError {
        SnapshotError::damaged(&self.path, self.position, detail)
    }

    /// The next block; None behind the last, when all of the file was as it should be.
    pub fn next_block(&mut self) -> SnapshotResult<Option<Content<'_>>> {
        if self.ended {
            return Ok(None);
        }
        self.have(BLOCK_HEADER_BYTES)?;
        let header = BlockHeader::decode(self.here()).map_err(|detail| self.refuse(detail))?;
        let bytes = BLOCK_HEADER_BYTES + header.payload_bytes;
        let padded = bytes.next_multiple_of(SECTOR_BYTES);
        if self.position + padded as u64 > self.file_bytes {
            return Err(self.refuse("the file ends within a block"));
        }
        self.have(padded)?;
        let database = self.identity.database;
        let place = self.place;
        if !header.fits(&database, self.here()) {
            return Err(self.refuse("the block's checksum is wrong"));
        }
        if (header.snapshot, header.partition) != (self.identity.snapshot, self.identity.partition)
            || header.place != place
            || (header.kind == HEAD) != (place.number == 0)
        {
            return Err(self.refuse("another block stands here than should"));
        }
        if self.here()[bytes..padded].iter().any(|byte| *byte != 0) {
            return Err(self.refuse("there is something behind the block"));
        }
        self.place = BlockLink { number: place.number + 1, previous_checksum: header.checksum };
        let start = (self.position - self.window_position) as usize;
        let block_position = self.position;
        self.position += padded as u64;
        let payload = &self.window.as_slice()[start + BLOCK_HEADER_BYTES..start + bytes];
        let table = TableId(header.table);
        let malformed = || SnapshotError::damaged(&self.path, block_position, "the block's contents are malformed");
        match header.kind {
            HEAD => match Head::decode(payload) {
                Ok((FORMAT_VERSION, Some(head))) if head.database == database => Ok(Some(Content::Head(head))),
                Ok((found, None)) => Err(SnapshotError::Version { path: self.path.clone(), found }),
                _ => Err(malformed()),
            },
            TABLE => Ok(Some(Content::Table(table, decode_shape(payload).map_err(|_| malformed())?))),
            ROWS => {
                self.rows += u64::from(header.rows);
                Ok(Some(Content::Rows(table, header.rows, payload)))
            }
            END => {
                let end = decode_end(payload).map_err(|_| malformed())?;
                let whole = end == (place.number, self.rows)
                    && self.position == self.file_bytes
                    && self.expected.is_none_or(|expected| {
                        (expected.blocks, expected.checksum, expected.rows)
                            == (self.place.number, header.checksum, self.rows)
                    });
                if !whole {
                    return Err(malformed());
                }
                self.ended = true;
                Ok(None)
            }
            _ => Err(malformed()),
        }
    }

    /// The window from the next block on.
    fn here(&self) -> &[u8] {
        &self.window.as_slice()[(self.position - self.window_position) as usize..self.filled]
    }

    /// Sees to it that this many bytes of the next block are in the window. What of it is there
    /// already moves to the front, and the rest of the window is read: both begin at sectors, as
    /// blocks do.
    fn have(&mut self, bytes: usize) -> SnapshotResult<()> {
        let start = (self.position - self.window_position) as usize;
        let there = self.filled - start;
        if there >= bytes {
            return Ok(());
        }
        let left = (self.file_bytes - self.position).next_multiple_of(SECTOR_BYTES as u64);
        let ahead = READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES));
        let size = bytes.next_multiple_of(SECTOR_BYTES).max(ahead);
        if self.window.len() < size {
            self.window.resize(size);
        }
        self.window.as_mut_slice().copy_within(start..self.filled, 0);
        self.window_position = self.position;
        self.filled = there;
        // An end of the file that is not at a sector was read before, and there is nothing behind
        // it.
        if there.is_multiple_of(SECTOR_BYTES) {
            self.filled += self.file.read_at(&mut self.window.as_mut_slice()[there..], self.position + there as u64)?;
        }
        if self.filled < bytes {
            return Err(self.refuse("the file ends within a block"));
        }
        Ok(())
    }
}
