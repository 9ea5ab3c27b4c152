//! How a node that runs begins to host a group, or begins a group anew: with nothing, as a node
//! that joins begins. What the group has comes from its leader then.
//!
//! | step | what a crash leaves |
//! |---|---|
//! | a record in the log: what is before it of the group does not count | what was there before: nothing, or the group as it was |
//! | a snapshot with no rows becomes durable, which begins at that record | the group with nothing, where the identity lists it |
//! | older snapshots of the group go | the same |
//! | the caller lists the group in the node's identity | the group with nothing |
//!
//! So a hosted group always has a snapshot, or was there when the database was made; and a group
//! that is begun anew never comes back as it was. Invariant: nothing of another group changes.

use crate::commit::{Completion, DatabaseLog, Parties};
use crate::compiled::Compiled;
use crate::event::TakenSnapshot;
use crate::log_needs::LogNeeds;
use crate::lots::LotLedger;
use crate::record::{self, Genesis};
use crate::recovery::{AsMember, MemberStream, RecoveredGroup};
use crate::schema::SchemaHistory;
use crate::snapshots::{self, SaveError, Snapshots};
use crate::thread::RECORD_EPOCH;
use crossbeam_channel::bounded;
use ferrite_base::{Epoch, GroupId, GroupPartitions, Sequence, limits};
use ferrite_catalog::Catalog;
use ferrite_group::{Begin, Checkpointed, Found, GroupAppender, GroupPlace, Replication, message};
use ferrite_io::{Clock, Disk};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Member;
use ferrite_snapshot::Files;
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A node that runs.
pub struct HostingNode<'n> {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub dir: &'n Path,
    pub log: &'n DatabaseLog,
    pub genesis: &'n Genesis,
    pub needs: Arc<LogNeeds>,
    pub here: Member,
}

/// A group of which the node has nothing, and the log and the disk say so.
pub struct EmptyGroup {
    partitions: GroupPartitions,
    stores: Vec<Store>,
    snapshots: Snapshots,
    place: GroupPlace,
}

impl HostingNode<'_> {
    /// Hosts a group that it does not host. The caller lists it in the identity before the group
    /// takes anything from other nodes. An error leaves the group as it was, not hosted.
    ///
    /// # Panics
    /// If the database has no such group.
    pub fn host(&self, group: GroupId) -> Result<EmptyGroup, SaveError> {
        let of = self.genesis.groups.partitions_of(group).expect("a node hosts groups of its database");
        let files = Files::new(Arc::clone(&self.disk), &snapshots::directory(self.dir, group));
        files.create_dir()?;
        let next = files.find()?.next;
        let disk = Arc::clone(&self.disk);
        let clock = Arc::clone(&self.clock);
        let needs = Arc::clone(&self.needs);
        let snapshots = Snapshots::new(disk, clock, self.dir, needs, self.genesis.clone(), of, Vec::new(), next);
        let hosted = self.begin_anew(snapshots);
        if hosted.is_err() {
            self.needs.let_go(group);
        }
        hosted
    }

    /// Begins a group anew that it hosts: what it has of it goes. Nothing runs that uses it. An
    /// error ends the node: the next start has the group as it was, or with nothing.
    pub fn begin_anew(&self, mut snapshots: Snapshots) -> Result<EmptyGroup, SaveError> {
        let group = snapshots.group();
        let of = self.genesis.groups.partitions_of(group).expect("a node hosts groups of its database");
        let ring = Arc::new(Ring::new_default(self.genesis.partitions()));
        let mut stores: Vec<Store> = of.ids().map(|id| Store::new(id, Arc::clone(&ring))).collect();
        let place = GroupPlace::before_the_first(Epoch(0), self.here);
        let number = snapshots.next_number();
        let places = vec![(RECORD_EPOCH, Sequence(0)); of.len()];
        let mut payload = Vec::new();
        record::write_installed(&mut payload, number, 0, &places, &[(group, place.end)]);
        let mark = Arc::new(OnceLock::new());
        let (tell, logged) = bounded(1);
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        // Appends this record, and nothing else.
        let clock = Arc::clone(&self.clock);
        let appender = GroupAppender::alone(group, self.here, place.clone(), self.log.appender(), clock);
        appender.append_checkpoint(|_| payload, Arc::clone(&mark), completion);
        while self.log.step() {}
        let taken = TakenSnapshot {
            snapshot: number,
            stores: stores.iter_mut().map(|store| store.snapshot(|_| true)).collect(),
            places,
            groups: vec![Checkpointed { group, place: place.clone() }],
            contents: None,
            catalog: Arc::new(Catalog::before_history()),
            history: SchemaHistory::default(),
            lots: LotLedger::default(),
            time: self.clock.wall_micros(),
            mark,
            logged,
        };
        snapshots.replace_all(taken)?;
        Ok(EmptyGroup { partitions: of, stores, snapshots, place })
    }
}

impl EmptyGroup {
    /// The group as this node keeps it from now on, when the identity lists it. `promised`: by the
    /// identity.
    pub fn keep(
        self,
        node: &HostingNode<'_>,
        promised: Epoch,
        as_member: &AsMember,
        runtime: &RuntimeHandle,
    ) -> (RecoveredGroup, MemberStream) {
        let EmptyGroup { partitions, mut stores, snapshots, place } = self;
        let begin = Begin {
            id: partitions.group(),
            here: node.here,
            promised,
            intact: as_member.intact,
            timing: as_member.timing,
            snapshots: as_member.snapshots,
            message_bytes_max: message::MESSAGE_BYTES_MAX,
            window_bytes_max: limits::UNCOMMITTED_BYTES_MAX,
        };
        let found =
            Found { applied: place.clone(), history: place.history.clone(), end: place.end, uncommitted: Vec::new() };
        let clock = Arc::clone(&node.clock);
        let host = Arc::clone(&as_member.host);
        let replication = Replication::of_cluster(begin, found, node.log.appender(), clock, host);
        let compiled = Compiled::new(Arc::default(), runtime).expect("a schema without objects compiles");
        stores.iter_mut().for_each(|store| store.set_catalog(Arc::clone(&compiled.catalog)));
        let group = RecoveredGroup {
            sequences: vec![Sequence(0); partitions.len()],
            partitions,
            stores,
            compiled: Arc::new(compiled),
            history: SchemaHistory::default(),
            lots: LotLedger::default(),
            group: GroupAppender::new(Arc::clone(&replication)),
            snapshots,
        };
        (group, MemberStream { place, replication })
    }
}
