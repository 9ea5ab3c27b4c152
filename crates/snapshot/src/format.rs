//! The bytes of rows files, as docs/format/snapshot.md lays them down. Pure.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::checksum::crc32c_of;
use ferrite_io::SectorBuffer;
use ferrite_table::{Shape, StoredColumn};

pub(crate) const FORMAT_VERSION: u32 = 1;
pub(crate) const BLOCK_HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"FSNB";

pub(crate) const HEAD: u32 = 1;
pub(crate) const TABLE: u32 = 2;
pub(crate) const ROWS: u32 = 3;
pub(crate) const END: u32 = 4;

/// Which file it is: part of every block's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileIdentity {
    /// That of the log.
    pub database: [u8; 16],
    pub snapshot: u64,
    pub partition: u32,
}

/// What a rows file says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub database: [u8; 16],
    pub partitions: u32,
    /// Microseconds since 1970.
    pub taken: i64,
}

/// A block's place in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockLink {
    pub number: u32,
    pub previous_checksum: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub checksum: u32,
    pub kind: u32,
    pub payload_bytes: usize,
    pub snapshot: u64,
    pub partition: u32,
    pub place: BlockLink,
    pub table: u32,
    pub rows: u32,
}

/// Leaves room for a block's header at the end of `buffer`; the payload is appended next. Answers
/// where the block begins.
pub(crate) fn begin_block(buffer: &mut SectorBuffer) -> usize {
    let start = buffer.len();
    buffer.extend_zeros(BLOCK_HEADER_BYTES);
    start
}

/// Fills in the header of the block that began at `start`, and pads it. Answers its checksum.
pub(crate) fn finish_block(
    buffer: &mut SectorBuffer,
    start: usize,
    identity: &FileIdentity,
    place: BlockLink,
    kind: u32,
    table: u32,
    rows: u32,
) -> u32 {
    let block = &mut buffer.as_mut_slice()[start..];
    let payload = block.len() - BLOCK_HEADER_BYTES;
    block[0..4].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&kind.to_le_bytes());
    block[12..16].copy_from_slice(&(payload as u32).to_le_bytes());
    block[16..24].copy_from_slice(&identity.snapshot.to_le_bytes());
    block[24..28].copy_from_slice(&identity.partition.to_le_bytes());
    block[28..32].copy_from_slice(&place.number.to_le_bytes());
    block[32..36].copy_from_slice(&table.to_le_bytes());
    block[36..40].copy_from_slice(&rows.to_le_bytes());
    block[40..44].copy_from_slice(&place.previous_checksum.to_le_bytes());
    let checksum = crc32c_of(&[&identity.database, &block[8..]]);
    block[4..8].copy_from_slice(&checksum.to_le_bytes());
    buffer.pad_to_sector();
    checksum
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

impl BlockHeader {
    /// Decodes the first 64 bytes of a block. Its checksum is not looked at yet.
    pub fn decode(bytes: &[u8]) -> Result<BlockHeader, &'static str> {
        let Some(bytes) = bytes.get(..BLOCK_HEADER_BYTES) else { return Err("the file ends within a block") };
        if bytes[0..4] != *MAGIC {
            return Err("no block begins here");
        }
        if bytes[44..] != [0; 20] {
            return Err("the block's header is malformed");
        }
        Ok(BlockHeader {
            checksum: u32_at(bytes, 4),
            kind: u32_at(bytes, 8),
            payload_bytes: u32_at(bytes, 12) as usize,
            snapshot: u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")),
            partition: u32_at(bytes, 24),
            place: BlockLink { number: u32_at(bytes, 28), previous_checksum: u32_at(bytes, 40) },
            table: u32_at(bytes, 32),
            rows: u32_at(bytes, 36),
        })
    }

    /// Whether `block`, header and payload, has this header's checksum.
    pub fn fits(&self, database: &[u8; 16], block: &[u8]) -> bool {
        crc32c_of(&[database, &block[8..BLOCK_HEADER_BYTES + self.payload_bytes]]) == self.checksum
    }
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FORMAT_VERSION.to_le_bytes().to_vec();
        out.extend_from_slice(&self.database);
        out.extend_from_slice(&self.partitions.to_le_bytes());
        out.extend_from_slice(&self.taken.to_le_bytes());
        out
    }

    /// The format version, and what follows it if that is ours.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(u32, Option<Head>), ReadFault> {
        let mut bytes = Reader::<ReadFault>::new(bytes);
        let version = bytes.u32()?;
        if version != FORMAT_VERSION {
            return Ok((version, None));
        }
        let head = Head { database: bytes.array()?, partitions: bytes.u32()?, taken: bytes.i64()? };
        bytes.end()?;
        Ok((version, Some(head)))
    }
}

pub(crate) fn encode_shape(shape: &Shape) -> Vec<u8> {
    let mut out = u32::from(shape.is_view).to_le_bytes().to_vec();
    out.extend_from_slice(&shape.row_bytes.to_le_bytes());
    out.extend_from_slice(&shape.pages.to_le_bytes());
    out.extend_from_slice(&shape.rows.to_le_bytes());
    out.extend_from_slice(&(shape.columns.len() as u16).to_le_bytes());
    for column in &shape.columns {
        out.push(column.storage);
        out.push(u8::from(column.nullable));
        out.extend_from_slice(&column.bytes.to_le_bytes());
    }
    out.extend_from_slice(&(shape.name.len() as u16).to_le_bytes());
    out.extend_from_slice(shape.name.as_bytes());
    out
}

pub(crate) fn decode_shape(bytes: &[u8]) -> Result<Shape, ReadFault> {
    let mut bytes = Reader::<ReadFault>::new(bytes);
    let is_view = match bytes.u32()? {
        0 => false,
        1 => true,
        _ => return Err(ReadFault::Malformed("a table is neither a table nor a view")),
    };
    let row_bytes = bytes.u32()?;
    let pages = bytes.u32()?;
    let rows = bytes.u64()?;
    let mut columns = Vec::new();
    for _ in 0..bytes.u16()? {
        columns.push(StoredColumn { storage: bytes.u8()?, nullable: bytes.flag()?, bytes: bytes.u16()? });
    }
    let name = bytes.short_text()?.to_owned();
    bytes.end()?;
    Ok(Shape { is_view, row_bytes, pages, rows, columns, name })
}

pub(crate) fn encode_end(blocks: u32, rows: u64) -> Vec<u8> {
    [&blocks.to_le_bytes()[..], &rows.to_le_bytes()[..]].concat()
}

pub(crate) fn decode_end(bytes: &[u8]) -> Result<(u32, u64), ReadFault> {
    let mut bytes = Reader::<ReadFault>::new(bytes);
    let end = (bytes.u32()?, bytes.u64()?);
    bytes.end()?;
    Ok(end)
}
