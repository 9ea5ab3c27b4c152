//! The manifest: what a snapshot is, and where the log goes on from it. Bytes only.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::checksum::crc32c;
use ferrite_base::{Epoch, GroupId, GroupMap, GroupPartitions, Position, Sequence};

const MAGIC: &[u8; 8] = b"FERRSNAP";
/// Of a database of several groups.
const VERSION: u32 = 3;
const VERSION_ONE_GROUP: u32 = 2;
const VERSION_WITHOUT_GROUPS: u32 = 1;
const CHECKSUM_AT: usize = 12;
const SUMMED_FROM: usize = 16;

/// Where a block stands in the log, and what comes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPlace {
    pub segment: u64,
    /// In the segment's file.
    pub position: u64,
    pub block: u64,
    pub previous_checksum: u32,
}

/// A schema record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaChange {
    /// The catalog's after the change.
    pub version: u64,
    /// The transaction's, microseconds since 1970.
    pub time: i64,
    pub text: String,
}

/// A schema in one text, in place of the changes that led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaBase {
    pub version: u64,
    pub next_table_id: u32,
    pub next_index_id: u32,
    pub text: String,
    /// Tables, views and streams.
    pub tables: Vec<(u32, String)>,
    pub indexes: Vec<(u32, String)>,
}

/// One partition's rows file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsFile {
    pub epoch: Epoch,
    /// Of the last transaction that the file shows.
    pub sequence: Sequence,
    pub bytes: u64,
    pub blocks: u32,
    /// Of the last block, and so of all.
    pub checksum: u32,
    pub rows: u64,
}

/// Where the stream of a group had come to (docs/replication.md).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupEnd {
    pub group: GroupId,
    /// Of the last entry that the snapshot shows.
    pub epoch: Epoch,
    pub position: Position,
    pub chain: u32,
    /// The highest time of an entry, microseconds since 1970.
    pub time: i64,
    /// The epochs so far, with the positions of their first entries.
    pub starts: Vec<(Epoch, Position)>,
    /// As in the start of the epoch.
    pub configuration: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// That of the log.
    pub database: [u8; 16],
    pub snapshot: u64,
    /// Microseconds since 1970.
    pub taken: i64,
    /// From the log's first record.
    pub map: GroupMap,
    pub created_ms: u64,
    pub genesis_id: [u8; 16],
    /// Of the block that begins with the checkpoint record.
    pub log: LogPlace,
    pub catalog_version: u64,
    pub base: Option<SchemaBase>,
    pub changes: Vec<SchemaChange>,
    /// By the places of [`Manifest::partitions`].
    pub files: Vec<RowsFile>,
    /// None in those of earlier releases, and in backups. One in a snapshot, which is of one group.
    pub groups: Vec<GroupEnd>,
    /// What the group's stream has said of lots (docs/format/lots.md); empty where the database has
    /// one group.
    pub lots: Vec<u8>,
}

/// Why bytes are not a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ManifestFault {
    Damaged(&'static str),
    Version(u32),
}

impl Manifest {
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The partitions that it shows, all of its group. None: it does not say of which.
    pub fn shown(&self) -> Option<GroupPartitions> {
        match &self.groups[..] {
            [] if self.map.is_single() => self.map.partitions_of(GroupId(0)),
            [end] => self.map.partitions_of(end.group),
            _ => None,
        }
    }

