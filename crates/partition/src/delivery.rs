//! What passes between an applier and the others: entries that come, their changes on the way to a
//! copy's partitions, and what it hands out.

use crate::compiled::Compiled;
use crate::content_hashes::ContentHashes;
use crate::judge::ReplayError;
use crate::lots::LotLedger;
use crate::schema::SchemaHistory;
use crate::waker::WakingSender;
use crossbeam_channel::Sender;
use ferrite_base::{PartitionId, Position, Sequence};
use ferrite_catalog::Catalog;
use ferrite_group::GroupPlace;
use ferrite_table::Store;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every cause of work for an applier.
pub enum Delivery {
    /// Committed entries, after all that came earlier; [`Intake::entries`] sends them.
    Entries(Arc<Arrival>),
    /// Entries that are to be read from the node's log come next; [`Intake::up_to`] sends this.
    ///
    /// [`Intake::up_to`]: crate::applier::Intake::up_to
    FromLog,
    /// A partition has applied a parcel, or cannot.
    Applied {
        partition: PartitionId,
        outcome: Result<(), CopyFault>,
    },
    /// Snapshots of all stores, as they are at the first moment at which they show everything up to
    /// `from`, and one entry whole. Asked for again, or where the applier ends, it is dropped.
    Snapshot {
        from: Position,
        to: Sender<CopySnapshot>,
    },
    /// What was hashed of a [`ContentCut`](crate::contents::ContentCut).
    Contents(ContentHashes),
    /// Ends with what a leader needs, when everything that came before is applied.
    Promote(Sender<Promoted>),
    Stop,
}

/// Entries that came in one piece. They count until the last partition has applied its part.
pub struct Arrival {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: Arc<AtomicUsize>,
}

impl std::ops::Deref for Arrival {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// All stores as they are after one entry.
pub struct CopySnapshot {
    pub place: GroupPlace,
    /// By partition; snapshots of the stores.
    pub stores: Vec<Store>,
    pub sequences: Vec<Sequence>,
    pub catalog: Arc<Catalog>,
    pub history: SchemaHistory,
    pub lots: LotLedger,
}

/// The state of a copy when it becomes the leader.
pub struct Promoted {
    pub place: GroupPlace,
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    /// What the stream says of lots.
    pub lots: LotLedger,
}

/// Row changes of committed entries for one partition, in order, by reference to the entries'
/// bytes.
pub struct Parcel {
    /// Entries as they are in the log, of other partitions too.
    bytes: Arc<Arrival>,
    items: Vec<Item>,
    /// Bytes of the items.
    length: usize,
    /// Where to say that they are applied.
    back: WakingSender<Delivery>,
}

/// One record's changes.
struct Item {
    entry: Position,
    first: Sequence,
    /// None: the bytes are one transaction's changes.
    count: Option<u32>,
    place: Range<usize>,
}

/// One record's changes, as a partition takes them.
pub(crate) struct Piece<'p> {
    pub entry: Position,
    pub first: Sequence,
    pub count: Option<u32>,
    pub changes: &'p [u8],
}

impl Parcel {
    pub(crate) fn new(bytes: Arc<Arrival>, back: WakingSender<Delivery>) -> Parcel {
        Parcel { bytes, items: Vec::new(), length: 0, back }
    }

    /// `changes` is a part of the parcel's bytes.
    pub(crate) fn add(&mut self, entry: Position, first: Sequence, count: Option<u32>, changes: &[u8]) {
        let start = changes.as_ptr() as usize - self.bytes.as_ptr() as usize;
        let place = start..start + changes.len();
        assert!(place.end <= self.bytes.len(), "a parcel's changes are among its bytes");
        self.length += changes.len();
        self.items.push(Item { entry, first, count, place });
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let piece = |Item { entry, first, count, place }: &Item| (*entry, *first, *count, place.clone());
        self.items.iter().map(piece).map(|(entry, first, count, place)| Piece {
            entry,
            first,
            count,
            changes: &self.bytes[place],
        })
    }

    /// Bytes of its changes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The first entry of which it has something.
    pub(crate) fn first_entry(&self) -> Option<Position> {
        self.items.first().map(|item| item.entry)
    }

    /// Tells the applier what became of it. One that has ended need not know.
    pub(crate) fn finish(self, partition: PartitionId, outcome: Result<(), CopyFault>) {
        let back = self.back.clone();
        // By then it must not count any more.
        drop(self);
        let _ = back.send(Delivery::Applied { partition, outcome });
    }
}

/// Why a copy cannot continue. What it has is right up to some entry and not to be used any more:
/// it is made anew.
#[derive(Clone, Debug)]
pub struct CopyFault {
    /// The entry that could not be applied.
    pub entry: Position,
    /// Says partition and table, where it is one of theirs.
    pub reason: ReplayError,
}

impl fmt::Display for CopyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyFault { entry, reason } = self;
        if let ReplayError::Contents { .. } = reason {
            return write!(f, "this copy differs from the leader at entry {entry} and must be rebuilt: {reason}");
        }
        write!(f, "this copy cannot apply entry {entry} and must be rebuilt: {reason}")
    }
}

impl std::error::Error for CopyFault {}
