//! The file `redo-begun`: that there is a log here, whose it is, and how far it has become durable
//! at least. docs/format/redo-log.md, "How far the log reaches".
//!
//! Promises that what it says was true before it was written, so that no crash makes it wrong; and
//! that a write which a crash tears leaves what it said before. Does not know why somebody writes
//! it down.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ferrite_base::checksum::crc32c;
use ferrite_io::{Disk, DiskFile, DiskResult, OpenMode, SECTOR_BYTES, small_file};

use crate::error::LogError;
use crate::format::{DatabaseId, u32_at, u64_at};

const NAME: &str = "redo-begun";
/// Written under this name first, so that there is never half of one.
const NEW_NAME: &str = "redo-begun.new";
const TEXT: &[u8] = b"A redo log was begun in this directory. Without this file its loss would not be noticed. \
    Behind this text stands how far the log reaches.\n";
/// What earlier releases wrote, and no more.
const TEXT_BEFORE: &[u8] =
    b"A redo log was begun in this directory. Without this file its loss would not be noticed.\n";

const MAGIC: &[u8; 8] = b"FERREND\0";
const VERSION: u32 = 1;
const CLEAN: u32 = 1;
const CHECKSUM_AT: usize = SECTOR_BYTES - 4;
const SLOTS: [u64; 2] = [SECTOR_BYTES as u64, 2 * SECTOR_BYTES as u64];
const FILE_BYTES: usize = 3 * SECTOR_BYTES;

/// How far a log had become durable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct KnownEnd {
    /// The last block that was durable; 0: none is known.
    pub block: u64,
    /// Of that block.
    pub checksum: u32,
    /// Where the block behind it begins, or would.
    pub segment: u64,
    pub position: u64,
    /// The log ended there in good order: nothing stood behind it.
    pub clean: bool,
}

/// What is known of a log without looking into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// No block of it was durable.
    Never,
    /// Block 1 was durable. All that earlier releases say; or the operator has accepted that
    /// nothing more is known.
    Once,
    Known {
        database: DatabaseId,
        end: KnownEnd,
        generation: u64,
    },
}

impl Begun {
    pub fn read(disk: &dyn Disk, dir: &Path, accept_loss: bool) -> Result<Begun, LogError> {
        let Some(bytes) = small_file::read(disk, dir, NAME, FILE_BYTES)? else { return Ok(Begun::Never) };
        let path = path(dir);
        if bytes == TEXT_BEFORE {
            return Ok(Begun::Once);
        }
        let slots = SLOTS.iter().filter_map(|at| Slot::decode(bytes.get(*at as usize..)?));
        match slots.max_by_key(|slot| slot.generation) {
            Some(Slot { database, end, generation }) => Ok(Begun::Known { database, end, generation }),
            None if accept_loss => Ok(Begun::Once),
            None => Err(LogError::Rot {
                path,
                position: SLOTS[0],
                missing: None,
                certain: false,
                detail: "it said how far the log had become durable, and cannot be read".to_owned(),
            }),
        }
    }

    pub fn is_begun(&self) -> bool {
        *self != Begun::Never
    }

    pub fn database(&self) -> Option<DatabaseId> {
        match self {
            Begun::Known { database, .. } => Some(*database),
            Begun::Never | Begun::Once => None,
        }
    }

    pub fn end(&self) -> KnownEnd {
        match self {
            Begun::Known { end, .. } => *end,
            Begun::Never | Begun::Once => KnownEnd::default(),
        }
    }
}

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

struct Slot {
    database: DatabaseId,
    end: KnownEnd,
    generation: u64,
}

impl Slot {
    fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        sector[0..8].copy_from_slice(MAGIC);
        sector[8..12].copy_from_slice(&VERSION.to_le_bytes());
        sector[12..16].copy_from_slice(&if self.end.clean { CLEAN } else { 0 }.to_le_bytes());
        sector[16..32].copy_from_slice(&self.database.0);
        sector[32..40].copy_from_slice(&self.generation.to_le_bytes());
        sector[40..48].copy_from_slice(&self.end.block.to_le_bytes());
        sector[48..56].copy_from_slice(&self.end.segment.to_le_bytes());
        sector[56..64].copy_from_slice(&self.end.position.to_le_bytes());
        sector[64..68].copy_from_slice(&self.end.checksum.to_le_bytes());
        let checksum = crc32c(&sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    fn decode(bytes: &[u8]) -> Option<Slot> {
        let sector = bytes.get(..SECTOR_BYTES)?;
        let flags = u32_at(sector, 12);
        let sound = sector[0..8] == *MAGIC
            && u32_at(sector, 8) == VERSION
            && flags & !CLEAN == 0
            && crc32c(&sector[..CHECKSUM_AT]) == u32_at(sector, CHECKSUM_AT);
        sound.then(|| Slot {
            database: DatabaseId(sector[16..32].try_into().expect("16 bytes")),
            generation: u64_at(sector, 32),
            end: KnownEnd {
                block: u64_at(sector, 40),
                segment: u64_at(sector, 48),
                position: u64_at(sector, 56),
                checksum: u32_at(sector, 64),
                clean: flags & CLEAN != 0,
            },
        })
    }
}

/// The file, open to be written. Its writers take turns.
pub(crate) struct BegunFile {
    file: Box<dyn DiskFile>,
    database: DatabaseId,
    generation: Mutex<u64>,
}

impl BegunFile {
    /// The file that is there and says `generation`.
    pub fn open(disk: &dyn Disk, dir: &Path, database: DatabaseId, generation: u64) -> DiskResult<BegunFile> {
        let file = disk.open(&path(dir), OpenMode::Write)?;
        Ok(BegunFile { file, database, generation: Mutex::new(generation) })
    }

