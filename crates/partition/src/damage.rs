//! A log of which acknowledged transactions cannot be read: what is at stake, and how it is
//! reported.

use crate::record::{self, Record};
use ferrite_base::{PartitionId, Sequence};
use ferrite_io::Disk;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where the log cannot be read further, though it continued there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDamage {
    /// Where what can be read ends.
    pub path: PathBuf,
    pub position: u64,
    /// The segment in which it should continue, where that is missing.
    pub missing: Option<PathBuf>,
    /// It is known that something durable was there.
    pub certain: bool,
    pub detail: String,
    pub stake: Vec<Stake>,
    /// The last transaction of each partition that can be read, if any can; of the partitions that
    /// the node has.
    pub reached: Vec<(PartitionId, Sequence)>,
}

/// Transactions of one partition that are lost if the log ends where it cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stake {
    pub partition: PartitionId,
    /// The first that cannot be read.
    pub first: Sequence,
    /// The last that is known of; there may be more.
    pub last: Sequence,
}

impl LogDamage {
    /// The file, the place and the reason, in words.
    pub fn place(&self) -> String {
        let LogDamage { path, position, missing, detail, .. } = self;
        match missing {
            None => format!("redo log {} is damaged at byte {position}: {detail}", path.display()),
            Some(missing) if missing == path => format!("redo log segment {} is missing: {detail}", path.display()),
            Some(missing) => format!(
                "redo log segment {} is missing: {detail}. What can be read ends at byte {position} of {}",
                missing.display(),
                path.display()
            ),
        }
    }

    /// Where the readable part of the log ends, partition by partition; nothing where no database
    /// is known.
    pub(crate) fn reached(&self) -> String {
        let each = self.reached.iter();
        let each: Vec<String> = each.map(|(partition, last)| format!("{last} of partition {partition}")).collect();
        if each.is_empty() {
            String::new()
        } else {
            format!("what can be read ends with transaction {}", each.join(", "))
        }
    }
}

/// With what is to be done about it where this is the only copy. A node of a cluster says something
/// else: a file from a copy may lack what the node has acknowledged since.
impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stand = match (self.missing.is_some(), self.certain || !self.stake.is_empty()) {
            (true, _) => "Acknowledged transactions stood in it",
            (false, true) => "Acknowledged transactions stand there and behind",
            (false, false) => "Acknowledged transactions may have stood there",
        };
        write!(f, "{}. {stand}: nothing was changed.", self.place())?;
        for Stake { partition, first, last } in &self.stake {
            write!(f, " Partition {partition}: from transaction {first} to at least {last}.")?;
        }
        if self.stake.is_empty() && !self.reached.is_empty() {
            write!(f, " Which, is not known; {}.", self.reached())?;
        }
        write!(
            f,
            " Restore the file from a copy{}; or, to go on without these transactions, run: ferrite admin recover --dir {} \
             --accept-loss",
            // One that was moved away and linked to is as good as gone.
            if self.missing.is_some() { ", as a file and not as a link" } else { "" },
            self.path.parent().unwrap_or(&self.path).display()
        )
    }
}

/// Reports the last transaction of each record; of those in entries too, which are not nested.
fn visit(mut records: &[u8], within: bool, meet: &mut dyn FnMut(PartitionId, Sequence)) {
    while let Ok(Some(record)) = record::next_record(&mut records) {
        match record {
            Record::Batch { partition, first, count, .. } => {
                meet(partition, Sequence(first.0.saturating_add(u64::from(count)).saturating_sub(1)));
            }
            Record::Multi { parts, .. } => parts.iter().for_each(|part| meet(part.partition, part.sequence)),
            Record::Entry(entry) if !within && !entry.header.starts_epoch => visit(entry.body, true, meet),
            _ => {}
        }
    }
}

/// What is known of transactions that are at or after a position in the log and were not replayed.
pub(crate) fn at_stake(disk: &dyn Disk, path: &Path, position: u64, reached: &[(PartitionId, Sequence)]) -> Vec<Stake> {
    let mut last: BTreeMap<PartitionId, Sequence> = BTreeMap::new();
    let mut meet = |partition: PartitionId, sequence: Sequence| {
        let known = last.entry(partition).or_default();
        *known = (*known).max(sequence);
    };
    // An error of the disk leaves fewer figures, not a wrong decision.
    let _ = ferrite_log::blocks_behind(disk, path, position, |payload| visit(payload, false, &mut meet));
    let first = |partition: PartitionId| {
        let known = reached.iter().find(|(known, _)| *known == partition);
        Sequence(known.map_or(0, |(_, last)| last.0) + 1)
    };
    let stakes = last.into_iter().map(|(partition, last)| Stake { partition, first: first(partition), last });
    // Of groups that are not hosted, other nodes have what there is.
    let is_here = |stake: &Stake| reached.is_empty() || reached.iter().any(|(known, _)| *known == stake.partition);
    stakes.filter(|stake| stake.first <= stake.last && is_here(stake)).collect()
}
