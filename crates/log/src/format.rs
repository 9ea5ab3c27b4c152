//! The bytes of segment headers and blocks, as docs/format/redo-log.md lays them down. Pure.

use std::fmt;

use ferrite_base::checksum::{crc32c, crc32c_of};
use ferrite_base::limits::{LOG_BLOCK_BYTES_MAX, LOG_SEGMENT_BYTES};
use ferrite_base::planted;
use ferrite_io::{Random, SECTOR_BYTES, SectorBuffer};

pub(crate) const BLOCK_HEADER_BYTES: usize = 48;
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Segments of this version keep their last sector for a seal.
const FORMAT_VERSION: u32 = 2;
/// These are full of blocks to the end. They are read and written on, never begun.
const FORMAT_VERSION_WITHOUT_SEAL: u32 = 1;
const SEGMENT_MAGIC: &[u8; 8] = b"FERRLOG\0";
const BLOCK_MAGIC: &[u8; 4] = b"FBLK";
const SEGMENT_CHECKSUM_AT: usize = SECTOR_BYTES - 4;

pub(crate) const CONTINUES: u32 = 1;
pub(crate) const CLEAN_END: u32 = 2;
pub(crate) const OPENED: u32 = 4;
/// Not a block of the chain: what stands in a segment's last sector once blocks behind the segment
/// are durable.
pub(crate) const SEAL: u32 = 8;

const _: () = assert!(LOG_SEGMENT_BYTES <= SEGMENT_BYTES_MAX);
const _: () = assert!(LOG_SEGMENT_BYTES.is_multiple_of(SECTOR_BYTES as u64));
const _: () = assert!(BLOCK_HEADER_BYTES + LOG_BLOCK_BYTES_MAX + 2 * SECTOR_BYTES <= LOG_SEGMENT_BYTES as usize);

/// Tells the files of one database from those of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub [u8; 16]);

impl DatabaseId {
    pub fn random(random: &mut dyn Random) -> Self {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        DatabaseId(bytes)
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a block stands, and what comes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPosition {
    pub segment: u64,
    /// In the segment's file.
    pub position: u64,
    pub block: u64,
    pub previous_checksum: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// The last sector is kept for a seal.
    pub sealed_at_end: bool,
    pub database: DatabaseId,
    pub number: u64,
    pub bytes: u64,
    pub first_block: u64,
    pub durable_through: u64,
    pub previous_checksum: u32,
}

/// Why a segment's first sector is not a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderFault {
    /// Nothing but zeros: prepared, not used yet.
    Blank,
    Damaged,
    /// Whole, but of another release.
    Version(u32),
}

impl SegmentHeader {
    /// Where the room for blocks ends: at the seal's place, or at the end of the file.
    pub fn blocks_end(&self) -> u64 {
        self.bytes - if self.sealed_at_end { SECTOR_BYTES as u64 } else { 0 }
    }

