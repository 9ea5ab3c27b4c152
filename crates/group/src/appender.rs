//! A group's way into the log.
//!
//! Under one lock an entry gets its position and its place in the log's queue, so that both are one
//! order. What a lock costs is paid once for a batch of calls; the checksum over the records is
//! computed before it is taken.

use crate::entry::EntryBuffer;
use crate::replayed::GroupPlace;
use ferrite_base::{GroupId, Position};
use ferrite_io::Clock;
use ferrite_log::{Appender, Completion, LogFailed, LogPosition};
use ferrite_replica::group::{GroupConfiguration, Header, Mark};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// One group's; clone one for each source.
pub struct GroupAppender<C> {
    group: Arc<Shared>,
    log: Appender<Committing<C>>,
    clock: Arc<dyn Clock>,
}

struct Shared {
    id: GroupId,
    place: Mutex<GroupPlace>,
    /// Everything up to there is committed: with one member, durable.
    commit: AtomicU64,
}

impl<C> Clone for GroupAppender<C> {
    fn clone(&self) -> Self {
        let GroupAppender { group, log, clock } = self;
        GroupAppender { group: Arc::clone(group), log: log.clone(), clock: Arc::clone(clock) }
    }
}

/// What the log is given with an append: which entry it was, and whom to tell.
pub struct Committing<C> {
    /// None: a record of this node's own, of no stream.
    entry: Option<(Arc<Shared>, Position)>,
    party: C,
}

impl<C: Completion> Completion for Committing<C> {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>) {
        if let (Some((group, position)), Ok(())) = (&self.entry, &outcome) {
            group.committed(*position);
        }
        self.party.complete(payload, outcome);
    }
}

/// What a checkpoint record stands behind.
pub struct Checkpointed {
    pub group: GroupId,
    pub place: GroupPlace,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, GroupPlace> {
        self.place.lock().expect("a panic under the group's lock ends the process")
    }

    /// Called by the log, in the order of positions.
    fn committed(&self, position: Position) {
        let before = self.commit.swap(position.0, Ordering::Release);
        assert!(before < position.0, "entries are committed in order: {position} after {before}");
    }
}

impl<C: Completion> GroupAppender<C> {
    /// Goes on behind `place`, all of which is committed.
    pub fn new(
        group: GroupId,
        place: GroupPlace,
        log: Appender<Committing<C>>,
        clock: Arc<dyn Clock>,
    ) -> GroupAppender<C> {
        let commit = AtomicU64::new(place.end.position.0);
        GroupAppender { group: Arc::new(Shared { id: group, place: Mutex::new(place), commit }), log, clock }
    }

    pub fn id(&self) -> GroupId {
        self.group.id
    }

    pub fn commit(&self) -> Position {
        Position(self.group.commit.load(Ordering::Acquire))
    }

    /// What the stream has come to.
    pub fn place(&self) -> GroupPlace {
        self.group.lock().clone()
    }

    /// Where the stream ends.
    pub fn end(&self) -> Mark {
        self.group.lock().end
    }

    /// Appends an entry with these records; without any, it is a barrier: completed when all before
    /// it is, and written nowhere.
    pub fn append(&self, records: EntryBuffer, party: C) {
        if records.is_empty() {
            return self.append_own(Vec::new(), party);
        }
        let checksum = records.checksum();
        let mut place = self.group.lock();
        self.put(&mut place, records, checksum, false, party);
    }

    /// Appends the first entry of `configuration`'s epoch.
    pub fn start_epoch(&self, configuration: GroupConfiguration, party: C) {
        let mut place = self.group.lock();
        let mut body = EntryBuffer::default();
        body.records().extend_from_slice(&configuration.encode(place.end));
        let checksum = body.checksum();
        place.begin(configuration);
        self.put(&mut place, body, checksum, true, party);
    }

    fn put(&self, place: &mut GroupPlace, records: EntryBuffer, checksum: u32, starts_epoch: bool, party: C) {
        let length = records.len().try_into().expect("an entry is bounded by the limit of a transaction's changes");
        let epoch = place.configuration.epoch;
        let header = Header::after(self.group.id, place.end, epoch, starts_epoch, checksum, length);
        // Clocks may go back; this does not.
        place.time = place.time.max(self.clock.wall_micros());
        let payload = records.seal(self.group.id, &header, self.commit(), place.time);
        place.end = header.mark;
        let entry = Some((Arc::clone(&self.group), header.mark.position));
        // The lock is held, so that the log has entries in the order of their positions.
        self.log.append(payload, Committing { entry, party });
    }

    /// Appends a record of this node's own, of no stream.
    pub fn append_own(&self, payload: Vec<u8>, party: C) {
        self.log.append(payload, Committing { entry: None, party });
    }

    /// Appends a checkpoint record: `write` is told where the streams have come to. It begins a
    /// block, whose place is in `mark` when the append completes.
    pub fn append_checkpoint(
        &self,
        write: impl FnOnce(&Checkpointed) -> Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        party: C,
    ) -> Checkpointed {
        let place = self.group.lock();
        let reached = Checkpointed { group: self.group.id, place: place.clone() };
        self.log.append_marked(write(&reached), mark, Committing { entry: None, party });
        reached
    }
}
