//! A group's way into the log, for the threads that execute transactions.
//!
//! Under one lock an entry gets its position and its place in the log's queue, so that both are one
//! order. What a lock costs is paid once for a batch of calls; the checksum over the records is
//! computed before it is taken.

use crate::entry::EntryBuffer;
use crate::host::Party;
use crate::replayed::GroupPlace;
use crate::replication::{Committing, Replication};
use ferrite_base::{Epoch, GroupId, Position};
use ferrite_io::Clock;
use ferrite_log::{Appender, LogPosition};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::sync::{Arc, OnceLock};

/// One group's; clone one for each source.
pub struct GroupAppender<C: Party>(Arc<Replication<C>>, Option<Epoch>);

impl<C: Party> Clone for GroupAppender<C> {
    fn clone(&self) -> Self {
        GroupAppender(Arc::clone(&self.0), self.1)
    }
}

/// What a checkpoint record comes after.
pub struct Checkpointed {
    pub group: GroupId,
    pub place: GroupPlace,
}

impl<C: Party> GroupAppender<C> {
    pub fn new(replication: Arc<Replication<C>>) -> GroupAppender<C> {
        GroupAppender(replication, None)
    }

    /// The same for one leadership: once the leader that opened with this epoch is deposed, appends
    /// through it are refused, even if the node leads again.
    pub fn since(&self, opened: Epoch) -> GroupAppender<C> {
        GroupAppender(Arc::clone(&self.0), Some(opened))
    }

    /// The epoch with which the leader opened in whose name it appends.
    pub fn opened(&self) -> Option<Epoch> {
        self.1
    }

    /// Whose way into the log it is.
    pub fn group(&self) -> &Arc<Replication<C>> {
        &self.0
    }

    /// The group has no other members and never will.
    pub fn is_solo(&self) -> bool {
        self.0.is_solo()
    }

    /// For a read that has just run: the round that must be confirmed before it is answered,
    /// besides the commit of what it saw; 0: none, because only this node can lead. None: it no
    /// longer leads.
    pub fn read(&self) -> Option<u64> {
        self.0.read_since(self.1)
    }

    /// For a node without others, which continues after `place`, all of which is committed.
    pub fn alone(
        group: GroupId,
        here: Member,
        place: GroupPlace,
        log: Appender<Committing<C>>,
        clock: Arc<dyn Clock>,
    ) -> GroupAppender<C> {
        GroupAppender::new(Replication::alone(group, here, place, log, clock))
    }

    /// Whether an append would wait for neither the log nor other members.
    pub fn has_room(&self) -> bool {
        self.0.has_room()
    }

    pub fn id(&self) -> GroupId {
        self.0.id()
    }

    pub fn commit(&self) -> Position {
        self.0.commit()
    }

    /// What the stream has come to.
    pub fn place(&self) -> GroupPlace {
        self.0.place()
    }

    /// The time of a transaction that begins now, as a client sees it: whole milliseconds, in
    /// microseconds since 1970, which does not go back when another node leads. `wall`: as of the
    /// group's clock.
    #[inline]
    pub fn transaction_time(&self, wall: i64) -> i64 {
        self.0.transaction_time(wall)
    }

    /// Numbers of new transactions are above this: an earlier leader may have given those below.
    pub fn numbers_behind(&self) -> i64 {
        self.0.numbers_behind()
    }

    /// Times of entries to come are not below `micros`, whatever the clock says.
    pub fn raise_time(&self, micros: i64) {
        self.0.raise_time(micros);
    }

    /// Where the stream ends.
    pub fn end(&self) -> Mark {
        self.0.end()
    }

    /// Appends an entry with these records; without any, it is a barrier: completed when all before
    /// it is, and written nowhere. Waits only if too much is queued already. Returns the entry;
    /// None: there is none, or `party` learns that there is none.
    pub fn append(&self, records: EntryBuffer, party: C) -> Option<Mark> {
        self.0.append_since(records, party, self.1)
    }

    /// Appends the first entry of `configuration`'s epoch, of a node without others.
    pub fn start_epoch(&self, configuration: GroupConfiguration, party: C) {
        self.0.start_epoch(configuration, party);
    }

    /// Appends a record of this node's own, of no stream; it is completed when it is durable and
    /// all before it is committed.
    pub fn append_own(&self, payload: Vec<u8>, party: C) {
        self.0.append_own(payload, party);
    }

    /// Appends a checkpoint record: `write` gets the place that the streams have come to. It begins
    /// a block, whose place is in `mark` when the append completes. Refused like an entry where the
    /// leadership has ended: the tables show what is in no stream.
    pub fn append_checkpoint(
        &self,
        write: impl FnOnce(&Checkpointed) -> Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        party: C,
    ) -> Checkpointed {
        let group = self.0.id();
        let write = |place: &GroupPlace| write(&Checkpointed { group, place: place.clone() });
        Checkpointed { group, place: self.0.append_checkpoint(write, mark, party, self.1) }
    }
}