    /// The same.
    ///
    /// # Panics
    /// If it was not read, and is of no group.
    pub fn partitions(&self) -> GroupPartitions {
        self.shown().expect("a manifest that was read says which partitions it shows")
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let version = match self.map.is_single() {
            false => VERSION,
            true if self.groups.is_empty() => VERSION_WITHOUT_GROUPS,
            true => VERSION_ONE_GROUP,
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&self.database);
        out.extend_from_slice(&self.snapshot.to_le_bytes());
        out.extend_from_slice(&self.taken.to_le_bytes());
        out.extend_from_slice(&self.map.partitions().to_le_bytes());
        out.extend_from_slice(&self.created_ms.to_le_bytes());
        out.extend_from_slice(&self.genesis_id);
        out.extend_from_slice(&self.log.segment.to_le_bytes());
        out.extend_from_slice(&self.log.position.to_le_bytes());
        out.extend_from_slice(&self.log.block.to_le_bytes());
        out.extend_from_slice(&self.log.previous_checksum.to_le_bytes());
        out.extend_from_slice(&self.catalog_version.to_le_bytes());
        out.push(u8::from(self.base.is_some()));
        if let Some(base) = &self.base {
            out.extend_from_slice(&base.version.to_le_bytes());
            out.extend_from_slice(&base.next_table_id.to_le_bytes());
            out.extend_from_slice(&base.next_index_id.to_le_bytes());
            put_text(&mut out, &base.text);
            for names in [&base.tables, &base.indexes] {
                out.extend_from_slice(&(names.len() as u32).to_le_bytes());
                for (id, name) in names {
                    out.extend_from_slice(&id.to_le_bytes());
                    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
                    out.extend_from_slice(name.as_bytes());
                }
            }
        }
        out.extend_from_slice(&(self.changes.len() as u32).to_le_bytes());
        for change in &self.changes {
            out.extend_from_slice(&change.version.to_le_bytes());
            out.extend_from_slice(&change.time.to_le_bytes());
            put_text(&mut out, &change.text);
        }
        out.extend_from_slice(&(self.files.len() as u32).to_le_bytes());
        for file in &self.files {
            out.extend_from_slice(&file.epoch.0.to_le_bytes());
            out.extend_from_slice(&file.sequence.0.to_le_bytes());
            out.extend_from_slice(&file.bytes.to_le_bytes());
            out.extend_from_slice(&file.blocks.to_le_bytes());
            out.extend_from_slice(&file.checksum.to_le_bytes());
            out.extend_from_slice(&file.rows.to_le_bytes());
        }
        if version > VERSION_WITHOUT_GROUPS {
            out.extend_from_slice(&(self.groups.len() as u32).to_le_bytes());
        }
        self.groups.iter().for_each(|group| put_group(&mut out, group));
        if !self.map.is_single() {
            self.map.put(&mut out);
            out.extend_from_slice(&(self.lots.len() as u32).to_le_bytes());
            out.extend_from_slice(&self.lots);
        }
        let bytes = out.len() as u64;
        out[SUMMED_FROM..SUMMED_FROM + 8].copy_from_slice(&bytes.to_le_bytes());
        let checksum = crc32c(&out[SUMMED_FROM..]);
        out[CHECKSUM_AT..SUMMED_FROM].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, ManifestFault> {
        let (Some(head), Some(summed)) = (bytes.get(..SUMMED_FROM), bytes.get(SUMMED_FROM..)) else {
            return Err(ManifestFault::Damaged("the file ends early"));
        };
        if head[..8] != *MAGIC || crc32c(summed).to_le_bytes() != head[CHECKSUM_AT..] {
            return Err(ManifestFault::Damaged("the checksum is wrong"));
        }
        let version = u32::from_le_bytes(head[8..12].try_into().expect("4 bytes"));
        if !(VERSION_WITHOUT_GROUPS..=VERSION).contains(&version) {
            return Err(ManifestFault::Version(version));
        }
        let mut body = Reader::new(summed);
        if body.u64() != Ok(bytes.len() as u64) {
            return Err(ManifestFault::Damaged("the file is not as long as it says"));
        }
        Manifest::body(body, version).map_err(|_| ManifestFault::Damaged("the contents are malformed"))
    }

    fn body(mut body: Reader<'_>, version: u32) -> Result<Manifest, ReadFault> {
        let mut manifest = Manifest {
            database: body.array()?,
            snapshot: body.u64()?,
            taken: body.i64()?,
            map: GroupMap::single(body.u32()?),
            created_ms: body.u64()?,
            genesis_id: body.array()?,
            log: LogPlace {
                segment: body.u64()?,
                position: body.u64()?,
                block: body.u64()?,
                previous_checksum: body.u32()?,
            },
            catalog_version: body.u64()?,
            base: match body.flag()? {
                false => None,
                true => Some(SchemaBase {
                    version: body.u64()?,
                    next_table_id: body.u32()?,
                    next_index_id: body.u32()?,
                    text: read_text(&mut body)?,
                    tables: read_names(&mut body)?,
                    indexes: read_names(&mut body)?,
                }),
            },
            changes: body.list(usize::MAX, |body| {
                Ok(SchemaChange { version: body.u64()?, time: body.i64()?, text: read_text(body)? })
            })?,
            files: body.list(usize::MAX, |body| {
                Ok(RowsFile {
                    epoch: Epoch(body.u64()?),
                    sequence: Sequence(body.u64()?),
                    bytes: body.u64()?,
                    blocks: body.u32()?,
                    checksum: body.u32()?,
                    rows: body.u64()?,
                })
            })?,
            groups: if version > VERSION_WITHOUT_GROUPS { body.list(usize::MAX, read_group)? } else { Vec::new() },
            lots: Vec::new(),
        };
        let partitions = manifest.map.partitions();
        if version > VERSION_ONE_GROUP {
            manifest.map = GroupMap::read(&mut body)?;
            let length = body.u32()? as usize;
            manifest.lots = body.bytes(length)?.to_vec();
        }
        body.end()?;
        let sound = partitions > 0
            && manifest.map.partitions() == partitions
            && manifest.map.is_single() == (version <= VERSION_ONE_GROUP)
            && manifest.shown().is_some_and(|shown| shown.len() == manifest.files.len())
            && manifest.log.segment > 0
            && manifest.log.block > 0;
        if sound { Ok(manifest) } else { Err(ReadFault::Malformed("its numbers do not fit together")) }
    }
}

fn put_group(out: &mut Vec<u8>, group: &GroupEnd) {
    out.extend_from_slice(&group.group.0.to_le_bytes());
    out.extend_from_slice(&group.epoch.0.to_le_bytes());
    out.extend_from_slice(&group.position.0.to_le_bytes());
    out.extend_from_slice(&group.chain.to_le_bytes());
    out.extend_from_slice(&group.time.to_le_bytes());
    out.extend_from_slice(&(group.starts.len() as u32).to_le_bytes());
    for (epoch, position) in &group.starts {
        out.extend_from_slice(&epoch.0.to_le_bytes());
        out.extend_from_slice(&position.0.to_le_bytes());
    }
    out.extend_from_slice(&(group.configuration.len() as u32).to_le_bytes());
    out.extend_from_slice(&group.configuration);
}

fn read_group(body: &mut Reader<'_>) -> Result<GroupEnd, ReadFault> {
    Ok(GroupEnd {
        group: GroupId(body.u32()?),
        epoch: Epoch(body.u64()?),
        position: Position(body.u64()?),
        chain: body.u32()?,
        time: body.i64()?,
        starts: body.list(usize::MAX, |body| Ok((Epoch(body.u64()?), Position(body.u64()?))))?,
        configuration: {
            let length = body.u32()? as usize;
            body.bytes(length)?.to_vec()
        },
    })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read_text(body: &mut Reader<'_>) -> Result<String, ReadFault> {
    let length = body.u32()? as usize;
    body.text(length).map(str::to_owned)
}

fn read_names(body: &mut Reader<'_>) -> Result<Vec<(u32, String)>, ReadFault> {
    body.list(usize::MAX, |body| Ok((body.u32()?, body.short_text()?.to_owned())))
}
