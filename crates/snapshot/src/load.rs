//! Uses of a rows file as a whole: is it what was written, and the store that it shows.

use crate::error::{SnapshotError, SnapshotResult};
use crate::format::FileIdentity;
use crate::manifest::RowsFile;
use crate::reader::{Content, Reader};
use ferrite_base::TableId;
use ferrite_io::Disk;
use ferrite_table::{ImageError, Loading, Store};
use std::path::Path;

/// What a step of verifying did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verified {
    /// This many bytes are as they were written; there are more.
    Some(u64),
    All,
}

/// Reads a file back and compares every block with its checksum, the counts with one another, and
/// all with what its writer says.
pub struct Verifier {
    reader: Reader,
    /// Rows of the present table that have not come.
    left: u64,
}

impl Verifier {
    pub fn open(disk: &dyn Disk, path: &Path, identity: FileIdentity, expected: RowsFile) -> SnapshotResult<Verifier> {
        Ok(Verifier { reader: Reader::open(disk, path, identity, Some(expected))?, left: 0 })
    }

    /// Bytes that are as they were written.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Looks at the next block.
    pub fn step(&mut self) -> SnapshotResult<Verified> {
        let before = self.reader.position();
        let left = match self.reader.next_block()? {
            Some(Content::Rows(_, rows, _)) => self.left.checked_sub(u64::from(rows)),
            Some(Content::Table(_, shape)) => (self.left == 0).then_some(shape.rows),
            Some(Content::Head(_)) => Some(0),
            None if self.left == 0 => return Ok(Verified::All),
            None => None,
        };
        self.left = left.ok_or_else(|| self.reader.refuse("a table has another number of rows than it says"))?;
        Ok(Verified::Some(self.reader.position() - before))
    }
}

/// Fills `loading` with a partition's rows and makes it a store. `pace` is called after each block
/// with the bytes and rows read.
pub fn load(
    disk: &dyn Disk,
    path: &Path,
    identity: FileIdentity,
    expected: RowsFile,
    mut loading: Loading,
    mut pace: impl FnMut(u64, u64),
) -> SnapshotResult<Store> {
    let mut reader = Reader::open(disk, path, identity, Some(expected))?;
    let mut tables: Option<TableId> = None;
    loop {
        let before = reader.position();
        let mut rows = 0;
        let outcome = match reader.next_block()? {
            None => break,
            Some(Content::Head(_)) => Ok(()),
            Some(Content::Table(id, shape)) => {
                let ascending = tables.is_none_or(|last| last < id);
                tables = Some(id);
                if ascending {
                    loading.table(id, &shape)
                } else {
                    Err(ImageError::Shape("tables are out of order".into()))
                }
            }
            Some(Content::Rows(id, count, payload)) => match loading.rows(id, payload) {
                Ok(loaded) if loaded == u64::from(count) => {
                    rows = loaded;
                    Ok(())
                }
                Ok(_) => Err(ImageError::Shape("the block has another number of rows than it says".into())),
                Err(error) => Err(error),
            },
        };
        outcome.map_err(|error| SnapshotError::damaged(path, before, error.to_string()))?;
        pace(reader.position() - before, rows);
    }
    loading.finish().map_err(|error| SnapshotError::damaged(path, reader.position(), error.to_string()))
}
