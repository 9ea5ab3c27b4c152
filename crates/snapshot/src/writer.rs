//! Writes one partition's rows file, block by block, from a store's snapshot.

use crate::error::SnapshotResult;
use crate::format::{
    BLOCK_HEADER_BYTES, BlockLink, END, FileIdentity, HEAD, Head, ROWS, TABLE, begin_block, encode_end, encode_shape,
    finish_block,
};
use crate::manifest::RowsFile;
use ferrite_base::limits::SNAPSHOT_BLOCK_BYTES;
use ferrite_base::{Epoch, Sequence, TableId};
use ferrite_io::{Disk, DiskFile, DiskResult, OpenMode, SectorBuffer};
use ferrite_table::Store;
use std::collections::BTreeSet;
use std::path::Path;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// This many bytes; there is more.
    Some(u64),
    /// The file is whole and durable. Its name is durable when its directory is synced.
    All(RowsFile),
}

/// Writes a store's snapshot into a file of its own: one block a step.
pub struct StoreWriter {
    file: Box<dyn DiskFile>,
    identity: FileIdentity,
    store: Store,
    /// None: all.
    tables: Option<BTreeSet<TableId>>,
    epoch: Epoch,
    sequence: Sequence,
    buffer: SectorBuffer,
    place: BlockLink,
    position: u64,
    rows: u64,
    /// The table to be written next, by its position among the store's tables, and if it is begun,
    /// from which row id on.
    table: usize,
    next_row: Option<u64>,
}

impl StoreWriter {
    /// Makes the file. `epoch` and `sequence` say where the partition's history stood; they go to
    /// the manifest.
    pub fn create(
        disk: &dyn Disk,
        path: &Path,
        identity: FileIdentity,
        head: Head,
        store: Store,
        (epoch, sequence): (Epoch, Sequence),
    ) -> DiskResult<StoreWriter> {
        disk.open(path, OpenMode::Create)?;
        let file = disk.open(path, OpenMode::WriteDirect)?;
        let mut writer = StoreWriter {
            file,
            identity,
            store,
            tables: None,
            epoch,
            sequence,
            buffer: SectorBuffer::new(),
            place: BlockLink::default(),
            position: 0,
            rows: 0,
            table: 0,
            next_row: None,
        };
        writer.block(HEAD, 0, &head.encode())?;
        Ok(writer)
    }

    /// Only these tables' rows go into the file.
    #[must_use]
    pub fn only(self, tables: BTreeSet<TableId>) -> StoreWriter {
        StoreWriter { tables: Some(tables), ..self }
    }

    /// Writes the next block.
    pub fn step(&mut self) -> DiskResult<Written> {
        let before = self.position;
        loop {
            let Some(table) = self.store.tables().nth(self.table) else { return self.finish().map(Written::All) };
            let id = table.definition().id;
            let Some(next_row) = &mut self.next_row else {
                let chosen = self.tables.as_ref().is_none_or(|tables| tables.contains(&id));
                match table.shape().filter(|_| chosen) {
                    Some(shape) => {
                        self.next_row = Some(0);
                        self.block(TABLE, id.0, &encode_shape(&shape))?;
                    }
                    None => self.table += 1,
                }
                continue;
            };
            let start = begin_block(&mut self.buffer);
            let buffer = &mut self.buffer;
            let room = SNAPSHOT_BLOCK_BYTES - BLOCK_HEADER_BYTES;
            let rows = table.write_runs(next_row, room, &mut |bytes| buffer.extend(bytes));
            if rows == 0 {
                self.buffer.resize(start);
                self.table += 1;
                self.next_row = None;
                continue;
            }
            self.rows += u64::from(rows);
            self.finish_block(start, ROWS, id.0, rows)?;
            return Ok(Written::Some(self.position - before));
        }
    }

    fn finish(&mut self) -> DiskResult<RowsFile> {
        let blocks = self.place.number;
        let rows = self.rows;
        self.block(END, 0, &encode_end(blocks, rows))?;
        self.file.sync_data()?;
        Ok(RowsFile {
            epoch: self.epoch,
            sequence: self.sequence,
            bytes: self.position,
            blocks: self.place.number,
            checksum: self.place.previous_checksum,
            rows,
        })
    }

    fn block(&mut self, kind: u32, table: u32, payload: &[u8]) -> DiskResult<()> {
        let start = begin_block(&mut self.buffer);
        self.buffer.extend(payload);
        self.finish_block(start, kind, table, 0)
    }

    /// Completes the block and writes it. Small ones wait for the next, so that a thousand empty
    /// tables are few writes.
    fn finish_block(&mut self, start: usize, kind: u32, table: u32, rows: u32) -> DiskResult<()> {
        let checksum = finish_block(&mut self.buffer, start, &self.identity, self.place, kind, table, rows);
        self.place = BlockLink { number: self.place.number + 1, previous_checksum: checksum };
        if self.buffer.len() < SNAPSHOT_BLOCK_BYTES / 2 && kind != END {
            return Ok(());
        }
        let bytes = self.buffer.len() as u64;
        self.file.write_at(self.buffer.as_slice(), self.position)?;
        self.position += bytes;
        self.buffer.clear(4 * SNAPSHOT_BLOCK_BYTES);
        Ok(())
    }
}

/// Writes the whole file. `pace` is called after each block with the bytes written; what it refuses
/// ends the writing.
pub fn write_store<E: From<crate::SnapshotError>>(
    mut writer: StoreWriter,
    mut pace: impl FnMut(u64) -> Result<(), E>,
) -> Result<RowsFile, E> {
    loop {
        let written: SnapshotResult<Written> = writer.step().map_err(Into::into);
        match written? {
            Written::Some(bytes) => pace(bytes)?,
            Written::All(file) => return Ok(file),
        }
    }
}