    pub fn encode(&self) -> [u8; SECTOR_BYTES] {
        let version = if self.sealed_at_end { FORMAT_VERSION } else { FORMAT_VERSION_WITHOUT_SEAL };
        let mut sector = [0; SECTOR_BYTES];
        sector[0..8].copy_from_slice(SEGMENT_MAGIC);
        sector[8..12].copy_from_slice(&version.to_le_bytes());
        sector[12..16].copy_from_slice(&(SECTOR_BYTES as u32).to_le_bytes());
        sector[16..32].copy_from_slice(&self.database.0);
        sector[32..40].copy_from_slice(&self.number.to_le_bytes());
        sector[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        sector[48..56].copy_from_slice(&self.first_block.to_le_bytes());
        sector[56..64].copy_from_slice(&self.durable_through.to_le_bytes());
        sector[64..68].copy_from_slice(&self.previous_checksum.to_le_bytes());
        let checksum = crc32c(&sector[..SEGMENT_CHECKSUM_AT]);
        sector[SEGMENT_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    pub fn decode(sector: &[u8]) -> Result<Self, HeaderFault> {
        if sector.iter().all(|byte| *byte == 0) {
            return Err(HeaderFault::Blank);
        }
        if sector.len() < SECTOR_BYTES
            || sector[0..8] != *SEGMENT_MAGIC
            || crc32c(&sector[..SEGMENT_CHECKSUM_AT]) != u32_at(sector, SEGMENT_CHECKSUM_AT)
        {
            return Err(HeaderFault::Damaged);
        }
        let version = u32_at(sector, 8);
        if !matches!(version, FORMAT_VERSION | FORMAT_VERSION_WITHOUT_SEAL) {
            return Err(HeaderFault::Version(version));
        }
        let header = SegmentHeader {
            sealed_at_end: version == FORMAT_VERSION,
            database: DatabaseId(sector[16..32].try_into().expect("16 bytes")),
            number: u64_at(sector, 32),
            bytes: u64_at(sector, 40),
            first_block: u64_at(sector, 48),
            durable_through: u64_at(sector, 56),
            previous_checksum: u32_at(sector, 64),
        };
        let sound = u32_at(sector, 12) == SECTOR_BYTES as u32
            && header.bytes.is_multiple_of(SECTOR_BYTES as u64)
            && (2 * SECTOR_BYTES as u64..=SEGMENT_BYTES_MAX).contains(&header.bytes)
            && header.durable_through < header.first_block;
        if sound { Ok(header) } else { Err(HeaderFault::Damaged) }
    }
}

/// A block that is whole in itself. Whether it belongs where it stands is for the reader to judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block<'a> {
    pub checksum: u32,
    pub flags: u32,
    pub number: u64,
    pub durable_through: u64,
    pub previous_checksum: u32,
    pub payload: &'a [u8],
}

impl<'a> Block<'a> {
    /// Decodes the block that begins with `bytes`, which go on to the end of the segment; or says
    /// what is wrong with it.
    pub fn decode(database: DatabaseId, bytes: &'a [u8]) -> Result<Self, &'static str> {
        if bytes.len() < BLOCK_HEADER_BYTES {
            return Err("the file ends");
        }
        if bytes[0..4] != *BLOCK_MAGIC {
            return Err("no block begins here");
        }
        let flags = u32_at(bytes, 8);
        let length = u32_at(bytes, 12) as usize;
        let whole = match flags {
            0 | CONTINUES => length > 0 && length <= LOG_BLOCK_BYTES_MAX,
            CLEAN_END | OPENED | SEAL => length == 0,
            _ => false,
        };
        if !whole || bytes[36..BLOCK_HEADER_BYTES] != [0; 12] {
            return Err("the block's header is malformed");
        }
        if length > bytes.len() - BLOCK_HEADER_BYTES {
            return Err("the block is longer than its segment");
        }
        let end = BLOCK_HEADER_BYTES + length;
        let checksum = u32_at(bytes, 4);
        if crc32c_of(&[&database.0, &bytes[8..end]]) != checksum && !planted!(TornBlockAccepted) {
            return Err("the block's checksum is wrong");
        }
        let block = Block {
            checksum,
            flags,
            number: u64_at(bytes, 16),
            durable_through: u64_at(bytes, 24),
            previous_checksum: u32_at(bytes, 32),
            payload: &bytes[BLOCK_HEADER_BYTES..end],
        };
        if block.durable_through >= block.number {
            return Err("the block's header is malformed");
        }
        Ok(block)
    }

    pub fn bytes_on_disk(&self) -> usize {
        block_bytes_on_disk(self.payload.len())
    }
}

pub(crate) fn block_bytes_on_disk(payload_length: usize) -> usize {
    (BLOCK_HEADER_BYTES + payload_length).next_multiple_of(SECTOR_BYTES)
}

/// Leaves room for a block's header at the end of `buffer`; the payload is appended next. Answers
/// where the block begins.
pub(crate) fn begin_block(buffer: &mut SectorBuffer) -> usize {
    let start = buffer.len();
    debug_assert!(start.is_multiple_of(SECTOR_BYTES));
    buffer.extend_zeros(BLOCK_HEADER_BYTES);
    start
}

/// Fills in the header of the block that began at `start`, and pads it. Answers its checksum.
pub(crate) fn finish_block(
    buffer: &mut SectorBuffer,
    start: usize,
    database: DatabaseId,
    flags: u32,
    number: u64,
    durable_through: u64,
    previous_checksum: u32,
) -> u32 {
    let block = &mut buffer.as_mut_slice()[start..];
    let length = block.len() - BLOCK_HEADER_BYTES;
    assert!(length <= LOG_BLOCK_BYTES_MAX && durable_through < number);
    block[0..4].copy_from_slice(BLOCK_MAGIC);
    block[8..12].copy_from_slice(&flags.to_le_bytes());
    block[12..16].copy_from_slice(&(length as u32).to_le_bytes());
    block[16..24].copy_from_slice(&number.to_le_bytes());
    block[24..32].copy_from_slice(&durable_through.to_le_bytes());
    block[32..36].copy_from_slice(&previous_checksum.to_le_bytes());
    let checksum = crc32c_of(&[&database.0, &block[8..]]);
    block[4..8].copy_from_slice(&checksum.to_le_bytes());
    buffer.pad_to_sector();
    checksum
}

/// The sector that ends a segment: all blocks through `durable_through`, some of them in later
/// segments, are durable, and the segment's last block has this checksum. It looks like a block, so
/// that whoever searches for proof finds it.
pub(crate) fn encode_seal(database: DatabaseId, durable_through: u64, last_checksum: u32) -> SectorBuffer {
    let mut sector = SectorBuffer::new();
    let start = begin_block(&mut sector);
    finish_block(&mut sector, start, database, SEAL, durable_through + 1, durable_through, last_checksum);
    sector
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: DatabaseId = DatabaseId(*b"0123456789abcdef");

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_is_seen() {
        let header = SegmentHeader {
            sealed_at_end: true,
            database: DATABASE,
            number: 7,
            bytes: 1 << 20,
            first_block: 12,
            durable_through: 11,
            previous_checksum: 0xdead_beef,
        };
        let mut sector = header.encode();
        assert_eq!(SegmentHeader::decode(&sector), Ok(header));
        for bit in 0..SECTOR_BYTES * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&sector), Err(HeaderFault::Damaged), "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
        let before = SegmentHeader { sealed_at_end: false, ..header };
        assert_eq!(SegmentHeader::decode(&before.encode()), Ok(before));
        assert_eq!((header.blocks_end(), before.blocks_end()), ((1 << 20) - 4_096, 1 << 20));
        assert_eq!(SegmentHeader::decode(&[0; SECTOR_BYTES]), Err(HeaderFault::Blank));
        assert_eq!(SegmentHeader::decode(&[]), Err(HeaderFault::Blank));
    }

    #[test]
    fn a_block_reads_back_and_every_flipped_bit_is_seen() {
        let mut buffer = SectorBuffer::new();
        let start = begin_block(&mut buffer);
        buffer.extend(b"some payload");
        let checksum = finish_block(&mut buffer, start, DATABASE, 0, 5, 4, 99);
        let mut bytes = buffer.as_slice().to_vec();
        assert_eq!(bytes.len(), SECTOR_BYTES);
        let block = Block::decode(DATABASE, &bytes).unwrap();
        assert_eq!((block.checksum, block.number, block.durable_through), (checksum, 5, 4));
        assert_eq!((block.previous_checksum, block.payload), (99, &b"some payload"[..]));
        assert!(Block::decode(DatabaseId([0; 16]), &bytes).is_err());
        for bit in 0..(BLOCK_HEADER_BYTES + 12) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::decode(DATABASE, &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..BLOCK_HEADER_BYTES + 12 {
            assert!(Block::decode(DATABASE, &bytes[..length]).is_err());
        }
    }

    /// A wrong checksum ends almost every decoding of random bytes, so half of the inputs get a
    /// right one.
    #[test]
    fn hostile_bytes_are_refused_without_panic() {
        bolero::check!().with_iterations(20_000).with_type::<(bool, Vec<u8>)>().for_each(|(mend, bytes)| {
            let mut bytes = bytes.clone();
            if *mend && bytes.len() >= BLOCK_HEADER_BYTES {
                bytes[0..4].copy_from_slice(BLOCK_MAGIC);
                let flags = u32::from(bytes[8]) % 16;
                bytes[8..12].copy_from_slice(&flags.to_le_bytes());
                let length = usize::from(bytes[12]) % (bytes.len() - BLOCK_HEADER_BYTES + 2);
                bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
                bytes[36..BLOCK_HEADER_BYTES].fill(0);
                let end = (BLOCK_HEADER_BYTES + length).min(bytes.len());
                let checksum = crc32c_of(&[&DATABASE.0, &bytes[8..end]]);
                bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            }
            if let Ok(block) = Block::decode(DATABASE, &bytes) {
                assert!(
                    block.durable_through < block.number && block.payload.len() <= bytes.len() - BLOCK_HEADER_BYTES
                );
            }
            let mut sector = bytes;
            sector.resize(SECTOR_BYTES, 0);
            sector[0..8].copy_from_slice(SEGMENT_MAGIC);
            let checksum = crc32c(&sector[..SEGMENT_CHECKSUM_AT]);
            sector[SEGMENT_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(header) = SegmentHeader::decode(&sector) {
                assert!(header.bytes <= SEGMENT_BYTES_MAX && header.durable_through < header.first_block);
            }
        });
    }

    #[test]
    fn a_seal_reads_back_as_a_block_that_proves() {
        let sector = encode_seal(DATABASE, 41, 0xdead_beef);
        assert_eq!(sector.len(), SECTOR_BYTES);
        let seal = Block::decode(DATABASE, sector.as_slice()).unwrap();
        assert_eq!((seal.flags, seal.durable_through, seal.previous_checksum), (SEAL, 41, 0xdead_beef));
    }

    /// The bytes of the format page, once and for all.
    #[test]
    fn golden_block() {
        let mut buffer = SectorBuffer::new();
        let start = begin_block(&mut buffer);
        buffer.extend(b"abc");
        finish_block(&mut buffer, start, DATABASE, CONTINUES, 0x0102, 0x0101, 0x0a0b_0c0d);
        let head = &buffer.as_slice()[..51];
        assert_eq!(head[..8], *b"FBLK\x43\x13\xec\xf9");
        assert_eq!(
            head[8..51],
            *b"\x01\0\0\0\x03\0\0\0\x02\x01\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\x0d\x0c\x0b\x0a\0\0\0\0\0\0\0\0\0\0\0\0abc"
        );
        assert!(buffer.as_slice()[51..].iter().all(|byte| *byte == 0));
    }
}