    /// Makes it, in place of one of an earlier release where there is one. Not before block 1 is
    /// durable.
    pub fn create(disk: &dyn Disk, dir: &Path, database: DatabaseId, end: KnownEnd) -> DiskResult<BegunFile> {
        let mut bytes = vec![0; FILE_BYTES];
        bytes[..TEXT.len()].copy_from_slice(TEXT);
        // Both, so that the file never has a slot that was not written.
        for (at, generation) in SLOTS.iter().zip(1..) {
            bytes[*at as usize..][..SECTOR_BYTES].copy_from_slice(&Slot { database, end, generation }.encode());
        }
        small_file::replace(disk, dir, NAME, NEW_NAME, &bytes)?;
        BegunFile::open(disk, dir, database, SLOTS.len() as u64)
    }

    /// Says that the log reaches that far, durably. All that it says must be durable.
    pub fn write(&self, end: KnownEnd) -> DiskResult<()> {
        let mut generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Slot { database: self.database, end, generation: *generation + 1 };
        // Odd generations stand in the first.
        let at = SLOTS[(slot.generation as usize + 1) % SLOTS.len()];
        self.file.write_at(&slot.encode(), at)?;
        self.file.sync_data()?;
        *generation = slot.generation;
        Ok(())
    }

    pub fn is_in_place(&self) -> DiskResult<bool> {
        self.file.is_in_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;

    const DATABASE: DatabaseId = DatabaseId(*b"0123456789abcdef");

    fn end(block: u64) -> KnownEnd {
        KnownEnd {
            block,
            checksum: 7 * block as u32,
            segment: 2,
            position: 4_096 * block,
            clean: block.is_multiple_of(2),
        }
    }

    fn read(dir: &Path) -> Option<KnownEnd> {
        Begun::read(&RealDisk, dir, false).ok().filter(Begun::is_begun).map(|begun| begun.end())
    }

    #[test]
    fn it_says_what_was_written_last_and_a_torn_write_leaves_what_it_said_before() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Begun::read(&RealDisk, dir.path(), false).unwrap(), Begun::Never);
        let mut file = BegunFile::create(&RealDisk, dir.path(), DATABASE, end(1)).unwrap();
        let mut said = end(1);
        for block in 2..8 {
            file.write(end(block)).unwrap();
            let Begun::Known { database, end: found, generation } = Begun::read(&RealDisk, dir.path(), false).unwrap()
            else {
                panic!("it was written");
            };
            assert_eq!((database, found), (DATABASE, end(block)));
            let whole = std::fs::read(path(dir.path())).unwrap();
            let slot = SLOTS[(generation as usize + 1) % 2] as usize;
            for at in (0..SECTOR_BYTES).step_by(9) {
                let mut torn = whole.clone();
                torn[slot + at] ^= 0x20;
                std::fs::write(path(dir.path()), torn).unwrap();
                assert_eq!(read(dir.path()), Some(said), "byte {at}");
            }
            std::fs::write(path(dir.path()), whole).unwrap();
            said = end(block);
            file = BegunFile::open(&RealDisk, dir.path(), database, generation).unwrap();
        }
    }

    #[test]
    fn one_of_an_earlier_release_says_that_there_is_a_log_and_a_damaged_one_is_no_such() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(path(dir.path()), TEXT_BEFORE).unwrap();
        assert_eq!(Begun::read(&RealDisk, dir.path(), false).unwrap(), Begun::Once);
        BegunFile::create(&RealDisk, dir.path(), DATABASE, end(3)).unwrap();
        assert_eq!(read(dir.path()), Some(end(3)));
        let whole = std::fs::read(path(dir.path())).unwrap();
        let zeroed = [&whole[..SECTOR_BYTES], &[0; 2 * SECTOR_BYTES]].concat();
        for damaged in [&whole[..0], &whole[..TEXT.len()], &whole[..TEXT_BEFORE.len()], &whole[..SECTOR_BYTES], &zeroed]
        {
            std::fs::write(path(dir.path()), damaged).unwrap();
            let refused = Begun::read(&RealDisk, dir.path(), false);
            assert!(matches!(refused, Err(LogError::Rot { certain: false, .. })), "{} bytes", damaged.len());
            assert_eq!(Begun::read(&RealDisk, dir.path(), true).unwrap(), Begun::Once);
        }
    }
}
