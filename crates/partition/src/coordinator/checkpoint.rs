//! What a snapshot or a backup shows: all stores at one moment, and the record that says which.
//!
//! Promises that a record is of what was taken, and that one of the database's own snapshots never
//! stands for a backup's, nor the reverse.

use super::lots::LotSide;
use super::{BACKUP, Coordinator, TakenSnapshot, WithoutLog};
use crate::commit::{Completion, Parties};
use crate::record;
use crate::thread::RECORD_EPOCH;
use crossbeam_channel::bounded;
use ferrite_base::{Epoch, GroupId, Sequence};
use ferrite_group::{Checkpointed, EntryBuffer};
use ferrite_io::SECTOR_BYTES;
use ferrite_log::LogPosition;
use ferrite_replica::group::Mark;
use std::sync::{Arc, OnceLock};

/// Writes a record of places.
type WritePlaces = fn(&mut Vec<u8>, u64, u64, &[(Epoch, Sequence)], &[(GroupId, Mark)]);

/// The place of a backup that no log leads to. Nothing is read from there.
const LOG_BEGINS: LogPosition =
    LogPosition { segment: 1, position: SECTOR_BYTES as u64, block: 1, previous_checksum: 0 };

impl Coordinator {
    /// Takes snapshots of all stores, and writes the record of them: everything before it in the
    /// log is in them, and nothing after it.
    pub(super) fn checkpoint(&mut self, snapshot: u64) -> TakenSnapshot {
        let mut borrowed = self.borrow(&vec![true; self.partitions.len()]);
        let mut stores = Vec::new();
        let mut places = Vec::new();
        for (store, position) in borrowed.iter_mut().flatten() {
            stores.push(store.snapshot(|_| true));
            places.push((RECORD_EPOCH, position.sequence));
        }
        // Others may compare what they have after this entry.
        let contents = if self.steps_back {
            let mut records = EntryBuffer::default();
            record::write_content_mark(records.records(), snapshot);
            self.log.append(records, Completion { parties: Parties::Several(Vec::new()), buffers: None })
        } else {
            None
        };
        let mark = Arc::new(OnceLock::new());
        let (tell, logged) = bounded(1);
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let reached = self.record_taken(snapshot, &places, &mark, completion);
        self.give_back(borrowed);
        TakenSnapshot {
            snapshot,
            stores,
            places,
            groups: vec![reached],
            contents: contents.map(|entry| (entry.epoch, entry.position)),
            catalog: Arc::clone(&self.compiled.catalog),
            history: self.history.clone(),
            lots: self.lots.as_ref().map(LotSide::ledger).unwrap_or_default(),
            time: self.clock.wall_micros(),
            mark,
            logged,
        }
    }

    /// Appends the record of what was taken.
    fn record_taken(
        &self,
        snapshot: u64,
        places: &[(Epoch, Sequence)],
        mark: &Arc<OnceLock<LogPosition>>,
        completion: Completion,
    ) -> Checkpointed {
        let version = self.compiled.catalog.version.0;
        let write = |kind: WritePlaces, reached: &Checkpointed| {
            let mut payload = Vec::new();
            kind(&mut payload, snapshot, version, places, &[(reached.group, reached.place.end)]);
            payload
        };
        match &self.unlogged {
            None => {
                let write = |reached: &Checkpointed| write(record::write_checkpoint, reached);
                self.log.append_checkpoint(write, Arc::clone(mark), completion)
            }
            // No start begins with a backup, and what it shows is not saved here by it: neither the
            // log nor the next snapshot may take it for one of the database's own.
            Some(_) if snapshot == BACKUP => {
                mark.set(LOG_BEGINS).expect("it is new");
                self.log.append_own(Vec::new(), completion);
                Checkpointed { group: self.log.id(), place: self.log.place() }
            }
            // What stands before it in the log does not lead here.
            Some(WithoutLog { unlogged, .. }) => {
                self.log.raise_time(self.clock.wall_micros());
                unlogged.snapshot_taken();
                let write = |reached: &Checkpointed| write(record::write_installed, reached);
                self.log.append_checkpoint(write, Arc::clone(mark), completion)
            }
        }
    }
}
